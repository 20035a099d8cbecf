"""Measure the whole matrix against cibuildwheel: the same image, sources, Pythons and toolkits, in one run.

    python bench/matrix.py [IMAGE]

Both build recipes/saxpy for 2 Pythons and 2 CUDA toolkits in containers of one image, test each wheel, and have the
toolkits at hand. cibuildwheel knows no CUDA: as its users do, it is called once for each toolkit, and CMake compiles
the kernels as part of each wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpuforge.actions.cell_actions import lower
from gpuforge.containers import catalog
from gpuforge.execute.store import FolderStore
from gpuforge.manifest.load import load
from gpuforge.plan.cell import Choice, select
from gpuforge.plan.keys import keys
from gpuforge.plan.survey import machine_type, resolve

ROOT = Path(__file__).resolve().parent.parent
PYTHONS, TOOLKITS = ("3.11", "3.13"), {"12": "12.4", "13": "13.0"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# It changes the extension's bytes: gpuforge would not even package and test anew for a comment.
CHANGE = 'extern "C" __attribute__((visibility("default"))) int saxpy_revision() { return 2; }\n'
KERNELS = """
find_program(NVCC nvcc PATHS /usr/local/cuda/bin NO_DEFAULT_PATH REQUIRED)
add_custom_command(OUTPUT saxpy.fatbin DEPENDS kernels/saxpy.cu
  COMMAND ${{NVCC}} --fatbin -O3 -ccbin ${{CMAKE_CXX_COMPILER}} {gencode}
          -o saxpy.fatbin ${{CMAKE_SOURCE_DIR}}/kernels/saxpy.cu)
add_custom_target(kernels ALL DEPENDS saxpy.fatbin)
install(FILES ${{CMAKE_BINARY_DIR}}/saxpy.fatbin DESTINATION saxpy)
"""


def main() -> None:
    """Print the table."""
    print(*table(sys.argv[1] if len(sys.argv) > 1 else "bookworm"), sep="\n")


def table(image: str) -> list[str]:
    """Return the table as Markdown."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        return rows(image, Path(folder))


def rows(image: str, folder: Path) -> list[str]:
    """Return the table's rows: each case, gpuforge's seconds, cibuildwheel's, and the ratio."""
    recipe = shutil.copytree(ROOT / "recipes" / "saxpy", folder / "saxpy")
    cache = folder / "cache"
    toolkits = fetch_toolkits(recipe, cache)
    found = []
    for case in ("cold", "a host file changed"):
        if case != "cold":
            with (recipe / "src" / "core.cpp").open("a") as stream:
                stream.write(CHANGE)
        ours = timed(gpuforge(recipe, image, folder), {"GPUFORGE_CACHE_DIR": str(cache)})
        theirs = sum(cibuildwheel(recipe, image, name, root, folder) for name, root in toolkits.items())
        found.append(f"| {case} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
    return ["| build | gpuforge s | cibuildwheel s | ratio |", "|---|---|---|---|", *found]


def fetch_toolkits(recipe: Path, cache: Path) -> dict[str, Path]:
    """Have gpuforge fetch both toolkits; return their folders in its store."""
    command = [*gpuforge(recipe, "", cache.parent), "--no-test"]
    timed(command, {"GPUFORGE_CACHE_DIR": str(cache)})
    file = load(recipe)
    machine, chosen = resolve(
        file,
        select(file, machine_type(), Choice(cuda=list(TOOLKITS), python=PYTHONS[:1], allow_missing=True)),
    )
    found = keys(lower(file, chosen.cells, machine, os.environ).actions)
    store = FolderStore(cache / "store")
    stored = {cuda: store.get(found[f"cu{toolkit}/toolkit"].digest) for cuda, toolkit in TOOLKITS.items()}
    return {cuda: entry.path("toolkit") for cuda, entry in stored.items() if entry}


def gpuforge(recipe: Path, image: str, folder: Path) -> list[str]:
    """Return the command; without an image, of local processes and one Python."""
    where = ["--runner", "docker", "--image", image, "--python", ",".join(PYTHONS)] if image else []
    return [
        str(Path(sys.executable).with_name("gpuforge")),
        *("build", str(recipe), "--cuda", ",".join(TOOLKITS), "-o", str(folder / "dist")),
        *(where or ["--python", ".".join(map(str, sys.version_info[:2]))]),
    ]


def cibuildwheel(recipe: Path, image: str, cuda: str, toolkit: Path, folder: Path) -> float:
    """Return the seconds that cibuildwheel takes for one toolkit and both Pythons."""
    project = folder / f"project-{cuda}"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(recipe, project)
    targets = load(recipe).manifest.cuda.versions[cuda].targets
    codes = [argument for target in targets for argument in target.gencode]
    with (project / "CMakeLists.txt").open("a") as stream:
        stream.write(KERNELS.format(gencode=" ".join(codes)))
    known = catalog.find(image)
    mounts = [f"-v{toolkit}:/usr/local/cuda:ro", "--network=host"]
    files = [
        path
        for path in (CERTIFICATES, Path("/etc/pip.conf"), Path("/opt/pypi"), Path("/opt/wheels"))
        if path.exists()
    ]
    mounts += [f"-v{path}:{path}:ro" for path in files]
    env = {
        "CIBW_BUILD": " ".join(f"cp{python.replace('.', '')}-manylinux_x86_64" for python in PYTHONS),
        "CIBW_MANYLINUX_X86_64_IMAGE": known.reference if known else image,
        "CIBW_CONTAINER_ENGINE": f"docker; create_args: {' '.join(mounts)}; disable_host_mount: true",
        "CIBW_ENVIRONMENT_PASS_LINUX": "PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_INDEX_URL PIP_FIND_LINKS",
        "CIBW_BEFORE_BUILD": "pip install cmake ninja",
        "CIBW_REPAIR_WHEEL_COMMAND_LINUX": "auditwheel repair -w {dest_dir} {wheel}",
        "CIBW_TEST_REQUIRES": "pytest",
        "CIBW_TEST_COMMAND": "pytest -q {project}/tests",
    }
    program = Path(sys.executable).with_name("cibuildwheel")
    return timed(
        [str(program), "--platform", "linux", "--output-dir", str(folder / "theirs"), "."], env, project
    )


def timed(command: list[str], env: dict[str, str], folder: Path | None = None) -> float:
    """Return the seconds that a command takes; its words are shown when it fails."""
    begin = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
