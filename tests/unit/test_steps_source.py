"""An sdist is unpacked into its folder, and no further than a disk can bear."""

import gzip
import io
import resource
import signal
import subprocess
import sys
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_names import maze

from gpuforge.actions import sdist
from gpuforge.cli import main
from gpuforge.errors import ActionError
from gpuforge.wheel.package_index import public


def tar(path: Path, members: dict[str, int]) -> Path:
    """An sdist with members that say they have so many bytes; of those that say too much none is there."""
    with tarfile.open(path, "w:gz") as bundle:
        for name, size in members.items():
            header = tarfile.TarInfo(name)
            header.size = size
            bundle.fileobj.write(header.tobuf(tarfile.PAX_FORMAT))  # type: ignore[union-attr]
            bundle.fileobj.write(bytes(-(-size // 512) * 512 if size < 1 << 20 else 512))  # type: ignore[union-attr]
    return path


def test_an_sdist_is_unpacked(tmp_path):
    sdist.unpack(tar(tmp_path / "a-1.tar.gz", {"a-1/x.py": 3}), tmp_path / "out", tmp_path)
    assert (tmp_path / "out/x.py").read_bytes() == bytes(3)


def of_kind(name: str, kind: bytes, linked: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.mode = kind, linked, mode
    return header


FOLDER, LINK, HARD, FILE = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.REGTYPE
MAZE = [("a-1", FOLDER), *((f"a-1/{path}", LINK if to else FOLDER, to) for path, to in maze("../../.."))]


@pytest.mark.parametrize(
    "members",
    [
        [*MAZE, ("a-1/escape/new", FILE)],
        MAZE,
        [("a-1/x", LINK, ".."), ("a-1/x/../../new", FILE)],
        [("a-1/x", LINK, "../.."), ("a-1/x/new", FILE)],
        [("a-1/x", LINK, "../..")],
        [("a-1/x", LINK, "/etc")],
        [("a-1/x", LINK, "y/../.."), ("a-1/y", LINK, ".")],
        [("a-1/x", LINK, "../../old"), ("a-1/y", HARD, "a-1/x")],
        [("a-1/y", HARD, "../old")],
        [("a-1/y", HARD, "/etc/passwd")],
        [("../new", FILE)],
        [("a-1/x", tarfile.FIFOTYPE)],
        [("a-1/x", tarfile.CHRTYPE)],
    ],
)
def test_nothing_of_an_sdist_leads_out_of_its_folder(tmp_path, members):
    """tarfile's own filter let the first one write beside the folder that it was unpacked into."""
    (tmp_path / "work/scratch").mkdir(parents=True)
    (tmp_path / "work/old").write_text("old")
    path = tmp_path / "a-1.tar.gz"
    with tarfile.open(path, "w:gz") as bundle:
        for each in members:
            bundle.addfile(of_kind(*each))
    with pytest.raises(ActionError, match="is not a sound sdist"):
        sdist.unpack(path, tmp_path / "work/out", tmp_path / "work/scratch")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a-1.tar.gz", "work"]
    assert sorted(each.name for each in (tmp_path / "work").iterdir()) == ["old", "scratch"]


def test_links_and_modes_of_an_sdist_are_kept(tmp_path):
    path = tmp_path / "a-1.tar.gz"
    with tarfile.open(path, "w:gz") as bundle:
        bundle.addfile(of_kind("./a-1/", FOLDER))
        bundle.addfile(of_kind("a-1/late", LINK, "sub/there.py"))
        header = of_kind("a-1/sub/there.py", FILE, mode=0o6777)
        header.size = 3
        bundle.addfile(header, io.BytesIO(b"abc"))
        bundle.addfile(of_kind("a-1/hard", HARD, "a-1/sub/there.py"))
        bundle.addfile(of_kind("a-1/sub/up", LINK, "../hard"))
    sdist.unpack(path, tmp_path / "out", tmp_path)
    found = {name: tmp_path / "out" / name for name in ("late", "hard", "sub/up")}
    assert {each.read_bytes() for each in found.values()} == {b"abc"}
    assert [name for name, each in found.items() if each.is_symlink()] == ["late", "sub/up"]
    assert (tmp_path / "out/sub/there.py").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("sizes", [[sdist.MOST_BYTES + 1], [sdist.MOST_BYTES // 2 + 1] * 2])
def test_one_that_grows_beyond_measure_is_refused_before_it_does(tmp_path, sizes):
    path = tar(
        tmp_path / "a-1.tar.gz", {"a-1/ok.py": 3, **{f"a-1/{n}": size for n, size in enumerate(sizes)}}
    )
    with pytest.raises(ActionError, match=r"^a-1\.tar\.gz is not a sound sdist: "):
        sdist.unpack(path, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_number_of_its_files_counts_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sdist, "MOST_FILES", 3)
    path = tar(tmp_path / "a-1.tar.gz", {f"a-1/{n}": 1 for n in range(4)})
    with pytest.raises(ActionError, match="unpacked it has more than 4 GB or 3 files and folders"):
        sdist.unpack(path, tmp_path / "out", tmp_path)


def test_a_zip_is_measured_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sdist, "MOST_BYTES", 1000)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("a-1/ok.py", "x")
        bundle.writestr("a-1/zeros", bytes(1001))
    (tmp_path / "a-1.zip").write_bytes(data.getvalue())
    with pytest.raises(ActionError, match="unpacked it has more than"):
        sdist.unpack(tmp_path / "a-1.zip", tmp_path / "out", tmp_path)
    assert not (tmp_path / "unpacked").exists()


def header(kind: bytes, size: int, name: str = "a-1/x") -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    if size < 0:  # base 256, as GNU tar writes what octal digits cannot say
        block[124:136] = b"\xff" + (256**11 + size).to_bytes(11, "big")
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


LIMITED = """
import resource, sys
from pathlib import Path
from gpuforge.actions import sdist
resource.setrlimit(resource.RLIMIT_AS, (1_200_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
sdist.unpack(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[2]).parent)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "blocks",  # headers, and the zeros after each
    [
        [(header(tarfile.XHDTYPE, 2_000_000_000), 2_000_000_000)],
        [(header(tarfile.XGLTYPE, 2_000_000_000), 2_000_000_000)],
        [(header(tarfile.GNUTYPE_LONGNAME, 2_000_000_000), 2_000_000_000)],
        [(header(tarfile.GNUTYPE_LONGLINK, 250_000_000), 250_000_384)] * 3,
        [(header(tarfile.REGTYPE, 0), 0), (header(tarfile.REGTYPE, -1024), 4096)],
        [(header(tarfile.GNUTYPE_LONGNAME, -512), 4096)],
    ],
    ids=["pax", "global pax", "long name", "three long links", "back", "a name that goes back"],
)
def test_headers_without_end_are_refused(tmp_path, blocks):
    """A few MB would take all memory, or time without end."""
    with gzip.open(tmp_path / "a-1.tar.gz", "wb", compresslevel=1) as stream:
        for block, zeros in blocks:
            stream.write(block)
            for _ in range(zeros // 10_000_000):
                stream.write(bytes(10_000_000))
            stream.write(bytes(zeros % 10_000_000))
        stream.write(bytes(1024))
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "a-1.tar.gz"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert "a-1.tar.gz is not a sound sdist: a header says " in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_the_folders_of_its_files_count_too(tmp_path, monkeypatch):
    """A name of four kilobytes makes two thousand folders, and a few megabytes hold a hundred thousand such names."""
    monkeypatch.setattr(sdist, "MOST_FILES", 1000)
    path = tar(tmp_path / "a-1.tar.gz", {f"a-1/{n}/{'d/' * 60}x": 1 for n in range(20)})
    with pytest.raises(ActionError, match="more than 4 GB or 1,000 files and folders"):
        sdist.unpack(path, tmp_path / "out", tmp_path)
    with zipfile.ZipFile(tmp_path / "a-1.zip", "w") as bundle:
        for n in range(20):
            bundle.writestr(f"a-1/{n}/{'d/' * 60}x", "")
    with pytest.raises(ActionError, match="more than 4 GB or 1,000 files and folders"):
        sdist.unpack(tmp_path / "a-1.zip", tmp_path / "out", tmp_path)


def test_folders_that_files_share_count_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sdist, "MOST_FILES", 100)
    path = tar(tmp_path / "a-1.tar.gz", {f"a-1/b/c/d/e/{n}": 1 for n in range(90)})
    sdist.unpack(path, tmp_path / "out", tmp_path)
    assert len(list((tmp_path / "out/b/c/d/e").iterdir())) == 90


def sparse(path: Path, numbers: int) -> Path:
    """An sdist with a sparse file whose map has so many numbers (GNU tar's format 1.0)."""
    member = tarfile.TarInfo("a-1/x")
    member.size = -(-2 * numbers // 512) * 512 + 512
    member.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "a-1/x", "GNU.sparse.realsize": "1",
    }  # fmt: skip
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(member.tobuf(tarfile.PAX_FORMAT))
        stream.write(f"{numbers // 2}\n".encode())
        for _ in range(numbers // 1_000_000):
            stream.write(b"0\n" * 1_000_000)
        stream.write(bytes(2048))
    return path


@pytest.mark.thorough
def test_a_map_of_a_sparse_file_takes_no_more_memory_than_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sdist, "MOST_MEMORY", 100 << 20)
    path = sparse(tmp_path / "a-1.tar.gz", 20_000_000)
    with pytest.raises(
        ActionError, match=r"a-1\.tar\.gz is not a sound sdist: it takes more than 100 MiB of memory"
    ):
        sdist.unpack(path, tmp_path / "out", tmp_path)
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


@pytest.mark.thorough  # as what takes too much memory; the kernel counts whole seconds
def test_what_takes_too_long_to_unpack_is_given_up(tmp_path, monkeypatch):
    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(sdist, "_unpack", endless)
    monkeypatch.setattr(sdist, "MOST_SECONDS", 1)
    with pytest.raises(ActionError, match="it takes more than 1 seconds of processor time"):
        sdist.unpack(tmp_path / "a-1.zip", tmp_path / "out", tmp_path)
    assert signal.getsignal(signal.SIGXCPU) == signal.SIG_DFL


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["a-1.tar.gz", "a-1.tar.xz", "a-1.zip"])
def test_a_damaged_sdist_is_said_to_be_one(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("a-1/x.py", "print(1)\n" * 500)
    else:
        with tarfile.open(path, f"w:{name.rpartition('.')[2]}") as bundle:
            member = tarfile.TarInfo("a-1/x.py")
            member.size = 50_000
            bundle.addfile(member, io.BytesIO(bytes(range(250)) * 200))
    whole = path.read_bytes()
    for at in range(12, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with suppress(ActionError):
            sdist.unpack(path, tmp_path / f"out{at}", tmp_path / f"scratch{at}")


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@example.org/x.git",
        "https://hunter2@example.org/x.git",
        "https://example.org/x.git?token=hunter2",
        "HTTPS://oauth2:hunter2@example.org/x.git",
        "http://x-access-token:hunter2@example.org/x",
        "https://hunter2@[::1/x",
        "ssh://git:hunter2@example.org/x.git",
        "git+https://me:hunter2@example.org/x.git",
        "oauth2:hunter2@example.org:x.git",
        "https//x y://me:hunter2@example.org/x.git?hunter2",
    ],
)
def test_a_secret_in_the_url_of_a_repository_is_refused_and_never_shown(tmp_path, capsys, url):
    (tmp_path / "gpuforge.toml").write_text(
        f'schema = 1\n[package]\nname = "x"\nsource = {{ git = "{url}", rev = "main" }}\n'
    )
    for words in (["build", "--dry-run", "--json"], ["build"], ["matrix"]):
        assert main.run([*words, str(tmp_path)]) == 2
        output = capsys.readouterr()
        assert "git repository" in output.err
        assert "hunter2" not in output.out + output.err


def test_the_url_of_an_index_is_shown_without_its_password():
    assert public("https://me:hunter2@example.org:8443/simple/") == "https://example.org:8443/simple/"
