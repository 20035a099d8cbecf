"""The shared store: one entry on several machines, whole or not at all, and nothing hostile of others."""

import shutil
from pathlib import Path

import pytest
from shared_store_samples import HARMS, KEY, OTHER, content_of, machine, put, record_of

from gpuforge.cluster.folder import FolderObjects
from gpuforge.cluster.leases import LOOK, STALE, Leases
from gpuforge.cluster.record import lease_folder, record_name
from gpuforge.cluster.shared_store import SharedStore
from gpuforge.execute.store import FolderStore, Stored


def texts(stored: Stored | None) -> str:
    assert stored is not None
    return stored.path("kernel.fatbin").read_text()


def test_what_one_machine_made_another_has_with_times_modes_and_empty_folders(tmp_path):
    mine = put(machine(tmp_path, "one"))
    theirs = machine(tmp_path, "two").get(KEY)
    assert theirs is not None
    assert theirs.entry == mine.entry
    assert theirs.folder == tmp_path / "two/ab" / KEY / "out"
    assert theirs.path("tree").joinpath("empty/deep").is_dir()
    nvcc = theirs.path("tree") / "bin/nvcc"
    assert (nvcc.stat().st_mtime, nvcc.stat().st_mode & 0o777) == (1577836800, 0o555)
    assert (theirs.path("tree") / "lib64").readlink() == Path("bin")


def test_a_second_look_reads_this_machine_alone(tmp_path, monkeypatch):
    put(machine(tmp_path, "one"))
    assert machine(tmp_path, "two").get(KEY) is not None
    for name in ("read", "download", "put", "create"):
        monkeypatch.setattr(FolderObjects, name, None)
    assert machine(tmp_path, "two").get(KEY) is not None


def test_another_name_is_known_on_other_machines(tmp_path):
    one = machine(tmp_path, "one")
    put(one)
    one.alias(OTHER, KEY)
    assert texts(machine(tmp_path, "two").get(OTHER)) == "kernel"
    assert texts(machine(tmp_path, "two").get(KEY)) == "kernel"


def test_what_a_machine_had_before_is_shared_with_its_next_use(tmp_path):
    local = SharedStore(FolderStore(tmp_path / "one"), FolderObjects(tmp_path / "elsewhere"))
    put(local)
    local.alias(OTHER, KEY)
    assert machine(tmp_path, "two").get(OTHER) is None
    assert machine(tmp_path, "one").get(OTHER) is not None
    assert texts(machine(tmp_path, "two").get(OTHER)) == "kernel"


def test_the_first_to_share_wins_and_the_other_takes_what_was_shared(tmp_path):
    one, two = machine(tmp_path, "one"), machine(tmp_path, "two")
    put(one, "first")
    assert texts(put(two, "second")) == "first"
    assert texts(machine(tmp_path, "two").get(KEY)) == "first"
    assert len(one.objects.names("entries")) == 2  # no content that no record names


def test_the_first_to_share_does_not_win_with_less_than_it_says(tmp_path):
    """The other removed what it had made itself, and then failed."""
    one, two = machine(tmp_path, "one"), machine(tmp_path, "two")
    put(one, "first")
    content_of(record_of(tmp_path)).unlink()
    assert texts(put(two, "second")) == "second"
    assert texts(machine(tmp_path, "three").get(KEY)) == "second"


def test_nor_with_links_that_an_action_may_not_have(tmp_path):
    one, two = machine(tmp_path, "one"), machine(tmp_path, "two")
    put(one, "first", target="/etc")
    mine = put(two, "second", links_out=False)
    assert texts(mine) == "second"
    assert (mine.path("tree") / "lib64").readlink() == Path("bin")
    assert texts(put(machine(tmp_path, "three"), "third", links_out=False)) == "second"


@pytest.mark.thorough
def test_no_change_of_a_byte_makes_another_entry(tmp_path):
    """A byte of a record became another name of a file, and one that was no program any more."""
    put(machine(tmp_path, "one"))
    machine(tmp_path, "one").alias(OTHER, KEY)
    for key in (KEY, OTHER):
        place = tmp_path / "shared" / record_name(key)
        whole = place.read_bytes()
        for at in range(0, len(whole), 11):
            place.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert machine(tmp_path, f"{key[0]}{at}").get(key) is None
        place.write_bytes(whole)
        assert machine(tmp_path, f"{key[0]}whole").get(key) is not None


def test_an_entry_in_the_place_of_another_is_none(tmp_path):
    put(machine(tmp_path, "one"))
    shutil.copytree(record_of(tmp_path).parent, (tmp_path / "shared" / record_name(OTHER)).parent)
    assert machine(tmp_path, "two").get(OTHER) is None
    assert "that of another key" in machine_with(tmp_path, OTHER).damage(OTHER)


def machine_with(tmp_path: Path, key: str) -> SharedStore:
    store = machine(tmp_path, "three")
    store.get(key)
    return store


@pytest.mark.thorough
@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_entry_is_refused_made_again_and_replaced(tmp_path, harm):
    put(machine(tmp_path, "one"))
    act, why = HARMS[harm]
    act(record_of(tmp_path))
    two = machine(tmp_path, "two")
    assert two.get(KEY) is None
    assert two.damage(KEY).startswith(f"in the shared store, {why}")
    assert not (tmp_path / "two/ab" / KEY).exists()
    assert [each.name for each in tmp_path.rglob("evil")] == []
    assert [*(tmp_path / "two/tmp").glob("*/[0-9a-f]*")] == []
    assert texts(put(two, "again")) == "again"
    assert two.damage(KEY) == ""
    assert texts(machine(tmp_path, "three").get(KEY)) == "again"


@pytest.mark.parametrize("target", ["/etc", "../../.."])
def test_links_that_lead_out_are_refused_but_for_actions_that_may_have_them(tmp_path, target):
    put(machine(tmp_path, "one"), target=target)
    two = machine(tmp_path, "two")
    assert two.get(KEY, links_out=False) is None
    assert two.damage(KEY) == f"in the shared store, tree/lib64 is a link that leads out, to {target}"
    assert two.get(KEY) is not None


def test_a_claim_is_for_one_of_all_machines_and_ends_with_its_owner(tmp_path):
    one, two = machine(tmp_path, "one"), machine(tmp_path, "two")
    turn = one.claim(KEY)
    assert turn is not None
    assert two.claim(KEY) is None
    with turn:
        assert machine(tmp_path, "three").claim(KEY) is None
    turn = machine(tmp_path, "four").claim(KEY)
    assert turn is not None
    with turn:
        assert one.objects.names("leases") == [f"leases/{KEY}/000000001"]
    assert one.objects.names("leases") == []


def test_a_folder_in_the_place_of_a_lease_holds_no_build_up(tmp_path):
    (tmp_path / lease_folder(KEY) / "000000001").mkdir(parents=True)
    leases = Leases(FolderObjects(tmp_path), "one")
    assert [leases.take(KEY) is None, leases.take(KEY) is None] == [True, False]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_owner_whose_lease_does_not_change_is_dead_whatever_its_clock_shows(tmp_path):
    objects, clock = FolderObjects(tmp_path), Clock()
    owner = Leases(objects, "one").take(KEY)
    assert owner is not None
    watchers = [Leases(objects, home, clock) for home in ("two", "three")]
    assert [each.take(KEY) for each in watchers] == [None, None]
    assert not watchers[0].is_due(KEY)
    clock.now += LOOK
    assert watchers[0].is_due(KEY)
    clock.now = STALE - 1
    owner.renew()
    assert [each.take(KEY) for each in watchers] == [None, None]
    clock.now += STALE - 1
    assert [each.take(KEY) for each in watchers] == [None, None]
    clock.now += 1
    won = [each.take(KEY) for each in watchers]
    assert [each is not None for each in won] == [True, False]
    assert objects.names("leases") == [f"leases/{KEY}/000000002"]


def test_this_machines_dead_owner_is_followed_at_once(tmp_path):
    objects = FolderObjects(tmp_path)
    assert Leases(objects, "one").take(KEY) is not None
    assert Leases(objects, "one").take(KEY) is not None
    assert Leases(objects, "two").take(KEY) is None
