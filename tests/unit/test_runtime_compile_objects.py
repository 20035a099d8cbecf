"""`compile` of several objects on a machine without a GPU: what can be compiled is, and the rest is named."""

import json
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from audit_samples import image
from library_samples import answer, environment, install, printed, program, run, toolchain
from set_samples import NVRTC, install_set

from gpuforge.package.contents import UserToolchain

pytestmark = pytest.mark.thorough

# An nvcc that compiles with g++, for the CPU, and keeps the arguments that it was called with.
NVCC = """case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit;; esac
echo "$@" > "$(dirname "$0")/arguments"
for word; do case "$word" in -arch=*|-cudart=*|-Xlinker=*|-Xcompiler=*) ;; *) set -- "$@" "$word";; esac; shift; done
exec g++ -fPIC "$@" "$(dirname "$0")/gpu.s"
"""


def nvcc(folder: Path) -> Path:
    """Write it, and the GPU code that it links in: a kernel for sm_80, and PTX."""
    entries = image("sm_80", content=b".text.k") + image("compute_80:8.7", content=b".entry k")
    code = b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(entries)) + entries
    made = program(folder, "nvcc", NVCC)
    listed = ",".join(map(str, code))
    (folder / "gpu.s").write_text(f'.section .nv_fatbin,"a"\n.byte {listed}\n.section .note.GNU-stack,""\n')
    return made


NO_GPU = "this machine has no GPU to compile for: switched off (GPUFORGE_DISABLE_GPU=1)"


def _site(tmp_path: Path, *toolchains: object) -> Path:
    """A package with the library `answers`, and the set `a-set` that needs a GPU, which comes first."""
    site = tmp_path / "site"
    install(site, *toolchains)  # type: ignore[arg-type]
    other = tmp_path / "other"
    other.mkdir()
    sources = install_set(other / "site", NVRTC, cpu=False) / "sources" / "ops"
    target = site / "demo" / "_gpuforge" / "sources" / "a-set"
    shutil.copytree(sources, target)
    file = target / "recipe.json"
    file.write_text(file.read_text().replace('"name": "ops"', '"name": "a-set"'))
    return site


def test_an_object_that_needs_a_gpu_does_not_stop_the_others(tmp_path):
    site = _site(tmp_path, toolchain("host", "g++"))
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (3, f"error: a-set: not compiled: {NO_GPU}\n")
    assert done.stdout.startswith("answers: ")
    assert done.stdout.endswith(" (toolchain host), is used from now on\n")
    assert answer(site) == 42


def test_each_object_that_is_not_compiled_is_named(tmp_path):
    site = _site(tmp_path, toolchain("host", "g++", version=">=1000"))
    done = run(site, "compile", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        f"error: a-set: not compiled: {NO_GPU}",
        "error: answers: not compiled: no g++ >=1000: install g++",
    ]


def test_a_failure_counts_more_than_a_missing_gpu(tmp_path):
    site = _site(tmp_path, toolchain("host", "g++", "-DANSWER=)"))
    assert run(site, "compile").returncode == 1


def test_nvcc_without_a_gpu_compiles_for_the_lowest_architecture_of_the_wheel(tmp_path):
    site = tmp_path / "site"
    install(site, toolchain("device", "nvcc"))
    compiler = nvcc(tmp_path / "bin")
    done = run(site, "compile", PATH=f"{compiler.parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    assert "-arch=sm_80" in (compiler.parent / "arguments").read_text()
    assert done.stdout.endswith(
        " for sm_80 (no GPU here: the lowest architecture of the wheel, with PTX for newer GPUs), "
        "is used from now on\n"
    )
    (record,) = (site.parent / "builds").glob("user/demo/*/active.json")
    assert json.loads(record.read_text())["images"] == ["sm_80", "compute_80"]
    (own,) = [line for line in run(site, "explain").stdout.splitlines() if "user build" in line]
    assert own.split()[0] == "refused"
    assert own.endswith("switched off (GPUFORGE_DISABLE_GPU=1)")


def test_a_plug_ins_compiler_of_a_toolkit_is_called_as_nvcc_is(tmp_path):
    site = tmp_path / "site"
    argv = (*toolchain("device", "nvcc").argv, "-DOF={cuda}")
    install(site, replace(toolchain("device", "nvcc"), family="plugged", argv=argv))
    compiler = nvcc(tmp_path / "bin")
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").touch()
    done = run(site, "compile", PATH=f"{compiler.parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    arguments = (compiler.parent / "arguments").read_text().split()
    assert {"-arch=sm_80", f"-DOF={tmp_path}"} <= {*arguments}


def test_nvcc_without_a_gpu_and_a_wheel_that_names_no_architecture(tmp_path):
    site = tmp_path / "site"
    recipe = install(site, toolchain("device", "nvcc")) / "sources" / "answers" / "recipe.json"
    recipe.write_text(recipe.read_text().replace('"80"', '"90a"'))
    compiler = nvcc(tmp_path / "bin")
    done = run(site, "compile", PATH=f"{compiler.parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (3, f"error: answers: not compiled: {NO_GPU}\n")


def test_a_relative_home_is_refused(tmp_path):
    site = tmp_path / "site"
    install(site, toolchain("host", "g++"))
    done = run(site, "compile", GPUFORGE_KERNEL_HOME="rel")
    assert (done.returncode, done.stderr) == (
        2,
        "error: GPUFORGE_KERNEL_HOME=rel: expected an absolute path\n",
    )
    assert not (site / "rel").exists()


def test_builds_of_two_packages_by_two_releases_of_nvcxx_do_not_meet(tmp_path):
    """Both load libnvc.so, which fits its own release only; the loader takes the one that comes first."""
    releases = {"demo": "22.1", "second": "24.9"}
    for release in releases.values():
        (tmp_path / release).mkdir()
        argv = [
            "gcc",
            "-shared",
            "-xc",
            "-",
            "-Wl,-soname,libnvc.so",
            "-o",
            str(tmp_path / release / "libnvc.so"),
        ]
        subprocess.run(argv, input=f"int of_{release.replace('.', '_')};".encode(), check=True)
    site = tmp_path / "site"
    flags = ["-LSDK", "-Wl,--no-as-needed,-rpath,SDK", "-lnvc"]
    install(site, toolchain("host", "g++", *flags))
    shutil.copytree(site / "demo", site / "second")

    def compile_by(package: str, release: str) -> subprocess.CompletedProcess[str]:
        recipe = site / package / "_gpuforge" / "sources" / "answers" / "recipe.json"
        content = json.loads(recipe.read_text())
        for used in content["toolchains"]:
            argv = [re.sub(r"SDK|/\S+/[0-9.]+$", f"{tmp_path}/{release}", word) for word in used["argv"]]
            used["argv"] = argv
        recipe.write_text(json.dumps(content))
        argv = [sys.executable, "-m", f"{package}._gpuforge", "compile"]
        env = environment(site)
        return subprocess.run(argv, cwd=site, env=env, capture_output=True, text=True, check=False)

    assert compile_by("demo", "22.1").returncode == 0
    refused = compile_by("second", "24.9")
    assert refused.returncode == 1
    assert (
        f"a second libnvc.so into the process: your build for demo has {tmp_path}/22.1/libnvc.so"
        in refused.stderr
    )
    assert (
        "compile both by one release of the compiler (--toolchain NAME=PATH), or drop that build: "
        "python -m demo._gpuforge compile --remove"
    ) in refused.stderr
    assert compile_by("second", "22.1").returncode == 0
    run(site, "compile", "--remove")
    assert compile_by("second", "24.9").returncode == 0


def _programs_toolchain(*flags: str) -> UserToolchain:
    made = toolchain("host", "g++", "-DPROGRAM", *flags)
    return replace(made, argv=tuple(word for word in made.argv if word != "-shared"))


RUN = (
    "from demo._gpuforge import KernelProgram; p = KernelProgram.shipped('answers'); "
    "print(p.run('one', 'two').returncode); print(p.explain())"
)


def test_a_program_is_shipped_compiled_found_and_run(tmp_path):
    site = tmp_path / "site"
    install(site, _programs_toolchain(), program=True)
    assert printed(site, RUN).splitlines()[:3] == [
        "9",
        "kernel program answers",
        "  used     shipped     default-answers, made by g++ 12.2.0",
    ]
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (0, "")
    assert "/answers, made by g++ " in done.stdout
    lines = printed(site, RUN).splitlines()
    assert (lines[0], lines[2].split()[:3]) == ("44", ["used", "user", "build"])
    assert "in use: the shipped program" in run(site, "compile", "--remove").stdout


def test_a_program_with_another_abi_id_is_not_run(tmp_path):
    site = tmp_path / "site"
    install(site, _programs_toolchain(), abi="1-abc", versions="-other", program=True)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        printed(site, RUN)
    assert "was compiled for the ABI 1-abc-other, and this package has 1-abc" in caught.value.stderr


def test_a_program_that_does_not_start_is_refused(tmp_path):
    """Its libraries are listed by the loader; the program itself is not run."""
    folder = tmp_path / "lib"
    folder.mkdir()
    argv = ["gcc", "-shared", "-xc", "-", "-Wl,-soname,libgone.so.1", "-o", str(folder / "libgone.so")]
    subprocess.run(argv, input=b"int gone;", check=True)
    site = tmp_path / "site"
    install(site, _programs_toolchain("-Wl,--no-as-needed", "-lgone"), program=True)
    refused = run(site, "compile", LIBRARY_PATH=str(folder))
    assert refused.returncode == 1
    assert (
        "what was compiled does not start: libgone.so.1 not found; add its folder, which may be the compiler's, to "
        "LD_LIBRARY_PATH; in use: the shipped program" in refused.stderr
    )
