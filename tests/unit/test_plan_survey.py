"""What this machine lacks leaves cells out; what the user asked for by name and is missing is an error."""

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpuforge.cli.planning import reason_text
from gpuforge.errors import GpuforgeError, MissingError, UsageError
from gpuforge.plan import site, survey
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.site import host_compiler, host_compilers
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits import compilers
from gpuforge.toolkits.compilers import FetchedCompiler

OFFERED = compilers.offered


def install(monkeypatch: pytest.MonkeyPatch, *compilers: Compiler) -> None:
    """Put compilers on the machine, the one with the plain name first."""

    def detect(family: str, *, path: str | None = None, specifier: str | None = None) -> Compiler:
        for found in compilers:
            if found.family == family and found.version in SpecifierSet(specifier or ""):
                return found
        raise MissingError.of(f"no usable {family} {specifier or ''}".strip())

    monkeypatch.setattr(site, "detect", detect)


def compiler(family: str, version: str, path: str) -> Compiler:
    return Compiler(family, Path(path), Version(version), f"{family} {version}", None)


def offers(monkeypatch: pytest.MonkeyPatch, *, lacking: tuple[str, ...] = ()) -> None:
    """Let compilers be fetched to a machine that lacks these things."""

    def offered(family: str, specifier: str, machine: str) -> compilers.Offer | None:
        offer = OFFERED(family, specifier, "x86_64")
        return offer and compilers.Offer(offer.compiler, lacking)

    monkeypatch.setattr(compilers, "offered", offered)


@pytest.fixture(autouse=True)
def _a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with g++ 12, and no other, Python 3.11 and no CUDA installation."""

    def find(minor: str, *, or_newer: bool = False) -> Interpreter:
        if minor != "3.11":
            raise MissingError.of(f"no CPython {minor} on this machine")
        return Interpreter(Path("/python3.11"), "3.11.9", "cpython-311", headers=True)

    gxx = Compiler("g++", Path("/g++"), Version("12.2"), "g++ 12.2", None)
    install(monkeypatch, gxx)
    monkeypatch.setattr(site.cpython, "find", find)
    offers(monkeypatch, lacking=("/usr/lib/x86_64-linux-gnu/crt1.o",))
    monkeypatch.setattr("gpuforge.toolkits.providers.system.installed", lambda search=None: [])
    monkeypatch.setenv("PATH", "/nowhere")


def test_what_is_missing_is_left_out_with_the_reason(recipe):
    file = recipe(("[cuda.12]\n", '[cuda.12]\nprovider = "image"\n'))
    found, chosen = survey.resolve(file, select(file, "x86_64"))
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]
    assert set(found.locations[0].toolkits) == {"13"}
    reasons = {item.cell.id: reason_text(item.reason) for item in chosen.left_out}
    assert reasons["cp313-cu13.0-x86_64"] == "no CPython 3.13 on this machine"
    assert "a container image" in reasons["cp311-cu12.4-x86_64"]


def test_what_was_asked_for_and_is_missing_is_an_error(recipe):
    file = recipe()
    with pytest.raises(MissingError, match=r"no CPython 3\.13"):
        survey.resolve(
            file,
            select(file, "x86_64", Choice(cuda=["13"]))._replace(requested=frozenset(["cuda", "python"])),
        )
    _, chosen = survey.resolve(file, select(file, "x86_64", Choice(cuda=["13"])))
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]


def test_nothing_left_to_build_is_an_error(recipe):
    file = recipe(('python = ["3.11", "3.13"]', 'python = ["3.13"]'))
    with pytest.raises(MissingError, match=r"no CPython 3\.13"):
        survey.resolve(file, select(file, "x86_64", Choice(cuda=["13"], allow_missing=True)))


def test_impossible_architectures_are_refused_with_their_place(recipe):
    file = recipe(('archs = ["80", "90a"]', 'archs = ["80", "52"]'))
    with pytest.raises(UsageError) as caught:
        survey.resolve(file, select(file, "x86_64"))
    (problem,) = caught.value.diagnostics
    assert problem.place is not None
    assert file.path.read_text().splitlines()[problem.place.line - 1] == 'archs = ["80", "52"]'
    assert "52" in problem.message
    assert problem.hint


def test_a_host_compiler_that_does_not_fit_is_an_error_only_when_asked(recipe):
    file = recipe(
        (
            '[cuda.12]\ntoolkit = "12.4"\narchs = ["80", "90+ptx"]',
            '[cuda.11]\ntoolkit = "11.8"\narchs = ["80"]',
        )
    )
    _, chosen = survey.resolve(file, select(file, "x86_64"))
    assert [cell.id for cell in chosen.cells] == ["cp311-cu13.0-x86_64"]
    with pytest.raises(UsageError, match=r"CUDA 11\.8 takes g\+\+ 6 to 11 as host compiler, not 12\.2"):
        survey.resolve(file, select(file, "x86_64", Choice(cuda=["11"])))


CUDA_11 = (
    '[cuda.12]\ntoolkit = "12.4"\narchs = ["80", "90+ptx"]',
    '[cuda.11]\ntoolkit = "11.8"\narchs = ["80"]',
)
HOST = '[toolchains.host]\ncompiler = "g++"'


def test_each_toolkit_gets_a_host_compiler_that_it_takes(recipe, monkeypatch):
    install(monkeypatch, compiler("g++", "12.2", "/g++"), compiler("g++", "11.3", "/g++-11"))
    file = recipe(CUDA_11)
    found, chosen = survey.resolve(
        file, select(file, "x86_64", Choice(python=["3.11"]))._replace(requested=frozenset(["cuda"]))
    )
    assert [cell.cuda for cell in chosen.cells] == ["11", "13"]
    assert {cuda: str(host.path) for cuda, host in found.locations[0].hosts.items()} == {
        "11": "/g++-11",
        "13": "/g++",
    }


def test_a_compiler_that_no_toolkit_takes_is_fetched_beside_it(recipe, monkeypatch):
    offers(monkeypatch)
    file = recipe(CUDA_11)
    found, chosen = survey.resolve(
        file, select(file, "x86_64", Choice(python=["3.11"]))._replace(requested=frozenset(["cuda"]))
    )
    assert [cell.cuda for cell in chosen.cells] == ["11", "13"]
    (here,) = found.locations
    fetched = here.hosts["11"]
    assert isinstance(fetched, FetchedCompiler)
    assert (fetched.package, str(fetched.version)) == ("g++-11 11.3.0-12", "11.3.0")
    assert (str(here.hosts["13"].path), here.usual) == ("/g++", here.hosts["13"])


def test_a_compiler_that_the_manifest_asks_for_is_fetched_for_the_host_build(recipe, monkeypatch):
    offers(monkeypatch)
    file = recipe((HOST, HOST + '\nversion = ">=11,<12"'))
    found, _ = survey.resolve(file, select(file, "x86_64", Choice(python=["3.11"], allow_missing=True)))
    (here,) = found.locations
    assert isinstance(here.usual, FetchedCompiler)
    assert here.hosts == {"12": here.usual, "13": here.usual}


def test_an_installed_compiler_and_one_named_by_its_path_are_never_replaced(recipe, monkeypatch):
    offers(monkeypatch)
    file = recipe(CUDA_11, (HOST, HOST + '\npath = "/g++"'))
    with pytest.raises(UsageError, match=r"CUDA 11\.8 takes g\+\+ 6 to 11 as host compiler, not 12\.2"):
        survey.resolve(file, select(file, "x86_64", Choice(cuda=["11"])))
    install(monkeypatch, compiler("g++", "12.2", "/g++"), compiler("g++", "10.2", "/g++-10"))
    file = recipe(CUDA_11)
    found, _ = survey.resolve(
        file,
        select(file, "x86_64", Choice(cuda=["11"], python=["3.11"]))._replace(requested=frozenset(["cuda"])),
    )
    assert str(found.locations[0].hosts["11"].path) == "/g++-10"


@pytest.mark.parametrize("version", ["", '\nversion = ">=11,<12"'])
def test_a_machine_that_a_compiler_cannot_be_fetched_to_is_told_how_to_install_it(recipe, version):
    file = recipe(CUDA_11, (HOST, HOST + version))
    with pytest.raises(GpuforgeError) as caught:
        survey.resolve(file, select(file, "x86_64", Choice(cuda=["11"])))
    (problem,) = caught.value.diagnostics
    assert problem.hint == (
        "gpuforge fetches g++ 11.3.0 for Debian and Ubuntu with a g++ of their own; this machine lacks "
        "/usr/lib/x86_64-linux-gnu/crt1.o. Install one: apt-get install g++-11, or dnf install gcc-toolset-11-gcc-c++"
    )


@pytest.mark.parametrize("allowed", [">=12", ">=9,!=11.3"])
def test_the_version_range_of_the_manifest_holds_for_every_toolkit(recipe, monkeypatch, allowed):
    install(monkeypatch, compiler("g++", "12.2", "/g++"), compiler("g++", "11.3", "/g++-11"))
    file = recipe(CUDA_11, (HOST, HOST + f'\nversion = "{allowed}"'))
    with pytest.raises(UsageError, match=r"CUDA 11\.8 takes g\+\+ 6 to 11 as host compiler, not 12\.2"):
        survey.resolve(file, select(file, "x86_64", Choice(cuda=["11"])))


def test_a_declared_family_is_kept_and_an_undeclared_one_may_change(recipe, monkeypatch):
    install(monkeypatch, compiler("g++", "12.2", "/g++"), compiler("clang++", "14.0", "/clang++"))
    file = recipe(CUDA_11)
    with pytest.raises(UsageError, match="as host compiler"):
        survey.resolve(file, select(file, "x86_64", Choice(cuda=["11"])))
    undeclared = recipe(CUDA_11, (HOST, ""), ('toolchains = ["host"]', 'toolchains = ["device"]'))
    usual = host_compiler(undeclared, site.ThisMachine())
    found = host_compilers(undeclared, ["11"], site.ThisMachine(), usual)
    assert (usual.family, found["11"].family) == ("g++", "clang++")


def test_an_unknown_library_is_reported_where_it_is_written(recipe):
    file = recipe(('libraries = ["cufft"]', 'libraries = ["cuffft"]'))
    with pytest.raises(UsageError, match="has no library 'cuffft'") as caught:
        survey.resolve(file, select(file, "x86_64"))
    assert {problem.place for problem in caught.value.diagnostics} == {file.place("cuda", "libraries")}
