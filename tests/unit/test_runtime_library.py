"""Which kernel library a package uses, and that one of another ABI is never loaded."""

import json
from pathlib import Path

import pytest
from audit_samples import DT
from audit_samples import elf as elf_file
from library_samples import RUNTIME, answer, compile_library, environment, install, printed, run, toolchain

from gpuforge.runtime import elf
from gpuforge.runtime.builds import BuildsFolder, UserBuild
from gpuforge.runtime.kernellibrary import KernelLibrary

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("package") / "site"
    install(site, toolchain("host", "g++"))
    return site


def source(folder: Path, text: str) -> Path:
    file = folder / "source.cpp"
    file.write_text(text)
    return file


def test_without_a_build_the_shipped_library_is_used(packages):
    library = KernelLibrary(
        "answers", home=packages / "demo/_gpuforge", package="demo", env=environment(packages)
    )
    assert library.explain() == (
        "kernel library answers\n"
        "  used     shipped     default-answers, made by g++ 12.2.0\n"
        "  refused  user build  nothing was compiled yet: python -m demo._gpuforge compile"
    )
    assert library.load().answer() == 7
    assert library.load() is library.load()


def test_a_path_in_the_environment_comes_first(packages, tmp_path):
    own = compile_library(tmp_path / "own.so", source(tmp_path, 'extern "C" int answer() { return 1; }'))
    assert answer(packages, GPUFORGE_KERNELS_DEMO_ANSWERS=str(own)) == 1


def test_a_bare_name_in_the_environment_is_a_file_here_and_not_one_of_the_systems(packages, tmp_path):
    """The loader takes a name without a slash for a library of the system: one that nothing has checked."""
    compile_library(tmp_path / "libm.so.6", source(tmp_path, 'extern "C" int answer() { return 1; }'))
    program = (
        "import os, sys; sys.path.insert(0, os.getcwd()); from demo._gpuforge import KernelLibrary as K; "
        f"os.chdir({str(tmp_path)!r}); print(K.shipped('answers').load().answer())"
    )
    assert printed(packages, program, GPUFORGE_KERNELS_DEMO_ANSWERS="libm.so.6") == "1\n"


def test_a_library_that_the_loader_refuses_is_refused_in_explain_too(packages, tmp_path):
    """As one whose runtimes were left to the user's machine, where they are not."""
    text = 'int gone(); extern "C" int answer() { return gone(); }'
    own = compile_library(tmp_path / "own.so", source(tmp_path, text))
    variable = {"GPUFORGE_KERNELS_DEMO_ANSWERS": str(own)}
    shown = run(packages, "explain", **variable).stdout
    assert "used     shipped" in shown
    assert f"cannot be loaded: {own}: undefined symbol: _Z4gonev" in shown
    library = KernelLibrary(
        "answers", home=packages / "demo/_gpuforge", package="demo", env=environment(packages, **variable)
    )
    assert "used     environment" in library.explain(), "nothing was opened yet"
    with pytest.warns(RuntimeWarning, match="_Z4gonev"):
        assert library.load().answer() == 7
    assert "used     shipped" in library.explain()


def test_a_build_that_is_replaced_while_it_is_looked_at_gives_way_to_the_new_one(tmp_path, monkeypatch):
    home = install(tmp_path / "site", toolchain("host", "g++"))
    library = KernelLibrary("answers", home=home, package="demo", env=environment(tmp_path / "site"))
    assert run(tmp_path / "site", "compile").returncode == 0
    looked = []

    def look(place: BuildsFolder, build: UserBuild) -> object:
        looked.append(build)
        if len(looked) == 1:
            assert run(tmp_path / "site", "compile").returncode == 0
        return changed(place, build)

    changed = BuildsFolder.changed
    monkeypatch.setattr(BuildsFolder, "changed", look)
    assert library.load().answer() == 42


def test_a_library_of_another_abi_is_not_even_opened(packages, tmp_path):
    """What it runs when it is loaded would show that it was."""
    shout = '#include <cstdio>\nstruct Shout { Shout() { std::puts("LOADED"); } } shout;\n'
    text = shout + 'extern "C" int answer() { return 1; }'
    other = compile_library(tmp_path / "other.so", source(tmp_path, text), abi="2-def")
    program = (
        "from demo._gpuforge import KernelLibrary; l = KernelLibrary.shipped('answers'); "
        "print(l.load().answer(), l.explain())"
    )
    text = printed(packages, program, GPUFORGE_KERNELS_DEMO_ANSWERS=str(other))
    assert "LOADED" not in text
    assert text.startswith("7 ")
    assert f"{other}: was compiled for the ABI 2-def, and this package has 1-abc" in text


@pytest.mark.parametrize(
    "flags", [("-fvisibility=hidden",), ("-s",), ("-flto",), ("-Wl,-Bsymbolic", "-Wl,--gc-sections")]
)
def test_the_id_is_found_whatever_the_flags(tmp_path, flags):
    target = compile_library(tmp_path / "x.so", source(tmp_path, "int x;"), *flags)
    assert elf.read_string(target, "gpuforge_abi_id") == "1-abc"


def test_a_cut_or_changed_library_is_a_reason_and_nothing_else(tmp_path):
    whole = compile_library(tmp_path / "x.so", source(tmp_path, "int x;")).read_bytes()
    file = tmp_path / "broken.so"
    for position in range(0, len(whole), len(whole) // 200):
        for content in (whole[:position], whole[:position] + b"\xff" * 8 + whole[position + 8 :]):
            file.write_bytes(content)
            for read in (
                elf.read_dynamic,
                elf.imports,
                lambda path: elf.read_string(path, "gpuforge_abi_id"),
            ):
                try:
                    read(file)
                except elf.NotReadable as error:
                    assert str(error).startswith("it is ") or str(error).startswith("its ")  # noqa: PT017


def test_the_last_of_two_search_paths_counts_as_for_the_loader(tmp_path):
    file = tmp_path / "x.so"
    file.write_bytes(
        elf_file(strings=["$ORIGIN/first"], dynamic=[(DT["runpath"], 1)], runpath="$ORIGIN/last")
    )
    assert elf.read_dynamic(file).search == ("$ORIGIN/last",)


def test_an_object_that_the_wheel_has_not(packages):
    explained = KernelLibrary("no-such", home=packages / "demo/_gpuforge", package="demo", env={}).explain()
    assert explained == (
        "kernel library no-such: cannot be used\n  this wheel has no kernel library 'no-such'"
    )


def test_the_table_of_runtimes_is_the_packagers(tmp_path):
    import runpy

    script = runpy.run_path(str(RUNTIME.parents[1] / "scripts" / "copy_to_runtime.py"))
    assert (RUNTIME / "userbuild" / "families.py").read_text() == script["families"](), (
        "run: python scripts/copy_to_runtime.py"
    )


def test_the_command_line_says_what_there_is(packages):
    assert "compile " in run(packages, "--help").stdout
    shown = json.loads(run(packages, "explain", "--json").stdout)
    (library,) = shown["kernel_libraries"]
    assert (library["name"], [c["verdict"] for c in library["candidates"]]) == (
        "answers",
        ["used", "refused"],
    )
    assert shown["sets"] == []


def distribution(site: Path, name: str, number: str) -> None:
    """Install a distribution, in place of any other version of it."""
    info = site / f"{name}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")


def test_the_version_of_a_package_that_is_installed_is_part_of_the_abi(tmp_path):
    """As with NEURON: what was compiled beside one release is not opened beside another that has another ABI."""
    site = tmp_path / "site"
    install(site, toolchain("host", "g++"), packages={"simulator": "major.minor"}, versions="+simulator-9.0")
    absent = run(site, "explain").stdout
    assert absent.count("simulator is not installed here, and its version is part of the ABI") == 1
    compiling = run(site, "compile")
    assert (compiling.returncode, compiling.stderr) == (
        3,
        "error: answers: simulator is not installed here, and its version is part of the ABI: install it first\n",
    )
    for number in ("9.0", "9.0.2"):
        distribution(site, "simulator", number)
        assert answer(site) == 7
    distribution(site, "simulator", "9.1.0")
    file = site / "demo/_gpuforge/kernels/default-answers/libdefault-answers.so"
    assert (
        f"{file}: was compiled for the ABI 1-abc+simulator-9.0, and this package has 1-abc+simulator-9.1"
        in run(site, "explain").stdout
    )
    assert run(site, "compile").returncode == 0
    assert answer(site) == 42
    distribution(site, "simulator", "9.2.0")
    assert "was compiled for the ABI 1-abc+simulator-9.1" in run(site, "explain").stdout


def test_the_file_that_was_opened_is_named(packages):
    library = KernelLibrary(
        "answers", home=packages / "demo/_gpuforge", package="demo", env=environment(packages)
    )
    assert library.path() == str(packages / "demo/_gpuforge/kernels/default-answers/libdefault-answers.so")
