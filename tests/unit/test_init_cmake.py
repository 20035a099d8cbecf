"""What `gpuforge init` finds in CMake files: options to change, architectures, toolkits, packages and downloads."""

from pathlib import Path

import pytest
from init_samples import KERNEL, SKBUILD, drafted

from gpuforge.project import cmake
from gpuforge.project.files import Files, Seen, Where

BY_NAME = """
function(add_backend name)
  string(TOLOWER "demo-${name}" folder)
  add_subdirectory(${folder})
endfunction()
add_backend(CUDA)
"""
OPTION = "option(DEMO_CUDA cuda OFF)\nadd_subdirectory(src)\n"
NATIVE = "add_compile_options(-march=native)\n"
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
IN_A_MACRO = """macro(choose)
  set(CMAKE_CUDA_ARCHITECTURES "")
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 70)
  endif()
  list(APPEND CMAKE_CUDA_ARCHITECTURES 90)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 120)
  endif()
endmacro()
choose()"""
CACHED = """
set(DEMO_ARCHS 80 90 CACHE STRING "which")
set_property(TARGET demo PROPERTY CUDA_ARCHITECTURES ${DEMO_ARCHS})
"""


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
        # A text that chooses the back end; the project adds the language from a list.
        (
            'set(LANGUAGES "")\nif(BACKEND STREQUAL "CUDA")\n  list(APPEND LANGUAGES CUDA)\nendif()\n'
            "project(demo LANGUAGES CXX ${LANGUAGES})\n",
            {"BACKEND": "CUDA"},
        ),
        (
            'if(NOT BACKEND)\n  set(BACKEND CUDA)\nendif()\nif(BACKEND STREQUAL "CUDA")\n'
            "  enable_language(CUDA)\nendif()\n",
            {},
        ),
        # What is for a project that is part of no other, and what is for one that is.
        (
            "option(A_CUDA gpu OFF)\nif(A_CUDA AND CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)\n"
            "  enable_language(CUDA)\nendif()\n",
            {"A_CUDA": "ON"},
        ),
        (
            'option(A_CUDA gpu OFF)\nif(A_CUDA AND NOT "${CMAKE_SOURCE_DIR}" STREQUAL "${PROJECT_SOURCE_DIR}")\n'
            "  enable_language(CUDA)\nendif()\n",
            {},
        ),
        # The CPU of the host turns it on.
        (HOST_CHECK.replace("{0}", "AVX2_ON_HOST"), {"USE_AVX2": "OFF"}),
        (HOST_CHECK.replace("{0}", "HAS_THREADS"), {}),
        (
            "cmake_host_system_information(RESULT HAS_AVX512 QUERY HAS_AVX512F)\n"
            "option(WITH_AVX512 avx ${HAS_AVX512})\nif(WITH_AVX512)\n  add_compile_options(-mavx512f)\nendif()\n",
            {"WITH_AVX512": "OFF"},
        ),
        (
            "try_compile(worked ${PROJECT_BINARY_DIR}/out ${CMAKE_CURRENT_LIST_DIR}/test_for_avx avx_test)\n"
            f"{HOST_CHECK.replace('{0}', 'worked')}",
            {"USE_AVX2": "OFF"},
        ),
        (
            "try_compile(worked ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_LIST_DIR}/avx.c)\n"
            f"{HOST_CHECK.replace('{0}', 'worked').replace('check_c_source_runs', 'check_c_source_compiles')}",
            {},
        ),
    ],
)
def test_an_option_is_changed_only_if_cuda_is_not_used_without(tmp_path, text, expected):
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": text})
    assert found.settings() == expected


def test_the_cmake_files_of_the_folder_that_setup_py_names_are_read(tmp_path):
    files = {
        "setup.py": "import subprocess\nfrom setuptools import Extension, setup\n"
        "setup(name='demo', ext_modules=[CMakeExtension('demo', 'tools/python')])\n"
        "subprocess.check_call(['cmake', folder])\n",
        "lib/CMakeLists.txt": "find_package(X11 REQUIRED)\n",
        "tools/python/CMakeLists.txt": "add_subdirectory(../../dep out)\n",
        "dep/CMakeLists.txt": "find_package(PNG REQUIRED)\n",
    }
    assert drafted(tmp_path, files).notes["of-system"]["names"] == "PNG"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"CMakeLists.txt": OPTION, "src/CMakeLists.txt": BY_NAME}, {"DEMO_CUDA": "ON"}),
        ({"CMakeLists.txt": "add_subdirectory(src)\n", "src/CMakeLists.txt": BY_NAME}, {}),  # no such option
        ({"CMakeLists.txt": OPTION, "src/CMakeLists.txt": "# no folder is added\n"}, {}),
        ({"CMakeLists.txt": OPTION, "src/CMakeLists.txt": "if(EMSCRIPTEN)\n" + BY_NAME + "endif()\n"}, {}),
    ],
    ids=["named", "no-option", "not-added", "elsewhere"],
)
def test_a_folder_named_as_an_option_is_read_under_it(tmp_path, files, expected):
    folder = {"src/demo-cuda/CMakeLists.txt": "enable_language(CUDA)\n", "pyproject.toml": SKBUILD}
    found = drafted(tmp_path, {**files, **folder})
    assert found.settings() == expected
    assert ("build.cuda" in found.keys) == (not expected)


@pytest.mark.parametrize(
    ("text", "expected", "limited"),
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
        (f'if(${{CMAKE_SYSTEM_PROCESSOR}} MATCHES "ppc64")\n{NATIVE}endif()\n', {}, False),
        ('option(DEMO_FAST "compile with -march=native" OFF)\n', {}, False),
    ],
)
def test_code_for_the_cpu_that_builds_is_turned_off(tmp_path, text, expected, *, limited):
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": text})
    assert found.settings() == expected
    assert found.keys.get("build.cpu") == ("x86-64" if limited else None)


def test_a_setting_of_cibuildwheel_for_the_cpu_is_written_once(tmp_path):
    cibuildwheel = '[tool.cibuildwheel]\nconfig-settings = { "cmake.define.DEMO_NATIVE" = "OFF" }\n'
    text = f"option(DEMO_NATIVE this ON)\nif(DEMO_NATIVE)\n{NATIVE}endif()\n"
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD + cibuildwheel, "CMakeLists.txt": text}).found
    assert [getattr(each, "key", "") for each in found].count("cmake.define.DEMO_NATIVE") == 1


@pytest.mark.parametrize("option", ["ON", "OFF"])
def test_a_static_library_is_noted_where_it_may_be_linked(tmp_path, option):
    text = (
        f"enable_language(CUDA)\noption(DEMO_STATIC all {option})\n"
        "if(DEMO_STATIC)\n  target_link_libraries(demo PRIVATE CUDA::cublas_static)\nendif()\n"
    )
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": text})
    assert ("static" in found.notes) == (option == "ON")


def test_a_setup_script_that_calls_cmake_below_is_followed_and_its_absence_noted(tmp_path):
    script = {"setup.py": 'spawn(["cmake", "-Sdemo/lib"])\nsetup()\n'}
    assert "no-cmake-files" in drafted(tmp_path, script).notes
    files = {
        "pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n',
        "demo/lib/sub/CMakeLists.txt": "# below\n",
        "demo/lib/CMakeLists.txt": "enable_language(CUDA)\n",
    }
    found = drafted(tmp_path, {**script, **files})
    assert "build.cuda" not in found.keys
    assert "no-cmake-files" not in found.notes


def test_a_folder_that_a_variable_names_is_followed(tmp_path):
    top = (
        'if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/cpp/CMakeLists.txt")\n'
        '  set(SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/cpp")\nelse()\n  set(SOURCE "..")\nendif()\n'
        'if(PREBUILT)\nelse()\n  add_subdirectory("${SOURCE}/core" built)\nendif()\n'
    )
    core = "option(USE_CUDA gpu OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n"
    files = {"CMakeLists.txt": top, "cpp/CMakeLists.txt": "", "cpp/core/CMakeLists.txt": core}
    assert drafted(tmp_path, {"pyproject.toml": SKBUILD, **files}).settings() == {"USE_CUDA": "ON"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("find_package(CUDAToolkit 12.9 REQUIRED)", {"12": "12.9", "13": "13.0"}),
        ("find_package(CUDAToolkit 11.0)", {"12": "12.4", "13": "13.0"}),
        ("find_package(CUDAToolkit 13.1)", {"13": "13.1"}),
        ("find_package(CUDAToolkit REQUIRED)", {"12": "12.4", "13": "13.0"}),
        ("find_package(CUDAToolkit ${OLDEST})", {"12": "12.4", "13": "13.0"}),
        # what only the tests ask for, and the project's own version
        (
            "option(DEMO_TESTS tests OFF)\nif(DEMO_TESTS)\n  find_package(CUDAToolkit 13.1)\nendif()",
            {"12": "12.4", "13": "13.0"},
        ),
        ("project(demo 99.0 LANGUAGES CUDA)", {"12": "12.4", "13": "13.0"}),
        (
            "set(OLDEST_CUDA_VERSION 12.9)\nfind_package(CUDAToolkit ${OLDEST_CUDA_VERSION} REQUIRED)",
            {"12": "12.9", "13": "13.0"},
        ),
        ('set(CMAKE_CUDA_ARCHITECTURES "61;90")', {"12": "12.4"}),  # CUDA 13 refuses the first
    ],
)
def test_the_toolkit_is_as_new_as_cmake_asks_for(tmp_path, text, expected):
    files = {"pyproject.toml": SKBUILD, "CMakeLists.txt": f"enable_language(CUDA)\n{text}\n"}
    assert drafted(tmp_path, files).toolkits() == expected


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
        (IN_A_MACRO, "12.4", ["70+ptx", "90+ptx"]),
        (IN_A_MACRO, "13.0", ["90+ptx", "120+ptx"]),
        ("if(A OR B)\nelse()\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()", "13.0", ["80+ptx"]),
        (BY_FLAGS, "13.0", ["80", "90", "ptx:90"]),
    ],
)
def test_what_a_project_sets_is_found_for_each_toolkit(tmp_path, text, cuda, expected):
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
def test_what_gpuforge_or_an_unknown_condition_decides_is_not_fixed(tmp_path, text):
    assert archs_of(tmp_path, text, "13.0") == []


def test_a_variable_that_chooses_the_architectures_is_noted(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(OF_TARGETS, encoding="utf-8")
    found = cmake.Source(Files(tmp_path)).read()
    assert found.own_archs == [Seen("DEMO_ARCH", Where("CMakeLists.txt", 3))]


@pytest.mark.parametrize(
    ("text", "define", "note"),
    [
        ("set(CMAKE_CUDA_ARCHITECTURES all-major)", "", "computed-archs"),
        ("", "all", "computed-archs"),  # before what gpuforge defines
        ("set(DEMO_CUDA_ARCH $ENV{DEMO_ARCH})", "", "own-archs"),
        ("", "", None),
    ],
)
def test_architectures_that_gpuforge_does_not_decide_are_asked_for(tmp_path, text, define, note):
    defined = f'[tool.scikit-build.cmake.define]\nCMAKE_CUDA_ARCHITECTURES = "{define}"\n'
    files = {
        "pyproject.toml": f"{SKBUILD}{defined if define else ''}",
        "CMakeLists.txt": f"enable_language(CUDA)\n{text}\n",
        "k.hpp": KERNEL,  # a header's kernels are compiled, too
        "a.cpp": "",
    }
    found = drafted(tmp_path, files)
    assert next((kind for kind in found.notes if "archs" in kind), None) == note
    assert found.keys["cuda.13.archs"] == "common"


@pytest.mark.parametrize(
    "text",
    [
        "set(CMAKE_CUDA_RUNTIME_LIBRARY Static)",
        "set_target_properties(a PROPERTIES CUDA_RUNTIME_LIBRARY Static)",
    ],
)
def test_a_static_cudart_that_the_project_chooses_is_the_linkage(tmp_path, text):
    files = {"pyproject.toml": SKBUILD, "CMakeLists.txt": f"enable_language(CUDA)\n{text}\n", "k.cu": KERNEL}
    assert drafted(tmp_path, files).keys["cuda.linkage"] == "static"


def test_packages_of_python_that_cmake_looks_for_are_required(tmp_path):
    text = "find_package(Python3 COMPONENTS NumPy)\nfind_package(Torch REQUIRED)\nfind_package(pybind11)\n"
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": text})
    assert found.keys["build.requires"] == ("numpy", "torch")


def test_what_scikit_build_core_builds_is_compiled_also_without_its_files(tmp_path):
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD})
    assert "package.abi" not in found.keys
    assert "no-cmake-files" in found.notes


@pytest.mark.thorough
def test_many_conditions_and_lists_take_no_time(tmp_path):
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
def test_what_init_writes_of_them(tmp_path, archs, expected):
    files = {
        "CMakeLists.txt": f'enable_language(CUDA)\nset(CMAKE_CUDA_ARCHITECTURES "{archs}")\n',
        "a.cu": KERNEL,
        "pyproject.toml": SKBUILD.replace('"demo"', '"demo-cu13"'),
    }
    keys = drafted(tmp_path, files).keys
    found = {key: keys.get(f"cuda.13.{key}") for key in ("archs", "ptx")}
    assert {key: value for key, value in found.items() if value} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("file(DOWNLOAD https://example.org/a.cmake a.cmake)", ["https://example.org/a.cmake"]),
        ("FetchContent_Declare(a URL https://example.org/a.zip)", ["https://example.org/a.zip"]),
        ('CPMAddPackage("gh:example/a#v1")', ["gh:example/a#v1"]),
        ("CPMFindPackage(NAME a GITHUB_REPOSITORY example/a GIT_TAG v1)", ["example/a"]),
        (
            "rapids_cpm_find(a 1 CPM_ARGS GIT_REPOSITORY https://example.org/a.git GIT_TAG v1)",
            ["https://example.org/a.git"],
        ),
        ('cmake_parse_arguments(A "" "NAME;GIT_REPOSITORY" "" ${ARGN})', []),
        ('cmake_parse_arguments(A "" GIT_REPOSITORY "" ${ARGN})', []),
        ("set_target_properties(a PROPERTIES HOMEPAGE https://example.org/a)", []),
    ],
)
def test_downloads(tmp_path, text, expected):
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    found = cmake.Source(Files(tmp_path)).read()
    assert [each.text for each in found.downloads] == expected
