"""Write the CUDA libraries and symbols that a wheel needs to a file, which changes less often than the wheel."""

from __future__ import annotations

import json
import platform
import shutil

from gpuforge.package import links
from gpuforge.plan.requests.links import WheelLinks
from gpuforge.steps import entry, wheelhouse
from gpuforge.wheel import marker, metadata, unpacked


def main(request: WheelLinks) -> None:
    """Write `output` as JSON: `wanted`, distribution → SONAME → symbols, and `requires`, the project's own lines.

    Lines for other systems, for some Pythons and for extras are left out.
    """
    tree = request.scratch / "tree"
    unpacked.unpack(wheelhouse.one_wheel(request.wheel), tree)
    own = metadata.requirements(metadata.of_file(unpacked.dist_info(tree) / "METADATA"))
    for number, folder in enumerate(request.kernels):
        shutil.copytree(folder, tree / f"kernels{number}")
    more = json.loads(request.pins_file.read_text()) if request.pins_file else {}
    pins = {**request.pins, **more}
    needed = links.needed_of(tree, request.cuda, pins)
    data = {
        "wanted": {
            distribution: {soname: sorted(names) for soname, names in symbols.items()}
            for distribution, symbols in needed.items()
        },
        "requires": [str(line) for line in own if marker.always_holds(line.marker, platform.machine())],
    }
    request.output.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    print(f"CUDA libraries are needed from: {', '.join(sorted(needed)) or 'none'}")


if __name__ == "__main__":
    entry.run(WheelLinks, main)
