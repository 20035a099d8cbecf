"""Make the variant of a finished wheel: the last step, because other tools cannot read its file name yet."""

from __future__ import annotations

from gpuforge.package import variants
from gpuforge.plan.requests.wheel import VariantWheel
from gpuforge.steps import entry
from gpuforge.steps.wheelhouse import one_wheel
from gpuforge.steps.write_wheel import epoch


def main(request: VariantWheel) -> None:
    """Write exactly one wheel into the folder `output`."""
    content = variants.describe(request.cuda, request.gpus)
    made = variants.make(one_wheel(request.wheel), request.output, content, epoch=epoch())
    for name, values in content["variants"][variants.label(request.cuda)][variants.NAMESPACE].items():
        print(f"{variants.NAMESPACE} :: {name} :: {' or '.join(values)}")
    print(made.name)


if __name__ == "__main__":
    entry.run(VariantWheel, main)
