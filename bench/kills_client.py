"""A client of bench/kills.py whose actions are short: a plan of compilations, links and one wheel, which all sleep.

    python bench/kills_client.py SALT SECONDS DIST [SCHEDULER [IMAGE]]

It uses gpuforge's engine, stores and runners as `gpuforge build` does, and puts the wheel into DIST by rename. What the
wheel holds depends on the salt alone. Prints the wheel's digest as `gpuforge build --json` does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gpuforge import digest
from gpuforge.cache_folder import cache_folder
from gpuforge.errors import GpuforgeError
from gpuforge.execute import engine
from gpuforge.execute.ledger import FileLedger
from gpuforge.execute.outcome import ActionResult, Step
from gpuforge.execute.runners.choice import RunnerSettings, SiteRequest, chosen
from gpuforge.execute.runners.dask import cluster  # noqa: F401 - so that a forked client has it
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.shared.opening import opened
from gpuforge.execute.store import FolderStore
from gpuforge.plan.action import Action, ActionInput

SOURCES = 8
LINKS = 4


def steps(salt: str, seconds: float, image: str | None = None) -> list[Step]:
    """Return eight compilations, four links of two each, and a wheel of all links."""
    plan: dict[str, tuple[str, ...]] = {f"compile-{number}": () for number in range(SOURCES)}
    for number in range(LINKS):
        plan[f"link-{number}"] = (f"compile-{2 * number}", f"compile-{2 * number + 1}")
    plan["wheel"] = tuple(f"link-{number}" for number in range(LINKS))
    return [_step(name, needs, salt, seconds, image) for name, needs in plan.items()]


def _step(name: str, needs: Sequence[str], salt: str, seconds: float, image: str | None) -> Step:
    script = f'sleep {seconds}; out=$1; shift; (echo {name} {salt}; cat "$@" /dev/null) > "$out"'
    inputs = {need: ActionInput(need, "out") for need in needs}
    argv = ("/bin/sh", "-c", script, "sh", "${out:out}", *(f"${{in:{need}}}" for need in needs))
    env = {"PATH": "/usr/bin:/bin"}
    action = Action(name, "build", name, argv, inputs=inputs, outputs=("out",), env=env, image=image)
    return Step(action, digest.of_data(["kills", salt, seconds, name]))


def wheel(salt: str) -> bytes:
    """Return what the wheel of an undisturbed build holds."""

    def made(name: str, *needs: str) -> str:
        return f"{name} {salt}\n{''.join(needs)}"

    compiled = [made(f"compile-{number}") for number in range(SOURCES)]
    links = [made(f"link-{number}", *compiled[2 * number : 2 * number + 2]) for number in range(LINKS)]
    return made("wheel", *links).encode()


class Lines:
    """An observer that writes a line for each end."""

    def on_plan(self, steps: Sequence[Step], run: frozenset[str]) -> None:
        """Do nothing."""

    def on_start(self, action: Action, log: Path) -> None:
        """Do nothing."""

    def on_wait(self, action: Action, what: str) -> None:
        """Write why it waits."""
        sys.stderr.write(f"{action.id} waits: {what}\n")

    def on_interrupt(self) -> None:
        """Do nothing."""

    def on_finish(self, action: Action, result: ActionResult) -> None:
        """Write how it ended."""
        sys.stderr.write(f"{result.state} {action.id}\n")


def run(argv: Sequence[str]) -> int:
    """Build, and put the wheel into place; return the exit status."""
    try:
        return _build(*argv)
    except GpuforgeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _build(salt: str, pause: str, folder: str, scheduler: str = "", image: str = "") -> int:
    seconds, dist = float(pause), Path(folder)
    cache = cache_folder(os.environ)
    shared = os.environ.get("GPUFORGE_STORE") or None
    store = opened(cache / "store", shared) if shared else FolderStore(cache / "store")
    settings = RunnerSettings(
        "kills", cache, os.environ, Limits(), jobs=2, scheduler=scheduler or None, shared=shared
    )
    runner = chosen("dask")
    sites = runner.sites(
        SiteRequest(
            [image], bool(image), False, dist.parents[1] / "images", None, partial(print, file=sys.stderr)
        )
    )
    plan = steps(salt, seconds, sites[0].id if sites else None)
    with runner.workers(sites, settings, store) as workers:
        outcome = engine.run(
            plan,
            store=store,
            ledger=FileLedger(cache / "ledger.jsonl"),
            workers=workers,
            jobs=4,
            observer=Lines(),
            logs=cache / "logs",
            project="kills",
        )
    for failed in outcome.having("failed"):
        sys.stderr.write(f"failed: {failed.id}: {failed.error}\n")
    if not outcome.ok:
        return 1
    made = store.get(plan[-1].key)
    if made is None:
        sys.stderr.write("error: the wheel is not in the store\n")
        return 1
    dist.mkdir(parents=True, exist_ok=True)
    (dist / ".part").write_bytes(made.path("out").read_bytes())
    (dist / ".part").rename(dist / "all.whl")
    sys.stdout.write(json.dumps({"wheels": [{"sha256": digest.of_file(dist / "all.whl")}]}))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
