"""Where libraries of packages lie: folders that are searched, links that are made after installation."""

import pytest
from audit_samples import elf, said, wheel

from gpuforge.audit import audit, layout


@pytest.mark.parametrize(("strings", "codes"), [((), []), (("another",), ["GF202"])])
def test_a_linkers_name_finds_what_the_library_finds(tmp_path, strings, codes):
    library = elf(soname="libx.so.1", needed=["libnccl.so.2"])
    files = {
        "demo/__init__.py": b"x = 1\n",
        "demo/ext.so": elf(needed=["libx.so.1"], rpath="$ORIGIN/lib:$ORIGIN/../nvidia/nccl/lib"),
        "demo/lib/libx.so.1": library,
        "demo/lib/libx.so": elf(soname="libx.so.1", needed=["libnccl.so.2"], strings=strings),
    }
    found = audit([wheel(tmp_path, files, requires=["nvidia-nccl-cu12"])]).findings
    assert [f.code for f in found if f.severity != "info"] == codes


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (b"demo/lib/libx.so.4,libx.so.4.6.0,0\n", []),
        (b"demo/lib/libx.so.4,../lib/libx.so,0\ndemo/lib/libx.so,libx.so.4.6.0,0\n", []),
        (b"demo/lib/libx.so.4,libx.so,0\ndemo/lib/libx.so,libx.so.4,0\nno line\n", ["GF202"]),
        (b"", ["GF202"]),
    ],
)
def test_symbolic_links_may_be_made_after_installation(tmp_path, lines, codes):
    files = {
        "demo/__init__.py": b"x = 1\n",
        "demo/ext.so": elf(needed=["libx.so.4"], runpath="$ORIGIN/lib"),
        "demo/lib/libx.so.4.6.0": elf(soname="libx.so.4"),
        "demo-1.0.dist-info/symlinks.txt": lines,
    }
    assert [f.code for f in audit([wheel(tmp_path, files)]).findings] == codes


def test_a_required_package_may_have_what_its_folder_is_searched_for(tmp_path):
    files = {"PyQt5/QtCore.abi3.so": elf(needed=["libQt5Core.so.5"], runpath="$ORIGIN/Qt5/lib")}
    one = wheel(tmp_path, files, requires=["PyQt5-Qt5>=5.15.2", "PyQt5-sip"])
    (found,) = audit([one]).findings
    assert (found.code, found.severity) == ("GF201", "info")
    assert "folders of pyqt5-qt5, which the wheel requires" in found.message
    lib = {"PyQt5/Qt5/lib/libQt5Core.so.5": elf(soname="libQt5Core.so.5")}
    other = wheel(tmp_path, lib, name="pyqt5_qt5-5.15.2-py3-none-manylinux_2_17_x86_64.whl")
    assert audit([one, other]).findings == ()
    (found,) = audit([wheel(tmp_path, files, requires=["PyQt5-sip"])]).findings
    assert (found.code, found.severity) == ("GF201", "warning")


@pytest.mark.parametrize(
    ("package", "folder"),
    [
        ("nvidia-cusparselt-cu12==0.6.3", "cusparselt/lib"),
        ("nvidia-cusparselt-cu13==0.8.1", "nvidia/cusparselt/lib"),
        ("nvidia-cusparselt-cu13>=0.10", "nvidia/cu13/lib"),
    ],
)
def test_a_package_may_have_had_another_folder(tmp_path, package, folder):
    paths = "$ORIGIN/../cusparselt/lib:$ORIGIN/../nvidia/cusparselt/lib:$ORIGIN/../nvidia/cu13/lib"
    for runpath in (f"$ORIGIN/../{folder}", paths):
        files = {"demo/ext.so": elf(needed=["libcusparseLt.so.0"], runpath=runpath)}
        found = audit([wheel(tmp_path, files, requires=[package])]).findings
        assert [f.code for f in found if f.severity == "error"] == []


@pytest.mark.parametrize(
    ("requires", "severity"),
    [
        ("torch==1.0", "warning"),
        ("demo-core==1.0", "info"),
        ("demo-core (==1.0)", "info"),
        ("demo-core[libs]==1.0", "info"),
        ("demo-core==1.0,<2; sys_platform == 'linux'", "info"),
        ("demo-core==1.0.0", "info"),
        ("demo-core===1.0", "info"),
        ("demo-core>=1.0", "warning"),
        ("demo-core==1.*", "warning"),
        ("demo-core==1.1", "warning"),
        ("demo-core==1.0,!=1.0", "warning"),
    ],
)
def test_a_package_whose_libraries_are_known_has_no_others(tmp_path, requires, severity):
    files = {"demo/ext.so": elf(needed=["libavutil.so.58"])}
    (found,) = said(audit([wheel(tmp_path, files, requires=[requires])]), "GF201")
    assert found.severity == severity


@pytest.mark.parametrize("needed", [[], ["libnuma.so.1"]])
@pytest.mark.parametrize(("requires", "severity"), [(["ops==1.0"], "warning"), ([], "error")])
def test_a_required_package_may_load_its_own_library(tmp_path, requires, severity, needed):
    text = b"import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib', 'libcue.so'))\n"
    lib = {"ops/__init__.py": text, "ops/lib/libcue.so": elf(soname="libcue.so", needed=needed)}
    other = wheel(tmp_path, lib, name="ops-1.0-py3-none-manylinux_2_17_x86_64.whl")
    one = wheel(
        tmp_path, {"demo/ext.so": elf(needed=["libcue.so"]), "demo/a.py": b"import ops\n"}, requires=requires
    )
    assert [f.severity for f in said(audit([one, other]), "GF202")] == [severity]


def test_one_object_of_a_wheel_may_search_for_all(tmp_path):
    files = {
        "demo/ext.so": elf(needed=["libpart-core.so"], runpath="$ORIGIN/../part"),
        "demo/plugins/a.so": elf(needed=["libpart-core.so"]),
    }
    (found,) = audit([wheel(tmp_path, files, requires=["part==1.5.0"])]).findings
    assert (found.code, found.severity, len(found.files)) == ("GF201", "info", 2)


@pytest.mark.parametrize(
    ("requires", "severity"),
    [
        (["intel-sycl-rt"], "info"),
        ([], "warning"),
        (["mpich; extra == 'mpi'"], "warning"),
        (["numpy", "intelhex"], "warning"),
    ],
)
def test_required_packages_may_use_the_environments_own_lib_folder(tmp_path, requires, severity):
    files = {
        "demo/ext.so": elf(needed=["libsycl.so.9"], rpath="$ORIGIN/../../.."),
        "demo/libcore.so": elf(soname="libcore.so", needed=["libsycl.so.9"]),
    }
    found = said(audit([wheel(tmp_path, files, requires=requires)]), "GF201")
    assert [(f.severity, len(f.files)) for f in found] == [(severity, 2)]


def test_a_package_of_a_library_is_asked_to_load_it(tmp_path):
    files = {
        "demo/__init__.py": b"import nvidia.libnvcomp\n\nnvidia.libnvcomp.load_library()\nfrom demo.ext import *\n",
        "demo/ext.so": elf(needed=["libnvcomp.so.5"]),
    }
    report = audit([wheel(tmp_path, files, requires=["nvidia-libnvcomp-cu12==5.1.0.21"])])
    assert [(f.code, f.severity) for f in report.findings] == [("GF205", "info")]
    other = files | {"demo/__init__.py": b"import nvidia.libcufile\n\nnvidia.libcufile.load_library()\n"}
    report = audit([wheel(tmp_path, other, requires=["nvidia-libnvcomp-cu12==5.1.0.21"])])
    assert [(f.code, f.severity) for f in report.findings] == [("GF202", "error")]


def test_a_package_with_another_name_than_its_folder_has_its_library_there(tmp_path):
    files = {"demo/lib/libdemo.so": elf(needed=["libz3.so"], runpath="$ORIGIN/../../z3/lib")}
    assert audit([wheel(tmp_path, files, requires=["z3-solver<4.15.5,>=4.13.0"])]).worst() is None
    assert said(audit([wheel(tmp_path, files)]), "GF203")


@pytest.mark.parametrize(
    ("path", "text", "top"),
    [
        ("/env/lib/python/site-packages/x/lib", "site-packages/x/lib", "x"),
        ("/env/lib/python/site-packages", "site-packages", ""),
        ("/env/lib/python/site-packages-2/x", "lib/python/site-packages-2/x", ""),
        ("/env/lib64", "lib64", ""),
        ("/environment/lib", "/environment/lib", ""),
        ("/usr/lib/x", "/usr/lib/x", ""),
    ],
)
def test_a_folder_is_below_the_packages_the_environment_or_neither(path, text, top):
    place = layout.Folder.of(path)
    assert (str(place), place.top) == (text, top)
