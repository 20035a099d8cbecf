"""Libraries and a kernel set in wheels, for tests of the audit's rules."""

from __future__ import annotations

import json
from hashlib import sha256

from audit_samples import elf, fatbin
from document_samples import INDEX, MODULE

NVOMP = "demo.libs/libnvomp-fb1a2b9f.so"
CUDART = "demo.libs/libcudart-4554289f.so.13.0.96"
LIBS = "$ORIGIN/../demo.libs"


def grafted(path: str) -> bytes:
    return elf(soname=path.rpartition("/")[2])


def user_of(*paths: str, **keys: object) -> bytes:
    return elf(needed=[path.rpartition("/")[2] for path in paths], runpath=LIBS, **keys)  # type: ignore[arg-type]


KERNEL = fatbin("sm_80", "compute_90:8.7")


def index(**change: object) -> bytes:
    module = {
        **MODULE, "sha256": sha256(KERNEL).hexdigest(),
        "images": [{"kind": "cubin", "arch": "sm_80"}, {"kind": "ptx", "arch": "compute_90", "isa": "8.7"}],
    }  # fmt: skip
    return json.dumps({**INDEX, "modules": [module | change]}).encode()


SET = "demo/_gpuforge/kernels/k/"
