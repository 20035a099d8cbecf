"""The test of a wheel: what passes, and the one message for each way that it fails. Real pip, no index."""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import audit_samples
import pytest

from gpuforge.actions import trial_runs
from gpuforge.actions.declared_sets import declared_sets, declares
from gpuforge.actions.trial_result import CommandResult, Cuda, Install, TrialResult
from gpuforge.errors import ActionError
from gpuforge.requirements import Release
from gpuforge.toolkits import stub_library

pytestmark = pytest.mark.thorough

VERSION = ".".join(map(str, sys.version_info[:3]))


def wheel(folder: Path, name: str, module: str, *headers: str, version: str = "1.0") -> Path:
    """Write a wheel of one module, with some more lines in its METADATA."""
    path, files = f"{name}-{version}-py3-none-any.whl", {f"{name}/__init__.py": module.encode()}
    return audit_samples.wheel(folder, files, name=path, headers=headers, purelib=True)


class Bench:
    """A folder to test wheels in, as an action would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheels = root / "wheels"
        self.wheels.mkdir()

    def test(self, path: Path, **wanted: object) -> subprocess.CompletedProcess[str]:
        """Run the step as the runner does: in its own folder, with the environment of the action alone."""
        work = self.root / "work"
        work.mkdir()
        request = {
            "cell": "cp3-cu13",
            "wheel": path,
            "python": sys.executable,
            "needed": self.wheels,
            "package": path.name.partition("-")[0],
            **wanted,
        }
        file = work / "request.json"
        file.write_text(json.dumps(request, default=str))
        step = ["gpuforge.actions.entry", "trial.TryWheel", str(file), str(self.root / "end.json")]
        command = [sys.executable, "-I", "-m", *step]
        env = {
            "PATH": "/usr/bin:/bin",
            "PIP_CONFIG_FILE": os.devnull,
            "TMPDIR": str(work),
            "CUDA_VISIBLE_DEVICES": "",
        }
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=work)
        assert "Traceback" not in done.stderr
        return done

    def result(self) -> TrialResult:
        return TrialResult.read(self.root / "result.json")


def releases(*names: str) -> tuple[Release, ...]:
    return tuple(Release(name, "1.0") for name in names)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout
    return done.stderr.removeprefix("error: ").rstrip()


def test_a_wheel_is_installed_with_what_it_declares_and_its_command_run(bench):
    wheel(bench.wheels, "needed", "")
    wheel(bench.wheels, "unneeded", "")
    wheel(bench.wheels, "plotting", "")
    wheel(bench.wheels, "checker", "")
    path = wheel(
        bench.root / "own",
        "demo",
        "import needed",
        *("Provides-Extra: plots", "Requires-Dist: needed", 'Requires-Dist: plotting; extra == "plots"'),
    )
    project = bench.root / "project"
    project.mkdir()
    program = "import os, checker, plotting; print(os.getcwd(), os.environ['VIRTUAL_ENV'], os.listdir())"
    command = ["python", "-c", program, "{project}/tests"]
    done = bench.test(path, extras=["plots"], requires=["checker"], command=command, project=project)
    assert done.returncode == 0, done.stderr
    result = bench.result()
    bare, full = result.installs
    assert (bare.extras, bare.packages) == ((), releases("demo", "needed"))
    assert full.cuda is not None
    assert result.ran is not None
    assert result == TrialResult(
        installs=(
            bare,
            Install(
                extras=("plots",),
                wheel=path.name,
                python=VERSION,
                packages=releases("demo", "needed", "plotting"),
                imported="demo",
                import_seconds=full.import_seconds,
                cuda=Cuda(machine=full.cuda.machine, loaded=()),
            ),
        ),
        tested_with=releases("checker", "demo", "needed", "plotting"),
        ran=CommandResult(
            command=tuple(command),
            command_line=f"python -c {shlex.quote(program)} {{project}}/tests",
            seconds=result.ran.seconds,
            summary="",
            outcome="",
            counts={},
        ),
    )
    work = bench.root / "work"
    assert f"{work}/nowhere {work}/env []" in done.stdout
    assert f"{project}/tests" in done.stdout


def test_what_the_wheel_does_not_declare_is_missing_at_import(bench):
    wheel(bench.wheels, "checker", "")
    path = wheel(bench.root / "own", "demo", "import checker")
    done = bench.test(path, requires=["checker"], command=["python", "-c", ""])
    assert error_of(done) == (
        "cp3-cu13: `import demo` failed with exit status 1: ModuleNotFoundError: No module named 'checker'\n"
        "  hint: the wheel does not declare it: add the package of 'checker' to the project's "
        "dependencies, or to [wheel] requires"
    )
    assert not (bench.root / "result.json").exists()


def test_what_it_declares_and_nobody_has_fails_the_installation(bench):
    path = wheel(bench.root / "own", "demo", "", "Requires-Dist: needed>=2")
    said = error_of(bench.test(path)).replace(" (from demo)", "")  # newer pips say it
    assert said == (
        "cp3-cu13: it cannot be installed with the packages that it declares: Because needed was not found in "
        "the provided package locations and demo==1.0 depends on needed>=2, we can conclude that demo==1.0 cannot be "
        "used."
    )


def test_a_crash_at_import_names_the_signal(bench):
    path = wheel(bench.root / "own", "demo", "import os; os.abort()")
    assert error_of(bench.test(path)).startswith("cp3-cu13: `import demo` was ended by SIGABRT")


def test_a_command_that_is_not_there(bench):
    path = wheel(bench.root / "own", "demo", "")
    assert error_of(bench.test(path, command=["pytest", "-q"])) == (
        "cp3-cu13: [test] command cannot be started: there is no program pytest\n"
        "  hint: add the package that has it to [test] requires"
    )


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "ModuleNotFoundError: No module named 'demo._core'",
            "`[package] import` must name a package",
        ),
        (
            "ModuleNotFoundError: No module named 'pkg_resources'",
            "the wheel does not declare it: add setuptools<82 to",
        ),
        ("ImportError: libcuda.so.1: cannot open shared object file", "that library is the driver's"),
        (
            "ImportError: libcufft.so.12: cannot open shared object file",
            "no declared package has libcufft.so.12 on the wheel's search paths: link it, ",
        ),
        ("ImportError: undefined symbol: x", "an import must work where there is no GPU"),
    ],
)
def test_what_to_do_about_an_import_that_fails(line, hint):
    assert trial_runs.import_hint("demo", line).startswith(hint)


def test_what_a_wheel_declares(tmp_path):
    headers = ["Provides-Extra: cuda13", 'Requires-Dist: nvidia-cufft; extra == "cuda13"']
    path = wheel(tmp_path / "a", "demo", "", *headers)
    assert not declares(path, [])
    assert declares(path, ["cuda13"])
    assert declares(wheel(tmp_path / "b", "demo", "", "Requires-Dist: numpy"), [])
    with pytest.raises(ActionError) as caught:
        declared_sets(path, ["cuda12"], "12.4")
    assert str(caught.value) == ("demo-1.0 has no extra 'cuda12'\n  hint: its extras are cuda13")


@pytest.mark.parametrize(
    ("headers", "extras", "sets"),
    [
        ([], [], [()]),
        (
            ["Provides-Extra: docs", 'Requires-Dist: sphinx; extra == "docs"'],
            [],
            [()],
        ),  # no business of CUDA's
        (
            [
                "Provides-Extra: cuda13",
                "Provides-Extra: cuda13-local",
                'Requires-Dist: nvidia-cufft; extra == "cuda13"',
            ],
            ["cuda13"],
            [(), ("cuda13",)],  # cuda13-local declares no more than the bare wheel
        ),
        (  # the project's own, of both majors
            [
                *("Provides-Extra: cu12", "Provides-Extra: cu13", "Provides-Extra: plots"),
                *(
                    'Requires-Dist: nvidia-cufft-cu12; extra == "cu12"',
                    'Requires-Dist: nvidia-cufft; extra == "cu13"',
                ),
                'Requires-Dist: plotting; extra == "plots"',
            ],
            ["plots"],
            [(), ("cu13",), ("plots",)],
        ),
        (
            [
                *("Provides-Extra: cuda13", "Provides-Extra: plots"),
                *(
                    'Requires-Dist: nvidia-cufft; extra == "cuda13"',
                    'Requires-Dist: plotting; extra == "plots"',
                ),
            ],
            ["cuda13", "plots"],
            [(), ("cuda13",), ("cuda13", "plots")],
        ),
    ],
)
def test_in_which_ways_a_wheel_is_installed(tmp_path, headers, extras, sets):
    assert list(declared_sets(wheel(tmp_path, "demo", "", *headers), extras, "13.0")) == sets


EXTRA = ("Provides-Extra: cuda13", 'Requires-Dist: runtime; extra == "cuda13"')
LACKS = "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory"


def test_each_way_of_installing_a_wheel_is_tried(bench):
    wheel(bench.wheels, "runtime", "")
    path = wheel(bench.root / "own", "demo", "", *EXTRA)
    command = ["python", "-c", "import runtime"]
    done = bench.test(path, extras=["cuda13"], cuda="13.0", command=command)
    assert done.returncode == 0, done.stderr
    bare, full = bench.result().installs
    assert (bare.extras, bare.packages) == ((), releases("demo"))
    assert (full.extras, full.packages) == (("cuda13",), releases("demo", "runtime"))


def test_where_the_tests_pin_a_dependency_its_extra_brings_what_fits_the_pin(bench):
    for version in ("1.0", "2.0"):
        plugin = ("Provides-Extra: cuda13", f'Requires-Dist: plugin=={version}; extra == "cuda13"')
        wheel(bench.wheels, "library", "", *plugin, version=version)
        wheel(bench.wheels, "plugin", f"version = {version!r}", version=version)
    extra = ("Provides-Extra: cuda13", 'Requires-Dist: library[cuda13]; extra == "cuda13"')
    path = wheel(bench.root / "own", "demo", "", "Requires-Dist: library", *extra)
    command = ["python", "-c", "import plugin; assert plugin.version == '1.0'"]
    done = bench.test(path, extras=["cuda13"], cuda="13.0", requires=["library==1.*"], command=command)
    assert done.returncode == 0, done.stderr
    result = bench.result()
    demo, library, plugin = result.installs[-1].packages  # as its users get it
    assert (demo, library, plugin) == (*releases("demo"), ("library", "2.0"), ("plugin", "2.0"))
    assert result.tested_with == releases("demo", "library", "plugin")


@pytest.mark.parametrize(
    "lacks", ["ImportError('libcudart.so.13: cannot open shared object file')", "ValueError('x')"]
)
def test_the_bare_wheel_may_lack_what_its_extra_brings_and_nothing_else(bench, lacks):
    wheel(bench.wheels, "runtime", "")
    path = wheel(
        bench.root / "own", "demo", f"try: import runtime\nexcept ImportError: raise {lacks}", *EXTRA
    )
    done = bench.test(path, extras=["cuda13"], cuda="13.0")
    if "ValueError" in lacks:
        assert error_of(done) == (
            "cp3-cu13: installed bare, `import demo` failed with exit status 1: ValueError: x\n"
            "  hint: an import must work where there is no GPU; the log has all of its output"
        )
        return
    assert done.returncode == 0, done.stderr
    bare, full = bench.result().installs
    assert (bare.lacks, full.lacks) == ("libcudart.so.13", "")


def test_a_wheel_without_an_extra_for_its_cuda_lacks_nothing_bare(bench):
    path = wheel(bench.root / "own", "demo", f"raise {LACKS.partition(':')[0]}({LACKS.partition(': ')[2]!r})")
    said = error_of(bench.test(path, cuda="13.0"))
    assert said.startswith(f"cp3-cu13: `import demo` failed with exit status 1: {LACKS}\n")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("soname", "names", "answer", "wanted", "code"),
    [
        ("libcuda.so.1", ["cuInit", "cuGone"], 100, {"imports": ["demo.driver"]}, ""),
        ("libOpenCL.so.1", ["clInit", "clGone"], -1001, {"drivers": ["OpenCL"]}, "from . import driver"),
    ],
)
def test_modules_that_link_with_a_driver_are_imported_with_a_stand_in(
    bench, soname, names, answer, wanted, code
):
    path = wheel(bench.root / "made", "demo", code)
    source, stub = bench.root / "driver.c", bench.root / soname
    source.write_text(
        f"#include <Python.h>\nint {names[0]}(unsigned int); int {names[1]}(void);\n"
        'static PyModuleDef module = {PyModuleDef_HEAD_INIT, "driver"};\n'
        "PyMODINIT_FUNC PyInit_driver(void) {\n"
        f" if ({names[0]}(0) != {answer} || {names[1]}() != {answer}) __builtin_abort();\n"
        " return PyModule_Create(&module); }\n"
    )
    stub_library.write(stub, soname, names, platform.machine(), 0)
    module = bench.root / f"driver{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(["gcc", "-shared", "-fPIC", include, "-o", module, source, stub], check=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(module, f"demo/{module.name}")
    done = bench.test(path, **wanted, command=["python", "-c", "import demo" if code else ""])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{soname} is a stand-in with 2 functions" in done.stdout
    shutil.rmtree(bench.root / "work")
    if not code:
        assert bench.result().imports == ("demo.driver",)
        assert "No module named 'demo.gone'" in error_of(bench.test(path, imports=["demo.gone"]))
    line = f"ImportError: {soname}: cannot open shared object file: No such file or directory"
    assert ("`[test] drivers" in trial_runs.import_hint("demo", line)) == bool(code)
