"""`[[objects]]`: groups of files by where they are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct

Role = Literal["host-only", "user-compiled", "fallback"]
VersionPart = Literal["major", "major.minor", "exact"]
CpuLevel = Literal["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


class Abi(Table):
    """What a library and the code that calls it must agree on. A change of the version, or of a header's name or
    content, is a new ABI."""

    version: Annotated[str, forms.AbiVersion] = Field(examples=["1"])
    """A version of your choice. Change it when functions keep their declarations and change their meaning."""
    headers: tuple[forms.Pattern, ...] = Field(min_length=1, examples=[["mod/mechanisms.h"]])
    """Patterns of the header files that declare the library's functions, relative to the manifest's folder. Those of a
    `user-compiled` object go into the wheel with its sources."""
    packages: Mapping[forms.DistributionName, VersionPart] = Field(
        default={}, examples=[{"neuron": "major.minor"}]
    )
    """Installed Python packages whose version is part of the ABI: `major`, `major.minor` or `exact`. With
    `neuron = "major.minor"` a library that was compiled beside neuron 9.0.1 serves 9.0.2, and not 9.1. The build
    environment must have them (`[build] requires`)."""


class Object(Table):
    """A named group of files with one role: where it is compiled, and by whom."""

    name: forms.Name = Field(examples=["default-kernels"])
    """Name of the object, for messages and in the wheel; unique in the manifest."""
    role: Role = Field(examples=["fallback"])
    """`host-only`: files of the wheel that may hold nothing of a GPU toolchain, nor NEED a library of one but for
    `needs`, which the audit proves; what they open while they run (`dlopen`) is not judged.
    `user-compiled`: sources in the wheel, compiled on the user's machine.
    `fallback`: kernels compiled here, used where the user has compiled nothing."""
    files: tuple[forms.Pattern, ...] = Field(default=(), examples=[["**/*.so"]])
    """Patterns of files in the built wheel (`host-only`): programs, libraries, objects and archives of objects. Kernels
    that gpuforge put there are not meant."""
    needs: Annotated[tuple[forms.LibraryName, ...], Distinct] = Field(default=(), examples=[["cufft"]])
    """Libraries of a GPU stack that the files may NEED all the same, themselves or through other libraries of the
    wheel (`host-only`): `cufft` of `libcufft.so.11`, `cuda` of the driver's `libcuda.so.1`. Left out, none."""
    sources: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cu"]])
    """Patterns of source files, relative to the manifest's folder (`user-compiled`, `fallback`)."""
    headers: tuple[forms.Pattern, ...] = Field(default=(), examples=[["kernels/*.cuh"]])
    """Patterns of further files that the sources include. After a change in one of them the sources are compiled again
    (`fallback`), and a user's earlier build is not used (`user-compiled`)."""
    toolchain: forms.Name | None = Field(default=None, examples=["device"])
    """The toolchain, of those in `[toolchains]`, that compiles the sources (`fallback`)."""
    toolchains: Annotated[tuple[forms.Name, ...], Distinct] = Field(
        default=(), examples=[["acc", "openacc-gcc", "host"]]
    )
    """The toolchains to try, in this order, on the user's machine (`user-compiled`)."""
    kind: Literal["module", "library"] = Field(
        default_factory=lambda seen: "library" if seen.get("role") == "user-compiled" else "module",
        examples=["module"],
    )
    """What is made of the sources. A `library` is a shared object with a C interface; a fallback one is made by the
    host toolchain or a `command`, for CPUs, or by `nvcc`, for the GPUs in `archs`, with libcudart as `[cuda] linkage`
    says. A `module` is loaded by name: of `.cu` files, device images for the driver, made by `nvcc` or, on the user's
    machine, by `nvrtc`; of `.cl` files, programs for `opencl`; of C++ files, a library for the CPU. Each toolchain of a
    user-compiled set compiles the files that are its own. Default: `module` for `fallback`, `library` for
    `user-compiled`."""
    cpu: Annotated[tuple[CpuLevel, ...], Distinct] = Field(default=(), examples=[["x86-64", "x86-64-v3"]])
    """Levels of CPUs that the host toolchain compiles the library for, each as a library of its own. The runtime takes
    the highest that the user's CPU has. Without `x86-64`, the lowest, there is none for an older CPU. Left out, there
    is one library, for what the compiler and `flags` choose (`fallback` with `kind = "library"`)."""
    abi: Abi | None = Field(default=None, examples=[{"version": "1", "headers": ["mod/mechanisms.h"]}])
    """What a compiled library must agree on with the code that calls it. Its id is compiled into every library, and a
    library with another one is never loaded (`user-compiled`, and `fallback` with `kind = "library"`)."""
    stands_in_for: str | None = Field(default=None, alias="stands-in-for", examples=["mechanisms"])
    """Name of the object whose place this one takes (`fallback`). Of a `library`: a user-compiled one, where the user
    has compiled nothing, or another fallback, where that does not run; the fallback is a library too, and has that
    object's ABI. Several may be named so: of those that run on the user's machine, one with code for its GPU is used.
    Of a set of modules: device images are used where nothing was compiled, and a library does the set's work on the
    CPU, where no GPU can."""
    flags: tuple[str, ...] = Field(default=(), examples=[["-use_fast_math"]])
    """Flags for these sources, after the toolchain's own (`user-compiled`, `fallback`)."""
    in_host_build: StrictBool = Field(default=False, alias="in-host-build", examples=[True])
    """Whether the project's own build reads these sources too, where the source is a folder (`path`). Otherwise they
    and their `headers` are left out of the host build's source tree, so that a changed kernel does not rebuild it;
    what several objects share stays in only if all of them say `true` (`user-compiled`, `fallback`)."""
