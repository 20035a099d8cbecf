"""The nvcc of host builds, with a real one behind it: the manifest's architectures, or the command's error."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpuforge.actions.compiler_cache import write_nvcc
from gpuforge.cuda.targets import targets

pytestmark = [pytest.mark.network, pytest.mark.toolkit, pytest.mark.xdist_group("audit-nvcc")]
GENCODE = [option for target in targets(["80", "90a"], "90") for option in target.gencode]
OTHER = "-gencode=arch=compute_75,code=sm_75"
ALL = ["elf 80", "elf 90a", "ptx 90"]
SOURCE = ["-c", "k.cu"]


def called(
    nvcc: Path,
    folder: Path,
    *words: str,
    accepted: tuple[str, ...] = (),
    left_out: tuple[str, ...] = (),
    **env: str,
) -> list[str]:
    """Return the images that a command embeds, or the error."""
    wrapper = write_nvcc(nvcc, folder / "cuda", folder / "behind", GENCODE, accepted, left_out)
    (folder / "k.cu").write_text("__global__ void k(float *p) { p[threadIdx.x] *= 2; }\n")
    (folder / "k.o").touch()
    (folder / "given.rsp").write_text("-O2\n-arch=sm_80")
    done = subprocess.run(
        [wrapper, *words, "--dryrun"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | env,
    )
    found = re.findall(r"kind=(\w+),sm=(\w+)", done.stderr)
    return sorted({" ".join(each) for each in found}) if done.returncode == 0 else [done.stderr.strip()]


@pytest.mark.parametrize(
    ("words", "images"),
    [
        (SOURCE, ALL),
        ([*SOURCE, *GENCODE], ALL),
        (["-rdc=true", *SOURCE], ALL),
        (["-dlink", "k.o", "-o", "linked.o"], ALL[:2]),
        (["-shared", "k.o", "-o", "k.so"], ALL[:2]),
        (["-E", "k.cu"], []),
        (["-ptx", "k.cu"], []),
        (["-c", "k.cpp"], []),
        (["--version"], []),
    ],
)  # fmt: skip
def test_a_command_without_architectures_gets_those_of_the_manifest(words, images, nvcc, tmp_path):
    assert called(nvcc, tmp_path, *words) == images


@pytest.mark.parametrize(
    ("words", "env", "given"),
    [
        (["-arch", "sm_80"], {}, "-arch sm_80"),
        (["--gpu-architecture=sm_80"], {}, "--gpu-architecture=sm_80"),
        (["--options-file", "given.rsp"], {}, "-arch=sm_80"),
        (["-optf=given.rsp"], {}, "-arch=sm_80"),
        ([], {"NVCC_APPEND_FLAGS": "-arch=sm_80"}, "-arch=sm_80"),
        ([], {"NVCC_PREPEND_FLAGS": "-O2 -arch=sm_80"}, "-arch=sm_80"),
    ],
)
def test_a_command_for_other_architectures_ends(words, env, given, nvcc, tmp_path):
    assert called(nvcc, tmp_path, *SOURCE, *words, **env) == [
        f"gpuforge: error: nvcc compiles for compute_80, not in the manifest, without compute_90 sm_90a ({given})"
    ]


@pytest.mark.parametrize(
    ("words", "images"),
    [
        (["-gencode", "arch=compute_86,code=sm_86", *GENCODE, "-O2"], ALL),
        (["-gencode=arch=compute_86,code=[sm_86,compute_86]", *GENCODE], ALL),
        (GENCODE, ALL),
        ([], ALL),
        (
            [OTHER, *GENCODE[:1]],
            [
                "gpuforge: error: nvcc compiles for sm_75, not in the manifest, without compute_90 sm_90a "
                f"({OTHER} {GENCODE[0]})"
            ],
        ),
    ],
)
def test_for_a_quick_try_architectures_that_it_leaves_out_are_not_compiled(words, images, nvcc, tmp_path):
    left_out = tuple(option for target in targets(["86"], "86") for option in target.gencode)
    assert called(nvcc, tmp_path, *SOURCE, *words, left_out=left_out) == images


def test_a_command_that_takes_no_more_architectures_is_judged_by_its_own(nvcc, tmp_path):
    """As CuPy's: nvcc refuses sm_100 of compute_100 beside that of compute_100f."""
    given = ["-gencode", "arch=compute_100f,code=sm_100", "-gencode", "arch=compute_90,code=sm_90"]
    wrapper = write_nvcc(
        nvcc, tmp_path / "cuda", tmp_path / "behind", ["-gencode=arch=compute_100,code=sm_100"]
    )
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    done = subprocess.run(
        [wrapper, *SOURCE, *given], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (
        1,
        f"gpuforge: error: nvcc compiles for sm_100f sm_90, not in the manifest ({' '.join(given)})\n",
    )


def test_what_the_manifest_accepts_is_compiled(nvcc, tmp_path):
    given = ["-gencode", "arch=compute_80,code=sm_80"]
    error = "gpuforge: error: nvcc compiles without compute_90 sm_90a (-gencode arch=compute_80,code=sm_80)"
    for number, (more, accepted, expected) in enumerate(
        [
            ([], (), [error]),
            ([], ("others",), [error]),
            ([], ("missing",), ["elf 80"]),
            (["-gencode=arch=compute_86,code=sm_86"], ("others", "missing"), ["elf 80", "elf 86"]),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert called(nvcc, folder, *SOURCE, *given, *more, accepted=accepted) == expected
