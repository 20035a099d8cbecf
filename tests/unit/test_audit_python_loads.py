"""What Python code loads, by which names, and for whom: what it loads is there for binaries that come later."""

from pathlib import Path

import pytest
from audit_samples import TAGS, elf, said, wheel

from gpuforge.audit import audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.read.python_source import Parser
from gpuforge.audit.report.sentences import lines


@pytest.mark.parametrize(
    ("project", "requires", "whose"),
    [
        ("nvidia_cuda_runtime_cu12", ["nvidia-cuda-runtime-cu12"], "nvidia-cuda-runtime-cu12"),
        ("base", [], f"base-1.0-{TAGS}.whl"),
        ("demo", [], None),
    ],
)
def test_what_python_code_loads_is_said_to_be_whose_it_is(tmp_path, project, requires, whose):
    soname = "libcudart.so.12" if requires else "libtool.so"
    text = f"ctypes.CDLL(os.path.join(sys.prefix, 'lib', '{soname}'))\n".encode()
    files = {"demo/ext.so": elf(needed=[soname]), "demo/__init__.py": text}
    lib = {f"{project}/lib/{soname}": elf(soname=soname)}
    wheels = [
        wheel(
            tmp_path,
            files | (lib if project == "demo" else {}),
            name=f"demo-1.0-{TAGS}.whl",
            requires=requires,
        )
    ]
    if project != "demo":
        wheels.append(wheel(tmp_path, lib, name=f"{project}-1.0-{TAGS}.whl"))
    (found,) = said(audit(wheels), "GF205")
    assert lines(found) == (f"{soname} ({whose or 'in this wheel'}), NEEDED by demo/ext.so",)


@pytest.mark.parametrize(
    ("requires", "severity"), [([], "warning"), (["torch"], "warning"), (["torch", "tensorrt"], "info")]
)
def test_a_library_that_no_requirement_can_bring_is_not_there(tmp_path, requires, severity):
    code = b"import ctypes, os\nctypes.CDLL(os.path.join(find(), 'libnvinfer.so.8'))\n"
    files = {"demo/ext.so": elf(needed=["libnvinfer.so.8"]), "demo/__init__.py": code}
    (found,) = said(audit([wheel(tmp_path, files, requires=requires)]), "GF205")
    assert found.severity == severity


PATHS = b"import ctypes, os\nctypes.CDLL(os.path.join(root, 'libx.so'))\n"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (b"import ctypes\nctypes.CDLL('libx.so')\n", "error"),  # the linker looks there, too
        (b"import ctypes\nctypes.CDLL(None).getpid()\n", "error"),
        (b"import ctypes.util as u, os.path\nctypes.CDLL(u.find_library('c'))\n", "error"),
        (PATHS, "info"),
    ],
)
def test_python_code_that_loads_nothing_helps_nobody(tmp_path, text, severity):
    files = {
        "demo/lib/libx.so": elf(soname="libx.so"),
        "demo/ext.so": elf(needed=["libx.so", "libelse.so"]),
        "demo/a.py": text,
    }
    found = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF202", "GF205")]
    assert [f.severity for f in found] == [severity]


OPEN = "ctypes.CDLL(os.path.join(root, 'libx.so'))"


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        (f"if sys.platform == 'linux':\n    {OPEN}", True),
        (f"if sys.platform == 'win32':\n    {OPEN}", False),
        (f"if sys.platform.startswith(('win', 'cygwin')):\n    {OPEN}", False),
        (f"if platform.system().lower() in ('windows', 'darwin'):\n    {OPEN}", False),
        (f"MAC = sys.platform == 'darwin'\nif not MAC:\n    {OPEN}", True),
        (f"MAC = sys.platform == 'darwin'\nif MAC:\n    {OPEN}", False),
        (f"if os.name != 'nt' or sys.maxsize:\n    {OPEN}", True),
        (f"if os.name == 'nt' and sys.maxsize:\n    {OPEN}", False),
        (f"if os.name == 'nt':\n    pass\nelse:\n    {OPEN}", True),
        (f"if os.name == 'posix':\n    pass\nelse:\n    {OPEN}", False),
        (f"if not os.environ.get('DEMO_NO_LIBRARIES'):\n    {OPEN}", True),
        (f"if os.environ.get('DEMO_LIBRARIES'):\n    {OPEN}", False),
        (f"if int(os.getenv('DEMO_LIBRARIES', '1')):\n    {OPEN}", True),
        (f"if int(os.getenv('DEMO_LIBRARIES', '0')):\n    {OPEN}", False),
        (f"if 'DEMO_LIBRARIES' in os.environ:\n    {OPEN}", False),
        (f"if int('x') or None < 1:\n    {OPEN}", True),  # not known
        (f"if __name__ == '__main__':\n    {OPEN}", False),
        (f"def load():\n    if os.name == 'nt':\n        return\n    {OPEN}\nload()", True),
        (f"def load():\n    if os.name != 'nt':\n        return\n    {OPEN}\nload()", False),
        (f"{OPEN}\nfrom . import ext", True),
        (f"from . import ext\n{OPEN}", False),
        (f"from .ext import function\n{OPEN}", False),
        (f"from . import exts\n{OPEN}", True),
        (f"try:\n    from . import ext\nexcept ImportError:\n    {OPEN}", True),
        (f"def load():\n    {OPEN}\nfrom . import ext\nload()", False),
        (f"def load():\n    {OPEN}\nload()\nfrom . import ext", True),
    ],
)
def test_code_that_no_import_runs_first_loads_nothing(tmp_path, code, *, runs):
    files = {
        "demo/lib/libx.so": elf(soname="libx.so"),
        "demo/ext.so": elf(needed=["libx.so"], strings=["PyInit_ext"]),
        "demo/__init__.py": f"import ctypes, os, platform, sys\nroot = os.path.dirname(__file__)\n{code}\n".encode(),
    }
    found = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF202", "GF205")]
    assert [f"{f.severity} {f.code}" for f in found] == ["info GF205" if runs else "error GF202"]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (b"import ctypes, os\nctypes.CDLL(os.path.join(root, name))\n", "warning"),  # it may be this one
        (b"import ctypes, os\nctypes.CDLL(os.path.join(root, 'liby.so'))\n", "error"),  # it is another one
    ],
)
def test_who_names_what_he_loads_loads_nothing_else(tmp_path, text, severity):
    lib = {"demo/lib/libx.so": elf(soname="libx.so"), "demo/ext.so": elf(needed=["libx.so"])}
    for package, wanted in (("demo", severity), ("other", "error")):  # a package opens its own
        report = audit([wheel(tmp_path, {**lib, f"{package}/a.py": text})])
        assert [f.severity for f in said(report, "GF202")] == [wanted]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # torch opens what it is given, and no other
        (b"libs = ['c10']\ntorch.ops.load_library(path)\n", "GF201"),
        (b"ctypes.CDLL(find('c10'))\n", "GF205"),
        (b"load_nvidia_dynamic_lib('cublas')\n", "GF201"),
    ],
)
def test_what_a_framework_opens_helps_nobody_else(tmp_path, text, code):
    files = {"demo/ext.so": elf(needed=["libc10.so"]), "demo/a.py": text}
    assert [f.code for f in audit([wheel(tmp_path, files)]).findings] == [code]


LOADER = b"for name in listed():\n    ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)\n"


@pytest.mark.parametrize(
    ("beside", "code"),
    [
        ({}, "GF202"),
        ({"demo/libs.json": b'{"libraries": ["libcublas.so.12"]}'}, "GF205"),
        ({"demo/other.py": b"WANTED = ('cublas',)\n"}, "GF205"),
        ({"else/libs.json": b'{"libraries": ["libcublas.so.12"]}'}, "GF202"),
        ({"demo/tools/build.py": b"WANTED = ('cublas',)\n"}, "GF202"),
    ],
)
def test_a_loader_of_a_list_loads_what_is_listed(tmp_path, beside, code):
    files = {"demo/ext.so": elf(needed=["libcublas.so.12"]), "demo/load.py": LOADER, **beside}
    report = audit([wheel(tmp_path, files, requires=["nvidia-cublas-cu12"])])
    assert [f.code for f in report.findings] == [code]


@pytest.mark.parametrize(
    ("needed", "said_so"),
    [
        ("libnvonnxparser.so.11", "tensorrt-cu12-libs or tensorrt-cu13-libs would"),
        ("libgomp.so.1", "no known package brings them"),
    ],
)
def test_a_library_that_a_package_has_loaded_is_no_unknown_one(tmp_path, needed, said_so):
    (found,) = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=[needed])})]).findings
    assert (found.code, found.severity) == ("GF201", "warning")
    assert said_so in found.message


def test_who_lists_a_folder_loads_all_of_a_package(tmp_path):
    text = b"for path in glob.glob(folder + '/nvidia/' + 'cublas' + '/lib/*'):\n    ctypes.CDLL(path)\n"
    files = {"demo/libx.so": elf(needed=["libcublas.so.12", "libcublasLt.so.12"]), "demo/a.py": text}
    (found,) = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF201", "GF205")]
    assert (found.code, len(lines(found))) == ("GF205", 2)


def test_compiled_code_may_be_told_what_to_open(tmp_path):
    text = b"import os\nfrom pathlib import Path\nos.environ['DEMO_DYNLIBS'] = str(Path(found) / 'libcublas.so.12')\n"
    files = {"demo/libx.so": elf(needed=["libcublas.so.12"]), "demo/a.py": text}
    (found,) = audit([wheel(tmp_path, files, requires=["nvidia-cublas-cu12"])]).findings
    assert (found.code, found.severity) == ("GF205", "info")
    files["demo/a.py"] = text.replace(b"DEMO_DYNLIBS", b"LD_LIBRARY_PATH")  # read when the process starts
    assert [f.code for f in audit([wheel(tmp_path, files)]).findings] == ["GF201"]


@pytest.mark.parametrize(
    "code",
    [
        b'# if `ctypes.CDLL("foo")` fails\ntorch.ops.load_library(path)\n',  # a comment opens nothing
        b'ctypes.CDLL("other.so")\ntorch.ops.load_library(path)\n',
    ],
)
def test_a_library_that_a_variable_says_may_be_any(tmp_path, code):
    files = {
        "demo/lib/libx.so": elf(soname="libx.so"),
        "demo/lib/_x.so": elf(needed=["libx.so"], strings=["PyInit__x"]),
        "demo/a.py": code,
    }
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == "warning"
    files["demo/a.py"] = b'ctypes.CDLL("other.so")\n'
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == "error"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (b"", "Libraries with the same name are in several places."),
        (b"CDLL(join(dirname(__file__), 'libgomp.so.1'))", "Modules that are imported together"),
    ],
)
def test_who_opens_a_library_by_its_path_may_come_last(code, told, tmp_path):
    library = {"libgomp.so.1": elf(soname="libgomp.so.1")}
    paths = [
        wheel(tmp_path, files, name=f"{name}-1.0-{TAGS}.whl", requires=["d"])
        for name, files in {
            "a": {"a/a.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/../d")},
            "b": {"b/b.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN"), "b/libgomp.so.1": elf()},
            "c": {"c/c.so": elf(needed=["libgomp.so.1"], runpath="$ORIGIN/../d"), "c/__init__.py": code},
            "d": {f"d/{name}": data for name, data in library.items()},
        }.items()
    ]
    (found,) = said(audit(paths), "GF105")
    assert found.message.startswith(told)


BARE = "import ctypes, os\nDATA = os.path.join(os.path.dirname(__file__), 'data.json')\n"
PROBE = "try:\n    {}\nexcept OSError:\n    pass\n"
CUDART = "libcudart.so.12"


@pytest.mark.parametrize(
    ("text", "opens"),
    [
        (f"ctypes.CDLL('{CUDART}')", False),
        (f"def load(name):\n    return ctypes.CDLL(name)\nload('{CUDART}')", False),
        (f"for name in ('{CUDART}', 'libz.so.1'):\n    ctypes.CDLL(name)", False),
        ("for each in (13, 12):\n    ctypes.CDLL(f'libcudart.so.{each}')", False),
        (f"LIBRARY = '{CUDART}'\nctypes.cdll.LoadLibrary(LIBRARY)", False),
        ("ctypes.CDLL(ctypes.util.find_library('cudart'))", False),
        (f"ctypes.CDLL(os.path.join(DATA, 'libx.so'))\nctypes.CDLL('{CUDART}')", False),
        (f"ctypes.CDLL(os.path.join(DATA, '{CUDART}'))", True),
        (f"def load(name):\n    return ctypes.CDLL(os.path.join(DATA, name))\nload('{CUDART}')", True),
        (f"NAMES = ['{CUDART}']\nfor n in NAMES:\n    ctypes.CDLL(str(Path(DATA).parent / n))", True),
        (f"def path():\n    return DATA + '/{CUDART}'\nctypes.CDLL(path())", True),
        (f"for n in ['{CUDART}']:\n    try:\n        ctypes.CDLL(os.path.join(DATA, n))\n    "
         "except OSError:\n        ctypes.CDLL(n)", True),
    ],
)  # fmt: skip
def test_each_call_decides_whether_it_opens_a_path(tmp_path, text, *, opens):
    files = {"demo/ext.so": elf(needed=[CUDART]), "demo/a.py": (BARE + text).encode()}
    report = audit([wheel(tmp_path, files, requires=["nvidia-cuda-runtime-cu12"])])
    assert bool(said(report, "GF205")) is opens
    assert bool(said(report, "GF202")) is not opens


@pytest.mark.parametrize(
    ("file", "text", "severity"),
    [
        ("__init__", f"CDLL('{CUDART}')\n", "error"),
        ("__init__", f"def load():\n    return CDLL('{CUDART}')\nload()\n", "error"),
        ("lazy", f"def load():\n    return CDLL('{CUDART}')\n", "warning"),
        ("lazy", f"CDLL('{CUDART}')\n", "warning"),
        ("__init__", PROBE.format(f"CDLL('{CUDART}')"), ""),
        ("__init__", f"def load():\n    CDLL('{CUDART}')\n{PROBE.format('load()')}", ""),
        ("__init__", f"with suppress(OSError):\n    CDLL('{CUDART}')\n", ""),
        (
            "__init__",
            PROBE.format(f"CDLL('{CUDART}')").replace("pass", "raise ImportError('no CUDA')"),
            "error",
        ),
        ("__init__", f"CDLL(os.path.join(HERE, '{CUDART}'))\n", ""),
        ("__init__", f"CDLL(os.environ.get('DEMO_CUDART', '{CUDART}'))\n", "error"),
        ("__init__", f"CDLL(os.getenv('DEMO_CUDART') or '{CUDART}')\n", "error"),
        ("__init__", "CDLL(os.environ.get('DEMO_CUDART'))\n", ""),
        ("__init__", "CDLL('libcuda.so.1')\n", ""),  # the driver's
        ("__init__", "CDLL('libz.so.1')\n", ""),
        ("__init__", "CDLL('libdemo.so')\n", "error"),
        ("__init__", "CDLL('libcublas.so')\n", "error"),  # only toolkits have it
        (
            "__init__",
            "for n in ('libcublas.so', 'libcublas.so.12'):\n    load(n)\nCDLL('libcublas.so')\n",
            "",
        ),
    ],
)
def test_a_bare_name_that_the_linker_does_not_find_is_reported_unless_the_code_handles_it(
    tmp_path, file, text, severity
):
    files = {"demo/lib/libdemo.so": elf(soname="libdemo.so"), f"demo/{file}.py": text.encode()}
    for requires in ([], ["nvidia-cuda-runtime-cu12"]):
        found = said(audit([wheel(tmp_path, files, requires=requires)]), "GF208")
        assert [f.severity for f in found] == ([severity] if severity else [])
    path = wheel(tmp_path, files, requires=["torch==2.8.0"])  # its import loads CUDA's libraries
    assert bool(said(audit([path]), "GF208")) is (severity == "error" and ".so'" in text)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("def find():\n    from nvidia.nccl import lib\n    return lib.__path__\n", False),
        ("from nvidia import (\n    cublas,\n    nccl,\n)\n", False),
        ("try: import os, nvidia.nccl as n\nexcept ImportError: pass\n", False),
        ("import_module(name='nvidia.nccl')\n", False),
        ("from nvidia import cublas\nprint('from nvidia.nccl import lib')\n", True),
        ("", True),
    ],
)
def test_code_that_imports_nvidias_package_finds_its_library_for_the_object_that_opens_it(
    tmp_path, text, *, reported
):
    files = {"demo/ext.so": elf(sections={".rodata": b"libnccl.so.2\0"}), "demo/comm.py": text.encode()}
    found = said(audit([wheel(tmp_path, files, requires=["nvidia-nccl-cu12"])]), "GF208")
    assert ["no search path" in f.what for f in found] == [True] * reported


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("CDLL(os.path.join(HERE, 'nvidia/cublas/lib', 'libcublas.so.12'))", True),
        (PROBE.format("CDLL('libcublas.so.12')"), True),
        ("CDLL(os.path.join(HERE, 'nvidia/cu13/lib', 'libcublas.so.13'))", False),
        ("for v in (13, 12):\n    CDLL(os.path.join(HERE, f'libcublas.so.{v}'))", False),
        ("for n in ('libcublas.so.13', 'libcublas.so.12'):\n    CDLL(os.path.join(HERE, n))", False),
        ("CDLL(os.path.join(HERE, 'libnvrtc.so.12'))", False),  # a compiler
        ("CDLL(os.path.join(HERE, 'libcurand.so.10'))", False),  # the same for all
    ],
)
def test_code_that_opens_libraries_of_another_major_only_is_reported(tmp_path, text, *, reported):
    files = {"demo/ext.so": elf(), "demo/a.py": text.encode()}
    found = said(audit([wheel(tmp_path, files, requires=["nvidia-cublas==13.*"])]), "GF208")
    assert [f.severity for f in found if "another CUDA major" in f.what] == ["warning"] * reported


# What Python code in a wheel loads: by its syntax tree, not by its prose; code that nobody can parse ends nothing.


NEEDS = elf(needed=["libcublas.so.12"])
LOAD = "def load(name):\n    return ctypes.CDLL(os.path.join(ROOT, name))\n"
EXTRA = ["nvidia-cublas-cu12; extra == 'ctk'"]


def findings_of(folder: Path, *, requires: list[str] | None = None, **files: str | bytes) -> list[Finding]:
    """The findings of a wheel with these Python files of the package `demo`, and an extension that needs cuBLAS."""
    texts = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    held = {f"demo/{name}.py": text for name, text in texts.items() if name != "entry_points"}
    if "entry_points" in texts:
        held["demo-1.0.dist-info/entry_points.txt"] = texts["entry_points"]
    path = wheel(folder, {"demo/ext.so": NEEDS, **held}, requires=requires or [])
    return [f for f in audit([path]).findings if f.code in ("GF201", "GF202", "GF205")]


@pytest.mark.parametrize(
    ("prose", "code"),
    [
        ('"""Missing libraries (libcublas.so is not in LD_LIBRARY_PATH) are reported."""\n', "GF201"),
        ('def f():\n    """libcublas.so"""\n', "GF201"),
        ("# libcublas.so is opened by torch\n", "GF201"),
        ('MESSAGE = "cannot open libcublas.so: is it installed?"\n', "GF201"),
        ('def g(e):\n    return f"{e}: libcublas.so, or {e!r}"\n', "GF201"),
        ('NAME = "libcublas.so.12"\n', "GF205"),
        ('NAMES = "libcublas.so.12 libcudart.so.12".split()\n', "GF205"),
        ('def g(v):\n    return f"libcublas.so.{v}"\n', "GF205"),
        ("NAME = '#' + 'libcublas.so.12'  # a sign\n", "GF205"),
    ],
)
def test_a_library_is_loaded_by_code_and_not_by_prose(tmp_path, prose, code):
    assert [f.code for f in findings_of(tmp_path, a=prose + LOAD + "load(x)\n")] == [code]


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, True),
        ({"b": "from demo.a import preload\n"}, True),  # offered, not called
        ({"b": "raise ImportError('call demo.preload() first')\n"}, True),
        ({"b": "import demo.a\ndemo.a.preload()\n"}, False),
        ({"b": "import atexit, demo.a\natexit.register(demo.a.preload)\n"}, False),
        ({"entry_points": "[demo.init]\nload = demo.a:preload\n"}, False),
        ({"entry_points": "[demo.init]\nload = demo.a : preload [fast]\n"}, False),
        ({"entry_points": "[demo.init]\npreload = demo.b:load\na = demo.c:preload\n"}, True),
        ({"entry_points": "[demo.init]\n# load = demo.a:preload\n"}, True),
    ],
)
def test_a_function_that_nobody_calls_is_left_to_users(tmp_path, files, *, left):
    text = f"def names():\n    return ['libcublas.so.12']\n{LOAD}\ndef preload():\n    list(map(load, names()))\n"
    (one,) = findings_of(tmp_path, requires=EXTRA, a=text, **files)
    assert (one.code, one.severity) == ("GF205", "warning" if left else "info")
    assert ("preload() in demo/a.py loads them, and nothing in the wheel calls it" in one.message) is left


@pytest.mark.parametrize(
    "more",
    [
        "preload()\n",
        "class A:\n    def f(self):\n        preload()\n",
        "def __getattr__(name):\n    preload()\n",
        "@hook\ndef f():\n    preload()\n",
        "def own():\n    preload()\n    load('ext.so')\n",  # what the object needs, and the object
    ],
)
def test_a_function_that_is_called_or_loads_the_object_too_is_not_left_to_users(tmp_path, more):
    text = f"{LOAD}\ndef preload():\n    load('libcublas.so.12')\n\n{more}"
    (one,) = findings_of(tmp_path, requires=EXTRA, a=text)
    assert (one.code, one.severity) == ("GF205", "info")


CALL = b"import ctypes\nctypes.CDLL(find('cublas'))\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CALL, "GF205"),
        (b"\xef\xbb\xbf" + CALL, "GF205"),
        (b"# -*- coding: idna -*-\n" + CALL, "GF205"),
        (b"x = '\\d'\r\n" + CALL, "GF205"),
        (CALL + b"print 'Python 2'\n", "GF201"),
        (CALL + b"\0", "GF201"),
        (CALL + b"(" * 5000, "GF201"),
        (CALL + b"x = " + b"-" * 50_000 + b"1\n", "GF205"),  # too deep for the parser: the text is read
        (CALL + b"x = a" + b".b" * 40_000 + b"\n", "GF205"),
        (CALL + b"x = f'" + b"{x}" * 90_000 + b"'\n", "GF205"),
        pytest.param(CALL + b"a;" * 1_000_000, "GF205", marks=pytest.mark.thorough),
        (b"def f():\n    ctypes.CDLL('\\ud800' + find('cublas'))\n", "GF205"),
    ],
    ids=range(12),
)
def test_code_that_cannot_be_parsed_ends_nothing(tmp_path, text, code):
    assert [f.code for f in findings_of(tmp_path, a=text)] == [code]


@pytest.mark.thorough
def test_no_more_than_a_budget_is_parsed():
    parser = Parser()
    one = b"x = 1\n" * 25_000
    trees = [source.tree for _ in range(8) if (source := parser.parse(one))]
    assert [tree is not None for tree in trees] == [True] * 5 + [False] * 3


# Programs in wheels: who starts them, and what they find without anything imported.


def test_a_program_starts_with_nothing_imported(tmp_path):
    program = elf(needed=["libc10.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    report = audit([wheel(tmp_path, {"demo/bin/tool": program}, requires=["torch"])])
    assert [f.severity for f in said(report, "GF202")] == ["error"]
    assert (
        audit([wheel(tmp_path, {"demo/x.so": elf(needed=["libc10.so"])}, requires=["torch"])]).worst() is None
    )


STARTER = b"import os, subprocess\nos.environ['LD_LIBRARY_PATH'] = libs\nsubprocess.call([tool])\n"


@pytest.mark.parametrize(
    ("file", "text", "severity"),
    [
        ("demo/run.py", STARTER, "warning"),
        ("other/run.py", STARTER, "error"),
        ("demo/run.py", STARTER.replace(b"LD_LIBRARY_PATH", b"PATH"), "error"),
        ("demo/run.py", b"print(os.environ['LD_LIBRARY_PATH'])\n", "error"),
    ],
)
def test_python_code_may_start_programs(tmp_path, file, text, severity):
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"demo/bin/tool": program, "demo/lib/libx.so": elf(soname="libx.so"), file: text}
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF202")] == [severity]


@pytest.mark.parametrize(
    ("file", "code", "severity"),
    [
        ("demo/worker", {}, "warning"),
        ("demo/worker", {"demo/__init__.py": b"x = 1\n"}, "error"),
        ("demo/bin/worker", {}, "error"),
    ],
)
def test_a_program_in_a_wheel_without_code_is_started_by_others(tmp_path, file, code, severity):
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    report = audit([wheel(tmp_path, {file: program, "demo/lib/libx.so": elf(soname="libx.so"), **code})])
    assert [f.severity for f in said(report, "GF202")] == [severity]


SCRIPT, CONSOLE = "demo-1.0.data/scripts/tool", "demo-1.0.dist-info/entry_points.txt"


@pytest.mark.parametrize(
    ("beside", "severity"),
    [
        # code that is not known here
        ({SCRIPT: b"#!python\nfrom runner.run import start\nstart()\n"}, "warning"),
        ({SCRIPT: b"#!python\nimport os, sys\nos.execv(sys.argv[1], [])\n"}, "error"),
        ({SCRIPT: b"#!python\nfrom demo.run import start\n", "demo/run.py": b"start = 1\n"}, "error"),
        ({SCRIPT: b"#!python\nfrom demo.run import start\n", "demo/run.py": STARTER}, "warning"),
        ({SCRIPT: b"#!/bin/sh\n"}, "error"),
        ({SCRIPT[:-4] + "other": b"#!python\nfrom runner.run import start\n"}, "error"),
        # as auditwheel makes them
        ({SCRIPT: b"#!python\nimport os, sysconfig\nos.execv(tool, [])\n"}, "error"),
        (
            {
                CONSOLE: b"[console_scripts]\ntool = demo:start\n",
                "demo-1.0.data/purelib/demo.py": b"start = 1\n",
            },
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\ntool = runner.run:start\n"}, "warning"),
        (
            {CONSOLE: b"[console_scripts]\nother = runner.run:start\n[demo]\ntool = runner.run:start\n"},
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\n tool=runner.run : start [fast]\n"}, "warning"),
        (
            {CONSOLE: b"[console_scripts]\nother = runner.run:start\n[ demo ]\ntool = runner.run:start\n"},
            "error",
        ),
        ({CONSOLE: b"[console_scripts]\n# tool = runner.run:start\n"}, "error"),
        ({CONSOLE: b"[console_scripts]\ntool = runner.run:start\nother\n"}, "error"),  # pip refuses it
        ({CONSOLE: b"[console_scripts]\ntool = demo.run:start\n", "demo/run.py": STARTER}, "warning"),
        ({CONSOLE: b"[console_scripts]\ntool = demo.run:start\n", "demo/run.py": b"start = 1\n"}, "error"),
    ],
)
def test_what_is_called_like_a_program_may_start_it(tmp_path, beside, severity):
    program = elf(needed=["libx.so"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"prefix/bin/tool": program, "prefix/lib/libx.so": elf(soname="libx.so"), **beside}
    (found,) = said(audit([wheel(tmp_path, files)]), "GF202")
    assert found.severity == severity
    assert ("LD_LIBRARY_PATH" in found.message) == (severity == "warning")


@pytest.mark.parametrize(
    ("file", "code", "severity"),
    [
        ("libpart.so", {}, "warning"),  # who loads libcore.so has a path to both
        ("parts/libpart.so", {}, "error"),
        ("libpart.so", {"demo/__init__.py": b"x = 1\n"}, "error"),
    ],
)
def test_a_wheel_of_libraries_is_for_others(tmp_path, file, code, severity):
    data = "demo-1.0.data/data/lib"
    files = {
        f"{data}/libcore.so": elf(soname="libcore.so"), f"{data}/{file}": elf(needed=["libcore.so"]), **code
    }  # fmt: skip
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF202")] == [severity]


def test_a_program_finds_the_libraries_of_packages_by_their_folders(tmp_path):
    needed = ["libcuopt_mathopt.so", "libcudss.so.0", "libcudss.so.7"]  # no table has the last one
    requires = ["libcuopt-mathopt-cu12==26.10.*", "nvidia-cudss-cu12"]
    path = "$ORIGIN/../../libcuopt_mathopt/lib64:$ORIGIN/../../nvidia/cu12/lib"
    found = elf(needed=needed, runpath=path, interpreter="/lib64/ld-linux-x86-64.so.2")
    assert audit([wheel(tmp_path, {"demo/bin/tool": found}, requires=requires)]).worst() == "info"
    (lost,) = said(
        audit(
            [
                wheel(
                    tmp_path,
                    {"demo/bin/tool": elf(needed=needed, interpreter="/lib64/ld-linux-x86-64.so.2")},
                    requires=requires,
                )
            ]
        ),
        "GF202",
    )
    assert (lost.severity, len(lines(lost))) == ("error", len(needed))


@pytest.mark.parametrize(
    ("folder", "severities"),
    [
        ("$ORIGIN/../lib/python3.11/site-packages", []),
        ("$ORIGIN/../lib64/python3.11/site-packages", ["info"]),
    ],
)
def test_a_program_finds_the_packages_of_its_python(folder, severities, tmp_path):
    program = elf(needed=["liba.so"], runpath=f"{folder}/demo", interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {"demo-1.0.data/scripts/demo": program, "demo/liba.so": elf(soname="liba.so")}
    findings = audit([wheel(tmp_path, files)]).findings
    assert [f.severity for f in findings if f.code == "GF202"] == severities
    files["demo-1.0.data/scripts/demo"] = program.replace(b"/python3.11/", b"/pythonx.yz/")
    assert said(audit([wheel(tmp_path, files)]), "GF202")


@pytest.mark.thorough
@pytest.mark.parametrize("file", [SCRIPT, CONSOLE])
def test_a_script_of_empty_lines_takes_no_time(file, tmp_path):
    """It took minutes: each line was searched to the end of the file."""
    files = {"demo/ext.so": elf(needed=["libnuma.so.1"]), file: b"#!python" + b"\n" * 200_000}
    assert said(audit([wheel(tmp_path, files)]), "GF201")


def test_a_command_with_the_name_of_a_library_does_not_open_it(tmp_path):
    """The linker aborts the process unless code opens libx.so.1 first, and `x` is only a program."""
    files = {
        "demo/ext.cpython-311-x86_64-linux-gnu.so": elf(versions={"libx.so.1": ["LIBX_1"]}),
        CONSOLE: b"[console_scripts]\nx = runner.run:start\n",
    }
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF211")] == ["error"]
    files["demo/a.py"] = b"import ctypes\nctypes.CDLL('libx.so.1')\n"
    assert [f.severity for f in said(audit([wheel(tmp_path, files)]), "GF211")] == ["warning"]


def test_a_part_that_is_opened_by_its_bare_name_is_not_there(tmp_path):
    name = "libcudnn-463fd6d5.so.8.9.7"
    files = {
        f"demo.libs/{name}": elf(soname=name, sections={".rodata": b"\0libcudnn_ops_infer.so.8\0"}),
        "demo/ext.so": elf(needed=[name], runpath="$ORIGIN/../demo.libs"),
    }
    for text, codes in (
        (b"ctypes.CDLL('libcudnn_ops_infer.so.8')\n", ["GF213"]),
        (b"ctypes.CDLL(os.path.join(root, 'libcudnn_ops_infer.so.8'))\n", []),
    ):
        files["demo/a.py"] = b"import ctypes, os\n" + text
        assert [f.code for f in said(audit([wheel(tmp_path, files)]), "GF213")] == codes
