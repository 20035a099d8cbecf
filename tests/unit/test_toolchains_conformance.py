"""Each toolchain, gpuforge's own and a plug-in's: what it offers is sound, and both runtimes decide alike about it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance_cases import Case, explained, facts_file, library
from header_samples import compile_program
from plug_in_samples import install_plug_in

from gpuforge.cuda.kernels import KernelImage
from gpuforge.package import embed, kernel_set
from gpuforge.package.contents import (
    CompiledBy,
    CompiledLibrary,
    CompiledModule,
    LibrarySet,
    ModuleSet,
    SourceSet,
    UserToolchain,
)
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import Cpu
from gpuforge.runtime.driver import Device, Probe
from gpuforge.runtime.values import Reason
from gpuforge.toolchain_names import OWN
from gpuforge.toolchains import conformance, registry
from gpuforge.toolchains.toolchain import CompilerTarget, Toolchain
from gpuforge.toolchains.user_compilers import bounds

ABI = "1-abc"
V3 = "pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm fma movbe xsave avx f16c abm bmi1 avx2 bmi2"
MACHINES = {
    "no GPU": Probe(None, problem=Reason("no-usable-gpu"), cpu=Cpu("x86_64", frozenset({"pni"}))),
    "an old GPU": Probe((12, 4), (Device(0, "GTX 980", (5, 2)),), cpu=Cpu("x86_64", frozenset(V3.split()))),
    "a new GPU": Probe((13, 0), (Device(0, "H200", (9, 0)),), cpu=Cpu("x86_64", frozenset(V3.split()))),
}
NAMES = [*OWN, "plugged"]
# those that make kernels by commands of their own
MAKING = [n for n in OWN if (each := registry.toolchain(n)).library or each.module or each.packaged]
MAKING.append("plugged")


@pytest.fixture
def toolchain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Toolchain]:
    with install_plug_in(tmp_path / "plug-ins"):
        yield registry.toolchain(request.param)


@pytest.mark.parametrize("toolchain", NAMES, indirect=True)
def test_a_toolchain_is_sound(toolchain):
    assert list(conformance.problems(toolchain.name)) == []


def test_uses_without_the_parts_that_they_need_are_found(tmp_path):
    code = """
from gpuforge.toolchains.toolchain import Toolchain
TOOLCHAIN = Toolchain(name="plugged", compiles=(".cpp",), builtin=("host build", "fallback library"))
"""
    with install_plug_in(tmp_path, code=code):
        assert list(conformance.problems("plugged")) == [
            "builtin: it compiles the host build, and `program` does not say how it is found",
            "builtin: it compiles libraries of fallbacks, and has no `library`",
        ]


@pytest.mark.thorough
@pytest.mark.parametrize("toolchain", MAKING, indirect=True)
def test_what_it_makes_is_explained_on_every_machine(toolchain, tmp_path):
    for name, machine in MACHINES.items():
        case = lay_out(toolchain, tmp_path / name, machine)
        text, data = explained(case)
        assert "ops" in text
        assert '"problem": "damaged' not in data


@pytest.mark.thorough
@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_decides_alike(language, tmp_path):
    source = Path(__file__).with_name("explain_kernels.c")
    program = compile_program(tmp_path, source, f"-I{source.parent}", language=language)
    with install_plug_in(tmp_path / "plug-ins"):
        found = [registry.toolchain(name) for name in MAKING]
    for toolchain in found:
        if toolchain.packaged and toolchain.packaged.runs_with:  # a package of Python's that C does not have
            continue
        for name, machine in MACHINES.items():
            case = lay_out(toolchain, tmp_path / toolchain.name / name, machine)
            done = subprocess.run(
                [program, facts_file(case, case.root / "facts")], capture_output=True, check=True, text=True
            )
            assert (toolchain.name, name, *done.stdout.split("\0")[:2]) == (
                toolchain.name,
                name,
                *explained(case),
            )


def lay_out(toolchain: Toolchain, root: Path, machine: Probe) -> Case:
    """Lay out an installed package whose one object is by this toolchain."""
    work = root / "work"
    work.mkdir(parents=True)
    packed = [_recipe(toolchain, work)] if toolchain.library or toolchain.module else []
    if toolchain.packaged:
        packed.append(
            _modules(toolchain, work) if toolchain.packaged.makes == "module" else _libraries(toolchain, work)
        )
    site = root / "site"
    (site / "demo").mkdir(parents=True)
    (site / "demo" / "__init__.py").write_text("")
    embed.kernel_sets(site, "demo", packed)
    return Case(root, "demo", (), {"GPUFORGE_KERNEL_HOME": f"{root}/builds"}, machine)


def _recipe(toolchain: Toolchain, work: Path) -> Path:
    source = work / f"a{toolchain.compiles[0]}"
    source.write_text("int answer;\n")
    call = toolchain.module(["-flag"], "13.0") if toolchain.module else None
    if call is None and toolchain.library:
        call = toolchain.library([source.name], ["-flag"])
    assert call
    found = toolchain.program
    recipe = UserToolchain(
        name="theirs",
        family=toolchain.name,
        version=">=1",
        accepts=tuple((bound.operator, bound.numbers) for bound in bounds(">=1")),
        programs=found.programs.pattern if found else "",
        answers=found.answers if found else "",
        argv=call.argv,
        install=call.install,
        makes=call.makes,
        sources=(source.name,),
    )
    made = kernel_set.pack_sources(
        work / "packed",
        SourceSet(
            name="ops",
            sources=(source.name,),
            toolchains=(recipe,),
            toolkit="13.0",
            archs=("80",),
            abi="" if toolchain.module else ABI,
            kind="module" if toolchain.module else "library",
        ),
        work,
    )
    return made.parents[1]


def _modules(toolchain: Toolchain, work: Path) -> Path:
    assert toolchain.packaged
    made = []
    for target in toolchain.packaged.targets([], "x86_64"):
        file = work / target.name
        file.write_text(f"for {target.name}")
        image = KernelImage(
            target.kind, target.built_for, "7.6" if isinstance(target.built_for, Arch) else ""
        )
        made.append(CompiledModule("a.x", file, (image,), target.name, toolchain.packaged.suffix))
    (work / "a.x").write_text("")
    packed = kernel_set.pack_modules(
        work / "packed",
        ModuleSet(
            name="ops",
            toolchain=CompiledBy(toolchain.name, "1.0"),
            toolkit="13.0",
            install=toolchain.packaged.runs_with,
        ),
        made,
        work,
    )
    return packed.parents[1]


def _libraries(toolchain: Toolchain, work: Path) -> Path:
    assert toolchain.packaged
    made = []
    for target in toolchain.packaged.targets([], "x86_64"):
        file = work / target.name
        file.write_bytes(library(ABI))
        made.append(CompiledLibrary(file, (_image(target),)))
    packed = kernel_set.pack_libraries(
        work / "packed",
        LibrarySet(
            name="default-ops",
            toolchain=CompiledBy(toolchain.name, "1.0"),
            toolkit="",
            abi=ABI,
        ),
        made,
    )
    return packed.parents[1]


def _image(target: CompilerTarget) -> KernelImage:
    return KernelImage(target.kind, target.built_for, "4.0" if target.kind == "ptx" else "")
