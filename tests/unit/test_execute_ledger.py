"""The ledger on a real file."""

import errno
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpuforge.execute.ledger import Ledger, LedgerEntry

ENTRY = LedgerEntry(
    "2026-11-21T14:03:00+00:00", "/p/gpuforge.toml", "a", "k1", {"g++": "12.2"}, 1.5, "ok", "/l/a.log"
)


def test_the_last_entry_of_an_action_is_found_by_another_reader(tmp_path):
    ledger = Ledger(tmp_path / "cache" / "ledger.jsonl")
    assert ledger.last(ENTRY.project, "a") is None
    ledger.append(ENTRY)
    assert ledger.last(ENTRY.project, "a") == ENTRY
    newer = replace(ENTRY, key="k2", result="failed")
    ledger.append(newer)
    ledger.append(replace(ENTRY, project="/other"))
    for reader in (ledger, Ledger(ledger.path)):
        assert reader.last(ENTRY.project, "a") == newer
        assert reader.last("/other", "a") == replace(ENTRY, project="/other")
        assert reader.last("/other", "b") is None


def test_a_torn_last_line_does_not_count_and_does_not_swallow_the_next(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(ENTRY)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + whole[:40])
    assert Ledger(ledger.path).last(ENTRY.project, "a") == ENTRY
    assert ledger.last(ENTRY.project, "a") == ENTRY
    newer = replace(ENTRY, key="k2")
    ledger.append(newer)
    assert ledger.last(ENTRY.project, "a") == newer
    assert Ledger(ledger.path).last(ENTRY.project, "a") == newer


@pytest.mark.thorough
def test_no_change_of_a_byte_ends_in_anything_but_an_entry_or_none(tmp_path):
    path = tmp_path / "ledger.jsonl"
    Ledger(path).append(ENTRY)
    whole = path.read_bytes()
    odd = [
        whole[:at] + byte + whole[at + 1 :] for at in range(len(whole)) for byte in (b"[", b'"', b"e", b"9")
    ]
    for text in (*odd, b"[" * 100_000, whole.replace(b"1.5", b'"x"'), whole.replace(b'"k1"', b'["k1"]')):
        path.write_bytes(text)
        ledger = Ledger(path)
        entry = ledger.last(ENTRY.project, "a")
        assert entry is None or entry.seconds >= 0
        ledger.keys()


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[]", b"null", b'{"time":1}', b"{}", b""])
def test_lines_that_are_no_entries_are_passed_over(tmp_path, line):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.path.write_bytes(line + b"\n")
    ledger.append(ENTRY)
    assert ledger.last(ENTRY.project, "a") == ENTRY


def write_many(path: Path, who: str) -> None:
    ledger = Ledger(path)
    for number in range(50):
        ledger.append(replace(ENTRY, id=who, key=str(number), facts={"long": "x" * 5000}))


@pytest.mark.thorough
def test_writers_in_several_processes_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(path, who)) for who in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(path.read_bytes().splitlines()) == 100
    ledger = Ledger(path)
    assert [entry.key for who in "ab" if (entry := ledger.last(ENTRY.project, who))] == ["49", "49"]


def test_a_line_that_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(ENTRY)
    before = ledger.path.read_bytes()
    write = os.write
    rests = iter((10, 0))

    def fill_up(stream: int, data: bytes) -> int:
        rest = next(rests)
        if rest == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(stream, data[:rest])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fill_up)
        with pytest.raises(OSError, match="No space left"):
            ledger.append(ENTRY)
    assert ledger.path.read_bytes() == before
