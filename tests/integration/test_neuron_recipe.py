"""recipes/neuron: PyPI's NEURON as host, mechanisms that users compile for CoreNEURON, the same spikes with each."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import builds
import pytest

from gpuforge.digest import Contents
from gpuforge.manifest.load import load
from gpuforge.package import embed, kernel_set
from gpuforge.package.contents import SourceSet
from gpuforge.plan import recipe
from gpuforge.plan.source_files import lower_objects

RECIPE = builds.RECIPES / "neuron"
NIGHTLY = "GPUFORGE_NIGHTLY"
nightly = pytest.mark.skipif(
    NIGHTLY not in os.environ, reason=f"takes minutes: set {NIGHTLY} to 1, or to a wheel of the recipe"
)
pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("build")]
VERSION = "9.0.2"
RING = """\
import json, sys
from ringnet.network import Network
json.dump(Network(rings=4, cells=8).run(200, core=sys.argv[1] == "core"), sys.stdout)
"""
LOADED = """
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "mech" in line}
print("\\n" + "\\n".join(libraries))
"""
OWN = """\
NEURON { SUFFIX mine }
"""
Spikes = list[tuple[float, int]]


@pytest.fixture(scope="module")
def neuron_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("neuron")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "-d", folder, f"neuron=={VERSION}"], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class User:
    """Somebody with ringnet in an environment: no GPU, no activated environment, builds of their own."""

    def __init__(self, python: Path, folder: Path, wheel: Path | None = None) -> None:
        self.python, self.folder, self.wheel = python, folder, wheel
        folder.mkdir()

    def run(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        own = {
            "PATH": os.defpath,
            "HOME": str(self.folder),
            "GPUFORGE_KERNEL_HOME": str(self.folder / "kernels"),
        }
        return builds.run(self.python, *arguments, cwd=self.folder, env=own, **env)

    def spikes(self, solver: str) -> Spikes:
        done = self.run("-c", RING, solver)
        assert done.returncode == 0, done.stderr
        return [tuple(spike) for spike in json.loads(done.stdout)]

    def explain(self) -> str:
        return self.run("-m", "ringnet._gpuforge", "explain").stdout

    def compile(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "ringnet._gpuforge", "compile", *arguments)


def same(one: Spikes, other: Spikes) -> bool:
    """Whether the same cells spike in the same order and steps.

    A time is a multiple of the step, 0.025 ms, and both solvers add the steps up in the same order: two times that
    differ by more than rounding differ by a step.
    """
    return [cell for _, cell in one] == [cell for _, cell in other] and all(
        abs(a - b) < 1e-9 for (a, _), (b, _) in zip(one, other, strict=True)
    )


def test_pypis_neuron_is_host_only(neuron_wheel):
    done = builds.run(builds.GPUFORGE, "audit", neuron_wheel, "--manifest", RECIPE / "host.toml")
    said = " ".join(done.stdout.split())
    assert "proved host-only: neuron: " in said
    assert (
        "no GPU code in a known format (packed data was not unpacked), no trace of a GPU compiler, " in said
    )
    assert "GF60" not in said


@pytest.fixture(scope="module")
def compiling(neuron_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user of a ringnet without a fallback: NEURON's side made by nrnivmodl, the sources with their recipe."""
    folder = tmp_path_factory.mktemp("compiling")
    python = builds.environment(folder / "env", neuron_wheel)
    (site,) = folder.glob("env/lib/python*/site-packages")
    shutil.copytree(RECIPE / "src" / "ringnet", site / "ringnet")
    nrnivmodl = [python.with_name("nrnivmodl"), RECIPE / "mod"]
    subprocess.run(nrnivmodl, check=True, capture_output=True, cwd=folder)
    (made,) = folder.glob("*/libnrnmech.so")
    shutil.copy(made, site / "ringnet")
    file = load(RECIPE)
    (item,) = [each for each in lower_objects(file, Contents()) if each.role == "user-compiled"]
    packed = kernel_set.pack_sources(
        folder / "packed",
        SourceSet(
            name=item.name,
            sources=tuple(item.sources),
            toolchains=recipe.toolchains(file, item, "13.0"),
            toolkit="13.0",
            abi=item.abi,
            packages=item.abi_packages,
        ),
        RECIPE,
    )
    embed.kernel_sets(site, "ringnet", [packed.parents[1]])
    return User(python, folder / "user")


def test_what_the_user_compiles_gives_neurons_spikes(compiling):
    nothing = compiling.run("-m", "ringnet", "core")
    assert nothing.returncode == 1
    assert "KernelUnavailable: user build: nothing was compiled yet: python -m ringnet._gpuforge compile" in (
        nothing.stderr
    )
    done = compiling.compile()
    assert (done.returncode, done.stderr) == (0, "")
    assert "made by " in done.stdout
    assert "bin/nrnivmodl (toolchain nrnivmodl), is used from now on" in done.stdout
    expected = compiling.spikes("neuron")
    assert len(expected) == 124
    assert same(compiling.spikes("core"), expected)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who has installed the recipe's wheel with pip: one that is built now, or the one that NIGHTLY names."""
    folder = tmp_path_factory.mktemp("ringnet")
    wheel = _built(folder) if os.environ[NIGHTLY] == "1" else Path(os.environ[NIGHTLY]).absolute()
    return User(builds.environment(folder / "env", wheel, f"neuron=={VERSION}"), folder / "user", wheel)


def _built(folder: Path) -> Path:
    builds.build(RECIPE, "-o", folder / "dist", cache=folder / "cache")
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


@nightly
@pytest.mark.toolkit
def test_fallback_user_build_and_neuron_itself_give_the_same_spikes(installed, tmp_path):
    shown = installed.explain()
    assert "used     shipped     default-mechanisms, made by nrnivmodl and g++ " in shown
    expected = installed.spikes("neuron")
    assert len(expected) == 124
    assert same(installed.spikes("core"), expected)

    done = installed.compile()
    assert (done.returncode, done.stderr) == (0, "")
    assert "used     user build" in installed.explain()
    assert same(installed.spikes("core"), expected)
    libraries = installed.run("-c", RING + LOADED, "core").stdout.splitlines()[1:]
    names = sorted(Path(name).name for name in libraries)
    assert names == ["libgomp.so.1.0.0", "libmechanisms.so", "libnrnmech.so"], "one of each, and no fallback"

    (tmp_path / "mine.mod").write_text(OWN)
    added = installed.compile(tmp_path / "mine.mod")
    assert added.returncode == 0, added.stderr
    assert same(installed.spikes("core"), expected)
    (tmp_path / "broken.mod").write_text("NEURON { SUFFIX broken")
    broken = installed.compile(tmp_path / "broken.mod")
    assert broken.returncode == 1
    assert "in use: user build" in broken.stderr
    assert same(installed.spikes("core"), expected)

    removed = installed.compile("--remove")
    assert "your build was removed; in use: the shipped library, default-mechanisms" in removed.stdout
    assert installed.explain() == shown
    assert same(installed.spikes("core"), expected)


@nightly
@pytest.mark.toolkit
def test_the_fallback_serves_other_patch_releases_of_neuron(installed, tmp_path):
    """What `packages = { neuron = "major.minor" }` promises, with the oldest release that the wheel allows."""
    oldest = User(builds.environment(tmp_path / "env", installed.wheel, "neuron==9.0.0"), tmp_path / "user")
    expected = installed.spikes("neuron")
    assert same(oldest.spikes("neuron"), expected)
    assert same(oldest.spikes("core"), expected)
