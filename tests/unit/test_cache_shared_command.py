"""`gpuforge cache … --shared`."""

import json
import os
from pathlib import Path

import pytest
from shared_store_samples import KEY, age, content_of, machine, put, record_of

from gpuforge.cli import main

NEW = "ef" + "0" * 62


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "one"))
    monkeypatch.setenv("GPUFORGE_STORE", str(tmp_path / "shared"))
    put(machine(tmp_path, "one"))
    age(tmp_path, 50 * 24)
    put(machine(tmp_path, "one"), key=NEW)
    return tmp_path


def test_ls_lists_entries(shared, capsys):
    assert main.run(["cache", "ls", "--shared", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["cache"], [each["key"] for each in data["entries"]]) == (f"{shared}/shared", [KEY, NEW])
    assert main.run(["cache", "ls", "--shared"]) == 0
    assert f"in {shared}/shared" in capsys.readouterr().out.splitlines()[-1]


def test_verify_removes_what_is_damaged(shared, capsys):
    assert main.run(["cache", "verify", "--shared"]) == 0
    assert capsys.readouterr().out.endswith(": none damaged\n")
    content_of(record_of(shared)).write_bytes(b"")
    assert main.run(["cache", "verify", "--shared"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "damaged: k: its content is not what was stored; removed, the next build makes it again"
    assert main.run(["cache", "verify", "--shared"]) == 0


def test_prune_leaves_what_was_used_lately(shared, capsys):
    assert main.run(["cache", "prune", "--shared", "--size", "1 B", "--dry-run"]) == 0
    assert main.run(["cache", "prune", "--shared", "--size", "1 B", "--json"]) == 0
    out = capsys.readouterr()
    data = json.loads(out.out[out.out.index("{") :])
    assert ([each["key"] for each in data["removed"]], data["in_use"]) == ([KEY], 1)
    assert out.err.endswith("note: kept 1 entry used in the last hours or by running builds\n")
    assert machine(shared, "two").get(KEY) is None
    assert machine(shared, "two").get(NEW) is not None


def test_what_compilers_made_is_listed_and_pruned(shared, capsys):
    folder = shared / "shared/compiled/mine/01"
    folder.mkdir(parents=True)
    for name in ("old", "new"):
        (folder / name).write_bytes(bytes(1000))
    os.utime(folder / "old", (1e9, 1e9))
    assert main.run(["cache", "ls", "--shared", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compiled"] == {"objects": 2, "bytes": 2000}
    assert main.run(["cache", "ls", "--shared"]) == 0
    assert "compiled objects" in capsys.readouterr().out
    for words in (["--dry-run"], []):
        assert main.run(["cache", "prune", "--shared", "--older", "300d", *words]) == 0
        verb = "would remove" if words else "removed"
        assert capsys.readouterr().out.startswith(f"{verb} 0 entries and 1 compiled object, 1.0 kB; ")
        assert (folder / "old").exists() == bool(words)
    assert (folder / "new").exists()


def test_without_a_shared_store_it_is_one_message(monkeypatch, capsys):
    monkeypatch.delenv("GPUFORGE_STORE", raising=False)
    assert main.run(["cache", "ls", "--shared"]) == 2
    assert capsys.readouterr().err == (
        "error: --shared is for a store that machines share, and none is named\n  hint: set GPUFORGE_STORE\n"
    )
