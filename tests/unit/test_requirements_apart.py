"""What one project's hook writes does not reach another's build, and what it answers decides on what is fetched."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from audit_samples import wheel
from engine_samples import Listener

from gpuforge.actions.cell_actions import lower
from gpuforge.execute.engine import Engine
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import Outcome, Step
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.store import FolderStore
from gpuforge.execute.work import Workplace
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan.cell import select
from gpuforge.plan.keys import keys
from gpuforge.plan.site import Machine
from gpuforge.toolchains.cpython import Interpreter

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
PYPROJECT = '[build-system]\nrequires = ["base"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
HOOK = "import os, pathlib, sys, sysconfig\ndef get_requires_for_build_wheel(settings=None):\n"
HOSTILE = """
    site = pathlib.Path(sysconfig.get_paths()["purelib"])
    for name, text in (("hostile.pth", "import sys; sys.hostile = True\\n"), ("base.py", "hostile = True\\n")):
        try:
            (site / name).write_text(text)
        except OSError as error:
            sys.stderr.write(f"refused: {error}\\n")
    sys.stderr.write(f"seen: {sorted(os.environ)}\\n")
    return []
"""
pytestmark = pytest.mark.thorough


@dataclass(frozen=True)
class Builds:
    """Makes build environments of projects, one store for all of them."""

    folder: Path
    machine: Machine

    def run(self, project: str, hook: str, add: str = "", **files: str) -> tuple[ManifestFile, Outcome]:
        """Write a project whose backend has this hook, and make its build environment."""
        root = self.folder / project
        root.mkdir(exist_ok=True)
        manifest = f'schema = 1\n[package]\nname = "{project}"\npython = ["{MINOR}"]\n{add}'
        manifest += "" if "[build]" in add else "[build]\ncuda = false\n"
        manifest += '[toolchains.host]\ncompiler = "g++"\n[cuda.13]\ntoolkit = "13.0"\narchs = []\n'
        texts = {"gpuforge.toml": manifest, "pyproject.toml": PYPROJECT, "backend.py": HOOK + hook, **files}
        for name, text in texts.items():
            (root / name).write_text(text)
        file = load(root)
        plan = lower(file, select(file, "x86_64").cells, self.machine, os.environ)
        mine = [action for action in plan.actions if action.id.startswith(f"py{MINOR}/")]
        actions = [action for action in mine if not action.id.endswith(("/carried", "/host-build"))]
        found = keys([*actions])
        store = FolderStore(self.folder / "store")
        outcome = Engine(
            [Step(action, found[action.id].digest, found[action.id].facts) for action in actions],
            store=store,
            ledger=Ledger(self.folder / "ledger"),
            workers=Workplace(store, LocalRunner(root=self.folder / "work", project="")),
            jobs=1,
            observer=Listener(),
            logs=self.folder / "logs" / project,
            project=project,
        ).run()
        return file, outcome

    def states(self, project: str, hook: str, **more: str) -> dict[str, str]:
        """Do so and return how each action ended."""
        _, outcome = self.run(project, hook, **more)
        errors = [str(each.error) for each in outcome.results.values() if each.error]
        assert not errors
        return {name.partition("/")[2]: result.state for name, result in outcome.results.items()}

    def log(self, project: str, action: str) -> str:
        """Return what an action of a project printed."""
        (file,) = (self.folder / "logs" / project).glob(f"*-{action}-????????.log")
        return file.read_text()

    def stored(self, name: str) -> list[str]:
        """Return what the store holds in all files of this name."""
        return [path.read_text() for path in (self.folder / "store").rglob(name)]


@pytest.fixture
def builds(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Builds:
    for name in ("base", "more"):
        files = {f"{name}.py": b"hostile = False\n"}
        wheel(tmp_path / "wheels", files, name=f"{name}-1.0-py3-none-any.whl", purelib=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:secret@index.example/simple")
    monkeypatch.setenv("NETRC", "/nowhere")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (tmp_path / "work").mkdir()
    (here,) = machine.locations
    python = Interpreter(Path(sys.executable), f"{MINOR}.1", "cpython", headers=True)
    return Builds(tmp_path, Machine((here._replace(interpreters={MINOR: python}),)))


def test_what_a_hook_writes_into_its_environment_is_gone(builds):
    """It came out in another project's wheel: both have the same pyproject.toml, and share the environment."""
    states = builds.states("hostile", HOSTILE)
    assert states["hook"] == "done"
    assert builds.stored("hostile.pth") == []
    assert builds.stored("base.py") == ["hostile = False\n"]
    other = builds.states("harmless", "    import base\n    assert not base.hostile\n    return []\n")
    assert other["requirements"] == other["hook-environment"] == "reused"
    assert other["hook"] == "done"


def test_a_hook_sees_what_a_build_sees(builds):
    """No index, no password, no settings of the user's."""
    builds.states("hostile", HOSTILE)
    (seen,) = (line for line in builds.log("hostile", "hook").splitlines() if line.startswith("seen: "))
    assert "'PIP_CONFIG_FILE', 'PIP_NO_INDEX'" in seen
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "NETRC", "AWS_SECRET_ACCESS_KEY"):
        assert name not in seen


def test_a_backend_that_answers_differently_is_noticed(builds):
    """Its answer may hang on any file of the project: the hook runs again, and nothing else if it says the same."""
    reads = "    return pathlib.Path('deep').read_text().split()\n"
    first = builds.states("project", reads, deep="")
    # Nothing is asked for: what was fetched and installed already serves.
    assert first == {
        **dict.fromkeys(("requirements", "hook-environment", "hook"), "done"),
        **dict.fromkeys(("backend-requirements", "environment"), "reused"),
    }
    assert set(builds.states("project", reads, deep="").values()) == {"reused"}
    assert builds.states("project", reads, deep=" ")["environment"] == "reused"
    assert builds.stored("more.py") == []
    again = builds.states("project", reads, deep="base<2 more")
    assert [name for name, state in again.items() if state == "done"] == [
        *("hook", "backend-requirements", "environment")
    ]
    assert len(builds.stored("more.py")) == 1
    met = builds.states("project", reads, deep="base>=1")
    assert [name for name, state in met.items() if state == "done"] == ["hook"]


@pytest.mark.parametrize("answer", ["-r/etc/passwd", "more@file:///etc/passwd"])
def test_an_answer_that_is_no_name_ends_the_build(builds, answer):
    _, outcome = builds.run("project", f"    return [{answer!r}]\n")
    failed = {name.partition("/")[2]: r.state for name, r in outcome.results.items() if r.state != "done"}
    assert failed == {"hook": "failed", "backend-requirements": "not-run", "environment": "not-run"}
    (error,) = (result.error for result in outcome.results.values() if result.error)
    assert "its build backend has a requirement that is not a name with versions" in str(error)
