"""A compiler of Debian's packages, unpacked from a mirror on this machine; and which machines it can be fetched to."""

from pathlib import Path

import pytest
from toolkit_samples import ELF, deb, sha256

from gpuforge.errors import MissingError
from gpuforge.toolkits import compilers
from gpuforge.toolkits.compilers import provision_compiler
from gpuforge.toolkits.debian_parts import DebianPart

GCC = "usr/lib/gcc/x86_64-linux-gnu/11"
FILES: dict[str, bytes | str] = {
    "./usr/bin/x86_64-linux-gnu-g++-11": ELF + b"g++",
    "./usr/bin/g++-11": "x86_64-linux-gnu-g++-11",
    "./usr/bin/x86_64-linux-gnu-lto-dump-11": ELF,
    f"./{GCC}/cc1plus": ELF + b"cc1plus",
    f"./{GCC}/libstdc++.so": "../../../x86_64-linux-gnu/libstdc++.so.6",
    f"./{GCC}/libstdc++.a": b"!<arch>\n",
    f"./{GCC}/libgomp.so": "../../../x86_64-linux-gnu/libgomp.so.1",
    f"./{GCC}/libgomp.a": b"!<arch>\n",
    f"./{GCC}/plugin/libcc1plugin.so": "libcc1plugin.so.0",
    "./usr/include/c++/11/vector": b"// vector",
    "./usr/share/doc/gcc-11-base/copyright": b"GPL-3 with the runtime library exception",
    "./usr/share/lintian/overrides/g++-11": b"",
}


def publish(www: Path) -> list[DebianPart]:
    """Serve the files as two packages; the link that leads out of one leads into the machine."""
    parts = []
    for number in (0, 1):
        data = deb({name: FILES[name] for name in list(FILES)[number::2]})
        (www / f"{number}.deb").write_bytes(data)
        parts.append(DebianPart("g++-11", "11.3.0-12", f"{number}.deb", 0, len(data), sha256(data)))
    return parts


def test_packages_are_unpacked_and_linked_with_the_machines_own_libraries(tmp_path, server, monkeypatch):
    monkeypatch.setenv("GPUFORGE_DEBIAN_MIRROR", server.url)
    made = tmp_path / "made"
    provision_compiler(publish(tmp_path / "www"), made)
    assert {str(p.relative_to(made)) for p in made.rglob("*") if not p.is_dir()} == {
        "usr/bin/g++-11",
        "usr/bin/x86_64-linux-gnu-g++-11",
        f"{GCC}/cc1plus",
        f"{GCC}/libstdc++.so",
        f"{GCC}/libstdc++.a",
        f"{GCC}/libgomp.so",
        "usr/include/c++/11/vector",
        "usr/share/doc/gcc-11-base/copyright",
    }
    assert (made / "usr/bin/g++-11").readlink() == Path("x86_64-linux-gnu-g++-11")
    assert (made / GCC / "libstdc++.so").readlink() == Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
    assert (made / GCC / "libgomp.so").readlink() == Path("/usr/lib/x86_64-linux-gnu/libgomp.so.1")
    assert (made / "usr/bin/x86_64-linux-gnu-g++-11").stat().st_mode & 0o111


def test_a_package_that_the_mirror_has_dropped_names_the_variable_and_leaves_nothing(
    tmp_path, server, monkeypatch
):
    monkeypatch.setenv("GPUFORGE_DEBIAN_MIRROR", server.url)
    gone = DebianPart("g++-11", "11.3.0-12", "pool/gone.deb", 0, 1, "0" * 64)
    with pytest.raises(MissingError, match=r"has no g\+\+-11 11\.3\.0-12 \(any more\)") as caught:
        provision_compiler([gone], tmp_path / "made" / "compiler")
    assert "GPUFORGE_DEBIAN_MIRROR" in caught.value.diagnostics[0].hint
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_machine_without_the_c_librarys_headers_and_start_files_is_told_which(
    tmp_path, machine, monkeypatch
):
    monkeypatch.setattr("os.confstr", lambda name: "glibc 2.36")
    for name in ("usr/include/stdio.h", "usr/bin/as", "usr/bin/ld"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folder = tmp_path / f"usr/lib/{machine}-linux-gnu"
    folder.mkdir(parents=True)
    names = ["crt1.o", "libstdc++.so.6", "libisl.so.23", "libmpc.so.3", "libmpfr.so.6", "libgmp.so.10"]
    offer = compilers.offered("g++", ">=6,<12", machine, tmp_path)
    assert offer is not None
    assert offer.lacking == tuple(str(folder / name) for name in names)
    for name in names:
        (folder / name).touch()
    offer = compilers.offered("g++", ">=6,<12", machine, tmp_path)
    assert offer is not None
    assert offer.lacking == ()
    assert offer.compiler.identity == "g++ (Debian 11.3.0-12) 11.3.0"
    assert [part.package for part in offer.compiler.parts][:2] == ["g++-11", "gcc-11"]


@pytest.mark.parametrize("answer", ["glibc 2.31", "musl 1.2"])
def test_a_machine_with_an_older_or_another_c_library_is_told_so(tmp_path, answer, monkeypatch):
    monkeypatch.setattr("os.confstr", lambda name: answer)
    offer = compilers.offered("g++", "", "x86_64", tmp_path)
    assert offer is not None
    assert offer.lacking[-1] == "glibc 2.34 or newer"


def test_only_versions_in_the_range_and_known_machines_are_offered():
    assert compilers.offered("g++", ">=12", "x86_64") is None
    assert compilers.offered("clang++", "", "x86_64") is None
