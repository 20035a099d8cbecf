"""Write PTX of many Halide pipelines, `x * 3 + NUMBER` for 1024 elements: `halide_many.py FOLDER COUNT`.

It runs in an environment with PyPI's `halide`.
"""

import sys
from pathlib import Path

import halide as hl

SIZE, BLOCK = 1024, 16


def main() -> None:
    """Compile `COUNT` pipelines for compute capability 5.0."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    target = hl.Target("x86-64-linux-cuda-cuda_capability_50-no_runtime")
    for number in range(count):
        x, block, thread = hl.Var("x"), hl.Var("block"), hl.Var("thread")
        ramp = hl.Func(f"ramp{number}")
        ramp[x] = hl.f32(x) * 3 + number
        ramp.gpu_tile(x, block, thread, BLOCK).output_buffer().dim(0).set_bounds(0, SIZE)
        made = {hl.OutputFileType.device_code: str(folder / f"k{number:03}.ptx")}
        ramp.compile_to(made, [], f"ramp{number}", target)


if __name__ == "__main__":
    main()
