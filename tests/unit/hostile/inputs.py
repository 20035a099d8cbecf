"""What is given to the audit that is no wheel: pipes, devices, links in circles, tar files, folders."""

import io
import os
import zipfile
import zlib
from pathlib import Path

from audit_samples import elf, wheel

from hostile.archives import Zip
from hostile.attack import attack


@attack
def pipes(folder: Path) -> list[Path]:
    os.mkfifo(folder / "a-1.0-py3-none-any.whl")
    os.mkfifo(folder / "a.so")
    return [folder / "a-1.0-py3-none-any.whl", folder / "a.so"]


@attack
def devices(folder: Path) -> list[Path]:
    (folder / "a-1.0-py3-none-any.whl").symlink_to("/dev/zero")
    (folder / "b.so").symlink_to("/dev/zero")
    (folder / "c.tar.gz").symlink_to("/dev/urandom")
    return [
        folder / "a-1.0-py3-none-any.whl",
        folder / "b.so",
        folder / "c.tar.gz",
        Path("/dev/zero"),
        Path("/dev/stdin"),
    ]


@attack
def links_in_circles(folder: Path) -> list[Path]:
    (folder / "a.whl").symlink_to("b.whl")
    (folder / "b.whl").symlink_to("a.whl")
    (folder / "loop").symlink_to(".")
    return [folder / "a.whl", folder / "loop", folder]


@attack
def an_environment_of_loops(folder: Path) -> list[Path]:
    site = folder / "lib" / "python3.11" / "site-packages"
    for name in ("demo", "other"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (info / "WHEEL").write_text("Tag: py3-none-any\n")
    (site / "demo").mkdir()
    (site / "demo" / "loop").symlink_to("..")
    (site / "demo" / "a.so").symlink_to("a.so")
    (site / "demo" / "zero.so").symlink_to("/dev/zero")
    os.mkfifo(site / "demo" / "pipe.so")
    lines = [
        "demo/loop/demo/loop/demo/a.so,,",
        "demo/a.so,,",
        "demo/zero.so,,",
        "demo/pipe.so,,",
        "../" * 3_000 + "etc/passwd,,",
        "/etc/shadow,,",
        "demo,,",
        f"{'x/' * 5_000},,",
    ]
    (site / "demo-1.0.dist-info" / "RECORD").write_text("\n".join(lines))
    (site / "other-1.0.dist-info" / "RECORD").write_bytes(b'"\xff\0\n' * 10_000)
    return [folder]


@attack
def a_record_of_devices(folder: Path) -> list[Path]:
    site = folder / "site-packages"
    info = site / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").symlink_to("/dev/zero")
    (info / "INSTALLER").write_text("pip")
    other = site / "b-1.0.dist-info"
    other.mkdir()
    os.mkfifo(other / "RECORD")
    third = site / "c-1.0.dist-info"
    third.mkdir()
    (third / "RECORD").write_text("c-1.0.dist-info/METADATA,,\nc-1.0.dist-info/WHEEL,,\n")
    os.mkfifo(third / "METADATA")
    (third / "WHEEL").symlink_to("/dev/zero")
    return [site]


@attack
def sparse_files(folder: Path) -> list[Path]:
    for name in ("a.so", "b-1.0-py3-none-any.whl", "c.tar", "d.fatbin", "e.ptx", "f.zip"):
        with (folder / name).open("wb") as file:
            file.write(
                b"\x50\xed\x55\xba" if name == "d.fatbin" else elf() if name == "a.so" else b"PK\x03\x04"
            )
            file.truncate(40 << 30 if name in {"c.tar", "f.zip"} else 3 << 30)
    return sorted(folder.iterdir())


@attack
def unreadable_files(folder: Path) -> list[Path]:
    path = wheel(folder, {"demo/a.so": elf()})
    path.chmod(0)
    (folder / "dir").mkdir()
    (folder / "dir" / "a.so").write_bytes(elf())
    (folder / "dir" / "a.so").chmod(0)
    (folder / "dir").chmod(0)
    return [path, folder / "dir"]


def _tar(folder: Path, data: bytes, name: str = "demo-1.0.tar.gz") -> list[Path]:
    path = folder / name
    path.write_bytes(data)
    return [path]


def _header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108], block[124:136], block[156:157], block[257:265] = b"0000644\0", size, kind, b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@attack
def tar_members_of_negative_size(folder: Path) -> list[Path]:
    negative = b"\xff" * 10 + b"\xfe\x00"  # base 256: -512, the size of the header: it is read for ever
    return _tar(folder, _header(b"a.whl", negative) + bytes(1024), "demo-1.0.tar") + _tar(
        folder, _header(b"x", b"\xff" * 11 + b"\x00") + bytes(1024), "other-1.0.tar"
    )


@attack
def tar_of_endless_pax_headers(folder: Path) -> list[Path]:
    record = b"99999 comment=" + b"x" * (99_999 - 15) + b"\n"
    body = record * 300
    data = (_header(b"x", b"%011o\0" % len(body), b"x") + body + bytes(-len(body) % 512)) * 8
    return _tar(folder, zlib_of(data + _header(b"a.whl", b"%011o\0" % 0)))


@attack
def tar_of_long_names(folder: Path) -> list[Path]:
    data = (_header(b"x", b"%011o\0" % (200 << 20), b"L") + bytes(200 << 20)) * 2
    return _tar(folder, zlib_of(data))


@attack
def tar_of_sparse_members(folder: Path) -> list[Path]:
    body = b"999999\n" + b"1\n1\n" * 900_000
    pax = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n30 GNU.sparse.realsize=999999\n"
    data = _header(b"x", b"%011o\0" % len(pax), b"x") + pax.ljust(512, b"\0")
    return _tar(folder, zlib_of(data + _header(b"a.whl", b"%011o\0" % len(body)) + body))


def zlib_of(data: bytes) -> bytes:
    """The data as a gzip file."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


@attack
def tar_that_is_a_bomb(folder: Path) -> list[Path]:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = packer.compress(_header(b"a.bin", b"%011o\0" % (7 << 30)))
    data += b"".join(packer.compress(bytes(1 << 24)) for _ in range(240)) + packer.flush()
    return _tar(folder, data)


@attack
def tar_of_many_wheels(folder: Path) -> list[Path]:
    """20 nested wheels of 64 MB in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b""
    for n in range(20):
        data += packer.compress(
            _header(b"a%d.whl" % n, b"%011o\0" % (64 << 20)) + b"PK\x03\x04" + bytes((64 << 20) - 4)
        )
    return _tar(folder, data + packer.flush())


@attack
def tar_of_thousands_of_wheels(folder: Path) -> list[Path]:
    """More than a process may have open files, in some kilobytes."""
    body = b"PK\x03\x04" + bytes(508)
    return _tar(folder, zlib_of((_header(b"a.whl", b"%011o\0" % 512) + body) * 3_000), "many-1.0.tar.gz")


@attack
def tar_of_a_million_members(folder: Path) -> list[Path]:
    """Unpacking takes long: a header each."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    headers = _header(b"a", b"%011o\0" % 0) * 1_000
    data = b"".join(packer.compress(headers) for _ in range(900)) + packer.flush()
    return _tar(folder, data, "slow-1.0.tar.gz")


@attack
def broken_lzma(folder: Path) -> list[Path]:
    import bz2
    import lzma

    packed = lzma.compress(_header(b"a.whl", b"%011o\0" % (1 << 20)) + os.urandom(1 << 20))
    broken = bytearray(packed)
    broken[5_000:5_100] = bytes(100)
    bzipped = bytearray(bz2.compress(_header(b"a.whl", b"%011o\0" % (1 << 20)) + os.urandom(1 << 20)))
    bzipped[900_000:900_100] = bytes(100)
    return [
        *_tar(folder, bytes(broken), "a-1.0.tar.xz"),
        *_tar(folder, bytes(bzipped), "b-1.0.tar.bz2"),
        *_tar(folder, bytes(broken[:9_000]), "c-1.0.tar.xz"),
    ]


@attack
def lzma_of_a_large_dictionary(folder: Path) -> list[Path]:
    import lzma

    written = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 26}])
    data = (
        written.compress(_header(b"a.whl", b"%011o\0" % (500 << 20)) + b"PK\x03\x04" + bytes(60 << 20))
        + written.flush()
    )
    return _tar(folder, data, "a-1.0.tar.xz")


@attack
def zip_of_lzma_and_encrypted_wheels(folder: Path) -> list[Path]:
    one = wheel(folder, {"demo/a.so": elf()})
    paths = []
    for number, method in enumerate((zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED)):
        path = folder / f"{number}.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("d/" + one.name, one.read_bytes() + os.urandom(5_000))
        data = bytearray(path.read_bytes())
        data[200:260] = b"\xff" * 60
        path.write_bytes(bytes(data))
        paths.append(path)
    archive = Zip.__new__(Zip)
    archive._body, archive._directory = bytearray(), []
    at = archive.data("a.whl", b"x" * 100)
    archive.entry("a.whl", at, 100, 88, flags=1)
    return [*paths, *archive.write(folder, "encrypted.zip")]


@attack
def archives_in_archives(folder: Path) -> list[Path]:
    data = wheel(folder, {"demo/a.so": elf()}).read_bytes()
    for n in range(200):
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"a{n}.whl", data)
        data = written.getvalue()
    (folder / "a.zip").write_bytes(data)
    return [folder / "a.zip"]


@attack
def names_of_binaries(folder: Path) -> list[Path]:
    (folder / "a.ptx").write_bytes(b"\n" * 900_000)
    (folder / "b.ptx").write_bytes(b"")
    (folder / "c.so").write_bytes(b"\x7fELF")
    (folder / "d.a").write_bytes(b"!<arch>\n" * 100_000)
    (folder / "e.whl").write_bytes(b"")
    (folder / "f.whl").mkdir()
    return sorted(folder.iterdir())
