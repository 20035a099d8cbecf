"""Each linkage for real: built with CUDA 13 from PyPI, installed with what it declares, imported, looked at."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest
from builds import CELL, DEVICES, PYTHON, edit, environment, gpuforge, run
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]
NO_DRIVER = {35, 100}  # cudaErrorInsufficientDriver (there is none), cudaErrorNoDevice
PROGRAM = """
import json, devices
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/libcuda" in line}
print(json.dumps([devices.count(), sorted(maps)]))
"""


class Built:
    """One wheel of the project, built with some lines of its manifest changed."""

    def __init__(self, root: Path, cache: Path, *replace: tuple[str, str], add: str = "") -> None:
        self.root = root
        folder = shutil.copytree(DEVICES, root / "devices")
        edit(folder, *replace)
        with (folder / "gpuforge.toml").open("a") as manifest:
            manifest.write(add)
        self.command = ["build", folder, "--cuda", "13", "--python", PYTHON, "-o", root / "dist"]
        done = gpuforge(*self.command, "--json", cache=cache)
        assert done.returncode == 0, done.stderr
        self.result: dict[str, Any] = json.loads(done.stdout)
        assert [wheel["findings"] for wheel in self.result["wheels"]] == [[] for _ in self.result["wheels"]]
        self.wheel = Path(self.result["wheels"][0]["path"])
        with zipfile.ZipFile(self.wheel) as bundle:
            self.members = bundle.namelist()
            self.texts = {
                name.partition("/")[2]: bundle.read(name)
                for name in self.members
                if name.partition("/")[0].endswith(".dist-info")
            }

    @property
    def requires(self) -> list[str]:
        """The Requires-Dist lines."""
        return BytesParser().parsebytes(self.texts["METADATA"]).get_all("Requires-Dist", [])

    def install(self, what: str = "") -> None:
        """Install the wheel (and an extra of it) with what it declares into a new environment."""
        environment(self.root / "env", f"{self.wheel}{what}")

    def run(self, **env: str) -> tuple[tuple[int, int], list[str]]:
        """Import it in that environment; return the runtime's answer and the CUDA libraries in the process."""
        done = run(self.root / "env" / "bin" / "python", "-c", PROGRAM, env=env)
        assert done.returncode == 0, done.stderr
        (error, count), maps = json.loads(done.stdout)
        assert (error in NO_DRIVER and count == 0) or (error == 0 and count > 0)
        return (error, count), [path for path in maps if "libcudart" in path]


def site(root: Path) -> str:
    return f"{root}/env/lib/python{PYTHON}/site-packages"


def test_pip(tmp_path, cache):
    built = Built(tmp_path, cache)
    assert built.requires == ["nvidia-cuda-runtime>=13.0,<14"]
    built.install()
    assert built.run()[1] == [f"{site(tmp_path)}/nvidia/cu13/lib/libcudart.so.13"]
    record = json.loads(built.texts["gpuforge.json"])
    assert (record["cell"], record["linkage"]) == (CELL, "pip")
    assert record["toolkit"]["packages"]["nvidia-cuda-nvcc"] == record["toolchains"]["device"]["version"]
    bill = built.texts["sboms/gpuforge.cdx.json"].decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    for text in built.texts.values():  # nothing of this machine is in what the wheel says of itself
        assert str(tmp_path).encode() not in text
        assert b"/tmp/" not in text


def test_bundle(tmp_path, cache):
    built = Built(tmp_path, cache, ('linkage = "pip"', 'linkage = "bundle"'))
    assert built.requires == []
    libraries = [name for name in built.members if ".libs/" in name]
    assert re.fullmatch(r"devices_cu13\.libs/libcudart-[0-9a-f]{8}\.so\.13", *libraries)
    built.install()
    assert built.run()[1] == [f"{site(tmp_path)}/{libraries[0]}"]
    assert not Path(site(tmp_path), "nvidia").exists()
    bill = json.loads(built.texts["sboms/gpuforge.cdx.json"])
    assert [(c["name"], c["purl"]) for c in bill["components"]] == [
        ("libcudart.so.13", "pkg:pypi/nvidia-cuda-runtime@13.0.96")
    ]


def test_system(tmp_path, cache):
    built = Built(tmp_path, cache, ('linkage = "pip"', 'linkage = "system"'))
    assert built.requires == []
    assert not any(".libs/" in name for name in built.members)
    built.install()
    (own,) = cache.glob("store/*/*/out/toolkit/lib/libcudart.so.13")
    cuda = tmp_path / "opt" / "cuda"  # stands for the machine's CUDA
    cuda.mkdir(parents=True)
    shutil.copyfile(own, cuda / "libcudart.so.13")
    assert built.run(LD_LIBRARY_PATH=str(cuda))[1] == [f"{cuda}/libcudart.so.13"]


def test_static(tmp_path, cache):
    built = Built(tmp_path, cache, ('linkage = "pip"', 'linkage = "static"'))
    assert built.requires == []
    assert not any(".libs/" in name for name in built.members)
    built.install()
    assert built.run()[1] == []
    (extension,) = Path(site(tmp_path), "devices", "inner").glob("_runtime*.so")
    assert b"/cudart.shm." in extension.read_bytes()  # cudart is in it


def test_extras(tmp_path, cache):
    built = Built(tmp_path, cache, ('linkage = "pip"', 'linkage = "pip"\nrequires = "extra"'))
    assert built.requires == ['nvidia-cuda-runtime>=13.0,<14; extra == "cuda13"']
    built.install("[cuda13-local]")
    assert not Path(site(tmp_path), "nvidia").exists()
    shutil.rmtree(tmp_path / "env")
    built.install("[cuda13]")
    assert built.run()[1] == [f"{site(tmp_path)}/nvidia/cu13/lib/libcudart.so.13"]


def by_uv(folder: Path, driver: str, gpu: str) -> Path:
    """Let uv install from `dist` for a made-up machine; return where the package then lies."""
    forced = {"CUDA_DRIVER_VERSION": driver, "SM_ARCH": gpu}
    env = os.environ | {f"NV_VARIANT_PROVIDER_FORCE_{name}": value for name, value in forced.items()}
    target = folder / f"uv-{driver}"
    uv = Path(sys.executable).with_name("uv")
    argv = [uv, "pip", "install", "--preview-features=wheel-variants"]
    argv += ["--no-deps", "--no-index", f"--find-links={folder / 'dist'}", f"--target={target}"]
    subprocess.run([*argv, f"--python={sys.executable}", "devices"], env=env, check=False)
    return target / "devices"


def test_variant(tmp_path, cache):
    built = Built(tmp_path, cache, add='\n[wheel]\nnaming = ["variant"]\n')
    assert built.wheel.name.endswith("_x86_64-cu13.0.whl")
    index = json.loads((tmp_path / "dist" / "devices-0.1.0-variants.json").read_text())
    assert index == json.loads(built.texts["variant.json"])
    assert index["variants"]["cu13.0"]["nvidia"]["sm_arch"] == ["80_real", "90_real"] + [
        f"{arch}_virtual" for arch in (90, 100, 110, 120)
    ]
    assert by_uv(tmp_path, "13.0", "8.6").is_dir()
    assert not by_uv(tmp_path, "12.9", "8.6").exists()
    assert "devices/_gpuforge_guard/__init__.py" not in built.members  # the name is the same: pip replaces it
    plain = built.wheel.with_name(built.wheel.name.replace("-cu13.0.whl", ".whl"))
    built.wheel = built.wheel.rename(plain)  # as today's pip wants it
    built.install()
    assert built.run()[1] == [f"{site(tmp_path)}/nvidia/cu13/lib/libcudart.so.13"]


def test_beside_jax(tmp_path, cache):
    """The wheel and all that JAX brings for CUDA 13, resolved together and judged as one process."""
    built = Built(tmp_path, cache, add='\n[audit]\nbeside = ["jax[cuda13]"]\n')
    again = gpuforge(*built.command, cache=cache)
    assert re.search(
        r"beside: jax\[cuda13\]: no conflict with \d+ packages in one process",
        " ".join(again.stdout.split()),
    )


@pytest.mark.parametrize(
    ("linkage", "beside", "rule", "named"),
    [
        ("bundle", "jax[cuda13]", "GF102", "libcudart.so.13"),
        ("pip", "torch==2.8.0", "GF104", "libcudart.so.12"),
    ],
)
def test_a_second_libcudart_or_cuda_major_beside_it_stops_the_build(
    tmp_path, cache, linkage, beside, rule, named
):
    """NVIDIA's own wheels, of PyPI."""
    folder = shutil.copytree(DEVICES, tmp_path / "devices")
    edit(folder, ('linkage = "pip"', f'linkage = "{linkage}"'))
    with (folder / "gpuforge.toml").open("a") as manifest:
        manifest.write(f'\n[audit]\nbeside = ["{beside}"]\n')
    out = tmp_path / "dist"
    done = gpuforge("build", folder, "--cuda", "13", "--python", PYTHON, "-o", out, cache=cache)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"the audit found errors: {rule}" in done.stderr
    assert named in done.stderr
    assert not list(out.glob("*.whl"))
