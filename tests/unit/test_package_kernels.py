import hashlib
import json
import shutil
from pathlib import Path

import pytest
from audit_samples import elf
from document_samples import TOOLCHAIN
from kernel_samples import CUBIN_13_0, PTX, SOURCE, fatbin, image, run, run_fallback

from gpuforge.actions import entry, kernel_index, value_file
from gpuforge.actions.kernel_index import IndexLibraries
from gpuforge.cuda.kernels import Kernel, KernelImage
from gpuforge.errors import ActionError, UsageError
from gpuforge.package import embed, kernel_set
from gpuforge.package.contents import (
    CompiledBy,
    CompiledLibrary,
    CompiledModule,
    LibrarySet,
    ModuleSet,
    SourceSet,
)
from gpuforge.plan.action import Workdir
from gpuforge.runtime import document
from gpuforge.runtime.arch import Arch
from gpuforge.runtime.cpu import CpuLevel
from gpuforge.wheel.filename import LockedWheels

SAXPY = b"__global__ void saxpy() {}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "saxpy.cu").write_bytes(SAXPY)
    (tmp_path / "kernels" / "size.h").write_text("#define N 1\n")
    return tmp_path


def test_the_index_lists_the_images_in_the_fatbin(project):
    content = fatbin(image(2, 80), image(2, 90), image(1, 120, 9, 0), image(8, 90))
    out = run_fallback(project, content)
    folder = out / "kernels" / "default-kernels"
    assert json.loads((folder / "index.json").read_text()) == {
        "schema": 1,
        "name": "default-kernels",
        "kind": "module",
        "toolchain": {"family": "nvcc", "version": "13.0.88"},
        "toolkit": "13.0",
        "modules": [
            {
                "name": "saxpy",
                "source": "kernels/saxpy.cu",
                "digest": hashlib.sha256(SAXPY).hexdigest(),
                "file": "saxpy.fatbin",
                "sha256": hashlib.sha256(content).hexdigest(),
                "images": [
                    {"kind": "cubin", "arch": "sm_80"},
                    {"kind": "cubin", "arch": "sm_90"},
                    {"kind": "ptx", "arch": "compute_120", "isa": "9.0"},
                ],
                "kernels": [
                    {
                        "symbol": "_ZN2ns5scaleIfEEvPKT_mPS1_",
                        "name": "ns::scale<float>",
                        "parameters": [
                            {"type": "const float *", "size": 8},
                            {"type": "unsigned long", "size": 8},
                            {"type": "float *", "size": 8},
                        ],
                    },
                    {
                        "symbol": "plain",
                        "name": "plain",
                        "parameters": [{"type": "", "size": 8}, {"type": "", "size": 4}],
                    },
                ],
            }
        ],
    }
    assert (folder / "saxpy.fatbin").read_bytes() == content
    assert str(project) not in (folder / "index.json").read_text()


@pytest.mark.parametrize(
    ("source", "types"),
    [
        (SOURCE, ["float *", "int"]),
        ('extern "C" __global__ void plain(const float *x, real n) {}', ["const float *", ""]),
        ('extern "C" __global__ void plain(float *x, double n) {}', ["", ""]),  # compiled from something else
        ('extern "C" __global__ void plain(float *x) {}', ["", ""]),
        ("#if WIDE\nvoid plain(float *x, int n);\n#else\nvoid plain(double *x, int n);\n#endif", ["", ""]),
        ("KERNEL(plain)", ["", ""]),
    ],
)
def test_a_kernel_with_c_linkage_has_the_types_of_its_declaration(project, source, types):
    (project / "kernels" / "saxpy.cu").write_text(source)
    index = json.loads(
        (run_fallback(project, fatbin(image(2, 80))) / "kernels/default-kernels/index.json").read_text()
    )
    (_, plain) = index["modules"][0]["kernels"]
    assert plain["parameters"] == [{"type": types[0], "size": 8}, {"type": types[1], "size": 4}]


OTHER = PTX.replace(b".param .u32 plain_param_1", b".param .u64 plain_param_1")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        *(
            (content, r"what was compiled from kernels/saxpy\.cu is not an intact fatbin\n")
            for content in (b"", b"not one", fatbin(image(2, 80))[:-8])
        ),
        (fatbin(image(8, 90)), r"saxpy\.fatbin, compiled from kernels/saxpy\.cu, holds no GPU image\n"),
        (
            fatbin(image(1, 90, 8, 4, b".version 8.4\n.target sm_90\n")),
            r"kernels/saxpy\.cu: this module has no kernel\n  hint: declare its kernels __global__, and",
        ),
        (
            fatbin(image(2, 90), image(1, 90, 8, 4), image(1, 100, 8, 4, OTHER)),
            r"kernels/saxpy\.cu: cubin sm_90 and PTX compute_100 have different kernels: plain\n  hint: declare",
        ),
        (
            fatbin(image(2, 90, code=CUBIN_13_0[:-200])),
            r"kernels/saxpy\.cu: its kernels cannot be read from what the compiler made",
        ),
    ],
)
def test_a_fatbin_without_kernels_to_list_is_refused(project, content, problem):
    with pytest.raises(ActionError, match=f"^{problem}"):
        run_fallback(project, content)


def test_an_index_that_no_reader_takes_is_refused(project, monkeypatch):
    monkeypatch.setattr(document, "LARGEST", 1000)
    with pytest.raises(
        ActionError, match=r"^default-kernels/index\.json has \d+ bytes, and its readers take 1000"
    ):
        run_fallback(project, fatbin(image(2, 80)))


def test_two_sources_of_one_name_are_refused(project):
    (project / "saxpy.cu").write_bytes(SAXPY)
    with pytest.raises(ActionError, match="has two sources that give a module 'saxpy'"):
        run_fallback(project, fatbin(image(2, 80)), ("kernels/saxpy.cu", "saxpy.cu"))


def recipe(*argv: str) -> dict[str, object]:
    return TOOLCHAIN | {
        "family": "g++",
        "version": ">=11",
        "argv": list(argv),
        "accepts": [[">=", [11]]],
        "programs": "g\\+\\+",
        "answers": "(?P<version>.*)",
        "places": ["/opt/rh/*/bin"],
    }


def user_compiled(project: Path, *argv: str) -> Path:
    return run(
        "GatherSources",
        project,
        kind="library",
        archs=["80"],
        sources=["kernels/saxpy.cu"],
        includes=["kernels/size.h"],
        toolchains=[recipe(*argv)],
        abi="1-abc",
        fallbacks=["shipped", "plain"],
    )


def test_sources_are_laid_out_with_their_recipe(project):
    out = user_compiled(project, "{compiler}", "-O2", "{sources}", "-o", "{output}")
    folder = out / "sources" / "default-kernels"
    header = hashlib.sha256(b"#define N 1\n").hexdigest()
    assert json.loads((folder / "recipe.json").read_text()) == {
        "schema": 1,
        "name": "default-kernels",
        "kind": "library",
        "abi": "1-abc",
        "fallbacks": ["shipped", "plain"],
        "cpu": "",
        "sources": [{"file": "kernels/saxpy.cu", "sha256": hashlib.sha256(SAXPY).hexdigest()}],
        "includes": [{"file": "kernels/size.h", "sha256": header}],
        "toolchains": [recipe("{compiler}", "-O2", "{sources}", "-o", "{output}")],
        "toolkit": "13.0",
        "archs": ["80"],
    }
    assert (folder / "kernels" / "saxpy.cu").read_bytes() == SAXPY
    assert (folder / "kernels" / "size.h").is_file()


def test_a_library_is_measured_again_after_the_wheel_was_repaired(project):
    (project / "built").write_bytes(b"a library")
    made = {"family": "g++", "version": "12.2.0"}
    out = run(
        "IndexLibraries",
        project,
        toolchain=made,
        files={"libraries": [{"path": str(project / "built"), "images": [["library", [""], ""]]}]},
        fallbacks=["plain"],
        abi="1-abc",
        stands_in_for="own",
    )
    folder = out / "kernels" / "default-kernels"
    assert json.loads((folder / "index.json").read_text()) == {
        "schema": 1,
        "name": "default-kernels",
        "kind": "library",
        "toolchain": made,
        "toolkit": "13.0",
        "abi": "1-abc",
        "stands-in-for": "own",
        "fallbacks": ["plain"],
        "libraries": [
            {
                "file": "libdefault-kernels.so",
                "sha256": hashlib.sha256(b"a library").hexdigest(),
                "size": 9,
                "images": [{"kind": "library", "arch": ""}],
            }
        ],
    }
    tree = project / "tree"
    (tree / "pkg").mkdir(parents=True)
    embed.kernel_sets(tree, "pkg", [out])
    placed = tree / "pkg" / "_gpuforge" / "kernels" / "default-kernels"
    (placed / "libdefault-kernels.so").write_bytes(b"repaired")
    kernel_set.measure_again(tree, "pkg")
    assert json.loads((placed / "index.json").read_text())["libraries"] == [
        {
            "file": "libdefault-kernels.so",
            "sha256": hashlib.sha256(b"repaired").hexdigest(),
            "size": 8,
            "images": [{"kind": "library", "arch": ""}],
        }
    ]


def index_libraries_for(project: Path, *requested: KernelImage, has: bytes) -> Path:
    (project / "built").write_bytes(has)
    made = LibrarySet(
        name="default-kernels",
        toolkit="",
        toolchain=CompiledBy("halide", "21.0.0"),
        abi="1-abc",
    )
    files = tuple(CompiledLibrary(project / "built", (image,)) for image in requested)
    step = IndexLibraries(sources=project, libraries=files, made=made)
    entry.load(step.program(), step.text()).run(Workdir(project, project / "out"))
    return project / "out" / "kernels"


def test_two_libraries_for_one_target_are_refused(project):
    level = KernelImage("library", CpuLevel("x86-64-v3"))
    with pytest.raises(ActionError) as raised:
        index_libraries_for(project, level, level, has=b"a library")
    assert str(raised.value).splitlines()[0] == "object 'default-kernels' has two libraries for x86-64-v3"


def test_a_library_with_code_for_another_gpu_than_the_requested_one_is_refused(project):
    code = b"\0\n.version 7.6\n.target sm_50\n.address_size 64\n.visible .entry f() { ret; }" + b"\n" * 120
    (out,) = index_libraries_for(project, KernelImage("ptx", Arch(5, 0)), has=code).rglob("index.json")
    assert json.loads(out.read_text())["libraries"][0]["images"] == [
        {"kind": "ptx", "arch": "compute_50", "isa": "7.6"}
    ]
    shutil.rmtree(project / "out")
    with pytest.raises(ActionError) as raised:
        index_libraries_for(project, KernelImage("ptx", Arch(8, 0)), has=code)
    assert str(raised.value).splitlines()[0] == (
        "a library of object 'default-kernels' was compiled for compute_80 and has GPU code for compute_50"
    )


@pytest.mark.parametrize(
    "word",
    [
        *(
            "/usr/bin/x",
            "-I/build/include",
            "--root=/build",
            "-Wl,-rpath,/build",
            "-L~/x",
            "-Wl,-rpath:/build",
        ),
        "-DURL=file:///build",
    ],
)
def test_a_recipe_must_not_name_the_build_machines_paths(project, word):
    with pytest.raises(ActionError, match=f"names a path of the build machine: {word}\n"):
        user_compiled(project, "{compiler}", word, "{sources}", "-o", "{output}")


@pytest.mark.parametrize(
    "word", ["-I{include}", "kernels/x.h", "-std=c++17", "-D=x", "-gpu=cc{arch}", "-DURL=http://x"]
)
def test_other_flags_may_stand_in_a_recipe(project, word):
    out = user_compiled(project, "{compiler}", word, "{sources}", "-o", "{output}")
    (shipped,) = out.rglob("recipe.json")
    assert word in json.loads(shipped.read_text())["toolchains"][0]["argv"]


def test_a_recipe_needs_its_placeholders(project):
    with pytest.raises(ActionError, match=r"for host has no \{sources\} and no \{output\}\n"):
        user_compiled(project, "{compiler}")


def test_a_wrong_request_is_a_usage_error_with_every_mistake():
    gathered = {"name": "x", "kind": "other", "sources": [], "abi": "", "more": 1}
    spec = {"gathered": gathered, "extra": 1, "sources": "."}
    with pytest.raises(UsageError) as caught:
        entry.load("kernel_index.GatherSources", json.dumps(spec))
    assert str(caught.value).splitlines() == [
        "request: gathered.toolkit: Field required",
        "request: gathered.kind: Input should be 'library' or 'module'",
        "request: gathered.more: Unexpected keyword argument",
        "request: extra: Unexpected keyword argument",
    ]


def test_kernels_and_runtime_go_into_the_import_package(project):
    packed = run_fallback(project, fatbin(image(2, 80)))
    tree = project / "tree"
    (tree / "demo-1.data" / "platlib" / "demo" / "gpu").mkdir(parents=True)
    added = embed.kernel_sets(tree, "demo.gpu", [packed])
    home = "demo-1.data/platlib/demo/gpu/_gpuforge"
    assert f"{home}/__init__.py" in added
    assert [name for name in added if not name.endswith(".py")] == [
        f"{home}/kernels/default-kernels/index.json",
        f"{home}/kernels/default-kernels/saxpy.fatbin",
    ]
    with pytest.raises(ActionError, match=f"the wheel has a folder {home} already"):
        embed.kernel_sets(tree, "demo.gpu", [packed])


def test_a_wheel_without_the_import_package_is_an_error_that_names_its_import_packages(project):
    tree = project / "tree"
    (tree / "demo").mkdir(parents=True)
    (tree / "demo-1.dist-info").mkdir()
    with pytest.raises(ActionError) as caught:
        embed.kernel_sets(tree, "other", [])
    assert str(caught.value) == (
        "the wheel has no package 'other' to put the kernels in\n  hint: it has demo: set [package] import"
    )


def test_a_compiler_of_a_package_with_an_extra_has_the_version_of_the_lock(tmp_path):
    lock = tmp_path / "lock.json"
    wheels = {"numpy-2.0-py3-none-any.whl": "00", "my_compiler-1.2-py3-none-any.whl": "11"}
    value_file.write(LockedWheels(("My.Compiler[gpu]>=1",), wheels), lock)
    step = kernel_index.IndexingStep(sources=tmp_path, lock=lock, requires="My.Compiler[gpu]")
    assert step.named(CompiledBy("mine")) == CompiledBy("mine", "1.2")


KERNELS = (
    Kernel("_Z5scalePf", "scale", ()),
    Kernel("plain", "plain", ()),
    Kernel("_ZN2ns4heatEv", "ns::heat", ()),
)


def packed(folder: Path, *functions: str, by_recipe: bool = False, other: str = "") -> list[Path]:
    (folder / "k.cu").write_text("")
    (folder / "cpu.so").write_bytes(elf(defined=functions))
    sets = folder / "packed"
    cpu = "" if by_recipe else other or "ops-cpu"
    made = ModuleSet(name="ops", toolkit="13.0", toolchain=CompiledBy("nvcc", "13.0"), cpu=cpu)
    module = CompiledModule("k.cu", folder / "k.cu", (KernelImage.parse("cubin", "80"),), kernels=KERNELS)
    kernel_set.pack_modules(sets, made, [module], folder)
    of_cpu = LibrarySet(name="ops-cpu", toolkit="", toolchain=CompiledBy("g++", "12"), abi="")
    library = CompiledLibrary(folder / "cpu.so", (KernelImage("library", CpuLevel()),))
    kernel_set.pack_libraries(sets, of_cpu, [library])
    if by_recipe:
        kernel_set.pack_sources(
            sets, SourceSet(name="own", toolkit="13.0", sources=("k.cu",), kind="module",
                            fallbacks=("ops",), cpu="ops-cpu"), folder,
        )  # fmt: skip
    return [sets]


@pytest.mark.parametrize(
    ("text", "own", "includes"),
    [
        ("", (), []),
        ('#include "gpuforge_errors.h"\n', (), ["gpuforge_errors.h"]),
        ('#include "gpuforge_errors.h"\n', ("mod/gpuforge_errors.h",), ["mod/gpuforge_errors.h"]),
    ],
)
def test_sources_have_the_header_for_errors_if_they_include_it_and_the_project_has_none(
    tmp_path, text, own, includes
):
    (tmp_path / "mod").mkdir()
    for name, content in {"k.cu": text, **dict.fromkeys(own, "// the project's\n")}.items():
        (tmp_path / name).write_text(content)
    gathered = SourceSet(name="own", toolkit="13.0", sources=("k.cu",), includes=own, kind="module")
    made = kernel_set.pack_sources(tmp_path / "sets", gathered, tmp_path)
    assert [each["file"] for each in json.loads((made / "recipe.json").read_text())["includes"]] == includes
    assert all((made / name).read_text() == "// the project's\n" for name in own)
    assert sorted(path.relative_to(made).as_posix() for path in made.rglob("*.h")) == includes


@pytest.mark.parametrize("by_recipe", [False, True])
def test_a_function_has_the_symbol_or_the_name_of_its_kernel(tmp_path, by_recipe):
    functions = ("scale", "plain", "_ZN2ns4heatEv", "gpuforge_abi_id", "helper")
    embed.check_cpu_functions(packed(tmp_path, *functions, by_recipe=by_recipe))


@pytest.mark.parametrize("by_recipe", [False, True])
def test_kernels_without_a_function_are_named(tmp_path, by_recipe):
    with pytest.raises(ActionError) as error:
        embed.check_cpu_functions(packed(tmp_path, "_Z5scalePd", "plain", by_recipe=by_recipe))
    assert str(error.value) == (
        "libops-cpu.so does the work of kernel set 'ops' on the CPU, and has no function ns::heat, scale\n"
        '  hint: define one for each kernel, as extern "C" or with the parameters of the kernel'
    )


def test_a_library_of_another_set_is_not_compared(tmp_path):
    embed.check_cpu_functions(packed(tmp_path, "helper", other="others-cpu"))
