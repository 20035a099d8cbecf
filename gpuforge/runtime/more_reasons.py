"""The sentences of reasons that kernel sets for NVIDIA's driver alone do not have; see `values.SENTENCES`."""

SENTENCES = {
    "bad-value": "{variable}={value}: expected one of {expected}",
    # accepted
    "nvrtc": "{compiler} compiles it for {arch} when it is first loaded; it is kept",
    "opencl": "{device} compiles it when it is first loaded; it is kept",
    "iree": "IREE's driver {driver} runs it on {device}",
    "iree-software": "IREE's driver {driver} runs it on {device}, which is the CPU",
    "no-gpu-needed": "needs no GPU",
    # refused: the build
    "is-set": "{file}: lists a kernel set, which KernelSet loads (in C: gpuforge_load_kernel)",
    "no-kernels-wheel": "the kernels are in wheels of their own, and none is installed: pip install {wanted}",
    "other-version": "{wheel} is of version {found}, and this package of {expected}: pip install {wanted}",
    "other-interface": (
        "{wheel} has kernels for the interface {found}, and this package was built for {expected}: "
        "install both from one build"
    ),
    # a library
    "made-here": "made by {compiler} for {arch}",
    "made-there": "{name}, made by {compiler}",
    "made-for-level": "compiled for {level}, which this CPU has",
    "cpu-lacks": "is for {level}; this CPU lacks {lacking}",
    "cpu-unknown": "is for {level}; {file} does not tell what this CPU has",
    "other-machine": "is for {level}; this machine is {here}",
    "not-compiled": "nothing was compiled yet: {command}",
    "compiled-before": "your build was made for {release}, and other sources are installed now: {command}",
    "nothing-shipped": "this wheel ships no library",
    "build-damaged": "{file}: is damaged: {problem}; {again}",
    "cut-short": "{file}: has {found} bytes and should have {expected}: it is damaged, install the wheel again",
    "no-package": "{package} is not installed here, and its version is part of the ABI",
    "no-abi": "{file}: has no ABI id ({symbol}): it was not compiled for this package",
    "other-abi": "{file}: was compiled for the ABI {found}, and this package has {expected}",
    "not-opened": "cannot be loaded: {problem}",
    "no-library-set": "this wheel has no kernel library '{name}'",
    # refused: what would compile a source here
    "nvrtc-older": "{compiler} cannot compile for compute capability {here}: install a release that can",
    "compile-failed": "{file}: {compiler} refuses it: {problem}",
    "no-cuda-headers": (
        "{file}: includes {header}, which is no file of the package, and {compiler} does not have CUDA's headers; "
        "NVRTC has them from 13.3 on, for drivers of CUDA 13: pip install 'nvidia-cuda-nvrtc>=13.3'"
    ),
    "not-installed": "no {what}: {install}",
    "not-looked-for": "{what} was not looked for",
    "no-iree-driver": "IREE's driver {driver} does not start ({problem}); {advice}",
    "other-iree-release": (
        "iree-base-runtime {found} is installed, and IREE {needed} compiled the module, which needs the runtime of the "
        "same release: {install}"
    ),
    "no-iree-device": "IREE's driver {driver} has no device",
    "no-such-iree-device": "IREE's driver {driver} has no device {device}: there are {count}",
    "own-context": "IREE uses the primary context of a device, and another one is given",
    "not-a-kernel": "{kernel} cannot be launched: {problem}",
    "opencl-not-allowed": "{variable}={value} allows none of OpenCL's devices: {found}",
    "opencl-other-kind": "its devices must be {kinds}; OpenCL has {found}",
    "opencl-lacks": "needs {lacking}, which no device of OpenCL has: {found}",
    "no-opencl-devices": "OpenCL has no device: install a driver for one ({example})",
    "no-such-opencl-device": "there is no OpenCL device {device}: there are {count}",
}

# The sentences of reasons of which a fact is "".
WITHOUT = {
    "made-here": "made by {compiler}",
    "no-iree-driver": "IREE's driver {driver} does not start ({problem})",
    "compiled-before": "your build was made for an earlier release, and other sources are installed now: {command}",
}
