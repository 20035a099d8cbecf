"""The sentences for the reasons of guesses."""

from __future__ import annotations

from gpuforge.diagnostics import shown
from gpuforge.project.guess.guess import Reason

_SENTENCES = {
    "name": "the project's name",
    "name-of-folder": "the folder's name: no file of the project has its name",
    "from-folder": "the project lies beside this file",
    "from-sdist": "the sdist lies beside this file",
    "from-index": "{file}; the index gives this digest, and the download has it",
    "py-api": 'wheel.py-api is "{value}"',
    "limited-api": "the extension is for the limited API",
    "pure": "no file says that anything is compiled",
    "published": "the newest wheels on the index are {tags}",
    "abi3-lowest": "the oldest Python that the wheel supports",
    "classifiers": "the Pythons of the classifiers that gpuforge builds for",
    "requires-python": "the Pythons that Requires-Python allows and gpuforge builds for",
    "requires-none": "Requires-Python allows none that gpuforge builds for; these may fail",
    "every-python": "no file limits the Pythons",
    "import": "the package that the wheel has",
    "imports": "which package do users import? Write `import` for one of {packages}",
    "no-cuda": "the build uses no CUDA: no CMake file, setup.py or extension asks for it",
    "cmake-old": "the project asks for policies of CMake {version}, and CMake 4 has none before 3.5",
    "cmake-needed": "otherwise scikit-build-core uses the machine's CMake, which a clean build does not have",
    "cmake-called": "the build calls CMake, which a clean build does not have",
    "no-cmake-files": "the build calls CMake, and {file} is not there: is this the project's whole source? "
    "Often only its repository has it",
    "ninja-needed": "the build uses this generator",
    "setuptools-limit": "setup.py imports {module}, which setuptools {release} and later do not have",
    "import-unknown": "setup.py imports {modules}: find out which projects have these modules, and add those to "
    "`requires`. A project of the index with such a name may be somebody else's",
    "cuda-perhaps": "setup.py reads {name}: if the build uses CUDA, remove `cuda = false` and write [cuda] with a "
    "toolkit",
    "of-system": "the build looks for {names}, which no requirement brings: install them on the machine or in the "
    "image that builds, put them into a folder of `overlay`, or turn off what uses them",
    "imported": "setup.py imports {module}, and pyproject.toml does not require it",
    "numpy-headers": "{header} is included, and pyproject.toml does not require NumPy",
    "framework-ninja": "{framework} compiles extensions with ninja",
    "cmake-option": "CUDA is used only if {option} is {value}",
    "cmake-switch": "CMake's option {option} should be {value}, as its defaults make a build without CUDA or for the "
    "machine that builds: find out how setup.py passes it",
    "cibuildwheel": "as cibuildwheel has it",
    "cibuildwheel-pythons": "the Pythons that cibuildwheel builds for and gpuforge, too",
    "cibuildwheel-before-build": "cibuildwheel installs it before each build",
    "cibuildwheel-left": "cibuildwheel's settings that have no equivalent here, or whose values only it knows: {what}",
    "before-build": "cibuildwheel runs `{command}` before each build: if it needs no network, write it as a list of "
    "words into `before`",
    "environment-pass": "cibuildwheel passes {names} on to the build; here it sees only the variables of this table: "
    "write their values",
    "repair": "cibuildwheel repairs wheels with `{command}`; gpuforge repairs them by `linkage` and `exclude`",
    "variable": "setup.py compares {name} with this value, probably to switch CUDA on",
    "toolkit-variable": "setup.py reads {name}, probably as the folder of a CUDA toolkit",
    "own-archs": "the project takes its GPU architectures from {name}: write those of `archs` into [build.env] or "
    "[build.config-settings], in its form",
    "computed-archs": "the project computes its GPU architectures: write what it compiles for, or find the variable "
    "that sets them",
    "native": "this compiles for the CPU of the machine that builds (-march=native), and crashes on older ones: look "
    "for the option that turns it off",
    "native-option": "{name} compiles for the CPU of the machine that builds: the wheel would crash on older ones",
    "force-build": "otherwise setup.py may download a finished wheel; builds have no network",
    "downloads": "CMake may download {what}. Builds have no network: put the files into a folder of `overlay`, or "
    "turn the feature off by `config-settings`",
    "script-downloads": "setup.py imports {module}. Builds have no network: put what it downloads into a folder of "
    "`overlay`",
    "before-all": "cibuildwheel runs `{command}` before the builds: install these packages on this machine, or build "
    "in an image that has them",
    "linkage": "CUDA's libraries come from NVIDIA's wheels on PyPI (docs/linkage.md compares the others)",
    "framework-headers": "{name}: {framework}'s headers include its headers",
    "included": "{name}: {header} is included",
    "linked": "{name} is linked",
    "library-unknown": "{name} is linked, and gpuforge does not know a package with it",
    "static-cudart": "{name} is linked, and no library of CUDA that is shared: the wheel needs nothing from pip",
    "static-cudart-beside": "{name} is linked, which brings a second runtime beside that of the "
    "shared libraries: link CUDA::cudart",
    "static": "{name} may be linked, which NVIDIA's packages on PyPI do not have: look for the option that links the "
    "shared library, or take a toolkit that has it (docs/linkage.md)",
    "static-unless": "CMake's {option} links the shared library; otherwise {name} is linked, which NVIDIA's "
    "packages on PyPI do not have",
    "both-majors": "nothing in the project limits the CUDA versions; remove those that you do not publish",
    "named-for": "the project's name, {name}, is for this CUDA",
    "framework-cuda": "the newest {framework} on PyPI is built with CUDA {major}",
    "framework-required": "{what} is built with this CUDA on PyPI",
    "cuda-classifiers": "the CUDA versions of the classifiers",
    "requires-cuda": "the project requires {name}",
    "toolkit-at-least": "CMake's find_package asks for CUDA {version} or newer",
    "archs-gone": "the project compiles for {what}, which later toolkits refuse",
    "no-kernels": "no GPU code of its own: no kernel is defined in the sources that are compiled",
    "fixed-archs": "the project's files set them, whatever CMAKE_CUDA_ARCHITECTURES or TORCH_CUDA_ARCH_LIST say",
    "common": "the smallest set with code for every GPU of this toolkit; add the architectures that must be fastest",
    "gpu-object": "the audit proves that these files are there, with code for `archs`",
    "gpu-files": "CUDA extensions",
    "gpu-computed": "the names of CUDA extensions are computed: list their files as an object with the role `gpu`, so "
    "that a build which leaves their GPU code out fails",
    "excluded": "auditwheel leaves these out, too",
    "shipped-code": "GPU code that is not compiled here; the audit would call it undeclared",
    "image": 'cibuildwheel builds in {image}: with --runner docker, write image = "manylinux_2_28" or one of '
    "`gpuforge images list`",
    "test-command": "cibuildwheel tests with `{command}`: if that passes without a GPU, write it as "
    "`command` of [test]",
    "opened": "Python code opens {names}, which no file is linked with: require the packages that bring them, in "
    "`requires` of [wheel]",
    "openacc": "OpenACC directives: to compile them on users' machines, list these sources as an object "
    '(role = "user-compiled"; docs/kernels.md)',
    "openmp-target": "OpenMP directives for GPUs: to compile them on users' machines, list these sources as an object "
    '(role = "user-compiled"; docs/kernels.md)',
}


def sentence(reason: Reason) -> str:
    """Write `setup.py:12, setup.cfg:3: why`, on one line."""
    facts = {name: _cut(value) for name, value in reason.facts.items()}
    text = _SENTENCES[reason.kind].format_map(facts)
    places = ", ".join(dict.fromkeys(map(str, reason.where)))
    return shown(f"{places}: {text}" if places else text)


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:299]}…"
