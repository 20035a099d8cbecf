"""Write the CUDA libraries and symbols that a wheel needs; that file changes less often than the wheel."""

from __future__ import annotations

import platform
import shutil

from gpuforge.cuda.provided import CudaNeeds
from gpuforge.package import links
from gpuforge.plan.requests.links import WheelLinks
from gpuforge.steps import entry, value_file, wheelhouse
from gpuforge.wheel import metadata, unpacked


def main(request: WheelLinks) -> None:
    """Write `output`, the `CudaNeeds` of the wheel.

    Lines of the project for other systems, for some Pythons and for extras are left out.
    """
    tree = request.scratch / "tree"
    unpacked.unpack(wheelhouse.one_wheel(request.wheel), tree)
    own = metadata.requirements(metadata.of_file(unpacked.dist_info(tree) / "METADATA"))
    for number, folder in enumerate(request.kernels):
        shutil.copytree(folder, tree / f"kernels{number}")
    needed = links.needed_of(tree, request.cuda, request.all_pins())
    always = [str(line) for line in own if metadata.always_holds(line.marker, platform.machine())]
    value_file.write(CudaNeeds(needed, tuple(always)), request.output)
    print(f"CUDA libraries are needed from: {', '.join(sorted(needed)) or 'none'}")


if __name__ == "__main__":
    entry.run(WheelLinks, main)
