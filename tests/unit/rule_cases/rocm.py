"""Cases of the rules: ROCm."""

from audit_cases import Case
from audit_samples import elf
from hip_samples import bundle

NAME = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"

CASES = {
    "a torch for CUDA and one for ROCm": Case(
        "GF113", {
            "demo/_a.cpython-311-x86_64-linux-gnu.so": elf(needed=["libtorch.so", "libc10_cuda.so"]),
            "demo/_b.cpython-311-x86_64-linux-gnu.so": elf(needed=["libtorch.so", "libtorch_hip.so"]),
        },
        {"demo/_b.cpython-311-x86_64-linux-gnu.so": elf(needed=["libtorch.so", "libtorch_cuda.so"])},
        requires=["torch"], name=NAME,
    ),
    "kernels for different GPUs of AMD": Case(
        "GF413", {"demo/ext.so": elf(sections={".hip_fatbin": bundle("gfx90a", "gfx942") + bundle("gfx90a")})},
        {"demo/ext.so": elf(sections={".hip_fatbin": bundle("gfx90a", "gfx942") + bundle("gfx942", "gfx90a")})},
        name=NAME,
    ),
}  # fmt: skip
