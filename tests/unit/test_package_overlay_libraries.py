"""Libraries of a build's overlay, as the repair of its wheel looks for them."""

from __future__ import annotations

from pathlib import Path

from audit_samples import elf

from gpuforge.package import links


def test_libraries_are_named_by_their_sonames(tmp_path: Path) -> None:
    files = {
        "a/libdep.so": elf(soname="libdep.so.1"),
        "b/libdep.so": elf(soname="libdep.so.1", needed=["libm.so.6"]),  # the first one counts
        "a/libplain.so": elf(),
        "a/libtext.so": b"INPUT(libdep.so.1)",
    }
    for name, content in files.items():
        (tmp_path / "kept" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kept" / name).write_bytes(content)
    folder = links.by_soname(tmp_path / "kept", tmp_path / "named")
    named = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert named == {"libdep.so.1": files["a/libdep.so"], "libplain.so": files["a/libplain.so"]}
