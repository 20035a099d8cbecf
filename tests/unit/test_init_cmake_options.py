"""Which options of CMake `gpuforge init` turns on and off, and which folders they lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.project import draft
from gpuforge.project.facts import look
from gpuforge.project.guess import Guess, Note
from gpuforge.project.obtain import Origin

BACKEND = """
[build-system]
requires = []
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1"
"""
BY_NAME = """
function(add_backend name)
  string(TOLOWER "demo-${name}" folder)
  add_subdirectory(${folder})
endfunction()
add_backend(CUDA)
"""
OPTION = "option(DEMO_CUDA cuda OFF)\nadd_subdirectory(src)\n"
NATIVE = "add_compile_options(-march=native)\n"


def guesses(folder: Path, files: dict[str, str]) -> list[Guess | Note]:
    for name, text in {"pyproject.toml": BACKEND, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(draft.guesses(look(folder), Origin("demo", "from-folder", {"path": "."})))


def settings(found: list[Guess | Note]) -> dict[str, object]:
    return {
        each.key.removeprefix("cmake.define."): each.value
        for each in found
        if isinstance(each, Guess) and each.table == ("build", "config-settings")
    }


def notes(found: list[Guess | Note]) -> set[str]:
    return {each.reason.kind for each in found if isinstance(each, Note)}


def no_cuda(found: list[Guess | Note]) -> bool:
    return any(
        reason.kind == "no-cuda" for each in found if isinstance(each, Guess) for reason in each.reasons
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("option(USE_CUDA gpu OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n", {"USE_CUDA": "ON"}),
        # Declared twice: the branch that is taken counts.
        (
            "if(PLAIN)\n  option(USE_CUDA gpu OFF)\nelse()\n  option(USE_CUDA gpu ON)\nendif()\n"
            "if(USE_CUDA)\n  enable_language(CUDA)\nendif()\n",
            {},
        ),
        (
            "option(PLAIN cpu ON)\nif(PLAIN)\n  option(USE_CUDA gpu OFF)\nelse()\n  option(USE_CUDA gpu ON)\n"
            "endif()\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n",
            {"USE_CUDA": "ON"},
        ),
        (
            "option(CPU_ONLY cpu ON)\nif(NOT CPU_ONLY)\n  enable_language(CUDA)\nendif()\n",
            {"CPU_ONLY": "OFF"},
        ),
        # What upstream leaves off stays off, if CUDA is used without.
        (
            "enable_language(CUDA)\noption(USE_CUDA_FP8 more OFF)\nif(USE_CUDA_FP8)\n"
            "  find_package(CUDAToolkit)\nendif()\n",
            {},
        ),
        (
            "option(USE_CUDA gpu OFF)\noption(USE_CUDA_FP8 more OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\n"
            "  if(USE_CUDA_FP8)\n    find_package(CUDAToolkit)\n  endif()\nendif()\n",
            {"USE_CUDA": "ON"},
        ),
        # An option for GPUs that is not one for CUDA.
        ("option(USE_GPU opencl OFF)\nif(USE_GPU)\n  find_package(OpenCL)\nendif()\n", {}),
        # An option for the whole, and its part's, which the whole turns on.
        (
            "option(A_GPU all OFF)\nif(A_GPU)\n  set(PART_CUDA ON)\nendif()\noption(PART_CUDA part OFF)\n"
            "if(PART_CUDA)\n  enable_language(CUDA)\nendif()\n",
            {"A_GPU": "ON"},
        ),
        ("check_language(CUDA)\nif(CMAKE_CUDA_COMPILER)\n  enable_language(CUDA)\nendif()\n", {}),
    ],
)
def test_an_option_is_changed_only_if_cuda_is_not_used_without(
    tmp_path: Path, text: str, expected: dict[str, object]
) -> None:
    assert settings(guesses(tmp_path, {"CMakeLists.txt": text})) == expected


HOST_CHECK = """
set(CMAKE_REQUIRED_FLAGS -mavx2)
check_c_source_runs("int main(void) { return 0; }" {0})
if({0})
  set(USE_AVX2 ON CACHE BOOL "with AVX2")
endif()
option(USE_AVX2 "with AVX2" OFF)
if(USE_AVX2)
  add_compile_options(-mavx2)
endif()
"""


@pytest.mark.parametrize(("check", "expected"), [("AVX2_ON_HOST", {"USE_AVX2": "OFF"}), ("HAS_THREADS", {})])
def test_an_option_that_the_cpu_of_the_host_turns_on_is_turned_off(
    tmp_path: Path, check: str, expected: dict[str, object]
) -> None:
    text = HOST_CHECK.replace("{0}", check)
    assert settings(guesses(tmp_path, {"CMakeLists.txt": text})) == expected


def test_a_folder_named_as_an_option_is_read_under_it(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": OPTION,
        "src/CMakeLists.txt": BY_NAME,
        "src/demo-cuda/CMakeLists.txt": "enable_language(CUDA)\n",
    }
    assert settings(guesses(tmp_path, files)) == {"DEMO_CUDA": "ON"}


@pytest.mark.parametrize(
    "files",
    [
        {"CMakeLists.txt": "add_subdirectory(src)\n", "src/CMakeLists.txt": BY_NAME},  # no such option
        {"CMakeLists.txt": OPTION, "src/CMakeLists.txt": "# no folder is added\n"},
        {"CMakeLists.txt": OPTION, "src/CMakeLists.txt": "if(EMSCRIPTEN)\n" + BY_NAME + "endif()\n"},
    ],
    ids=["no-option", "not-added", "elsewhere"],
)
def test_a_folder_that_no_option_leads_to_is_not(tmp_path: Path, files: dict[str, str]) -> None:
    found = guesses(tmp_path, {**files, "src/demo-cuda/CMakeLists.txt": "enable_language(CUDA)\n"})
    assert settings(found) == {}
    assert no_cuda(found)


@pytest.mark.parametrize(
    ("text", "expected", "noted"),
    [
        (f"option(DEMO_NATIVE this ON)\nif(DEMO_NATIVE)\n{NATIVE}endif()\n", {"DEMO_NATIVE": "OFF"}, False),
        (
            f"if(NOT CMAKE_CROSSCOMPILING)\n  set(X ON)\nendif()\n"
            f"option(DEMO_NATIVE this ${{X}})\nif(DEMO_NATIVE)\n{NATIVE}endif()\n",
            {"DEMO_NATIVE": "OFF"},
            False,
        ),
        (f"option(DEMO_NATIVE this OFF)\nif(DEMO_NATIVE)\n{NATIVE}endif()\n", {}, False),
        (f"option(DEMO_CPU cpu ON)\nif(DEMO_CPU)\n{NATIVE}endif()\n", {}, True),
        (
            f"option(DEMO_NATIVE this ON)\nif(DEMO_NATIVE)\n{NATIVE}endif()\n{NATIVE}",
            {"DEMO_NATIVE": "OFF"},
            True,
        ),
        (f"if(APPLE)\n{NATIVE}endif()\n", {}, False),
        ('option(DEMO_FAST "compile with -march=native" OFF)\n', {}, False),
    ],
)
def test_code_for_the_cpu_that_builds_is_turned_off(
    tmp_path: Path, text: str, expected: dict[str, object], *, noted: bool
) -> None:
    found = guesses(tmp_path, {"CMakeLists.txt": text})
    assert settings(found) == expected
    assert ("native" in notes(found)) == noted


def test_a_setting_of_cibuildwheel_for_the_cpu_is_written_once(tmp_path: Path) -> None:
    cibuildwheel = '[tool.cibuildwheel]\nconfig-settings = { "cmake.define.DEMO_NATIVE" = "OFF" }\n'
    files = {
        "pyproject.toml": BACKEND + cibuildwheel,
        "CMakeLists.txt": f"option(DEMO_NATIVE this ON)\nif(DEMO_NATIVE)\n{NATIVE}endif()\n",
    }
    found = guesses(tmp_path, files)
    assert [each.key for each in found if isinstance(each, Guess) and "NATIVE" in each.key] == [
        "cmake.define.DEMO_NATIVE"
    ]


@pytest.mark.parametrize("option", ["ON", "OFF"])
def test_a_static_library_is_noted_where_it_may_be_linked(tmp_path: Path, option: str) -> None:
    text = (
        f"enable_language(CUDA)\noption(DEMO_STATIC all {option})\n"
        "if(DEMO_STATIC)\n  target_link_libraries(demo PRIVATE CUDA::cublas_static)\nendif()\n"
    )
    assert ("static" in notes(guesses(tmp_path, {"CMakeLists.txt": text}))) == (option == "ON")


def test_a_setup_script_that_calls_cmake_below_is_followed(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n',
        "setup.py": 'spawn(["cmake", "-Sdemo/lib"])\nsetup()\n',
        "demo/lib/sub/CMakeLists.txt": "# below\n",
        "demo/lib/CMakeLists.txt": "enable_language(CUDA)\n",
    }
    found = guesses(tmp_path, files)
    assert not no_cuda(found)
    assert "no-cmake-files" not in notes(found)


def test_a_source_without_the_files_of_cmake_is_noted(tmp_path: Path) -> None:
    files = {"setup.py": 'spawn(["cmake", "-Sdemo/lib"])\nsetup(name="demo")\n'}
    assert "no-cmake-files" in notes(guesses(tmp_path, files))


def test_a_folder_that_a_variable_names_is_followed(tmp_path: Path) -> None:
    top = (
        'if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/cpp/CMakeLists.txt")\n'
        '  set(SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/cpp")\nelse()\n  set(SOURCE "..")\nendif()\n'
        'if(PREBUILT)\nelse()\n  add_subdirectory("${SOURCE}/core" built)\nendif()\n'
    )
    core = "option(USE_CUDA gpu OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n"
    files = {"CMakeLists.txt": top, "cpp/CMakeLists.txt": "", "cpp/core/CMakeLists.txt": core}
    found = guesses(tmp_path, files)
    assert settings(found) == {"USE_CUDA": "ON"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("CUDAToolkit 12.9 REQUIRED", {"12": "12.9", "13": "13.0"}),
        ("CUDAToolkit 11.0", {"12": "12.4", "13": "13.0"}),
        ("CUDAToolkit 13.1", {"13": "13.1"}),
        ("CUDAToolkit REQUIRED", {"12": "12.4", "13": "13.0"}),
        ("CUDAToolkit ${OLDEST}", {"12": "12.4", "13": "13.0"}),
    ],
)
def test_the_toolkit_is_as_new_as_cmake_asks_for(
    tmp_path: Path, asked: str, expected: dict[str, str]
) -> None:
    found = guesses(tmp_path, {"CMakeLists.txt": f"enable_language(CUDA)\nfind_package({asked})\n"})
    toolkits = {
        each.table[1]: each.value for each in found if isinstance(each, Guess) and each.key == "toolkit"
    }
    assert toolkits == expected


@pytest.mark.parametrize(
    ("file", "required"),
    [
        ("own.py", False),
        ("deep/tools/own.py", False),
        ("deep/tools/own/__init__.py", False),
        ("demo/own.py", True),  # setup.py does not name its folder
        ("owned.py", True),
        ("own.txt", True),
    ],
)
def test_a_module_is_asked_for_unless_it_is_the_project_s(
    tmp_path: Path, file: str, *, required: bool
) -> None:
    """A package of the index that happens to have its name is somebody else's."""
    found = guesses(
        tmp_path, {"setup.py": 'sys.path.insert(0, "deep/tools")\nimport own\nsetup()\n', file: ""}
    )
    requires = [each.value for each in found if isinstance(each, Guess) and each.key == "requires"]
    assert not any("own" in value for value in requires if isinstance(value, tuple))
    assert ("import-unknown" in notes(found)) == required


def test_a_toolkit_that_only_the_tests_ask_for_is_not_taken(tmp_path: Path) -> None:
    asks = "if(DEMO_TESTS)\n  find_package(CUDAToolkit 13.1)\nendif()\n"
    text = f"enable_language(CUDA)\noption(DEMO_TESTS tests OFF)\n{asks}"
    found = guesses(tmp_path, {"CMakeLists.txt": text})
    assert {each.value for each in found if isinstance(each, Guess) and each.key == "toolkit"} == {
        "12.4",
        "13.0",
    }


def test_a_project_s_own_version_is_none_of_cuda(tmp_path: Path) -> None:
    found = guesses(tmp_path, {"CMakeLists.txt": "project(demo 99.0 LANGUAGES CUDA)\n"})
    assert {each.value for each in found if isinstance(each, Guess) and each.key == "toolkit"} == {
        "12.4",
        "13.0",
    }
