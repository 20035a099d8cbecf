"""Write down what a wheel wants of CUDA's libraries: it changes less often than the wheel, and decides on more."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from gpuforge.package import links
from gpuforge.steps import entry, wheelhouse
from gpuforge.wheel import metadata, unpacked


def main(arguments: list[str]) -> None:
    """Write `--output` as JSON: `wanted`, package → SONAME → symbols, and `requires`, the project's own lines."""
    parser = argparse.ArgumentParser(prog="wheel_links")
    parser.add_argument("--wheel", type=Path, required=True, help="it, or the folder that holds it alone")
    parser.add_argument("--kernels", type=Path, action="append", default=[], help="libraries that go into it")
    parser.add_argument("--cuda", required=True, help='the toolkit: "13.0"')
    parser.add_argument("--pins", default="{}", help="JSON object: the toolkit's packages and their versions")
    parser.add_argument("--pins-file", type=Path, help="a file of the toolkit with more of them")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    tree = options.scratch / "tree"
    unpacked.unpack(wheelhouse.one_wheel(options.wheel), tree)
    own = metadata.requirements(metadata.of_file(unpacked.dist_info(tree) / "METADATA"))
    for number, folder in enumerate(options.kernels):
        shutil.copytree(folder, tree / f"kernels{number}")
    pins = json.loads(options.pins) | (json.loads(options.pins_file.read_text()) if options.pins_file else {})
    wanted = links.wanted_of(tree, options.cuda, pins)
    data = {
        "wanted": {
            package: {soname: sorted(names) for soname, names in symbols.items()}
            for package, symbols in wanted.items()
        },
        "requires": [str(requirement) for requirement in own if requirement.marker is None],
    }
    options.output.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    print(f"CUDA packages whose libraries it needs: {', '.join(sorted(wanted)) or 'none'}")


if __name__ == "__main__":
    entry.run(main)
