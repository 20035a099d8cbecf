"""The store on a real folder: whole entries or none, whatever happens."""

import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from gpuforge import locks
from gpuforge.execute import store as store_module
from gpuforge.execute import upkeep
from gpuforge.execute.entry import StoredFile, StoreEntry, from_json, sealed, survey, to_json, unsealed
from gpuforge.execute.store import FolderStore, Stored
from gpuforge.tree import remove

KEY, OTHER = "ab" + "0" * 62, "cd" + "0" * 62


def put(store: FolderStore, text: str = "kernel", key: str = KEY) -> Stored:
    with store.scratch() as out:
        (out / "kernel.fatbin").write_text(text)
        (out / "tree/bin").mkdir(parents=True)
        (out / "tree/bin/nvcc").write_text("#!/bin/sh\n")
        (out / "tree/bin/nvcc").chmod(0o775)
        (out / "tree/lib64").symlink_to("lib")
        (out / "left over").write_text("not declared")
        outputs = ("kernel.fatbin", "tree")
        record = StoreEntry("k", 1.5, "2026-11-21T14:03:00+00:00", outputs, survey(out, outputs))
        return store.commit(key, out, record)


def test_what_is_committed_is_found_again_read_only_and_executable(tmp_path):
    put(FolderStore(tmp_path / "store"))
    stored = FolderStore(tmp_path / "store").get(KEY)
    assert stored is not None
    assert stored.folder == tmp_path / "store/ab" / KEY / "out"
    assert stored.path("kernel.fatbin").read_text() == "kernel"
    assert [(file.path, file.size, file.link) for file in stored.entry.files] == [
        ("kernel.fatbin", 6, ""),
        ("tree/bin/nvcc", 10, ""),
        ("tree/lib64", 3, "lib"),
    ]
    assert stored.path("kernel.fatbin").stat().st_mode & 0o777 == 0o444
    assert stored.path("tree").joinpath("bin/nvcc").stat().st_mode & 0o777 == 0o555
    with pytest.raises(KeyError):
        stored.path("left over")
    assert not (stored.folder / "left over").exists()
    shutil.rmtree(tmp_path / "store")


def test_a_larger_file_is_there_once_and_a_damaged_one_is_not_passed_on(tmp_path):
    store = FolderStore(tmp_path / "store")
    text, third = "k" * store_module._SHARED, "ef" + "0" * 62
    one, two = put(store, text), put(store, text, OTHER)
    path = one.path("kernel.fatbin")
    assert path.samefile(two.path("kernel.fatbin"))
    with store.scratch() as out:  # an action may link it, too
        os.link(path, out / "linked")
        made = StoreEntry("k", 1.5, "2026-11-21T14:03:00+00:00", ("linked",), survey(out, ["linked"]))
        assert store.commit(third, out, made).path("linked").samefile(path)
    remove(store.place(third))
    assert not one.path("tree").joinpath("bin/nvcc").samefile(two.path("tree") / "bin/nvcc")
    whole = upkeep.entries(store)
    assert sum(each.size for each in whole) == len(text) + 2 * (10 + 3)  # with the two small ones
    path.chmod(0o644)
    path.write_text("x" * store_module._SHARED)
    assert put(store, text, third).path("kernel.fatbin").read_text() == text
    assert FolderStore(store.root).get(OTHER) is None
    assert not put(FolderStore(store.root), text, OTHER).path("kernel.fatbin").samefile(path)
    for key in (KEY, OTHER, third):
        remove(store.place(key))
    remove(store.root / "aside")
    store.sweep()
    assert [*store.root.glob("files/*/*")] == []


def test_an_unknown_key_is_absent_without_damage_and_looking_writes_nothing(tmp_path):
    store = FolderStore(tmp_path / "store")
    assert store.get(KEY) is None
    assert store.damage(KEY) == ""
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("truncate -s 3 out/kernel.fatbin", "kernel.fatbin: 3 bytes missing"),
        ("printf x >> out/kernel.fatbin", "kernel.fatbin: 1 byte too many"),
        ("rm out/kernel.fatbin", "kernel.fatbin is gone"),
        ("rm -r out/tree", "tree is gone"),
        ("rm out/tree/bin/nvcc", "tree/bin/nvcc is gone"),
        ("rm out/tree/lib64; printf abc > out/tree/lib64", "tree/lib64 is not what was stored"),
        (
            "printf K > out/kernel.fatbin; printf ernel >> out/kernel.fatbin",
            "kernel.fatbin is not what was stored",
        ),
        ("ln -sfn bin out/tree/lib64", "tree/lib64 is not what was stored"),
        ("chmod -x out/tree/bin/nvcc", "tree/bin/nvcc is not what was stored"),
        ("touch out/tree/more.pth", "tree/more.pth was put there later"),
        ("rm record.json", "its record is gone"),
        ("echo '{}' > record.json", "its record has no checksum"),
        (
            'sed -i \'s/"seconds": 1.5/"seconds": 9.5/\' record.json',
            "its record has changed, or is that of another key",
        ),
    ],
)
def test_a_damaged_entry_is_absent_with_a_reason_and_is_replaced(tmp_path, harm, reason):
    store = FolderStore(tmp_path)
    entry = put(store).folder.parent
    store = FolderStore(tmp_path)  # another process
    assert os.system(f"cd {entry}; chmod u+w out/kernel.fatbin; {harm}") == 0  # noqa: S605 - the test's own text
    assert (store.get(KEY), store.damage(KEY)) == (None, reason)
    put(store, "second")
    assert store.damage(KEY) == ""
    assert (entry / "out/kernel.fatbin").read_text() == "second"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "its record cannot be read: a part is missing or of the wrong kind ('format')"),
        ("[", "its record cannot be read: Expecting value: line 1 column 2 (char 1)"),
        ('{"format": 9}', "its record cannot be read: format 9 instead of 1"),
    ],
)
def test_a_record_that_is_not_as_gpuforge_writes_it_is_damage(tmp_path, text, reason):
    entry = put(FolderStore(tmp_path)).folder.parent
    (entry / "record.json").write_bytes(sealed(KEY, text.encode()))
    assert FolderStore(tmp_path).damage(KEY) == reason


@pytest.mark.parametrize("swap", ["", "record.json", "out", "out stamp"])
def test_entries_that_took_each_others_place_are_damaged(tmp_path, monkeypatch, swap):
    """Two fatbins of the same size: the kernel of one project came into the other one's wheel."""
    monkeypatch.setattr(store_module, "_LARGE", 1)  # with stamps
    one = put(FolderStore(tmp_path), "kernel").folder.parent
    other = put(FolderStore(tmp_path), "KERNEL", OTHER).folder.parent
    for name in swap.split() or [""]:
        (one / name).rename(tmp_path / "between")
        (other / name).rename(one / name)
        (tmp_path / "between").rename(other / name)
    store = FolderStore(tmp_path)
    assert [store.get(key) for key in (KEY, OTHER)] == [None, None]
    found = upkeep.verify(store, upkeep.entries(store))
    assert {each.entry.key for each in found} == {KEY, OTHER}
    assert put(store, "again").path("kernel.fatbin").read_text() == "again"


def test_an_alias_in_the_place_of_another_is_damaged(tmp_path):
    store, names = FolderStore(tmp_path), ["ef" + "0" * 62, "12" + "0" * 62]
    put(store)
    put(store, "other", OTHER)
    for name, key in zip(names, (KEY, OTHER), strict=True):
        store.alias(name, key)
    one, other = map(store.place, names)
    one.rename(tmp_path / "between")
    other.rename(one)
    (tmp_path / "between").rename(other)
    assert [store.get(name) for name in names] == [None, None]
    assert store.damage(names[0]) == "its record has changed, or is that of another key"
    store.alias(names[0], KEY)
    assert store.get(names[0]).path("kernel.fatbin").read_text() == "kernel"  # type: ignore[union-attr]
    assert [each.entry.key for each in upkeep.verify(store, upkeep.entries(store))] == [names[1]]
    assert not other.exists()


@pytest.mark.parametrize("harm", ["tree/bin/nvcc", "tree/more.h"])
def test_a_large_entry_is_read_again_when_something_was_written(tmp_path, monkeypatch, harm):
    """Also when its size is the same and its modification time was put back."""
    monkeypatch.setattr(store_module, "_LARGE", 1)
    file = put(FolderStore(tmp_path)).folder / harm
    monkeypatch.setattr(store_module, "changes", unexpected)
    assert FolderStore(tmp_path).get(KEY) is not None
    monkeypatch.undo()
    monkeypatch.setattr(store_module, "_LARGE", 1)
    if file.exists():
        before = file.stat()
        file.chmod(0o755)
        file.write_bytes(b"#" * before.st_size)
        file.chmod(0o555)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        file.write_text("")
    assert FolderStore(tmp_path).get(KEY) is None


def unexpected(*_: object) -> str:
    raise AssertionError


def test_a_copy_of_a_store_is_read_once_and_then_known(tmp_path, monkeypatch):
    """As CI's caches bring it."""
    monkeypatch.setattr(store_module, "_LARGE", 1)
    put(FolderStore(tmp_path / "one"))
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    assert FolderStore(tmp_path / "two").get(KEY) is not None
    monkeypatch.setattr(store_module, "changes", unexpected)
    assert FolderStore(tmp_path / "two").get(KEY) is not None


def test_a_file_with_another_name_outside_is_copied(tmp_path):
    """As uv and CMake make them: a change there would be one of the store, and `chmod` one of the user's file."""
    (tmp_path / "users").write_text("kernel")
    store = FolderStore(tmp_path / "store")
    with store.scratch() as out:
        os.link(tmp_path / "users", out / "kernel.fatbin")
        os.link(tmp_path / "users", out / "again")
        outputs = ("kernel.fatbin", "again")
        store.commit(
            KEY, out, StoreEntry("k", 1.5, "2026-11-21T14:03:00+00:00", outputs, survey(out, outputs))
        )
    assert (tmp_path / "users").stat().st_mode & 0o777 == 0o644
    (tmp_path / "users").write_text("changed")
    found = FolderStore(tmp_path / "store").get(KEY)
    assert found is not None
    assert [found.path(name).read_text() for name in outputs] == ["kernel"] * 2


def test_the_first_to_commit_wins_and_nothing_is_left_over(tmp_path):
    first, second = FolderStore(tmp_path), FolderStore(tmp_path)
    put(first, "first")
    assert put(second, "second").path("kernel.fatbin").read_text() == "first"
    sessions = [folder for folder in (tmp_path / "tmp").iterdir() if folder.is_dir()]
    assert len(sessions) == 2
    assert [{each.name for each in session.iterdir()} for session in sessions] == [{".lock", ".began"}] * 2
    del first, second
    assert {each.name for each in (tmp_path / "tmp").iterdir()} == {".lock"}


def test_scratch_without_commit_vanishes_even_with_folders_that_cannot_be_written(tmp_path):
    store = FolderStore(tmp_path)
    with store.scratch() as out:
        (out / "a/b").mkdir(parents=True)
        (out / "a/b/c").write_text("x")
        (out / "a/b").chmod(0o500)
        (out / "a").chmod(0o500)
    assert not out.parent.exists()


def die_in_scratch(root: Path) -> None:
    with FolderStore(root).scratch() as out:
        (out / "half").write_text("written")
        os._exit(9)


@pytest.mark.thorough
def test_what_dead_processes_left_is_swept_and_what_live_ones_use_is_not(tmp_path):
    alive = FolderStore(tmp_path)
    with alive.scratch() as out:
        process = multiprocessing.get_context("spawn").Process(target=die_in_scratch, args=(tmp_path,))
        process.start()
        process.join()
        assert process.exitcode == 9
        assert len(list((tmp_path / "tmp").glob("*/*/out/half"))) == 1
        with FolderStore(tmp_path).scratch():
            assert list((tmp_path / "tmp").glob("*/*/out/half")) == []
            assert out.is_dir()


def test_an_entry_has_more_than_one_name(tmp_path):
    store, other, third = FolderStore(tmp_path / "store"), "cd" + "0" * 62, "ef" + "0" * 62
    stored = put(store)
    store.alias(other, KEY)
    found = FolderStore(tmp_path / "store").get(other)
    assert found is not None
    assert found.path("kernel.fatbin").read_text() == "kernel"
    assert found.content("tree") == stored.content("tree") != stored.content("kernel.fatbin")
    put(store, "another", key=third)
    store.alias(other, third)
    assert store.get(other).path("kernel.fatbin").read_text() == "another"  # type: ignore[union-attr]
    remove(tmp_path / "store" / third[:2] / third)
    assert store.get(other) is None
    assert put(store, "its own", key=other).path("kernel.fatbin").read_text() == "its own"
    store.alias(KEY, other)
    assert store.get(KEY).path("kernel.fatbin").read_text() == "its own"  # type: ignore[union-attr]
    (tmp_path / "store" / other[:2] / other / "out/kernel.fatbin").unlink()
    assert store.damage(KEY)
    assert put(store).path("kernel.fatbin").read_text() == "kernel"
    assert not any((tmp_path / "store/tmp").glob("*/[0-9a-f]*"))


def test_content_is_what_files_hold_not_who_made_them(tmp_path):
    store = FolderStore(tmp_path / "store")
    first, same, other = put(store), put(store, key="cd" + "0" * 62), put(store, "more", key="ef" + "0" * 62)
    assert first.content("kernel.fatbin") == same.content("kernel.fatbin") != other.content("kernel.fatbin")


def test_whether_a_file_can_be_run_is_a_part_of_what_it_holds(tmp_path):
    store = FolderStore(tmp_path / "store")
    contents = set()
    for number, mode in enumerate((0o755, 0o700, 0o644)):
        with store.scratch() as out:
            (out / "run-tests").write_text("#!/bin/sh\n")
            (out / "run-tests").chmod(mode)
            files = survey(out, ["run-tests"])
            record = StoreEntry("source", 1.5, "2026-11-21T14:03:00+00:00", ("run-tests",), files)
            store.commit(key := f"{number:064}", out, record)
        stored = FolderStore(tmp_path / "store").get(key)
        assert stored is not None
        contents.add((bool(mode & 0o100), stored.content("run-tests")))
    assert len(contents) == len({content for _, content in contents}) == 2


def test_a_claim_is_for_one_at_a_time(tmp_path):
    first, second = FolderStore(tmp_path), FolderStore(tmp_path)
    claim = first.claim(KEY)
    assert claim is not None
    with claim:
        assert second.claim(KEY) is None
        assert first.claim(KEY) is None
        assert second.claim("cd" + KEY[2:]) is not None
    assert second.claim(KEY) is not None


def test_a_record_survives_json():
    files = (
        StoredFile("x/a", 3, "0" * 64),
        StoredFile("x/b", 3, "0" * 64, executable=True),
        StoredFile("x/c", 1, "", "b"),
    )
    record = StoreEntry("a/b", 12.25, "2026-11-21T14:03:00+00:00", ("x",), files)
    assert from_json(to_json(record)) == record


@pytest.mark.thorough
def test_no_change_of_a_byte_of_a_record_ends_in_anything_but_an_entry_or_damage(tmp_path):
    """A size of "1e999" and a name that no system takes ended builds with a traceback."""
    put(FolderStore(tmp_path))
    record = tmp_path / "ab" / KEY / "record.json"
    whole = unsealed(KEY, record.read_bytes()).replace(b"kernel.fatbin", b"k\\u00efrnel.fatbin")
    entry = from_json(whole.decode())
    odd = [
        whole[:at] + byte + whole[at + 1 :]
        for at in range(0, len(whole), 3)
        for byte in (b"[", b'"', b"e", b"9")
    ]
    odd += [whole.replace(b"u00ef", name) for name in (b"u0000", b"ud8ef")]
    odd += [whole.replace(b"[\n   6,", size) for size in (b"[1e999,", b"[NaN,")]
    for text in (*odd, b"[" * 100_000):
        record.write_bytes(sealed(KEY, text))  # as whoever can write to the store may do it
        stored = FolderStore(tmp_path).get(KEY)
        assert stored is None or stored.entry.files == entry.files


def test_no_other_user_gets_to_what_a_build_writes(tmp_path):
    """A program with the setuid bit that a container left there would have run as the user of gpuforge."""
    with FolderStore(tmp_path).scratch() as out:
        program = out / "program"
        program.write_text("")
        program.chmod(0o6755)
        above = [each for each in program.parents if each.is_relative_to(tmp_path / "tmp")]
        assert any(each.stat().st_mode & 0o777 == 0o700 for each in above)
        record = StoreEntry("k", 1.5, "2026-11-21T14:03:00+00:00", ("program",), survey(out, ["program"]))
        stored = FolderStore(tmp_path).commit(KEY, out, record)
    assert stored.path("program").stat().st_mode & 0o7777 == 0o555


def test_remove_accepts_what_is_not_there(tmp_path):
    remove(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cp311-cu13.0-x86_64/host-build", "cp311-cu13.0-x86_64-host-build"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", "-"),
        ("x" * 120, "x" * 83 + "-2f4f1f8a3dff0ae4"),
    ],
)
def test_file_names_of_ids_are_safe(name, expected):
    made = locks.file_name(name)
    assert made[:84] == expected[:84]
    assert len(made) <= 100
