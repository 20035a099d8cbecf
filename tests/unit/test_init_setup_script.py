"""What `gpuforge init` guesses from a setup.py, and what it asks instead."""

import pytest
from init_samples import KERNEL, SKBUILD, drafted

TORCH = "from torch.utils.cpp_extension import CUDAExtension, CppExtension\n"
PLAIN = "from setuptools import Extension, setup\n"


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ('CUDAExtension(f"demo._c", ["k.cu"])', ["demo/_c*.so"]),
        ('NAME = "demo"\nCUDAExtension(f"{NAME}._c", ["k.cu"])', ["demo/_c*.so"]),
        ('CUDAExtension(name="demo." + "_c", sources=["k.cu"])', ["demo/_c*.so"]),
        ('kind = CUDAExtension if on else CppExtension\nkind("demo._c", glob.glob("*.cu"))', ["demo/_c*.so"]),
        ('[CUDAExtension(f"demo._{n}", ["k.cu"]) for n in ("a", "b")]', ["demo/_a*.so", "demo/_b*.so"]),
        (
            'def make(name, sources):\n    return CUDAExtension(name="demo.%s" % name, sources=sources)\n'
            'modules = [make("a", ["a.cpp"]), make("b", ["k.cu"])]',
            ["demo/b*.so"],
        ),
        (
            "from os.path import join\ndef make(folder, others=None):\n"
            '    sources = glob(join(".", "demo", folder, "*.cpp")) + glob(join(".", "demo", folder, "*.cu"))\n'
            '    for other in others:\n        sources += glob(join("demo", other, "*.cu"))\n'
            '    return Extension("demo." + folder, sources)\n'
            'for each in [make("host"), make("gpu"), make("both", others=["gpu"])]: pass',
            ["demo/gpu*.so", "demo/both*.so"],
        ),
        ('sources = ["a.cpp"]\nsources.append("k.cu")\nExtension("demo._c", sources)', ["demo/_c*.so"]),
        ('CUDAExtension("demo._c", [f"csrc/{f}" for f in os.listdir("csrc")])', ["demo/_c*.so"]),
        ('CUDAExtension("demo._c", ["a.cpp"])', []),  # it has no kernel
        ('CUDAExtension("demo._k", ["k.cu"])\nExtension("demo._c", ["a.c"])', ["demo/_k*.so"]),
    ],
)
def test_extensions_with_kernels_are_objects(tmp_path, script, files):
    sources = dict.fromkeys(("k.cu", "demo/gpu/a.cu"), KERNEL)
    found = drafted(tmp_path, {"setup.py": TORCH + PLAIN + script, **sources})
    assert found.keys.get("objects.files", ()) == tuple(files)
    assert "gpu-computed" not in found.notes


@pytest.mark.parametrize(
    ("sources", "files"),
    [
        ({"demo/gpu/k.cu": KERNEL}, ["demo/gpu/one*.so", "demo/gpu/two*.so"]),
        (
            {"demo/gpu/k.cu": '#include "k.h"\n', "demo/gpu/k.h": KERNEL},
            ["demo/gpu/one*.so", "demo/gpu/two*.so"],
        ),
        (
            {"demo/gpu/k.cu": "#include <ATen/native/cuda/Loops.cuh>\n"},
            ["demo/gpu/one*.so", "demo/gpu/two*.so"],
        ),
        ({"demo/gpu/k.cu": "#include <cuda_runtime.h>\nint n() { return cudaSetDevice(0); }\n"}, []),
    ],
    ids=["kernels", "of-a-header", "of-others", "calls-alone"],
)
def test_cython_makes_a_module_of_each_file(tmp_path, sources, files):
    lines = (
        'name, sources = "demo.gpu", []',
        "if glob(PYX):",
        '    name = "demo.gpu.*"',
        '    sources = ["src/demo/gpu/*.pyx"]',
        'sources += glob("src/demo/gpu/*.cu")',
        "Extension(name, sources=sources)",
        'Extension("demo.k", ["k.cu"])',
    )
    script = PLAIN + "\n".join(lines)
    names = dict.fromkeys(("__init__.pxd", "one.pyx", "two.pyx"), "")
    sources |= {f"demo/gpu/{name}": text for name, text in names.items()} | {"demo/__init__.py": ""}
    placed = {f"src/{name}": text for name, text in sources.items()}
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL, **placed})
    assert found.keys["objects.files"] == (*files, "demo/k*.so")


@pytest.mark.parametrize(
    ("name", "text", "cpu", "noted"),
    [
        ("setup.py", 'Extension("demo._c", ["a.c"], extra_compile_args=["-march=native"])', "x86-64", False),
        ("setup.py", 'import cpuinfo\nExtension("demo._c", ["a.c"])', None, True),
        ("meson.build", "add_project_arguments('-march=native', language: 'c')", "x86-64", False),
        ("meson.build", "found = compiler.run(code, args: '-mavx2')", None, True),
    ],
)
def test_code_for_the_cpu_that_builds(tmp_path, name, text, cpu, *, noted):
    meson = '[build-system]\nrequires = ["meson-python"]\nbuild-backend = "mesonpy"\n'
    found = drafted(tmp_path, {name: text, **({"pyproject.toml": meson} if name == "meson.build" else {})})
    assert found.keys.get("build.cpu") == cpu
    assert ("native-check" in found.notes) == noted


@pytest.mark.parametrize(
    ("flag", "declared", "command"),
    [
        ("-std=c++17", "torch", ("sed", "-i", "s/-std=c++17/-std=c++20/g", "setup.py")),
        ("-std=c++20", "torch", None),
        ("-std=c++14", "torch>=1.8", ("sed", "-i", "s/-std=c++14/-std=c++20/g", "setup.py")),
        ("-std=c++14", "torch<2.9", None),
        ("-std=c++14", "torch==2.9.*", None),
    ],
)
def test_older_cxx_than_torch_takes_is_replaced(tmp_path, flag, declared, command):
    script = f'{TORCH}CUDAExtension("demo._c", ["k.cu"], extra_compile_args={{"cxx": ["{flag}"]}})'
    table = f'[build-system]\nrequires = ["{declared}"]\n'
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL, "pyproject.toml": table})
    assert found.keys.get("build.before") == (command and (command,))


def test_opencl_without_cuda_is_asked_for(tmp_path):
    script = f'{PLAIN}setup(ext_modules=[Extension("demo._c", ["c.c"], libraries=["OpenCL", "m"])])'
    assert drafted(tmp_path, {"setup.py": script}).notes["of-system"] == {"names": "OpenCL"}


@pytest.mark.parametrize("words", ['name_of(platform), ["k.cu"]', "**settings"])
def test_names_that_only_a_run_knows_are_asked_for(tmp_path, words):
    found = drafted(tmp_path, {"setup.py": f"{TORCH}CUDAExtension({words})", "k.cu": KERNEL})
    assert "objects.files" not in found.keys
    assert "gpu-computed" in found.notes


@pytest.mark.parametrize("header", ["cutlass/gemm/device/gemm.h", "thrust/sort.h", "cub/cub.cuh"])
def test_templates_of_cuda_become_kernels(tmp_path, header):
    files = {"setup.py": TORCH + 'CUDAExtension("demo._c", ["k.cu"])', "k.cu": f"#include <{header}>\n"}
    assert drafted(tmp_path, files).keys["cuda.13.archs"] == "common"


def test_architectures_that_the_only_toolkit_refuses_are_asked_for(tmp_path):
    flags = '["-gencode", "arch=compute_70,code=sm_70", "-gencode", "arch=compute_90,code=sm_90"]'
    script = f'{TORCH}import torch\nCUDAExtension("demo._c", ["k.cu"], nvcc={flags})'
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL})
    assert found.notes["archs-refused"] == {"what": "sm_70", "toolkit": "13.0"}
    assert found.keys["cuda.13.archs"] == ("90",)


def test_architectures_that_every_toolkit_refuses_are_asked_for(tmp_path):
    flags = '["-gencode=arch=compute_30,code=sm_30", "-gencode=arch=compute_60,code=sm_60"]'
    script = f"{PLAIN}Extension('demo._c', ['k.cu'], extra_compile_args={flags})"
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL})
    assert found.notes["archs-refused"] == {"what": "sm_30", "toolkit": "12.4"}


@pytest.mark.parametrize(
    "text", ["setup(extras_require={'cuda': ['pycuda']})", "setup(keywords=['cuda', 'nvcc'])"]
)
def test_words_for_users_are_no_use_of_cuda(tmp_path, text):
    found = drafted(tmp_path, {"setup.py": f"{PLAIN}Extension('demo._c', ['c.c'])\n{text}"})
    assert found.keys["build.cuda"] is False


def test_options_of_programs_are_no_libraries(tmp_path):
    script = f"{PLAIN}subprocess.run(['ls', '-la'])\nExtension('demo._c', ['c.c'], extra_link_args=['-lusb'])"
    assert drafted(tmp_path, {"setup.py": script}).notes["of-system"]["names"] == "usb"


def test_functions_that_hand_on_many_arguments_are_read_once(tmp_path):
    calls = "".join(
        f"def f{n}(a, b):\n    a = a + b\n    b = b + a\n    return f{n}(b, a)\n" for n in range(9)
    )
    found = drafted(
        tmp_path,
        {
            "setup.py": f'{PLAIN}{calls}f0("a", "b")\nExtension(a, [b])\nExtension("demo._c", ["k.cu"])',
            "k.cu": KERNEL,
        },
    )
    assert found.keys["objects.files"] == ("demo/_c*.so",)


def test_a_backend_in_the_project_itself_is_read(tmp_path):
    files = {
        "pyproject.toml": '[build-system]\nrequires = ["hatchling"]\n'
        'build-backend = "packager.pep517"\nbackend-path = ["."]\n',
        "packager/build.py": 'import hatchling.build\ndef build():\n    subprocess.run(["cmake", "cpp"])\n',
        "cpp/CMakeLists.txt": 'option(USE_CUDA "x" OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n',
        "cpp/k.cu": KERNEL,
    }
    found = drafted(tmp_path, files)
    assert found.notes["cmake-switch"]["option"] == "USE_CUDA"
    assert "import-unknown" not in found.notes
    assert found.keys["build.requires"] == ("cmake",)


def test_kernels_that_an_sdist_lacks_are_asked_for(tmp_path):
    script = 'CUDAExtension("demo._c", ["csrc/k.cu", "csrc/here.cu"], nvcc=["arch=compute_90,code=sm_90"])'
    found = drafted(tmp_path, {"setup.py": TORCH + script, "csrc/here.cu": "int f() { return 1; }\n"})
    assert found.notes["absent"] == {"what": "csrc/k.cu"}
    assert (found.keys["cuda.13.archs"], found.keys["objects.files"]) == (("90",), ("demo/_c*.so",))


@pytest.mark.parametrize(
    ("script", "answered", "asked"),
    [
        ("if torch.cuda.is_available() and not '--cpu' in sys.argv:\n    ", True, False),
        ("if not torch.cuda.is_available():\n    raise Exception('no GPU')\n", False, True),
        ("assert torch.cuda.is_available(), 'no GPU'\n", False, True),
        ("if not torch.cuda.is_available():\n    print('no GPU')\n    sys.exit(1)\n", False, True),
        ("if torch.cuda.is_available():\n    pass\nelse:\n    raise RuntimeError\n", False, True),
        ("import torch as th\nif th.cuda.is_available():\n    ", False, True),
        ("if torch.cuda.is_available():\n    cc = torch.cuda.get_device_capability()\n", False, True),
        ("if torch.cuda.is_available() or os.environ.get('FORCE_CUDA') == '1':\n    ", False, False),
        ("", False, False),
    ],
)
def test_a_build_that_looks_for_a_gpu_is_told_that_there_is_one_or_asked_for(
    tmp_path, script, *, answered, asked
):
    script = f'{TORCH}import os, sys, torch\n{script}CUDAExtension("demo._c", ["k.cu"])\n'
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL})
    command = ("sed", "-i", r"s/torch\.cuda\.is_available()/True/g", "setup.py")
    assert found.keys.get("build.before") == ((command,) if answered else None)
    assert ("asks-for-gpu" in found.notes) == asked


def test_a_helper_beside_setup_py_is_read_and_the_package_is_not(tmp_path):
    files = {
        "setup.py": "from build_tools.cuda import modules\nfrom demo import __version__\nsetup(ext_modules=modules())",
        "build_tools/cuda.py": TORCH + 'def modules():\n    return [CUDAExtension("demo._c", ["k.cu"])]\n',
        "demo/__init__.py": 'import os\nos.environ.get("USE_CUDA") == "2"\n',
        "k.cu": KERNEL,
    }
    found = drafted(tmp_path, files).keys
    assert found["objects.files"] == ("demo/_c*.so",)
    assert "build.env.USE_CUDA" not in found


@pytest.mark.parametrize(
    ("flags", "archs", "asked"),
    [
        ('["-gencode", "arch=compute_80,code=sm_80"]', ("80",), False),
        ('[f"-gencode=arch=compute_{cc},code=sm_{cc}" for cc in (80, 90)]', ("80", "90"), False),
        ('[f"-gencode=arch=compute_{cc},code=sm_{cc}" for cc in (80, 90)] + ["-O3"]', ("80", "90"), False),
        ('["-gencode=arch=compute_{},code=sm_{}".format(cc, cc) for cc in ["80"]]', ("80",), False),
        ('[f"-gencode=arch=compute_{cc},code=sm_{cc}" for cc in detected()]', "common", True),
        ('["-gencode=arch=compute_{0},code=sm_{0}".format(cc) for cc in [80, 90]]', ("80", "90"), False),
        ('["-gencode=arch=compute_{0},code=sm_{x}".format(cc, x=cc) for cc in [80, 90]]', "common", True),
        (
            "[]\nccs = [75]\nif cuda < (12, 0):\n    ccs += [35]\nccs += [90]\nif cuda > (14, 0):\n    ccs += [130]\n"
            "for cc in ccs:\n    nvcc += ['-gencode', 'arch=compute_{0},code=sm_{0}'.format(cc)]\n"
            "nvcc += ['-gencode', 'arch=compute_{0},code=compute_{0}'.format(ccs[-1])]",
            ("75", "90+ptx"),
            False,
        ),
        ('["-arch=sm_80"]', ("80+ptx",), False),
        ('["-arch=compute_%s" % detected()]', "common", True),
        (
            '[f"-gencode=arch=compute_{c},code=sm_{c}" for c in found(os.environ["TORCH_CUDA_ARCH_LIST"])]',
            "common",
            False,  # gpuforge sets it
        ),
        ('["-O3"]', "common", False),
    ],
)
def test_computed_architectures(tmp_path, flags, archs, *, asked):
    script = f"{PLAIN}nvcc = {flags}\nExtension('demo._c', ['k.cu'])"
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL})
    assert found.keys["cuda.13.archs"] == archs
    assert ("computed-archs" in found.notes) == asked


@pytest.mark.parametrize(
    "variable", ["DEMO_CUDA_ARCHS", "TCNN_CUDA_ARCHITECTURES", "DEMO_COMPUTE_CAPABILITIES", "GPU_ARCHS"]
)
def test_a_variable_of_the_project_for_architectures_is_asked_for(tmp_path, variable):
    script = f"{PLAIN}os.environ.get({variable!r}, '80')\nExtension('demo._c', ['k.cu'])"
    found = drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL})
    assert found.notes["own-archs"] == {"name": variable}


def test_one_for_hip_is_not(tmp_path):
    """As in mamba-ssm's setup.py."""
    flags = "nvcc = [f\"--offload-arch={os.getenv('HIP_ARCHITECTURES', 'native')}\"]"
    script = f"{PLAIN}import os\n{flags}\nExtension('demo._c', ['k.cu'])"
    assert "own-archs" not in drafted(tmp_path, {"setup.py": script, "k.cu": KERNEL}).notes


@pytest.mark.parametrize(
    ("file", "package"),
    [("python/other/torch/__init__.py", "other.torch"), ("src/python/pkg/__init__.py", "pkg")],
)
def test_the_import_package_has_its_namespaces(tmp_path, file, package):
    """python/sphericart/torch of sphericart-torch."""
    assert drafted(tmp_path, {"setup.py": PLAIN, file: ""}).keys["package.import"] == package


@pytest.mark.parametrize(
    "flags",
    [
        '["-arch=compute_%s" % os.environ.get("DEMO_NVCC")]',
        "[f'-arch=sm_{each}' for each in os.environ['DEMO_NVCC'].split(';')]",
        "[]\nfor each in sorted(given):\n    nvcc += ['--generate-code={}'.format(each)]",
    ],
)
def test_so_is_a_variable_that_flags_are_made_from(tmp_path, flags):
    """Here in a module of a package, in a folder that setup.py names, as CuPy has it."""
    files = {
        "setup.py": f"import sys\n{PLAIN}sys.path.append('install')\nimport demo_build\nExtension('demo._c', ['k.cu'])",
        "install/demo_build/__init__.py": "",
        "install/demo_build/_nvcc.py": (
            f"import os\ngiven = os.getenv('DEMO_NVCC', '').split(';')\nnvcc = {flags}\n"
            "default, target = ['-arch=sm_50'], f'{machine}-linux'"
        ),
        "k.cu": KERNEL,
    }
    found = drafted(tmp_path, files)
    assert found.notes["own-archs"] == {"name": "DEMO_NVCC"}
    assert not {"import-unknown", "of-system", "archs-refused"} & found.notes.keys()
    assert found.keys["cuda.13.toolkit"] == "13.0"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("USE_CUDA", "1"),
        ("DEMO_WITH_CUDA", "1"),
        ("FORCE_CUDA", "1"),
        ("DEMO_BUILD_CUDA_EXT", "1"),
        ("BUILD_DEMO", "1"),
        ("BUILD_DEMO_DOCS", None),
        ("USE_CUDA_FP8", None),  # for a part, which upstream leaves off
        ("DEMO_ENABLE_CUDA_GRAPHS_DEBUG", None),
        ("DEMO_NO_USE_CUDA", None),
        ("SKIP_CUDA_BUILD", None),
    ],
)
def test_a_variable_is_set_if_it_switches_cuda_as_a_whole(tmp_path, variable, value):
    script = f"{PLAIN}if os.environ.get({variable!r}, '0') == '1':\n    Extension('demo._c', ['k.cu'])"
    found = drafted(tmp_path, {"setup.py": f"{script}\nsetup(name='demo')", "k.cu": KERNEL}).keys
    assert found.get(f"build.env.{variable}") == value


def test_without_cuda_no_variable_is_set_and_one_that_may_switch_it_is_asked_for(tmp_path):
    script = f"{PLAIN}if os.environ.get('USE_GPU') == '1':\n    run(configure)"
    found = drafted(tmp_path, {"setup.py": script})
    assert found.keys["build.cuda"] is False
    assert not [key for key in found.keys if key.startswith("build.env")]
    assert found.notes == {"cuda-perhaps": {"name": "USE_GPU"}}


@pytest.mark.parametrize(
    ("script", "declared", "requires"),
    [
        ("import pkg_resources", "", ("setuptools<82",)),
        ("import pkg_resources", "setuptools<81", ()),
        ("import pkg_resources", "setuptools>=64", ("setuptools<82",)),
        ("try:\n    import pkg_resources\nexcept ImportError:\n    pass", "", ()),
        ("import setuptools, distutils.core, wheel", "", ()),
        ("from distutils import ccompiler, msvccompiler", "", ("setuptools<74",)),
        ("import distutils.msvccompiler as compiler", "setuptools>=61", ("setuptools<74",)),
        ("import numpy, Cython.Build, skbuild", "numpy", ("cython", "scikit-build")),
        ("import nobody_knows", "", ()),
    ],
)
def test_only_a_known_project_is_required_for_a_module(tmp_path, script, declared, requires):
    table = f"[build-system]\nrequires = [{declared!r}]\n" if declared else ""
    found = drafted(tmp_path, {"setup.py": f"{script}\nsetup()", "pyproject.toml": table})
    named = found.keys.get("build.requires", ())
    assert isinstance(named, tuple)
    assert tuple(each for each in named if each not in {"cmake", "ninja"}) == requires


@pytest.mark.parametrize(
    ("script", "ninja"),
    [
        ('run(["cmake", "."])', False),
        ('run(["cmake", ".", "-GNinja"])', True),
        ('run(["cmake", "-G", "Ninja"])', True),
    ],
)
def test_ninja_is_required_if_the_script_uses_it(tmp_path, script, *, ninja):
    found = drafted(tmp_path, {"setup.py": script, "CMakeLists.txt": ""})
    assert found.keys["build.requires"] == (("cmake", "ninja") if ninja else ("cmake",))


@pytest.mark.parametrize(
    ("file", "asked"),
    [
        ("own.py", False),
        ("deep/tools/own.py", False),
        ("deep/tools/own/__init__.py", False),
        ("demo/own.py", True),  # setup.py does not name its folder
        ("owned.py", True),
        ("own.txt", True),
    ],
)
def test_a_module_is_asked_for_unless_it_is_the_project_s(tmp_path, file, *, asked):
    """A package of the index that happens to have its name is somebody else's."""
    script = 'sys.path.insert(0, "deep/tools")\nimport own\nsetup()\n'
    found = drafted(tmp_path, {"setup.py": script, file: ""})
    assert "own" not in str(found.keys.get("build.requires", ()))
    assert ("import-unknown" in found.notes) == asked


@pytest.mark.parametrize(
    ("text", "linkage", "noted"),
    [
        ("target_link_libraries(a PRIVATE CUDA::cudart_static)", "static", ""),
        ("target_link_libraries(a PRIVATE CUDA::cudart)", "pip", ""),
        ("target_link_libraries(a PRIVATE CUDA::cudart_static CUDA::cufft)", "pip", "static-cudart-beside"),
        ("if(WIN32)\ntarget_link_libraries(a PRIVATE CUDA::cudart_static)\nendif()", "pip", ""),
    ],
)
def test_a_static_runtime_decides_the_linkage(tmp_path, text, linkage, noted):
    found = drafted(
        tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": f"enable_language(CUDA)\n{text}\n"}
    )
    assert found.keys["cuda.linkage"] == linkage
    assert {kind for kind in found.notes if kind.startswith("static")} == ({noted} if noted else set())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("find_package(X11 REQUIRED)\nfind_package(PNG)\nfind_package(OpenCL REQUIRED)", "X11, PNG, OpenCL"),
        (
            "find_package(Python REQUIRED)\nfind_package(CUDAToolkit)\nfind_package(NCCL)\nfind_package(Threads)",
            "",
        ),
        ("if(WIN32)\nfind_package(ZLIB)\nendif()", ""),
        ("option(TESTS on OFF)\nif(TESTS)\nfind_package(Boost)\nendif()", ""),
    ],
)
def test_packages_that_no_requirement_brings_are_listed(tmp_path, text, names):
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": text})
    assert found.notes.get("of-system", {"names": ""})["names"] == names


@pytest.mark.parametrize(
    ("package", "source", "cuda"),
    [
        ("find_package(CUDA)", "#include <CL/cl.h>\n", False),  # a hint for where OpenCL is
        ("find_package(CUDAToolkit QUIET)", "#include <CL/cl.h>\n", False),
        ("find_package(CUDAToolkit QUIET)", "#include <cuda_runtime.h>\n", True),
        ("find_package(CUDAToolkit REQUIRED)", "#include <CL/cl.h>\n", True),
    ],
)
def test_opencl_is_not_taken_for_cuda(tmp_path, package, source, *, cuda):
    text = f"{package}\nfind_package(OpenCL REQUIRED)\n"
    found = drafted(tmp_path, {"pyproject.toml": SKBUILD, "CMakeLists.txt": text, "src/a.cpp": source})
    assert ("build.cuda" not in found.keys) == cuda
    assert found.notes["of-system"]["names"] == "OpenCL"


MESON = '[build-system]\nrequires = ["meson-python"]\nbuild-backend = "mesonpy"\n[project]\nname = "demo"\n'


@pytest.mark.parametrize(
    ("text", "abi", "cuda"),
    [
        ("py.extension_module('_c', 'c.c')", None, False),
        ("# py.extension_module('_c', 'c.c')", "none", False),
        ("py.install_sources('a.py')", "none", False),
        ("add_languages('cuda')\npy.extension_module('_c', 'k.cu')", None, True),
    ],
)
def test_meson_files_of_subfolders_are_read(tmp_path, text, abi, *, cuda):
    files = {"pyproject.toml": MESON, "meson.build": "subdir('demo')\n", "demo/meson.build": text}
    found = drafted(tmp_path, files).keys
    assert found.get("package.abi") == abi
    assert ("build.cuda" not in found) == cuda


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("demo/fft.py", 'lib = ctypes.CDLL("libcufft.so.12")', "libcufft.so.12"),
        ("demo/fft.py", 'lib = ctypes.CDLL("libcuda.so.1")', ""),  # the driver
        ("demo/fft.py", 'lib = ctypes.CDLL("libpng.so")', ""),
        ("tests/test_fft.py", 'lib = ctypes.CDLL("libcufft.so.12")', ""),
        ("setup.py", 'lib = ctypes.CDLL("libcufft.so.12")', ""),
    ],
)
def test_a_library_that_only_python_opens_is_listed(tmp_path, file, text, names):
    found = drafted(tmp_path, {"setup.py": "setup()", file: text})
    assert found.notes.get("opened", {"names": ""})["names"] == names
