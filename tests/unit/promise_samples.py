"""What several tests of the audit share: promise_samples."""

from audit_samples import (
    KERNEL,
    SET,
    elf,
    index,
)
from plan_samples import PACKAGE

BASE = {"demo/libcore.so": elf(), "demo/ext.so": elf(), f"{SET}index.json": index(), f"{SET}k.fatbin": KERNEL}


PROMISES = (
    PACKAGE
    + """\
[toolchains.device]
compiler = "nvcc"
[cuda.13]
toolkit = "13.0"
archs = ["80"]
ptx = "90"
[[objects]]
name = "core"
role = "host-only"
files = ["demo/lib*.so"]
"""
)
