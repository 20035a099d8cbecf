"""Every snippet of a page, in its order, as one project: files written, manifests built, commands run, Python imported.

What a page does not show of its project (sources, a manifest's other tables) stands in PAGES; what is not run here in
NOT_RUN, with the reason. What nobody ran, the page says itself.
"""

import ctypes
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import tutorial
import yaml
from builds import PYTHON, RECIPES, copy_recipe, environment, run

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md"))
NOT_IN_THE_IMAGE = "no usable clang++ >=16 in image bookworm"
TOOLS = Path(sys.executable).parent
# What a page shows of one machine: its Python, compilers and glibc.
HERE = (
    (re.compile(r"\bcp31[12]\b"), f"cp{PYTHON.replace('.', '')}"),
    (re.compile(r"\bPython 3\.1[12]\b"), f"Python {PYTHON}"),
)
ELSEWHERE = re.compile(
    r"g\+\+ 12\.2\.0|toolchain offload|/home/me/.cache/gpuforge/kernels|(?<=-)manylinux_2_28_x86_64"
)
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("pages")]

MANIFEST = f"""
schema = 1
package = {{ name = "NAME", python = ["{PYTHON}"] }}
cuda.13 = {{ toolkit = "13.0", archs = ["90"], ptx = "90" }}
toolchains.host = {{ compiler = "g++" }}
toolchains.device = {{ compiler = "nvcc" }}
toolchains.acc = {{ compiler = "nvc++", flags = ["-acc=gpu"] }}
toolchains.offload = {{ compiler = "g++", flags = ["-fopenacc"] }}
objects = [
  {{ name = "kernels", role = "fallback", kind = "module", sources = ["kernels/*.cu"], toolchain = "device" }},
]
"""
SETUP = """
from os import environ
from setuptools import Extension, setup
cuda = environ.get("CUDA_PATH", "")
setup(
    ext_modules=[
        Extension(
            "NAME._core",
            ["core.c"],
            include_dirs=[f"{cuda}/include"],
            library_dirs=[f"{cuda}/lib64"],
            libraries=["cudart"],
        )
    ]
)
"""
CORE = """
#include <Python.h>
#include <cuda_runtime.h>
static PyObject *count(PyObject *self, PyObject *unused) {
    int devices = 0;
    return PyLong_FromLong(cudaGetDeviceCount(&devices));
}
static PyMethodDef methods[] = {{"count", count, METH_NOARGS, 0}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", 0, -1, methods};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
"""


def project(name: str, *requires: str, **files: str) -> dict[str, str]:
    """The files of a project with an extension that needs libcudart, and one kernel; more files by their names."""
    return {
        "gpuforge.toml": MANIFEST.replace("NAME", name),
        "pyproject.toml": f"[build-system]\nrequires = {['setuptools', *requires]}\n"
        'build-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{name}"\nversion = "1.0"\n',
        "setup.py": SETUP.replace("NAME", name),
        "core.c": CORE,
        f"src/{name}/__init__.py": "",
        "kernels/scale.cu": "__global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }\n",
        **files,
    }


MECHANISMS = {
    "mod/mechanisms.h": 'extern "C" int mechanisms();\n',
    "mod/mechanisms.cpp": '#include "mechanisms.h"\nint mechanisms() { return 1; }\n',
}
MOD = """
NEURON { SUFFIX hh RANGE g NONSPECIFIC_CURRENT i }
PARAMETER { g = 0.001 }
ASSIGNED { v i }
BREAKPOINT { i = g * (v + 70) }
"""
SPECIAL = {
    "src/protocol.h": "#define PROTOCOL 1\n",
    "src/special.cpp": '#include "protocol.h"\n#include <cstdio>\nint main() { return std::puts("spikes") < 0; }\n',
}
OPS = """
template <class T> __global__ void heat(T *x) { *x = 1; }
template __global__ void heat<float>(float *);
__global__ void scale(float *x, float a, unsigned long n) { x[n] *= a; }
namespace ns { __global__ void blur(float *x) { *x = 1; } }
"""
# Two more kernels beside recipes/saxpy's `apply`, for the page's launches: what runs here runs on the CPU.
MORE = """
#include "gpuforge_errors.h"
extern "C" GLOBAL void twice(unsigned long long n, float *x) { for (unsigned long long i = 0; i < n; i++) x[i] *= 2; }
extern "C" GLOBAL void solve(unsigned long long n, const float *x, float *y, GPUFORGE_ERRORS errors)
{
    for (unsigned long long i = 0; i < n; i++) {
        GPUFORGE_REQUIRE(errors, x[i] >= 0, 1, i);
        y[i] = x[i];
    }
}
"""
ON_THE_CPU = """
import numpy
from ._gpuforge import KernelSet
kernels = KernelSet.shipped("user-ops")
kernel, blocks, a, count = kernels.function("apply"), 1, 2, numpy.uint64(4)
x, y, result = (numpy.ones(4, numpy.float32) for _ in range(3))
"""
NAMES = {
    "device_x": ON_THE_CPU,
    "copies.launch": f'{ON_THE_CPU}kernel = kernels.function("twice")',
    "Checked": ON_THE_CPU,
    "Limited": f"{ON_THE_CPU}class KernelSet:\n    shipped = staticmethod(lambda name: kernels)",
    'function("scale")': """
from ._gpuforge import KernelSet, KernelUnavailable

class kernels:
    def function(name, **options):
        try:
            KernelSet.shipped("default-kernels").function(name, **options)
        except KernelUnavailable:  # the wheel has such a kernel, and there is no GPU
            pass
""",
    "sample(size)": f"""{ON_THE_CPU}
def sample(size):
    x = numpy.ones(size, numpy.float32)
    return (lambda: x * 2), (lambda: x * 2)
""",
    'function("softmax")': """
import numpy
from rowsoftmax._gpuforge import KernelSet
matrix, result = (numpy.ones((2, 3), numpy.float32) for _ in range(2))
""",
}


@dataclass(frozen=True)
class Page:
    """What a page's snippets need beside themselves."""

    files: Mapping[str, str] = field(default_factory=dict)
    recipe: str = ""  # the project is a copy of this recipe
    package: str = ""  # the import name, where the page's Python is the package's
    before: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # files, before a block with these words
    options: tuple[str, ...] = ()  # of `gpuforge build`, for what the page's manifests declare


PAGES = {
    "README.md": Page(),
    "docs/audit.md": Page(),
    "docs/axes.md": Page(project("demo")),
    "docs/ci.md": Page(project("demo")),
    "docs/containers.md": Page(),
    "docs/how-to.md": Page(
        project("demo", **MECHANISMS),
        before={"--keep-failed": {"core.c": "#error\n"}, "default-mechanisms": {"core.c": CORE}},
        options=("--no-test",),  # which would install torch and its CUDA, 5 GB
    ),
    "docs/init.md": Page(
        {
            f"{folder}{name}": text
            for folder in ("", "path/to/project/")
            for name, text in project("demo").items()
            if name != "gpuforge.toml"
        }
    ),
    "docs/kernel-libraries.md": Page(
        project("demo", "neuron==9.0.*", **MECHANISMS, **SPECIAL, **{"mod/hh.mod": MOD}), package="demo"
    ),
    "docs/kernels.md": Page({"kernels/ops.cu": OPS}, recipe="saxpy", package="saxpy"),
    "docs/linkage.md": Page(project("saxpy")),
    "docs/releases.md": Page(project("name")),
    "docs/toolchains.md": Page({"pyproject.toml": '[project]\nname = "gpuforge-slang"\nversion = "1.0"\n'}),
    "docs/tutorial.md": Page(),
    "docs/users-machine.md": Page(recipe="saxpy", package="saxpy"),
    **{
        f"recipes/{name}/README.md": Page()
        for name in ("cython-opencl", "halide", "iree", "neuron", "openacc", "saxpy", "torch-extension")
    },
}


NIGHTLY, TORCH = "GPUFORGE_NIGHTLY" in os.environ, "GPUFORGE_TORCH" in os.environ


@dataclass(frozen=True)
class NotRun:
    """Why a snippet, or a command of one, is not run here; the test that runs it `by` name, or what the page `says`."""

    page: str
    words: str  # of the snippet; none: every one of the page
    why: str
    by: str = ""
    says: str = ""
    unless: bool = False  # it is run


def by(name: str) -> str:
    return f"tests/integration/test_{name}.py"


NOT_RUN = [
    NotRun("README.md", "build recipes/cufinufft", "minutes", "tests/unit/test_pages.py", unless=NIGHTLY),
    NotRun("README.md", "schema = 1", "of a recipe, shortened", "tests/unit/test_pages.py"),
    NotRun("README.md", "make test", "runs this test", by("page_snippets")),
    NotRun("docs/audit.md", "upload-sarif", "needs GitHub", by("ci_workflow")),
    NotRun("docs/axes.md", "", "15 GB; planned", by("torch_recipe"), unless=TORCH),
    NotRun("docs/ci.md", "OWNER/gpuforge", "needs GitHub", by("ci_workflow"), "nothing of this was run on"),
    NotRun("docs/ci.md", "$CI_SERVER_FQDN", "needs GitLab", by("ci_workflow"), "nothing of this was run on"),
    NotRun("docs/ci.md", "gpuforge-manifest", "clones gpuforge", by("ci_workflow")),
    NotRun("docs/cibuildwheel.md", "", "needs an engine and its images", by("cibuildwheel")),
    NotRun("docs/clusters.md", "", "needs Slurm", by("cluster_slurm")),
    *(
        NotRun("docs/containers.md", words, "half an hour", by("machine_types"))
        for words in ("--machine aarch64", "qemu-user-static", "--runner docker")
    ),
    NotRun("docs/findings/README.md", "", "needs the faults", says="Each command is run in the tests"),
    NotRun("docs/how-to.md", '[cuda."12.9"]', "planned", says="12.9 was not fetched"),
    NotRun("docs/how-to.md", "ziglang", "C++ by zig takes minutes", by("old_systems"), unless=NIGHTLY),
    NotRun("docs/kernel-libraries.md", "clang++", "needs clang++; planned", by("fallback_libraries")),
    NotRun("docs/kernels-c.md", "", "the whole page", by("kernels_header")),
    NotRun("docs/linkage.md", "torch==2.15", "5 GB; planned", by("torch_recipe"), unless=TORCH),
    NotRun("docs/releases.md", "gh release", "needs GitHub", says="not run"),
    NotRun("docs/users-machine.md", "NVIDIA H200", "needs a GPU", "tests/gpu/test_saxpy_kernels.py"),
    NotRun("docs/users-machine.md", "DIGEST", "needs an entry", "tests/unit/test_runtime_cache.py"),
    NotRun("recipes/cufinufft/README.md", "", "compiles for minutes", by("build_recipes")),
    NotRun("recipes/jax-finufft/README.md", "", "compiles for an hour", by("jax_finufft_recipe")),
    NotRun("recipes/neuron/README.md", "nvc++", "needs nvc++", says="This was not run"),
    NotRun("recipes/neuron/README.md", "", "takes minutes", by("neuron_recipe"), unless=NIGHTLY),
    NotRun("recipes/torch-extension/README.md", "", "15 GB", by("torch_recipe"), unless=TORCH),
]


def is_run(page: str, text: str) -> bool:
    return not any(each.page == page and each.words in text and not each.unless for each in NOT_RUN)


def merged(project: dict[str, Any], snippet: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the project with a snippet, and whether that has something which the project had otherwise."""
    made, again = dict(project), False
    for key, value in snippet.items():
        known = made.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            made[key], more = merged(known, value)
        elif isinstance(value, list) and isinstance(value[0], dict) and known:
            names = {each["name"] for each in value}
            made[key] = [*(each for each in known if each["name"] not in names), *value]
            more = len(made[key]) < len(known) + len(value)
        else:
            made[key], more = value, known not in (None, value)
        again |= more
    return made, again


class Work:
    """A page's project, to which each block adds what it has."""

    def __init__(self, name: str, folder: Path, cache: Path) -> None:
        self.name, self.page, self.folder = name, PAGES[name], folder
        self.snippets: dict[str, Any] = {}  # of manifests, together
        self.pending = self.installed = False  # what is there now was not built, was installed
        self.modules: list[str] = []
        self.printed = self.image = ""
        shutil.copytree(RECIPES / self.page.recipe, folder) if self.page.recipe else folder.mkdir()
        self.write(self.page.files)
        manifest = folder / "gpuforge.toml"
        self.base = tomllib.loads(manifest.read_text()) if manifest.exists() else {}
        self.site = folder.with_name("environment")
        environment(self.site)
        pip = self.site / "bin" / "pip"
        pip.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip --python "{self.site}/bin/python" "$@"\n')
        pip.chmod(0o755)
        self.env = {
            "PATH": os.pathsep.join([str(self.site / "bin"), str(TOOLS), os.environ["PATH"]]),
            "VIRTUAL_ENV": str(self.site),
            "GPUFORGE_CACHE_DIR": str(cache),
            "GPUFORGE_KERNEL_HOME": str(folder.with_name("kernels")),
            "GITHUB_STEP_SUMMARY": str(folder.with_name("summary")),
        }

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            tutorial.FileBlock(path, text, added=False).write(self.folder)

    def run(self, command: str, shown: str = "") -> None:
        """Run a command; what it prints is what the page shows."""
        for pattern, here in HERE:
            command, shown = pattern.sub(here, command), pattern.sub(here, shown)
        command = command.replace("PACKAGE", self.page.package).replace("check NAME", f"check {self.image}")
        for wheel in self.folder.glob("dist/*.whl"):
            command = command.replace("manylinux_2_28_x86_64", wheel.stem.split("-")[4])
        if "--allow-missing" in command:  # in a recipe, which is for more Pythons
            command = command.replace("--allow-missing", f"--python {PYTHON}")
        done = run("bash", "-c", command, cwd=self.folder, **self.env)
        self.printed = done.stdout
        output = f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in output, output
        failing = ("audit" in command and "baseline" not in command) or "--keep-failed" in command
        assert done.returncode in {0, int(failing)}, output
        self.show(ELSEWHERE.sub("…", shown), done.stderr)

    def show(self, shown: str, errors: str = "") -> None:
        if shown and not has_driver():
            assert any(tutorial.matches(each + self.printed, shown) for each in ("", errors)), (
                errors + self.printed
            )

    def manifest(self, made: dict[str, Any], *, build: bool) -> None:
        """Build what a manifest declares, or plan it in an image whose Pythons and compilers are known."""
        whole, _ = merged(self.base, made)
        if not build:
            whole["package"] |= {"python": ["3.11"]}
        (self.folder / "gpuforge.toml").write_text(tomli_w.dumps(whole))
        if build:
            shutil.rmtree(self.folder / "dist", ignore_errors=True)
            self.run(
                shlex.join(["gpuforge", "build", "--cuda", "13", "--python", PYTHON, *self.page.options])
            )
            return
        done = run("gpuforge", "matrix", "--image", "bookworm", cwd=self.folder, **self.env)
        assert done.returncode == 0 or NOT_IN_THE_IMAGE in done.stderr, done.stderr

    def build(self) -> None:
        if self.pending:
            self.manifest(self.snippets, build=True)
            self.pending = self.installed = False

    def install(self) -> None:
        self.build()
        if not self.installed:
            self.run("pip install -q --force-reinstall dist/*.whl numpy")
            self.installed = True

    def toml(self, text: str) -> None:
        made, again = merged(self.snippets, tomllib.loads(text))
        build = is_run(self.name, text)
        if self.base and (again or not build):
            self.manifest(made, build=build)
        if not again and (build or not is_run(self.name, "")):  # of a page that is planned, each
            self.snippets, self.pending = made, build
        if self.base:
            (self.folder / "gpuforge.toml").write_text(tomli_w.dumps(merged(self.base, self.snippets)[0]))

    def block(self, block: tutorial.FileBlock | tutorial.ConsoleBlock | tutorial.Snippet) -> None:
        match block:
            case tutorial.FileBlock():
                block.write(self.folder)
                self.pending = bool(self.base)
            case tutorial.ConsoleBlock():
                self.console(block)
            case tutorial.Snippet("toml", text):
                self.prepare(text)
                self.toml(text)
            case tutorial.Snippet("python", text):
                self.python(text)
            case tutorial.Snippet("yaml", text):
                for step in yaml.safe_load(text):
                    if isinstance(step, dict) and "$GPUFORGE" not in step.get("run", "$GPUFORGE"):
                        self.run(step["run"])
            case tutorial.Snippet("sh", text):
                self.build()
                self.run(text)
            case tutorial.Snippet("text", text):
                self.show(text)
            case tutorial.Snippet("Dockerfile", text):
                self.write({"Dockerfile": text.replace("localhost/gpuforge/bookworm:TAG", self.image)})
                self.run(
                    f"docker build -q --network host -t {self.image}-page . && docker rmi {self.image}-page"
                )
            case _:
                pytest.fail(f"{self.name} has a block of {block.language!r} that nothing here runs")

    def console(self, block: tutorial.ConsoleBlock) -> None:
        if block.machine == ("no-gpu" if has_driver() else "gpu"):
            return
        for command, shown in block.commands:
            if is_run(self.name, command + shown):
                self.prepare(command)
                if "PACKAGE" in command:
                    self.install()
                self.pending &= "gpuforge build" not in command
                self.run(command, shown)

    def prepare(self, text: str) -> None:
        for words, files in self.page.before.items():
            if words in text:
                self.write(files)

    def python(self, text: str) -> None:
        """Run Python: in the package, at the end, or by itself."""
        text = "\n".join([*(names for words, names in NAMES.items() if words in text), text])
        if not self.page.package:
            self.write({"page.py": text})
            return self.run("python page.py")
        name = f"page_{len(self.modules)}"
        self.modules.append(f"{self.page.package}.{name}")
        self.write({f"src/{self.page.package}/{name}.py": text})
        self.pending = True
        return None

    def end(self) -> None:
        self.build()
        if self.modules:
            self.install()
        for module in self.modules:
            self.run(f"python -c 'import {module}'")


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture
def work(request: pytest.FixtureRequest, tmp_path: Path, store: Path) -> Work:
    name: str = request.param
    made = Work(name, tmp_path / "project", store)
    if name in {"README.md", "docs/audit.md"}:
        wheel = request.getfixturevalue("wheel")("cufinufft==2.5.1")
        for folder in ("dist", "old", "."):
            (made.folder / folder).mkdir(exist_ok=True)
            (made.folder / folder / wheel.name).symlink_to(wheel)
    if name == "README.md":
        clone(made.folder)
    elif name == "docs/audit.md":
        options = "--no-deps --only-binary=:all: --platform=win_amd64 --python-version=3.11 -d windows"
        made.run(f"pip download -q {options} cuda-bindings==13.0.3")
    elif name == "docs/containers.md":
        made.image = request.getfixturevalue("bookworm_image")
    elif name == "docs/kernels.md":
        more_kernels(made)
    elif name == "docs/releases.md":
        made.base["cuda"]["12"] = {"toolkit": "12.4", "archs": ["90"], "ptx": "90"}
    elif name == "docs/toolchains.md":  # gpuforge and pytest, beside which the plug-in is installed
        (site,) = made.site.glob("lib/python3*/site-packages")
        (site / "tools.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    elif name == "docs/users-machine.md":
        made.run(f"pip install -q {request.getfixturevalue('openacc_wheel')}")
    elif name.startswith("recipes/"):
        copy_recipe(Path(name).parent.name, made.folder / "recipes")
    return made


def clone(folder: Path) -> None:
    """Lay out what `make demo` finds in a clone, with the environment of these tests."""
    for file in ("Makefile", "recipes", "gpuforge"):
        (folder / file).symlink_to(ROOT / file)
    for file in ("requirements/demo.txt", "pyproject.toml", ".venv/.demo"):  # the last one is the newest
        tutorial.FileBlock(file, "", added=False).write(folder)
    for file in Path(sys.prefix).iterdir():
        if file.name != ".demo":
            (folder / ".venv" / file.name).symlink_to(file)


def more_kernels(work: Work) -> None:
    """Give recipes/saxpy the kernels that docs/kernels.md launches; kernels in wheels of their own have no naming."""
    del work.base["wheel"]["naming"]
    for file, text in {
        "op.cpp": MORE.replace("GLOBAL", ""),
        "op.cu": MORE.replace("GLOBAL", "__global__"),
    }.items():
        tutorial.FileBlock(f"mod/{file}", text, added=True).write(work.folder)


@pytest.mark.parametrize(
    "work",
    [pytest.param(name, marks=pytest.mark.docker if name == "docs/containers.md" else ()) for name in PAGES],
    indirect=True,
)
def test_the_snippets_of_a_page_work(work):
    for block in tutorial.blocks(ROOT / work.name):
        work.block(block)
    work.end()


@pytest.mark.parametrize("page", sorted(str(file.relative_to(ROOT)) for file in FILES))
def test_what_is_not_run_has_its_reason_and_the_page_says_what_nobody_ran(page):
    text = " ".join((ROOT / page).read_text().split())
    blocks = [each for each in tutorial.blocks(ROOT / page) if getattr(each, "language", "") != "mermaid"]
    assert not blocks or page in PAGES or any(each.page == page and not each.words for each in NOT_RUN)
    for each in NOT_RUN:
        if each.page == page:
            assert " ".join(each.words.split()) in text
            subject = Path(page).parent.name if page.startswith("recipes/") else Path(page).name
            assert subject in (ROOT / each.by).read_text() if each.by else each.says
            assert each.says in text
