"""The upkeep of a shared store, and the limit of a machine's part of it."""

import os

import pytest
from shared_store_samples import HARMS, KEY, OTHER, age, machine, put, record_of

from gpuforge.cluster import upkeep
from gpuforge.cluster.leases import now, oldest
from gpuforge.cluster.shared_store import USED, opened, trim
from gpuforge.execute import upkeep as local_upkeep


def test_entries_have_their_names_sizes_and_last_use(tmp_path):
    store = machine(tmp_path, "one")
    put(store)
    store.alias(OTHER, KEY)
    age(tmp_path, 100)
    (kept,) = upkeep.entries(store.objects)
    assert (kept.listed.key, kept.listed.action, kept.listed.kind, kept.aliases) == (
        KEY,
        "k",
        "kernel",
        (OTHER,),
    )
    assert kept.listed.size == sum(each.size for each in store.objects.find(f"entries/ab/{KEY}"))
    before = kept.listed.used
    assert machine(tmp_path, "two").get(KEY) is not None
    assert upkeep.entries(store.objects)[0].listed.used > before + 99 * 3600


def test_a_machine_that_uses_its_own_copy_is_seen_to_use_it(tmp_path):
    put(machine(tmp_path, "one"))
    age(tmp_path, 100)
    mark = tmp_path / "one/ab" / KEY / "shared"
    os.utime(mark, (mark.stat().st_mtime - USED - 1,) * 2)
    assert machine(tmp_path, "one").get(KEY) is not None
    (kept,) = upkeep.entries(machine(tmp_path, "one").objects)
    assert kept.listed.used > now(machine(tmp_path, "one").objects) - 60


def test_an_entry_is_removed_with_its_names_and_only_as_it_was_seen(tmp_path):
    store = machine(tmp_path, "one")
    put(store)
    store.alias(OTHER, KEY)
    (kept,) = upkeep.entries(store.objects)
    record = record_of(tmp_path)
    data = record.read_bytes()
    record.write_bytes(data + b" ")
    assert upkeep.discard(store.objects, kept) is False
    record.write_bytes(data)
    assert upkeep.discard(store.objects, kept) is True
    assert store.objects.names("") == []
    assert machine(tmp_path, "two").get(OTHER) is None


def test_what_a_machine_holds_is_shared_again_after_it_was_pruned(tmp_path):
    store = machine(tmp_path, "one")
    put(store)
    assert upkeep.discard(store.objects, upkeep.entries(store.objects)[0])
    mark = tmp_path / "one/ab" / KEY / "shared"
    os.utime(mark, (mark.stat().st_mtime - USED - 1,) * 2)
    assert machine(tmp_path, "one").get(KEY) is not None
    assert machine(tmp_path, "two").get(KEY) is not None


def test_what_was_used_since_the_oldest_live_build_began_stays(tmp_path):
    store = machine(tmp_path, "one")
    put(store)
    age(tmp_path, 10)
    (kept,) = upkeep.entries(store.objects)
    assert kept.listed.used < upkeep.recent(store.objects)
    with store.present():
        (began,) = [name for name in store.objects.names("builds") if name.endswith("/began")]
        then = kept.listed.used
        os.utime(tmp_path / "shared" / began, (then, then))
        assert kept.listed.used >= upkeep.recent(store.objects)
    assert store.objects.names("builds") == []
    assert kept.listed.used < upkeep.recent(store.objects)


def test_a_build_that_was_killed_is_not_waited_for(tmp_path):
    objects = machine(tmp_path, "one").objects
    objects.put("builds/x/began", b"")
    objects.put("builds/x/lives", b"")
    age(tmp_path, 1)
    assert oldest(objects) == pytest.approx(now(objects), abs=5)
    assert objects.names("builds") == []


@pytest.mark.thorough
@pytest.mark.parametrize("harm", HARMS)
def test_verify_finds_every_harm(tmp_path, harm):
    store = machine(tmp_path, "one")
    put(store)
    put(store, key="ef" + "0" * 62)
    assert upkeep.verify(store.objects, upkeep.entries(store.objects)) == []
    HARMS[harm][0](record_of(tmp_path))
    damaged = upkeep.verify(store.objects, upkeep.entries(store.objects))
    if "alias" in harm and "path" not in harm:
        assert damaged == []  # a name, which is followed and refused where it is used
        return
    ((kept, why),) = damaged
    assert kept.listed.key == KEY
    assert why.startswith(HARMS[harm][1])
    assert [each.listed.key for each in upkeep.entries(store.objects)] == ["ef" + "0" * 62]


def test_what_a_killed_upload_left_is_removed_when_it_is_old(tmp_path):
    store = machine(tmp_path, "one")
    put(store)
    record_of(tmp_path).unlink()
    assert upkeep.entries(store.objects) == []
    assert len(store.objects.names("entries")) == 1
    age(tmp_path, 25)
    assert upkeep.entries(store.objects) == []
    assert store.objects.names("entries") == []


def test_a_machines_part_is_within_its_limit_but_for_what_is_in_use_or_not_shared(tmp_path):
    keys = ["ab" + f"{number:062}" for number in range(3)]
    for key in keys:
        put(machine(tmp_path, "one"), key=key)
    (tmp_path / "one/ab" / keys[0] / "shared").unlink()
    store = opened(tmp_path / "one", str(tmp_path / "shared"), most=1)
    assert store.local.get(keys[1]) is not None
    trim(store.local, 1)
    assert {each.key for each in local_upkeep.entries(store.local)} == {keys[0], keys[1]}
    assert store.get(keys[2]) is not None  # fetched again
