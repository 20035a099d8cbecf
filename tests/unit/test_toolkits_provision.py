"""The tree is assembled from what pip unpacked, and pip's failures become messages; no network here."""

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuforge.actions import entry
from gpuforge.actions.toolkit import FetchToolkit
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.plan.action import StepResult, Workdir
from gpuforge.toolkits import pip as module
from gpuforge.toolkits.pins import PinnedWheel
from gpuforge.toolkits.providers.pypi import assemble, fetch
from gpuforge.toolkits.toolkit import Wheels

PIN = PinnedWheel("nvidia-cuda-crt", "13.0.88", "nvidia_cuda_crt-13.0.88-py3-none-any.whl", "0" * 64, 1)


def unpacked(site: Path) -> Path:
    """Make what pip leaves of a toolkit's wheels."""
    layout = site / "nvidia" / "cu13"
    for name in ("bin/nvcc", "nvvm/bin/cicc"):
        (layout / name).parent.mkdir(parents=True)
        (layout / name).write_bytes(b"\x7fELF")
        (layout / name).chmod(0o644)
    (layout / "bin" / "nvcc.profile").write_text("TOP = ..")
    (layout / "bin" / "tool").write_text("#!/bin/sh\n")
    (layout / "include").mkdir()
    (layout / "lib").mkdir()
    for name in ("libcudart.so.13", "libnvrtc-builtins.so.13.0", "libnvvm.so.4", "libcudart_static.a"):
        (layout / "lib" / name).touch()
    (site / "nvidia_cuda_nvcc-13.0.88.dist-info").mkdir()
    return site


def test_the_tree_has_what_cmake_and_the_linker_look_for(tmp_path):
    tree = assemble(unpacked(tmp_path / "site"), tmp_path / "tree", "x86_64")

    links = {str(p.relative_to(tree)): str(p.readlink()) for p in sorted(tree.rglob("*")) if p.is_symlink()}
    assert links == {
        "lib/libcudart.so": "libcudart.so.13",
        "lib/libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0",
        "lib/libnvvm.so": "libnvvm.so.4",
        "lib64": "lib",
        "nvvm/lib64": "../lib",
        "targets/x86_64-linux/include": "../../include",
        "targets/x86_64-linux/lib": "../../lib",
    }
    programs = {p.name for p in tree.glob("**/bin/*") if p.stat().st_mode & 0o100}
    assert programs == {"nvcc", "cicc", "tool"}
    assert (tree / "dist-info" / "nvidia_cuda_nvcc-13.0.88.dist-info").is_dir()


def test_the_target_folder_is_named_as_nvcc_names_it(tmp_path):
    tree = assemble(unpacked(tmp_path / "site"), tmp_path / "tree", "aarch64")
    assert (tree / "targets" / "sbsa-linux" / "lib" / "libcudart.so.13").exists()


def test_every_file_has_a_time_of_its_own_the_same_in_every_copy(tmp_path):
    def times(name: str) -> dict[str, float]:
        tree = assemble(unpacked(tmp_path / name), tmp_path / f"{name}-tree", "x86_64")
        files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
        return {path.relative_to(tree).as_posix(): path.stat().st_mtime for path in files}

    one = times("one")
    assert len(set(one.values())) == len(one) == 8
    assert times("two") == one


def test_two_toolkits_at_once_are_refused(tmp_path):
    unpacked(tmp_path / "site")
    (tmp_path / "site" / "nvidia" / "cu14").mkdir()
    with pytest.raises(ActionError, match="2 toolkits where one was expected"):
        assemble(tmp_path / "site", tmp_path / "tree", "x86_64")


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="is not empty"):
        fetch(Wheels((PIN,)), tmp_path)


@pytest.mark.parametrize(
    ("output", "error", "says"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", ActionError, "arrived broken"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", ActionError,
         "no space left in"),
        ("error: incomplete-download", MissingError, "cannot fetch the CUDA packages"),
        ("ERROR: No matching distribution found for x==1", MissingError, "cannot fetch the CUDA packages: ERROR: No m"),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))", MissingError, "PIP_CERT"),
        ("something else", ActionError, "pip could not install the CUDA packages: something else"),
    ],
)  # fmt: skip
def test_what_pip_says_becomes_an_error_and_nothing_is_left(tmp_path, monkeypatch, output, error, says):
    monkeypatch.setattr(module, "PIP", ("-c", f"import sys; print({output!r}); sys.exit(1)"))
    with pytest.raises(error) as caught:
        fetch(Wheels((PIN,)), tmp_path / "cuda")
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_download_without_room_is_the_disks_affair(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PIP", ("-c", "import sys; print('error: incomplete-download'); sys.exit(1)"))
    with pytest.raises(ActionError, match="no space left in"):
        fetch(Wheels((replace(PIN, size=1 << 60),)), tmp_path / "cuda")


@pytest.mark.parametrize(
    ("problem", "status", "message"),
    [
        (MissingError.of("no nvcc", hint="get one"), 3, "no nvcc\n  hint: get one\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1,
         "/x: No space left on device\n  hint: free some space, or choose another folder\n"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), 1, "/x: No such file or directory\n"),
    ],
)  # fmt: skip
def test_how_a_step_ends(tmp_path, monkeypatch, capsys, problem, status, message):
    def run(_step: FetchToolkit[Path], _at: Workdir) -> None:
        raise problem

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(FetchToolkit, "run", run)
    file, result = tmp_path / "request.json", tmp_path / "result.json"
    step = FetchToolkit(provider="pypi", source=Wheels(()))
    file.write_text(step.text())
    assert entry.perform(step.program(), file, result) == status
    assert capsys.readouterr().err == f"error: {message}"
    assert f"{StepResult.read(result).error}\n" == message


@pytest.mark.thorough
def test_the_step_refuses_bad_pins_without_a_traceback(tmp_path):
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"provider": "pypi", "source": {"pins": [1]}}))
    step = ["gpuforge.actions.entry", "toolkit.FetchToolkit", str(file), str(tmp_path / "end.json")]
    argv = [sys.executable, "-m", *step]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    first, *others = done.stderr.splitlines()[0].split("; ")
    assert (done.returncode, first) == (
        2,
        "error: request: source.Wheels.pins.0: Input should be an object",
    )
    assert {each.split(".")[1] for each in others} == {"Archives"}  # nor is it this
    assert len(done.stderr.splitlines()) == 1


def test_headers_of_before_cuda_13_agree_with_glibc_2_41(tmp_path):
    declared = "extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double                 {};\n"
    header = unpacked(tmp_path / "site") / "nvidia" / "cu13" / "include" / "crt" / "math_functions.h"
    header.parent.mkdir()
    functions = ("sinpi(double x)", "cospi(double x)", "sin(double x)", "sinpi(double x) ALREADY")
    header.write_text("".join(map(declared.format, functions)))
    tree = assemble(tmp_path / "site", tmp_path / "tree", "x86_64")
    text = (tree / "include" / "crt" / "math_functions.h").read_text()
    assert text.startswith("#include <features.h>\n")
    specified = [
        line for line in text.splitlines() if line.endswith("__NV_IEC_60559_FUNCS_EXCEPTION_SPECIFIER;")
    ]
    assert [line.split()[4] for line in specified] == ["sinpi(double", "cospi(double"]
    assert declared.format("sin(double x)") in text


def test_headers_that_agree_with_it_stay_as_they_are(tmp_path):
    header = unpacked(tmp_path / "site") / "nvidia" / "cu13" / "include" / "crt" / "math_functions.h"
    header.parent.mkdir()
    header.write_text("extern double sinpi(double x) __NV_IEC_60559_FUNCS_EXCEPTION_SPECIFIER;\n")
    tree = assemble(tmp_path / "site", tmp_path / "tree", "x86_64")
    assert (tree / "include" / "crt" / "math_functions.h").read_text().count("\n") == 1
