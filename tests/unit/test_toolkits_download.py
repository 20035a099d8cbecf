"""Downloads are whole, checked, and tried again; a server without byte ranges will do."""

import sys

import pytest
from toolkit_samples import sha256

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits import download as module
from gpuforge.toolkits import pip, progress
from gpuforge.toolkits.download import GoneError, download

DATA = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    monkeypatch.setattr(module, "CHUNK", 1000)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_of_a_file(tmp_path, server, ranges):
    server.ranges = ranges
    (tmp_path / "www" / "file").write_bytes(DATA)
    part = DATA[2500:4700]
    download(f"{server.url}/file", tmp_path / "part", start=2500, size=2200, sha256=sha256(part))
    assert (tmp_path / "part").read_bytes() == part


@pytest.mark.parametrize("ranges", [True, False])
def test_a_long_download_says_how_far_it_is(tmp_path, server, monkeypatch, ranges):
    server.ranges = ranges
    monkeypatch.setattr(module, "CHUNK", 1 << 20)
    monkeypatch.setattr(progress, "PAUSE_S", -1.0)
    (tmp_path / "www" / "file").write_bytes(bytes(3 << 20))
    said: list[str] = []
    download(f"{server.url}/file", tmp_path / "whole", say=said.append)
    assert said == ["  1 of 3 MB", "  2 of 3 MB", "  3 of 3 MB"]
    said.clear()
    download(f"{server.url}/file", tmp_path / "part", start=1 << 20, size=2 << 20, say=said.append)
    assert [line for line in said if line != "  0 of 2 MB"] == ["  1 of 2 MB", "  2 of 2 MB"]


def test_not_every_part_of_a_download_is_a_line(tmp_path, server):
    (tmp_path / "www" / "file").write_bytes(DATA)
    said: list[str] = []
    download(f"{server.url}/file", tmp_path / "whole", say=said.append)
    assert said == []


def test_a_whole_file_and_one_with_other_bytes(tmp_path, server):
    (tmp_path / "www" / "file").write_bytes(DATA)
    download(f"{server.url}/file", tmp_path / "whole", sha256=sha256(DATA))
    assert (tmp_path / "whole").read_bytes() == DATA
    with pytest.raises(ActionError, match=rf"/file arrived broken: its sha256 is {sha256(DATA)}, not 0000"):
        download(f"{server.url}/file", tmp_path / "whole", sha256="0" * 64)


def test_a_connection_that_breaks_is_tried_again_and_then_told(tmp_path, server):
    (tmp_path / "www" / "broken").write_bytes(DATA)
    with pytest.raises(
        MissingError, match=r"cannot fetch .*/broken: IncompleteRead.*\n  hint: check the network"
    ):
        download(f"{server.url}/broken", tmp_path / "part")
    assert server.requests == ["/broken"] * module.TRIES


def test_a_file_that_is_not_there_is_not_tried_again(tmp_path, server):
    with pytest.raises(GoneError, match=r"/none is not there \(HTTP 404\)"):
        download(f"{server.url}/none", tmp_path / "part")
    assert server.requests == ["/none"]


def ran(code: str) -> tuple[int, str, list[str]]:
    said: list[str] = []
    status, output = pip.run_pip([sys.executable, "-c", code], said.append)
    return status, output, said


def test_progress_is_shown_and_not_in_the_output(monkeypatch):
    monkeypatch.setattr(progress, "PAUSE_S", -1.0)
    status, output, said = ran(
        "print('Downloading x'); print('Progress 120000000 of 214000000'); print('done')"
    )
    assert (status, output) == (0, "Downloading x\ndone\n")
    assert said == ["Downloading x", "  120 of 214 MB", "done"]


def test_not_every_step_is_a_line():
    _, _, said = ran("for n in range(9): print(f'Progress {n} of 9')")
    assert said == []


def test_of_a_traceback_the_last_line_is_shown():
    status, output, said = ran("print('ERROR: Exception:\\nTraceback\\nOSError: full'); raise SystemExit(2)")
    assert (status, said) == (2, ["OSError: full"])
    assert output == "ERROR: Exception:\nTraceback\nOSError: full\n"
