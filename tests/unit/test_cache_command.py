"""`gpuforge cache`: what is kept, the check of every byte, and removal beside builds that run."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuforge.cli import main
from gpuforge.execute import store as store_module
from gpuforge.execute.entry import StoreEntry, survey
from gpuforge.execute.ledger import Ledger, LedgerEntry
from gpuforge.execute.store import FolderStore

TOOLKIT, WHEEL, REPORT, ALIAS = ("a1" * 32, "b2" * 32, "c3" * 32, "d4" * 32)
DAY = 86400


def put(store: FolderStore, key: str, output: str, size: int, days: float, action: str) -> None:
    """Keep an output of some bytes, last used some days ago."""
    with store.scratch() as out:
        (out / output).mkdir()
        (out / output / "file").write_bytes(b"x" * size)
        made = StoreEntry(action, 1.5, "2026-11-21T14:03:00+00:00", (output,), survey(out, [output]))
        store.commit(key, out, made)
    age(store, key, days)


def age(store: FolderStore, key: str, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(store.root / key[:2] / key / "record.json", (then, then))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TZ", "UTC")
    store = FolderStore(tmp_path / "cache/store")
    put(store, TOOLKIT, "toolkit", 5000, 40, "cu13.0/toolkit")
    put(store, WHEEL, "wheel", 300, 10, "cp311-cu13.0-x86_64/wheel")
    put(store, REPORT, "report.json", 20, 1, "cp311-cu13.0-x86_64/audit")
    store.alias(ALIAS, WHEEL)
    ledger = Ledger(tmp_path / "cache/ledger.jsonl")
    for project, key in (
        ("/a/gpuforge.toml", TOOLKIT),
        ("/b/gpuforge.toml", TOOLKIT),
        ("/a/gpuforge.toml", ALIAS),
    ):
        ledger.append(LedgerEntry("2026-11-21T14:03:00+00:00", project, "x", key, {}, 1.0, "ok", "log"))
    (tmp_path / "cache/logs").mkdir()
    for name, days in (("old.log", 40), ("new.log", 1)):
        (tmp_path / "cache/logs" / name).write_text("text")
        os.utime(tmp_path / "cache/logs" / name, (time.time() - days * DAY,) * 2)
    for name, days in (("old", 40), ("new", 1)):
        built = tmp_path / "cache/inplace/demo-0a1b2c3d" / name
        (built / "build").mkdir(parents=True)
        os.utime(built, (time.time() - days * DAY,) * 2)
    return tmp_path / "cache"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main.run(["cache", *words])
    return status, *capsys.readouterr()


def of_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run(capsys, *words, "--json")[1])


def test_ls_shows_what_takes_how_much_and_when_it_was_used(cache, capsys):
    status, out, err = run(capsys, "ls")
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[:4] for row in rows[:4]] == [
        ["kind", "entries", "size", "last"],
        ["toolkit", "1", "5.0", "kB"],
        ["wheel", "1", "300", "B"],
        ["report", "1", "20", "B"],
    ]
    assert [row[0] for row in rows[5:9]] == ["project", "(several", "/a/gpuforge.toml", "(unknown)"]
    assert ["logs", "8", "B"] in rows
    assert out.endswith(f" in {cache}\n")
    data = of_json(capsys, "ls")
    assert [(each["kind"], each["bytes"], each["projects"]) for each in data["entries"]] == [
        ("toolkit", 5000, ["/a/gpuforge.toml", "/b/gpuforge.toml"]),
        ("wheel", 300, ["/a/gpuforge.toml"]),
        ("report", 20, []),
    ]
    assert data["schema"] == 1


def test_verify_reads_large_entries_too_and_sets_the_damaged_one_aside(cache, capsys, monkeypatch):
    """A build reads a toolkit's times alone, once it was seen to be whole."""
    monkeypatch.setattr(store_module, "_LARGE", 1)
    assert FolderStore(cache / "store").get(TOOLKIT) is not None
    assert run(capsys, "verify") == (0, "read 3 entries, 5.3 kB: none damaged\n", "")
    place = cache / "store/a1" / TOOLKIT
    file = place / "out/toolkit/file"
    file.chmod(0o644)
    with file.open("r+b") as stream:
        stream.seek(4000)
        stream.write(b"y")
    (place / "stamp").write_text(store_module.stamp(TOOLKIT, place / "out"))
    assert FolderStore(cache / "store").get(TOOLKIT) is not None  # what the stamp is for
    del stream
    status, out, _ = run(capsys, "verify")
    assert (status, out) == (
        1,
        "damaged: cu13.0/toolkit: toolkit/file is not what was stored; "
        f"set aside as {cache}/store/aside/{TOOLKIT}\nread 3 entries, 5.3 kB: 1 damaged\n",
    )
    assert FolderStore(cache / "store").get(TOOLKIT) is None
    assert run(capsys, "verify")[0] == 0
    assert of_json(capsys, "ls")["set_aside_bytes"] > 5000
    assert of_json(capsys, "prune", "--older", "100d")["others_removed"] == 1
    assert of_json(capsys, "ls")["set_aside_bytes"] == 0


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("rm {0}/record.json", "record.json is gone"),
        ("echo '{{' > {0}/record.json", "its record has no checksum"),
        ("rm -r {0}/out", "wheel: out is gone"),
        ("rm {0}/out/wheel/file; mkfifo {0}/out/wheel/file", "wheel/file of the outputs is a pipe"),
        ("rm {0}/out/wheel/file; ln -s /etc/passwd {0}/out/wheel/file", "wheel/file is not what was stored"),
        ("rm -r {0}/out/wheel; ln -s /etc {0}/out/wheel", "the output wheel is a link, to /etc"),
        ("rm {0}/record.json; mkfifo {0}/record.json", "it is a pipe, not a file"),
        ("touch '{0}/out/wheel/a\nb'", r"wheel/a\nb was put there later"),
        ("cp {0}/../../a1/*/record.json {0}", "its record has changed, or is that of another key"),
    ],
)
def test_verify_survives_every_kind_of_damage(cache, capsys, harm, words):
    subprocess.run(["sh", "-c", harm.format(cache / "store/b2" / WHEEL)], check=True)
    status, out, err = run(capsys, "verify")
    assert (status, err) == (1, "")
    assert words in out
    assert len(out.splitlines()) == 3  # and the name of what is no longer there
    assert FolderStore(cache / "store").get(WHEEL) is None
    put(FolderStore(cache / "store"), WHEEL, "wheel", 300, 0, "again")
    assert run(capsys, "verify")[0] == 0


def test_prune_removes_what_is_old_and_then_what_was_used_longest_ago(cache, capsys):
    assert run(capsys, "prune", "--older", "30d", "--dry-run")[1] == (
        "    5.0 kB  cu13.0/toolkit\n"
        "would remove 1 entry and 2 logs, folders of --inplace and damaged entries, 5.0 kB; 320 B of finished actions "
        "stay\n"
    )
    assert len(of_json(capsys, "ls")["entries"]) == 3
    assert FolderStore(cache / "store").get(TOOLKIT) is not None  # now it is the one that was used last
    assert run(capsys, "prune", "--size", "5010 B")[1] == (
        "     300 B  cp311-cu13.0-x86_64/wheel\n"
        "      20 B  cp311-cu13.0-x86_64/audit\n"
        "removed 2 entries, 320 B; 5.0 kB of finished actions stay\n"
    )
    assert not (cache / "store/d4" / ALIAS).is_symlink()
    assert (cache / "logs/old.log").exists()
    age(FolderStore(cache / "store"), TOOLKIT, 31)
    data = of_json(capsys, "prune", "--older", "4w")
    assert [each["action"] for each in data["removed"]] == ["cu13.0/toolkit"]
    assert (data["others_removed"], data["bytes_left"]) == (2, 0)
    assert [path.name for path in (cache / "logs").iterdir()] == ["new.log"]
    assert [path.name for path in cache.glob("inplace/*/*")] == ["new"]


def test_what_a_build_has_taken_stays(cache, capsys):
    builds = FolderStore(cache / "store")
    age(builds, WHEEL, 40)
    assert builds.get(ALIAS) is not None
    status, out, err = run(capsys, "prune", "--size", "0 B")
    assert (status, err) == (0, "note: kept 1 entry in use by running builds\n")
    assert [line.split()[2] for line in out.splitlines()[:-1]] == [
        "cu13.0/toolkit",
        "cp311-cu13.0-x86_64/audit",
    ]
    del builds
    assert len(of_json(capsys, "prune", "--size", "0 B")["removed"]) == 1
    assert [path.name for path in (cache / "store").glob("[a-f]?/*")] == []


TAKER = """
import sys, time
from pathlib import Path
from gpuforge.execute.entry import survey
from gpuforge.execute.store import FolderStore
from gpuforge.execute.entry import StoreEntry
end, had = time.monotonic() + 4, 0
while time.monotonic() < end:
    store = FolderStore(Path(sys.argv[1]))
    for number in range(20):
        key = f"{number:02x}" * 32
        found = store.get(key)
        if found is None:
            with store.scratch() as out:
                (out / "x").write_text(key)
                found = store.commit(key, out, StoreEntry("x", 1.0, "now", ("x",), survey(out, ["x"])))
        else:
            had += 1
        time.sleep(0.001)
        assert found.path("x").read_text() == key
print(had)
"""


@pytest.mark.thorough
def test_nothing_that_a_build_was_given_is_removed_while_it_runs(tmp_path):
    """Three builds take and make entries, while everything that is not in use is removed again and again."""
    root = tmp_path / "cache/store"
    root.mkdir(parents=True)
    command = [sys.executable, "-W", "error", "-c", TAKER, str(root)]
    takers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    program = "from gpuforge.cli.main import main; main()"
    prune = [sys.executable, "-c", program, "cache", "prune", "--size", "0 B"]
    environment = {**os.environ, "GPUFORGE_CACHE_DIR": str(tmp_path / "cache")}
    pruned = []
    while any(taker.poll() is None for taker in takers):
        pruned.append(subprocess.run(prune, env=environment, check=False, capture_output=True, text=True))
    ends = [(taker.communicate()[0], taker.returncode) for taker in takers]
    assert [status for _, status in ends] == [0, 0, 0]
    assert {(each.returncode, re.sub(r"\d+ entr(y|ies)", "N", each.stderr)) for each in pruned} <= {
        (0, ""),
        (0, "note: kept N in use by running builds\n"),
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prune"], 'prune needs --older or --size\n  hint: such as --older 30d or --size "20 GB", or both'),
        (["prune", "--older", "soon"], "'soon' is not a duration such as 5h30m, 30d or 2w"),
        (["prune", "--size", "1"], "'1' is not a size such as"),
        (["rm"], "No such command 'rm'. There are ls, prune, verify."),
    ],
)
def test_a_wrong_call_is_refused(cache, capsys, words, says):
    status, _, err = run(capsys, *words)
    assert status == 2
    assert says in err


def test_an_empty_cache_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "none"))
    for command in (["ls"], ["verify"], ["prune", "--older", "1d"]):
        assert run(capsys, *command) == (0, f"nothing is kept in {tmp_path}/none\n", "")
        status, out, err = run(capsys, *command, "--json")
        assert (status, json.loads(out)["bytes"], err) == (0, 0, "")
    assert not (tmp_path / "none").exists()
