"""Fetch the package that brings a compiler, from a list of names and versions."""

from __future__ import annotations

import json

from gpuforge import digest
from gpuforge.plan.requests.packaged import FetchPackages
from gpuforge.steps import entry, wheelhouse


def main(request: FetchPackages) -> None:
    """Fill the folder `output`, and write each wheel's name and sha256 to `lock`."""
    wheelhouse.download(
        request.python,
        request.requires,
        request.output,
        what=f"the compiler of [toolchains.{request.toolchain}]",
        hint=f"[toolchains.{request.toolchain}] version can choose a release that has a wheel",
    )
    found = {path.name: digest.of_file(path) for path in sorted(request.output.glob("*.whl"))}
    request.lock.write_text(json.dumps({"requires": request.requires, "wheels": found}, indent=1) + "\n")
    print(f"{len(found)} wheels for: {', '.join(request.requires)}", flush=True)


if __name__ == "__main__":
    entry.run(FetchPackages, main)
