"""Make the front package, whose extras install the wheels of the CUDA majors."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gpuforge import disk
from gpuforge.package import front_wheel
from gpuforge.plan.requests.wheel import PackageFront
from gpuforge.steps import entry
from gpuforge.steps.wheelhouse import one_wheel
from gpuforge.steps.write_wheel import write
from gpuforge.wheel import metadata


def main(spec: PackageFront) -> None:
    """Write the wheel into the folder `output`."""
    wheels = [metadata.of_wheel(one_wheel(folder)) for folder in spec.of]
    front_wheel.check(wheels, spec.brought)
    with disk.errors_at(spec.work), tempfile.TemporaryDirectory(prefix="front-", dir=spec.work) as scratch:
        tree = Path(scratch) / "tree"
        name = front_wheel.lay_out(tree, spec.distribution, wheels[0], spec.brought)
        made = write(tree, spec.output / str(name), None)
    print(f"{made.name}: {made.stat().st_size} bytes")


if __name__ == "__main__":
    entry.run(PackageFront, main)
