"""Run one command of a compiler that came from a package, in its own environment and without a network."""

from __future__ import annotations

import subprocess

from gpuforge.errors import ActionError
from gpuforge.plan.requests.packaged_compiler import PackagedCompile
from gpuforge.steps import entry
from gpuforge.steps.shared_environment import protected
from gpuforge.steps.venv import runner_of


def main(spec: PackagedCompile) -> None:
    """Write the command's result to `output`; raises ActionError when it fails or writes nothing."""
    python = protected(spec.environment, spec.python, spec.scratch)
    argv = [word.replace("{python}", str(python)) for word in spec.argv]
    folder = spec.scratch / "run"
    folder.mkdir()
    print("command:", *argv, flush=True)
    try:
        runner_of(python)(argv, str(folder))
    except subprocess.CalledProcessError as error:
        raise ActionError.of(
            f"{spec.compiler} failed with exit status {error.returncode}",
            hint="its errors are above, and all of its output is in the log",
        ) from error
    except OSError as error:
        raise ActionError.of(
            f"{argv[0]} cannot be run: {error.strerror}",
            hint=f"the package of {spec.compiler} should bring it",
        ) from error
    if not spec.output.is_file():
        raise ActionError.of(
            f"{spec.compiler} ended well and wrote no {spec.output.name}", hint="its output is in the log"
        )


if __name__ == "__main__":
    entry.run(PackagedCompile, main)
