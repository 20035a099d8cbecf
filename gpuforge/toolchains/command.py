"""Any program, called as in the manifest: `[toolchains.*] command`."""

from __future__ import annotations

from gpuforge.toolchains.toolchain import Toolchain

TOOLCHAIN = Toolchain(
    name="command", compiles=(), by_command=True, builtin=("fallback library", "user-compiled")
)
