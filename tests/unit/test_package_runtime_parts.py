"""A wheel gets the parts of the runtime that it needs; everything in it works without the others."""

import ast
import hashlib
import json
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import library_samples
import pytest
import set_samples
from runtime_samples import built_stub, write_set

from gpuforge.package import c_header, embed, kernels_wheel
from gpuforge.package.contents import FOLDER, KernelsWheel, KernelsWheelSet
from gpuforge.runtime import HOMES

__all__ = ["built_stub"]
IREE = {"kind": "iree-cpu", "arch": "x86-64-v2"}
APART = KernelsWheelSet("default-kernels", "module", "1")


def of_cuda(site: Path) -> None:
    embed_sets(site, write_set(site.parent / "packed" / "kernels" / "default-kernels"))


def of_machine_code(site: Path) -> None:
    images = [{"kind": "cubin", "arch": "sm_90"}]
    embed_sets(site, write_set(site.parent / "packed" / "kernels" / "default-kernels", **of_images(images)))


def of_iree(site: Path) -> None:
    embed_sets(site, write_set(site.parent / "packed" / "kernels" / "default-kernels", **of_images([IREE])))


def of_kernels_wheels(site: Path) -> None:
    info = site / "demo-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1\n\n")
    (site / "demo").mkdir()
    embed.kernel_sets(site, "demo", [], apart=[APART])
    kernels_wheel.list_wheels(site, "demo", [KernelsWheel("demo-cu13", "demo_cu13", "cuda13")], [APART])


def of_a_library(site: Path) -> None:
    library_samples.install(site, library_samples.toolchain("host", "g++"))
    shutil.rmtree(site / "demo" / "_gpuforge" / "sources")
    kernels = site / "demo" / "_gpuforge" / "kernels"
    shutil.move(kernels, site.parent / "packed" / "kernels")
    shutil.rmtree(site)
    embed_sets(site, site.parent / "packed" / "kernels" / "default-answers")


def of_users_libraries(site: Path) -> None:
    library_samples.install(site, library_samples.toolchain("host", "g++"))


def of_nvrtc(site: Path) -> None:
    set_samples.install_set(site, set_samples.NVRTC, cpu=False)


def of_opencl(site: Path) -> None:
    set_samples.install_set(site, set_samples.OPENCL_C, cpu=True)


def of_images(images: list[dict[str, str]]) -> dict[str, object]:
    digest = hashlib.sha256(b"a fatbin").hexdigest()
    module = {
        "name": "saxpy",
        "source": "a.cu",
        "file": "saxpy.fatbin",
        "sha256": digest,
        "images": images,
        "kernels": [],
    }
    return {"modules": [module]}


def embed_sets(site: Path, folder: Path, **options: bool) -> None:
    (site / "demo").mkdir(parents=True)
    (site / "demo" / "__init__.py").touch()
    embed.kernel_sets(site, "demo", [folder.parents[1]], **options)


@dataclass(frozen=True)
class Kind:
    """A kind of wheel, with the commands and the names of `HOMES` that it has beside `explain` and those of all."""

    lay: Callable[[Path], None]
    commands: str = ""
    back_ends: str = ""
    without: str = ""  # modules that it does not need
    most: int = 0  # bytes of the runtime, each file packed


KINDS = {
    "CUDA kernels": Kind(
        of_cuda,
        "",
        "cuda",
        "kernellibrary libraries recipe more_reasons wheels userbuild elf cpu cache",
        most=70_000,
    ),
    "machine code": Kind(
        of_machine_code,
        "",
        "cuda",
        "kernellibrary libraries recipe more_reasons wheels userbuild elf cpu cache",
        most=70_000,
    ),
    "IREE": Kind(
        of_iree, "", "iree", "kernellibrary libraries recipe wheels userbuild elf cache", most=63_000
    ),
    "kernels wheels": Kind(of_kernels_wheels, "", "cuda", "kernellibrary recipe userbuild elf"),
    "a library": Kind(of_a_library, "", "system", "kernelset userbuild cache wheels", most=68_300),
    "users' libraries": Kind(of_users_libraries, "cache compile", "system", "crossover"),
    "NVRTC": Kind(of_nvrtc, "cache compile", "cuda nvrtc", "crossover"),
    "OpenCL": Kind(of_opencl, "cache compile", "opencl system", "crossover wheels", most=122_800),
}
# The user's own files, which need not be of the kinds that the wheel has.
BROUGHT = ("own.so", "own.cubin", "own.ptx", "of-iree", "of-ptx")


@pytest.fixture(scope="module", params=KINDS)
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, Path]:
    """The package `demo` of each kind, as it is installed from a wheel."""
    kind = KINDS[request.param]
    site = tmp_path_factory.mktemp("wheel") / "site"
    kind.lay(site)
    return kind, site


def python(site: Path, code: str, **env: str) -> str:
    """Run Python where nothing but the package and the standard library can be imported; return what it prints."""
    found = f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "ignore", "-c", found],
        capture_output=True,
        text=True,
        check=False,
        env={"GPUFORGE_KERNEL_HOME": str(site.parent / "home"), **env},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def command(site: Path, *words: str, **env: str) -> tuple[int, str]:
    """Run a command of the runtime; return its exit status and what it prints."""
    code = f"""
import contextlib, io
from demo._gpuforge.__main__ import main
shown = io.StringIO()
with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
    status = main({list(words)})
print(status, shown.getvalue())
"""
    status, _, text = python(site, code, **env).partition(" ")
    return int(status), text


def modules_of(site: Path) -> list[str]:
    folder = site / "demo" / "_gpuforge"
    files = [path.relative_to(folder) for path in folder.rglob("*.py")]
    names = {".".join(path.with_suffix("").parts).removesuffix("__init__").rstrip(".") for path in files}
    return sorted(names - {"", "userbuild.group"})  # a program


@pytest.mark.thorough
def test_every_module_of_a_wheel_can_be_imported(wheel):
    kind, site = wheel
    code = f"""
import importlib
for name in {modules_of(site)}:
    try:
        importlib.import_module(f"demo._gpuforge.{{name}}")
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] in ("pyopencl", "iree"), error
"""
    python(site, code)
    there = {name.partition(".")[0] for name in modules_of(site)}
    assert there & {*kind.without.split()} == set()
    back_ends = {name.split(".")[1] for name in modules_of(site) if name.startswith("backends.")}
    assert back_ends == {*kind.back_ends.split()}


@pytest.mark.thorough
def test_the_commands_that_a_wheel_has_work_and_the_others_say_why_they_are_not_there(wheel):
    kind, site = wheel
    there = kind.commands.split()
    status, text = command(site, "explain")
    assert (status, "this package has no kernels" in text) == (0, False)
    status, text = command(site, "explain", "--json")
    assert (status, json.loads(text)["schema"]) == (0, 1)
    if "cache" in there:
        assert command(site, "cache", "ls")[0] == 0
        assert command(site, "cache", "prune")[0] == 0
    else:
        assert command(site, "cache", "ls") == (
            2,
            "error: demo does not have the command cache: there is no kernel cache: it has no sources to "
            "compile, and the driver keeps its PTX\n\n",
        )
    if "compile" not in there:
        assert command(site, "compile", "--object", "x") == (
            2,
            "error: demo does not have the command compile: there is nothing to compile: it has no sources for "
            "compilers of its users\n\n",
        )
    status, text = command(site, "include")
    assert (status, "`c-header = true` in [package]" in text) == (2, True)
    helped = command(site)
    assert [word for word in ("explain", "cache", "compile", "include") if f"\n    {word} " in helped[1]] == [
        word for word in ("explain", "cache", "compile") if word in {"explain", *there}
    ]


@pytest.mark.thorough
def test_a_name_that_a_wheel_does_not_have_is_an_import_error_that_says_so(wheel):
    _, site = wheel
    names = [name for names in HOMES.values() for name in names]
    code = f"""
import importlib
for name in {names}:
    try:
        exec(f"from demo._gpuforge import {{name}}")
    except ImportError as error:
        print(name, error)
"""
    lines = python(site, code).splitlines()
    absent = {name for home, names in HOMES.items() for name in names if home not in modules_of(site)}
    assert {line.partition(" ")[0] for line in lines} == absent
    for line in lines:
        name, _, text = line.partition(" ")
        assert text == (
            f"demo._gpuforge has no {name} in this wheel: gpuforge copies the parts of the runtime that the wheel's "
            "kernels need or its Python files import"
        )


@pytest.mark.thorough
@pytest.mark.parametrize("brought", BROUGHT)
def test_files_that_the_environment_names_are_used_or_refused_with_a_reason(wheel, brought, built_stub):
    _, site = wheel
    if "kernelset" not in modules_of(site):
        return
    file = site.parent / "brought" / brought
    if not file.exists():
        if brought == "of-iree":
            write_set(file, **of_images([IREE]))
        elif brought == "of-ptx":
            write_set(file)
        elif brought == "own.so":
            file.parent.mkdir(exist_ok=True)
            source = file.with_suffix(".c")
            source.write_text("int answer(void) { return 42; }\n")
            subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", file], check=True)
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text("code")
    back_end, candidate = {
        "own.so": ("backends.system", "own.so"),
        "own.cubin": ("backends.cuda", "file"),
        "own.ptx": ("backends.cuda", "file"),
        "of-iree": ("backends.iree", "IREE CPU"),
        "of-ptx": ("backends.cuda", "cubin sm_90"),
    }[brought]
    name = json.loads(command(site, "explain", "--json")[1])["sets"]
    if not name:
        return
    variable = f"GPUFORGE_KERNELS_DEMO_{name[0]['name'].replace('-', '_').upper()}"
    env = {variable: str(file), "LD_LIBRARY_PATH": str(built_stub.parent)}
    status, text = command(site, "explain", **env)
    assert status == 0
    lines = [line for line in text.splitlines() if "environment" in line and candidate in line]
    if "cannot be used" in text:  # no index lists the modules
        assert "the kernels are in wheels of their own, and none is installed" in text
        return
    assert lines, text
    missing = back_end not in modules_of(site)
    assert (
        "the runtime in this wheel cannot load it: it has only the parts" in " ".join(lines)
    ) is missing, text


@pytest.mark.thorough
def test_a_wheel_with_cuda_kernels_alone_runs_them(tmp_path, built_stub):
    site = tmp_path / "site"
    of_cuda(site)
    code = """
from demo._gpuforge import KernelSet, KernelUnavailable
kernels = KernelSet.shipped("default-kernels")
kernel = kernels.function("saxpy")
with kernel.upload(b"1234") as memory:
    memory.read(bytearray(4))
print(kernel.backend, kernel.device)
kernels.release()
"""
    assert python(site, code, LD_LIBRARY_PATH=str(built_stub.parent)).startswith("cuda ")


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.most])
def test_the_runtime_in_a_wheel_is_small(name, tmp_path):
    """The limits only ever fall."""
    KINDS[name].lay(tmp_path / "site")
    home = tmp_path / "site" / "demo" / "_gpuforge"
    own = [path for path in home.rglob("*") if path.relative_to(home).parts[0] not in {"kernels", "sources"}]
    files = [path for path in own if path.suffix in {".py", ".c", ".h"}]
    compiles = "compile" in KINDS[name].commands
    assert {path.suffix for path in files} == ({".py", ".c"} if compiles else {".py"})
    assert sum(packed(path.read_bytes()) for path in files) <= KINDS[name].most


@pytest.mark.thorough
def test_a_set_of_another_wheel_that_needs_more_is_refused_with_a_reason(tmp_path):
    site, other = tmp_path / "site", tmp_path / "other"
    of_cuda(site)
    write_set(other / "kernels" / "with-cpu", cpu="with-cpu-library")
    (other / "sources" / "of-sources").mkdir(parents=True)
    (other / "sources" / "of-sources" / "recipe.json").write_text("{}")
    for name in ("with-cpu", "of-sources"):
        code = f"""
from demo._gpuforge import KernelSet
print(KernelSet({str(other / "kernels" / name)!r}).explain())
"""
        assert "the runtime in this wheel cannot load it: it has only the parts" in python(site, code)


def packed(data: bytes) -> int:
    """The bytes of a file in an archive."""
    deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -15)
    return len(deflate.compress(data) + deflate.flush())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from ._gpuforge import KernelSet, KernelUnavailable", {"kernelset"}),
        ("from demo._gpuforge.crossover import Crossover", {"crossover"}),
        ("from ._gpuforge import crossover as c", {"crossover"}),
        ("import demo._gpuforge.cache", {"cache"}),
        ("def f():\n    from demo.gpu._gpuforge.backends import BACKENDS", {"backends"}),
        ("from . import _gpuforge\nkernels = _gpuforge.KernelLibrary.shipped('x')", {"kernellibrary"}),
        ("from ._gpuforge import nothing", set()),
        ("from .gpuforge import KernelSet  # not _gpuforge", set()),
        ("from ._gpuforge import (", set()),
        ("# from ._gpuforge import KernelSet", set()),
    ],
)
def test_what_a_python_file_imports_of_the_runtime(source, found):
    assert embed.imported(source.encode()) == found


def test_what_the_packages_own_files_import_is_copied(tmp_path):
    for number, text in enumerate(["", "from ._gpuforge.crossover import Crossover\n"]):
        site = tmp_path / str(number) / "site"
        (site / "demo").mkdir(parents=True)
        (site / "demo" / "when.py").write_text(text)
        added = embed.kernel_sets(
            site, "demo", [write_set(tmp_path / str(number) / "p/kernels/x").parents[1]]
        )
        assert ("demo/_gpuforge/crossover.py" in added) is bool(text)


def test_ptx_is_in_the_kernel_cache_of_a_package_that_imports_it(tmp_path):
    for number, text in enumerate(["", "from ._gpuforge.cache import KernelCache\n"]):
        site = tmp_path / str(number) / "site"
        (site / "demo").mkdir(parents=True)
        (site / "demo" / "kernels.py").write_text(text)
        packed = write_set(tmp_path / str(number) / "p/kernels/x").parents[1]
        added = {name.rpartition("/_gpuforge/")[2] for name in embed.kernel_sets(site, "demo", [packed])}
        parts = {"cache.py", "cache_command.py", "backends/cuda/jit.py"}
        assert added & parts == (parts if text else set())


@pytest.mark.thorough
def test_a_library_that_is_not_there_has_a_reason_in_a_wheel_without_libraries(tmp_path):
    site = tmp_path / "site"
    (site / "demo").mkdir(parents=True)
    (site / "demo" / "__init__.py").write_text("from ._gpuforge import KernelLibrary\n")
    embed.kernel_sets(site, "demo", [write_set(tmp_path / "packed/kernels/x").parents[1]])
    code = """
import demo
try:
    demo.KernelLibrary.shipped("solver").load()
except demo._gpuforge.UnknownKernel as error:
    print(error)
"""
    assert python(site, code) == "this wheel has no kernel library 'solver'; it has: x\n"


def test_the_header_is_there_if_the_manifest_wants_it(tmp_path):
    site = tmp_path / "site"
    embed_sets(site, write_set(tmp_path / "packed/kernels/x"), c_header=True)
    status, text = command(site, "include")
    header = Path(text.strip(), "gpuforge_kernels.h")
    assert (status, header.read_text()) == (0, c_header.joined())
    names = {path.name for path in (site / "demo" / "_gpuforge").rglob("*.h")}
    assert names == {header.name}  # and not what it is made of


def test_optional_parts_are_modules_that_something_enters():
    modules: Mapping[str, object] = embed._modules()
    assert embed.OPTIONAL.keys() <= modules.keys()


def test_the_imports_of_the_runtime_are_those_that_the_parser_finds():
    modules = embed._modules()
    found = {
        name: {each for each in embed._read(path).imports if each[0] in modules}
        for name, path in modules.items()
    }
    assert found == {name: set(_imports(path, modules)) for name, path in modules.items()}


def _imports(path, modules):
    """Yield the modules that a module of the runtime imports, each with whether it does so at its top."""
    package = path.relative_to(FOLDER).parent.parts
    todo = [(ast.parse(path.read_text()), True)]
    while todo:
        parent, at_top = todo.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            todo.append((node, at_top and not isinstance(node, ast.FunctionDef)))
            if isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join([*package[: len(package) + 1 - node.level], *filter(None, [node.module])])
                names = (base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names))
                yield from ((name, at_top) for name in names if name in modules)
