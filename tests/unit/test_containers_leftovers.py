"""Whose a container is: what a gpuforge that is no more has left, and what belongs to one that cannot be seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuforge.containers.container import (
    MACHINE,
    OWNER,
    SECONDS,
    Containers,
    LabelledContainer,
    is_left,
    labels,
)

HOUR = 3600.0

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="reads Linux's /proc")


def other(**owner: str) -> dict[str, str]:
    """The labels of this process, as another one of that boot, namespace, number or start would have them."""
    boot, namespace, pid, started = labels()[OWNER].split()[0].split(":", 1) + labels()[OWNER].split()[1:]
    said = {"boot": boot, "namespace": namespace, "pid": pid, "started": started} | owner
    return labels("x", HOUR) | {OWNER: "{boot}:{namespace} {pid} {started}".format(**said)}


def test_a_process_that_lives_keeps_its_containers_however_old_they_are() -> None:
    assert not is_left(labels("x", HOUR), 1000 * HOUR)


@pytest.mark.thorough
def test_a_process_that_ended_leaves_them_and_one_of_the_same_number_is_another() -> None:
    ask = "from gpuforge.containers.container import *; print(labels()[OWNER])"
    ended = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert is_left(labels() | {OWNER: ended.stdout.strip()}, 1.0)
    assert is_left(other(started="1"), 1.0)


def test_a_machine_that_was_started_again_has_none_of_its_processes() -> None:
    before = other(boot="00000000-0000-0000-0000-000000000000")
    if not before[MACHINE]:
        pytest.skip("this machine cannot be told from others: a container, or without /etc/machine-id")
    assert is_left(before, 1.0)
    assert not is_left(before | {MACHINE: "another"}, 1.0)
    assert not is_left(before | {MACHINE: ""}, 1.0)


@pytest.mark.parametrize("unseen", [{"namespace": "pid:[7]"}, {"boot": "another", "namespace": "pid:[7]"}])
def test_of_a_process_that_cannot_be_seen_they_are_left_after_their_time(unseen: dict[str, str]) -> None:
    said = other(**unseen) | {MACHINE: ""}
    assert not is_left(said, 1.0)
    assert not is_left(said, HOUR + 60)  # it may be about to remove it
    assert is_left(said, HOUR + 3600)


@pytest.mark.parametrize("missing", [{SECONDS: ""}, {OWNER: ""}, {OWNER: "x", SECONDS: "soon"}])
def test_incomplete_labels_are_no_reason_to_remove_a_container(missing: dict[str, str]) -> None:
    assert not is_left(other(namespace="pid:[7]") | missing, 1.0)


def test_the_list_asks_the_engine_about_no_single_container() -> None:
    """Docker 20.10 was seen to hang for ten minutes with one container: it listed it, but did not describe it."""
    listed = [{"Id": "1", "Labels": {OWNER: "x"}, "Created": 1000}]
    client: Any = SimpleNamespace(
        api=SimpleNamespace(containers=lambda **_: listed),
        info=lambda: {"SystemTime": "1970-01-01T01:00:00.5Z"},
    )
    assert Containers(client).labelled(OWNER) == [LabelledContainer("1", {OWNER: "x"}, 2600.5)]
