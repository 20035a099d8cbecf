"""`gpuforge init` writes a manifest that can be planned, with a reason for each guess; it runs nothing."""

from pathlib import Path

import golden
import pytest
from init_samples import drafted, lay

from gpuforge.cli import main
from gpuforge.manifest.load import load
from gpuforge.project import draft
from gpuforge.project.facts import look

PROJECTS = Path(__file__).parents[1] / "golden" / "init"


def project(case: str) -> dict[str, str]:
    """Return the files of a project, beside whose folder lies the manifest that `init` drafts for it."""
    root = PROJECTS / case
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


TORCH, CMAKE, PLAIN = map(project, ("torch", "cmake", "plain"))


@pytest.mark.parametrize("case", ["torch", "cmake", "nvcc", "plain", "pinned"])
def test_each_guess_has_its_reason(case, tmp_path):
    base = TORCH if case == "pinned" else {}
    text = draft.write(drafted(tmp_path, {**base, **project(case)}).found, "gpuforge init")
    golden.hold(f"init/{case}.toml", text)
    (tmp_path / "gpuforge.toml").write_text(text)
    load(tmp_path)


@pytest.mark.parametrize(
    ("command", "requires"),
    [
        ("BuildExtension", ["torch", "ninja"]),
        ("BuildExtension.with_options(no_python_abi_suffix=True)", ["torch", "ninja"]),
        ("BuildExtension.with_options(use_ninja=False)", ["torch"]),
        ("partial(BuildExtension, use_ninja=False)", ["torch"]),
    ],
)
def test_ninja_is_required_unless_setup_py_turns_it_off(command, requires, tmp_path):
    script = TORCH["setup.py"].replace('"build_ext": BuildExtension', f'"build_ext": {command}')
    found = drafted(tmp_path, {**TORCH, "setup.py": script})
    assert found.keys["build.requires"] == tuple(requires)


def test_it_reports_what_it_guessed_and_runs_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(lay(tmp_path, CMAKE))
    assert main.run(["init"]) == 0
    said = capsys.readouterr().out
    assert '[build.config-settings] "cmake.define.DEMO_CUDA" = "ON"' in said
    assert "CMakeLists.txt:5, cmake/gpu.cmake:2: CUDA is used only if DEMO_CUDA is ON" in said
    assert "next, one of them, quickly: gpuforge build --cell " in said
    assert main.run(["init"]) == 2
    assert "gpuforge.toml exists already" in capsys.readouterr().err
    lay(tmp_path / "t", TORCH)
    assert main.run(["init", "t", "--output", "-"]) == 0
    assert capsys.readouterr().out.startswith("# Written by `gpuforge init t`")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "t/ran").exists()
    assert not (tmp_path / "t/gpuforge.toml").exists()


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("", "the project's name is empty"),
        ("empty", "empty has neither pyproject.toml nor setup.py"),
        ("no/where", "no/where does not exist"),
        ("a.tar.gz", "a.tar.gz does not exist"),
        ("-e .", "'-e .' is neither here nor the name of a project"),
        ("name[extra]", "'name[extra]' is more than a project's name and version"),
        ("name @ https://example.org/x.tar.gz", "does not exist"),
    ],
)
def test_what_it_cannot_read_has_one_message(argument, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main.run(["init", "--", argument]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "hint: " in said
    assert said.count("error: ") == 1
    assert not (tmp_path / "gpuforge.toml").exists()


ONES = "1" * 5000
HOSTILE = {
    "broken": {"setup.py": "def f(:\n", "pyproject.toml": "[[[", "setup.cfg": "x", "CMakeLists.txt": "if(((\n"},
    "deep": {"setup.py": "x = " + "(" * 5000 + ")" * 5000, "pyproject.toml": "a = " + "[" * 5000},
    "steering": {
        "setup.py": "import os\nos.getenv('USE_CUDA') == 'a\\n\"\\x1b[2J\\x7f'\nsetup(name='a\\n[build]')\n",
        "k.cu": "#include <\x1b[2J>\n__global__",
    },
    "loops": {
        "pyproject.toml": '[build-system]\nrequires=[]\nbuild-backend="scikit_build_core.build"\n[project]\nname="a"',
        "CMakeLists.txt": "include(CMakeLists.txt)\nadd_subdirectory(.)\nadd_subdirectory(../..)\n" * 500,
    },
    "digits": {
        "pyproject.toml": f"""[build-system]
requires = ["torch>={ONES}", "cmake"]
[project]
name = "a-cu{ONES}"
requires-python = ">={ONES}"
dependencies = ["torch=={ONES}"]
classifiers = ["Environment :: GPU :: NVIDIA CUDA :: {ONES}"]
""",
        "setup.py": f"import torch\nif v >= '{ONES[:450]}.1':\n  a = 'arch=compute_90,code=sm_90'\nCUDAExtension()",
        "CMakeLists.txt": f"cmake_minimum_required(VERSION {ONES})\nfind_package(CUDA)\n",
        "a.cu": "__global__",
    },
    "conditions": {
        "setup.py": "cmake = 'cmake'",
        "CMakeLists.txt": "if(" + "A " * 250_000 + ")\n" + "x()\n" * 100_000,
    },
    "unclosed": {"setup.py": "cmake = 'cmake'", "CMakeLists.txt": "#[[\n" * 30_000 + '"' + '\\"' * 30_000},
}  # fmt: skip


LARGE = {
    "conditions",
    "digits",
    "loops",
}  # a second and more; "deep" and "unclosed" are read by the same code


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.thorough) if case in LARGE else case for case in HOSTILE]
)
def test_hostile_files_end_in_a_manifest_or_a_message(case, tmp_path, capsys):
    root = lay(tmp_path, HOSTILE[case])
    assert main.run(["init", str(root)]) in {0, 1, 2}
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said
    assert "gpuforge itself failed" not in said
    written = root / "gpuforge.toml"
    assert not written.exists() or "\n[build]\n[build]" not in written.read_text()


def test_a_setting_that_cibuildwheel_has_twice_is_written_once(tmp_path):
    """That for Linux counts."""
    settings = 'config-settings = {{ "cmake.define.DEMO" = "{}" }}'
    text = f"[tool.cibuildwheel]\n{settings.format('all')}\n[tool.cibuildwheel.linux]\n{settings.format('linux')}\n"
    root = lay(tmp_path, {"pyproject.toml": f"{PLAIN['pyproject.toml']}{text}"})
    assert main.run(["init", str(root)]) == 0
    assert load(root).manifest.build.config_settings == {"cmake.define.DEMO": "linux"}


STATIC = "if({})\n set(N {})\nelse()\n set(N nccl_static)\nendif()\n"


CHOICE = STATIC.format("SHARED_NCCL", "nccl")


@pytest.mark.parametrize(
    ("cmake", "is_set", "is_noted"),
    [
        (CHOICE, True, False),
        ("option(SHARED_NCCL x OFF)\n" + CHOICE, True, False),
        ("option(SHARED_NCCL x ON)\n" + CHOICE, False, False),
        ("set(N nccl_static)\n" + CHOICE, True, True),
        (STATIC.format("NOT SHARED_NCCL", "nccl"), False, False),  # the shared one is the default
        (STATIC.format("SHARED_NCCL", "other"), False, True),
        (STATIC.format("WIN32", "nccl"), False, True),
        ("if(SHARED_NCCL)\n set(N nccl)\nelseif(B)\nelse()\n set(N nccl_static)\nendif()\n", True, False),
    ],
)
def test_the_shared_library_is_taken_where_a_variable_of_cmake_chooses(cmake, is_set, is_noted, tmp_path):
    backend = '[build-system]\nrequires = []\nbuild-backend = "scikit_build_core.build"\n'
    files = {"pyproject.toml": backend, "CMakeLists.txt": "enable_language(CUDA)\n" + cmake}
    found = drafted(tmp_path, files)
    assert found.settings() == ({"SHARED_NCCL": "ON"} if is_set else {})
    assert ("static" in found.notes) is is_noted


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret.py").write_text("setup(name='secret')")
    root = lay(tmp_path / "project", {"pyproject.toml": "[project]\nname = 'a'\n"})
    (root / "setup.py").symlink_to(tmp_path / "secret.py")
    (root / "loop").symlink_to(".")
    found = look(root)
    assert not found.script.names
    assert found.files.names == {"pyproject.toml"}


def test_with_a_workflow_the_toolkits_take_the_compiler_of_its_image(tmp_path, capsys):
    project = lay(tmp_path, CMAKE)
    assert main.run(["init", str(project), "--ci", "github"]) == 0
    assert load(project).manifest.cuda.versions["12"].toolkit == "12.8"
    assert "leaves out" not in capsys.readouterr().err
