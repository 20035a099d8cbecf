"""The architectures that `gpuforge init` finds in CMake files, by the version of CUDA that they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.project import cmake, draft
from gpuforge.project.facts import look
from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.guess import Guess
from gpuforge.project.obtain import Origin

BY_VERSION = """
if(NOT DEFINED DEMO_ARCHS)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
    set(DEMO_ARCHS "60-real;70-real")
  elseif(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
    set(DEMO_ARCHS "86-real;50-virtual")
  else()
    set(DEMO_ARCHS "89-real;75-virtual")
  endif()
endif()
macro(add_kernel NAME)
  set_target_properties(${NAME} PROPERTIES CUDA_ARCHITECTURES "${DEMO_ARCHS}")
endmacro()
"""
OF_TARGETS = """
if(DEFINED ENV{DEMO_ARCH})
  set_target_properties(demo PROPERTIES CUDA_ARCHITECTURES $ENV{DEMO_ARCH})
elseif(${CUDAToolkit_VERSION} VERSION_GREATER_EQUAL "13.0.0")
  set_target_properties(demo PROPERTIES CUDA_ARCHITECTURES "80;120")
else()
  set_target_properties(demo PROPERTIES CUDA_ARCHITECTURES "60;80")
endif()
"""
BY_FLAGS = """
foreach(each 80 90)
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -gencode arch=compute_${each},code=sm_${each}")
endforeach()
string(APPEND CMAKE_CUDA_FLAGS " -gencode arch=compute_90,code=compute_90")
"""
CACHED = """
set(DEMO_ARCHS 80 90 CACHE STRING "which")
set_property(TARGET demo PROPERTY CUDA_ARCHITECTURES ${DEMO_ARCHS})
"""


def archs_of(tmp_path: Path, text: str, cuda: str) -> list[str]:
    """Return what the files compile for with one toolkit."""
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    return [each.written for each in cmake.Source(Files(tmp_path)).read({}, cuda).archs]


@pytest.mark.parametrize(
    ("text", "cuda", "expected"),
    [
        (BY_VERSION, "11.8", ["60", "70"]),
        (BY_VERSION, "12.4", ["86", "ptx:50"]),
        (BY_VERSION, "13.0", ["89", "ptx:75"]),
        (OF_TARGETS, "12.4", ["60+ptx", "80+ptx"]),
        (OF_TARGETS, "13.0", ["80+ptx", "120+ptx"]),
        (CACHED, "13.0", ["80+ptx", "90+ptx"]),
        ("set(CMAKE_CUDA_ARCHITECTURES 80)", "13.0", ["80+ptx"]),
        ("if(A OR B)\nelse()\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()", "13.0", ["80+ptx"]),
        (BY_FLAGS, "13.0", ["80", "90", "ptx:90"]),
    ],
)
def test_what_a_project_sets_is_found_for_each_toolkit(
    tmp_path: Path, text: str, cuda: str, expected: list[str]
) -> None:
    assert archs_of(tmp_path, text, cuda) == expected


@pytest.mark.parametrize(
    "text",
    [
        "if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES 70)\nendif()",
        "if(NOT CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES 70)\nendif()",
        "if(DEFINED CMAKE_CUDA_ARCHITECTURES)\nelse()\n  set(CMAKE_CUDA_ARCHITECTURES 70)\nendif()",
        "set(CMAKE_CUDA_ARCHITECTURES 70 CACHE STRING x)",
        "set_target_properties(demo PROPERTIES CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})",
        "set(DEMO_ARCHS 80 90)",
        "if(WIN32)\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()",
        "if(NOT A AND B)\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()",
        f"if({'NOT ' * 5000} A)\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()",
        'if(DEMO_GPU STREQUAL "a100")\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()',
        "find_package(A)\nif(A_FOUND)\nelse()\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()",
        "detect(A)\nif(A)\nelse()\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()",
        "if(CUDAToolkit_VERSION VERSION_LESS ${OLDEST})\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()",
    ],
)
def test_what_gpuforge_or_an_unknown_condition_decides_is_not_fixed(tmp_path: Path, text: str) -> None:
    assert archs_of(tmp_path, text, "13.0") == []


def test_a_variable_that_chooses_the_architectures_is_noted(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(OF_TARGETS, encoding="utf-8")
    found = cmake.Source(Files(tmp_path)).read()
    assert found.own_archs == [Seen("DEMO_ARCH", Where("CMakeLists.txt", 3))]


def test_many_conditions_and_lists_take_no_time(tmp_path: Path) -> None:
    branches = "elseif(CUDA_VERSION VERSION_LESS 12.1)\n" * 20_000
    uses = "set_target_properties(a PROPERTIES CUDA_ARCHITECTURES ${X})\n" * 5_000
    text = f"if(CUDA_VERSION VERSION_LESS 12)\n{branches}endif()\nset(X {'80 ' * 50})\n" + uses
    assert archs_of(tmp_path, text, "13.0") == ["80+ptx"]


@pytest.mark.parametrize(
    ("archs", "expected"),
    [
        ("86-real;89-real;75-virtual", {"archs": ("86", "89"), "ptx": "75"}),
        ("80-real;90a-virtual", {"archs": ("80",)}),  # no other GPU runs PTX of 90a
        ("80;100f-virtual", {"archs": ("80+ptx",), "ptx": "100f"}),
        ("75-virtual", {"archs": "common"}),
    ],
)
def test_what_init_writes_of_them(tmp_path: Path, archs: str, expected: dict[str, object]) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        f'enable_language(CUDA)\nset(CMAKE_CUDA_ARCHITECTURES "{archs}")\n', encoding="utf-8"
    )
    (tmp_path / "a.cu").write_text("__global__ void f(int *x) { *x = 1; }\n", encoding="utf-8")
    backend = '[build-system]\nrequires = []\nbuild-backend = "scikit_build_core.build"\n'
    (tmp_path / "pyproject.toml").write_text(
        f'{backend}[project]\nname = "demo-cu13"\nversion = "1"\n', encoding="utf-8"
    )
    found = draft.guesses(look(tmp_path), Origin("demo", "from-folder", {"path": "."}))
    keys = {
        each.key: each.value for each in found if isinstance(each, Guess) and each.table == ("cuda", "13")
    }
    assert {key: keys[key] for key in ("archs", "ptx") if key in keys} == expected
