"""An sdist is unpacked into its folder, and no further than a disk can bear."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpuforge.errors import ActionError
from gpuforge.steps import fetch_source


def tar(path: Path, members: dict[str, int]) -> Path:
    """An sdist with members that say they have so many bytes; of those that say too much none is there."""
    with tarfile.open(path, "w:gz") as bundle:
        for name, size in members.items():
            header = tarfile.TarInfo(name)
            header.size = size
            bundle.fileobj.write(header.tobuf(tarfile.PAX_FORMAT))  # type: ignore[union-attr]
            bundle.fileobj.write(bytes(-(-size // 512) * 512 if size < 1 << 20 else 512))  # type: ignore[union-attr]
    return path


def test_an_sdist_is_unpacked(tmp_path: Path) -> None:
    fetch_source.unpack(tar(tmp_path / "a-1.tar.gz", {"a-1/x.py": 3}), tmp_path / "out", tmp_path)
    assert (tmp_path / "out/x.py").read_bytes() == bytes(3)


@pytest.mark.parametrize("sizes", [[fetch_source.MOST_BYTES + 1], [fetch_source.MOST_BYTES // 2 + 1] * 2])
def test_one_that_grows_beyond_measure_is_refused_before_it_does(tmp_path: Path, sizes: list[int]) -> None:
    path = tar(
        tmp_path / "a-1.tar.gz", {"a-1/ok.py": 3, **{f"a-1/{n}": size for n, size in enumerate(sizes)}}
    )
    with pytest.raises(ActionError, match=r"^a-1\.tar\.gz is not a sound sdist: "):
        fetch_source.unpack(path, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_number_of_its_files_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_source, "MOST_MEMBERS", 3)
    path = tar(tmp_path / "a-1.tar.gz", {f"a-1/{n}": 1 for n in range(4)})
    with pytest.raises(ActionError, match="unpacked it has more than 4 GB or 3 files"):
        fetch_source.unpack(path, tmp_path / "out", tmp_path)


def test_a_zip_is_measured_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_source, "MOST_BYTES", 1000)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("a-1/ok.py", "x")
        bundle.writestr("a-1/zeros", bytes(1001))
    (tmp_path / "a-1.zip").write_bytes(data.getvalue())
    with pytest.raises(ActionError, match="unpacked it has more than"):
        fetch_source.unpack(tmp_path / "a-1.zip", tmp_path / "out", tmp_path)
    assert not (tmp_path / "unpacked").exists()
