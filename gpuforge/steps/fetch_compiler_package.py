"""Fetch the package that brings a compiler, from a list of names and versions."""

from __future__ import annotations

from gpuforge.plan.requests.packaged_compiler import FetchCompilerPackage
from gpuforge.steps import entry, value_file, wheelhouse
from gpuforge.wheel.filename import LockedWheels


def main(request: FetchCompilerPackage) -> None:
    """Fill the folder `output`, and write each wheel's name and sha256 to `lock`."""
    wheelhouse.download(
        request.python,
        request.requires,
        request.output,
        what=f"the compiler of [toolchains.{request.toolchain}]",
        hint=f"[toolchains.{request.toolchain}] version can choose a release that has a wheel",
    )
    locked = LockedWheels.of_folder(request.requires, request.output)
    value_file.write(locked, request.lock)
    print(locked, flush=True)


if __name__ == "__main__":
    entry.run(FetchCompilerPackage, main)
