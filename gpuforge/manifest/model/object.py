"""`[[objects]]`: groups of files by where they are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct

Role = Literal["host-only", "gpu", "user-compiled", "fallback"]
VersionPart = Literal["major", "major.minor", "exact"]
CpuLevelName = Literal["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


class Abi(Table):
    """The interface that a library and its callers must share. Another version, or another name or content of a header,
    is a new ABI."""

    version: Annotated[str, forms.AbiVersion] = Field(examples=["1"])
    """A version of your choice. Change it if functions keep their declarations but change their meaning."""
    headers: tuple[forms.Pattern, ...] = Field(min_length=1, examples=[["mod/mechanisms.h"]])
    """Patterns of the header files that declare the library's functions, relative to the manifest's folder. The headers
    of a `user-compiled` object go into the wheel with its sources."""
    packages: Mapping[forms.DistributionName, VersionPart] = Field(
        default={}, examples=[{"neuron": "major.minor"}]
    )
    """Installed Python packages whose version is part of the ABI: `major`, `major.minor` or `exact`. With
    `neuron = "major.minor"`, a library compiled with neuron 9.0.1 is used with 9.0.2, but not with 9.1. The build
    environment must have these packages (`[build] requires`)."""


class Object(Table):
    """A named group of files with one role: where it is compiled, and by whom."""

    name: forms.Name = Field(examples=["default-kernels"])
    """Name of the object, in messages and in the wheel; unique in the manifest."""
    role: Role = Field(examples=["fallback"])
    """`host-only`: files of the wheel without any content of a GPU toolchain, whose only GPU libraries are those in
    `needs`. The audit proves both; libraries that they open at run time (`dlopen`) are not checked.
    `gpu`: files of the wheel that the project's own build compiles for GPUs. The audit proves that they are there, and
    that they have code for the architectures in `[cuda.<version>]`.
    `user-compiled`: sources in the wheel, compiled on the user's machine.
    `fallback`: kernels compiled here, used if the user has not compiled any."""
    files: tuple[forms.PatternInWheel, ...] = Field(default=(), examples=[["**/*.so"]])
    """Patterns of files in the built wheel (`host-only`, `gpu`): programs, libraries, objects and archives of objects.
    Kernels that gpuforge added are not matched."""
    needs: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """GPU libraries that these host-only files are allowed to NEED, directly or through other libraries of the wheel:
    `cufft` for `libcufft.so.11`, `cuda` for the driver's `libcuda.so.1`. Default: none."""
    sources: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cu"]])
    """Patterns of source files, relative to the manifest's folder (`user-compiled`, `fallback`)."""
    headers: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cuh"]])
    """Patterns of further files that the sources include. After a change in one of them, the sources are compiled again
    (`fallback`), and a user's earlier build is not used (`user-compiled`)."""
    toolchain: forms.Name | None = Field(default=None, examples=["device"])
    """The toolchain in `[toolchains]` that compiles the sources (`fallback`)."""
    toolchains: Annotated[tuple[forms.Name, ...], Distinct] = Field(
        default=(), examples=[["acc", "openacc-gcc", "host"]]
    )
    """The toolchains to try on the user's machine, in this order (`user-compiled`)."""
    kind: Literal["module", "library"] = Field(
        default_factory=lambda seen: "library" if seen.get("role") == "user-compiled" else "module",
        examples=["module"],
    )
    """What the sources become. A `library` is a shared object with a C interface. As a fallback, it is compiled for
    CPUs by the host toolchain or a `command`, or for the GPUs in `archs` by `nvcc`. nvcc links libcudart according to
    `[cuda] linkage`. A `module` is loaded by name. `.cu` files become device images, by `nvcc`, or by `nvrtc` on the
    user's machine. `.cl` files become programs for `opencl`. C++ files become a library for the CPU. In a user-compiled
    set, each toolchain compiles the files of its own language. Default: `module` for `fallback`, `library` for
    `user-compiled`."""
    cpu: Annotated[tuple[CpuLevelName, ...], Distinct] = Field(default=(), examples=[["x86-64", "x86-64-v3"]])
    """CPU levels that the host toolchain compiles the library for, one library each. The runtime loads the highest that
    the user's CPU has. Without `x86-64`, older CPUs have no library. Default: one library, for the CPU that the
    compiler and `flags` select (`fallback` with `kind = "library"`)."""
    abi: Abi | None = Field(default=None, examples=[{"version": "1", "headers": ["mod/mechanisms.h"]}])
    """The interface that a compiled library must share with its callers. Its id is compiled into every library, and a
    library with another id is never loaded (`user-compiled`, and `fallback` with `kind = "library"`)."""
    stands_in_for: str | None = Field(default=None, alias="stands-in-for", examples=["mechanisms"])
    """Name of the object that this one replaces (`fallback`). A `library` is used if the user has not compiled the
    object. If it replaces another fallback, it is used if that one does not run on the user's machine. It has the ABI
    of that object. Several fallbacks may replace the same object; among those that run on the user's machine, one with
    code for its GPU is preferred. In a set of modules, device images are used if nothing was compiled, and a library is
    used if no GPU can run the modules."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-use_fast_math"]])
    """Flags for these sources, after those of the toolchain (`user-compiled`, `fallback`)."""
    in_host_build: StrictBool = Field(default=False, alias="in-host-build", examples=[True])
    """Whether the project's own build also reads these sources. It applies to a `path` source. With `false`, the host
    build's source tree contains neither them nor their `headers`, so a changed kernel does not rebuild the host code. A
    file of several objects stays in the tree only if all of them have `true` (`user-compiled`, `fallback`)."""
