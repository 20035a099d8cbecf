"""What Python code loads, by which names, and for whom: what it loads is there for binaries that come later."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import TAGS, elf, said, wheel

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines


@pytest.mark.parametrize(
    ("project", "requires", "whose"),
    [
        ("nvidia_cuda_runtime_cu12", ["nvidia-cuda-runtime-cu12"], "nvidia-cuda-runtime-cu12"),
        ("base", [], f"base-1.0-{TAGS}.whl"),
        ("demo", [], None),
    ],
)
def test_what_python_code_loads_is_said_to_be_whose_it_is(
    tmp_path: Path, project: str, requires: list[str], whose: str | None
) -> None:
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
def test_python_code_that_loads_nothing_helps_nobody(tmp_path: Path, text: bytes, severity: str) -> None:
    files = {
        "demo/lib/libx.so": elf(soname="libx.so"),
        "demo/ext.so": elf(needed=["libx.so", "libelse.so"]),
        "demo/a.py": text,
    }
    found = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF202", "GF205")]
    assert [f.severity for f in found] == [severity]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (b"import ctypes, os\nctypes.CDLL(os.path.join(root, name))\n", "warning"),  # it may be this one
        (b"import ctypes, os\nctypes.CDLL(os.path.join(root, 'liby.so'))\n", "error"),  # it is another one
    ],
)
def test_who_names_what_he_loads_loads_nothing_else(tmp_path: Path, text: bytes, severity: str) -> None:
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
def test_what_a_framework_opens_helps_nobody_else(tmp_path: Path, text: bytes, code: str) -> None:
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
def test_a_loader_of_a_list_loads_what_is_listed(tmp_path: Path, beside: dict[str, bytes], code: str) -> None:
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
def test_a_library_that_a_package_has_loaded_is_no_unknown_one(
    tmp_path: Path, needed: str, said_so: str
) -> None:
    (found,) = audit([wheel(tmp_path, {"demo/ext.so": elf(needed=[needed])})]).findings
    assert (found.code, found.severity) == ("GF201", "warning")
    assert said_so in found.message


def test_who_lists_a_folder_loads_all_of_a_package(tmp_path: Path) -> None:
    text = b"for path in glob.glob(folder + '/nvidia/' + 'cublas' + '/lib/*'):\n    ctypes.CDLL(path)\n"
    files = {"demo/libx.so": elf(needed=["libcublas.so.12", "libcublasLt.so.12"]), "demo/a.py": text}
    (found,) = [f for f in audit([wheel(tmp_path, files)]).findings if f.code in ("GF201", "GF205")]
    assert (found.code, len(lines(found))) == ("GF205", 2)


def test_compiled_code_may_be_told_what_to_open(tmp_path: Path) -> None:
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
def test_a_library_that_a_variable_says_may_be_any(tmp_path: Path, code: bytes) -> None:
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
def test_who_opens_a_library_by_its_path_may_come_last(code: bytes, told: str, tmp_path: Path) -> None:
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
def test_each_call_decides_whether_it_opens_a_path(tmp_path: Path, text: str, *, opens: bool) -> None:
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
        ("__init__", "CDLL('libcuda.so.1')\n", ""),  # the driver's
        ("__init__", "CDLL('libz.so.1')\n", ""),
        ("__init__", "CDLL('libdemo.so')\n", "error"),
    ],
)
def test_a_bare_name_that_the_linker_does_not_find_is_reported_unless_the_code_handles_it(
    tmp_path: Path, file: str, text: str, severity: str
) -> None:
    files = {"demo/lib/libdemo.so": elf(soname="libdemo.so"), f"demo/{file}.py": text.encode()}
    for requires in ([], ["nvidia-cuda-runtime-cu12"]):
        found = said(audit([wheel(tmp_path, files, requires=requires)]), "GF208")
        assert [f.severity for f in found] == ([severity] if severity else [])
    path = wheel(tmp_path, files, requires=["torch==2.8.0"])  # its import loads CUDA's libraries
    assert bool(said(audit([path]), "GF208")) is ("libdemo" in text)


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
def test_code_that_opens_libraries_of_another_major_only_is_reported(
    tmp_path: Path, text: str, *, reported: bool
) -> None:
    files = {"demo/ext.so": elf(), "demo/a.py": text.encode()}
    found = said(audit([wheel(tmp_path, files, requires=["nvidia-cublas==13.*"])]), "GF208")
    assert [f.severity for f in found if "another CUDA major" in f.what] == ["warning"] * reported
