"""Make the variant wheel of a finished and proved one: the last step, as other tools do not read its name yet."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuforge.package import variants
from gpuforge.steps import entry
from gpuforge.steps.package_wheel import epoch
from gpuforge.steps.wheelhouse import one_wheel


def main(arguments: list[str]) -> None:
    """Leave exactly one wheel in the folder `--output`."""
    parser = argparse.ArgumentParser(prog="variant_wheel")
    parser.add_argument(
        "--wheel", type=Path, required=True, help="the wheel, or the folder that holds it alone"
    )
    parser.add_argument("--cuda", required=True, help="the toolkit's version")
    parser.add_argument("--gpu", action="append", default=[], help='GPUs it is for: "90_real", "90_virtual"')
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    content = variants.describe(options.cuda, options.gpu)
    made = variants.make(one_wheel(options.wheel), options.output, content, epoch=epoch())
    for name, values in content["variants"][variants.label(options.cuda)][variants.NAMESPACE].items():
        print(f"{variants.NAMESPACE} :: {name} :: {' or '.join(values)}")
    print(made.name)


if __name__ == "__main__":
    entry.run(main)
