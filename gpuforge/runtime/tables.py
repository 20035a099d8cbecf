"""The functions of NVIDIA's driver and of libraries beside it: names, argument types, first versions.

Driver: https://docs.nvidia.com/cuda/cuda-driver-api/ · NVML: https://docs.nvidia.com/deploy/nvml-api/ ·
NCCL: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html · OpenCL: https://registry.khronos.org/OpenCL/
"""

from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple

_OUT = POINTER(c_void_p)
_PAIR = (c_void_p, c_void_p)  # options and their values


class Table(NamedTuple):
    """A shared library: its file names, and its functions with their argument types.

    A library without a function of `required` is not used; a function of `optional` may be absent.
    """

    what: str  # its name in messages
    files: "tuple[str, ...]"
    required: "dict[str, tuple[Any, ...]]"
    optional: "dict[str, tuple[Any, ...]]"
    advice: str  # what to do if it does not respond


DRIVER = Table(
    "NVIDIA driver",
    ("libcuda.so.1", "libcuda.so"),
    {
        "cuInit": (c_uint,),
        "cuDriverGetVersion": (POINTER(c_int),),
        "cuDeviceGetCount": (POINTER(c_int),),
        "cuDeviceGet": (POINTER(c_int), c_int),
        "cuDeviceGetName": (c_char_p, c_int, c_int),
        "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
        "cuDevicePrimaryCtxRetain": (_OUT, c_int),
        "cuDevicePrimaryCtxGetState": (c_int, POINTER(c_uint), POINTER(c_int)),
        "cuCtxGetCurrent": (_OUT,),
        "cuCtxSetCurrent": (c_void_p,),
        "cuCtxSynchronize": (),
        "cuCtxGetDevice": (POINTER(c_int),),
        "cuCtxPushCurrent_v2": (c_void_p,),
        "cuCtxPopCurrent_v2": (_OUT,),
        "cuModuleLoadDataEx": (_OUT, c_void_p, c_uint, c_void_p, c_void_p),
        "cuModuleUnload": (c_void_p,),
        "cuModuleGetFunction": (_OUT, c_void_p, c_char_p),
        "cuModuleGetGlobal_v2": (POINTER(c_uint64), POINTER(c_size_t), c_void_p, c_char_p),
        "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
        "cuFuncSetAttribute": (c_void_p, c_int, c_int),
        "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
        "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
        "cuMemFree_v2": (c_uint64,),
        "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
        "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
        "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
        "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
        "cuStreamSynchronize": (c_void_p,),
        "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
        "cuEventCreate": (_OUT, c_uint),
        "cuEventRecord": (c_void_p, c_void_p),
        "cuEventSynchronize": (c_void_p,),
        "cuEventDestroy_v2": (c_void_p,),
        "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
        "cuGetErrorName": (c_int, POINTER(c_char_p)),
        "cuGetErrorString": (c_int, POINTER(c_char_p)),
    },
    {
        "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),  # CUDA 11.8
        "cuLaunchCooperativeKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p),
        "cuLibraryLoadData": (_OUT, c_void_p, *_PAIR, c_uint, *_PAIR, c_uint),  # CUDA 12.0, as the next three
        "cuLibraryUnload": (c_void_p,),
        "cuLibraryGetKernel": (_OUT, c_void_p, c_char_p),
        "cuKernelGetFunction": (_OUT, c_void_p),
        "cuLibraryGetGlobal": (POINTER(c_uint64), POINTER(c_size_t), c_void_p, c_char_p),
        "cuCtxGetId": (c_void_p, POINTER(c_uint64)),  # CUDA 12.0
        "cuLinkCreate_v2": (c_uint, *_PAIR, _OUT),
        "cuLinkAddData_v2": (c_void_p, c_int, c_void_p, c_size_t, c_char_p, c_uint, *_PAIR),
        "cuLinkComplete": (c_void_p, _OUT, POINTER(c_size_t)),
        "cuLinkDestroy": (c_void_p,),
        "cuFuncGetParamInfo": (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),  # CUDA 12.4
        "cuGraphCreate": (_OUT, c_uint),
        "cuGraphAddKernelNode_v2": (_OUT, c_void_p, c_void_p, c_size_t, c_void_p),  # CUDA 12.0
        "cuGraphInstantiateWithFlags": (_OUT, c_void_p, c_uint64),  # CUDA 11.4
        "cuGraphExecKernelNodeSetParams_v2": (c_void_p, c_void_p, c_void_p),  # CUDA 12.0
        "cuGraphLaunch": (c_void_p, c_void_p),
        "cuGraphExecDestroy": (c_void_p,),
        "cuGraphDestroy": (c_void_p,),
        "cuStreamGetPriority": (c_void_p, POINTER(c_int)),
        "cuStreamGetCtx": (c_void_p, _OUT),
        "cuStreamIsCapturing": (c_void_p, POINTER(c_int)),
        "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    },
    "`nvidia-smi` and `dmesg` say what is wrong with it; a restart of the machine may be needed",
)
DRIVER_NEEDED = (11, 0)

NVML = Table(
    "NVML",
    ("libnvidia-ml.so.1",),
    {"nvmlInit_v2": (), "nvmlSystemGetDriverVersion": (c_char_p, c_uint), "nvmlShutdown": ()},
    {},
    DRIVER.advice,
)
NCCL = Table("NCCL", ("libnccl.so.2",), {"ncclGetVersion": (POINTER(c_int),)}, {}, "reinstall nvidia-nccl")
OPENCL = Table(
    "OpenCL loader",
    ("libOpenCL.so.1", "libOpenCL.so"),
    {
        "clGetPlatformIDs": (c_uint, _OUT, POINTER(c_uint)),
        "clGetPlatformInfo": (c_void_p, c_uint, c_size_t, c_void_p, POINTER(c_size_t)),
    },
    {},
    "one of the implementations listed in /etc/OpenCL/vendors hangs",
)
IREE = Table(
    "IREE runtime", ("iree.runtime",), {}, {}, "one of its drivers hangs: `iree-run-module --list_devices`"
)
NVRTC = Table(
    "NVRTC",
    ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"),
    {
        "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
        "nvrtcGetNumSupportedArchs": (POINTER(c_int),),
        "nvrtcGetSupportedArchs": (POINTER(c_int),),
        "nvrtcCreateProgram": (_OUT, c_char_p, c_char_p, c_int, POINTER(c_char_p), POINTER(c_char_p)),
        "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
        "nvrtcGetCUBINSize": (c_void_p, POINTER(c_size_t)),
        "nvrtcGetCUBIN": (c_void_p, c_char_p),
        "nvrtcGetProgramLogSize": (c_void_p, POINTER(c_size_t)),
        "nvrtcGetProgramLog": (c_void_p, c_char_p),
        "nvrtcDestroyProgram": (_OUT,),
    },
    {"nvrtcGetBundledHeadersInfo": (c_void_p, POINTER(c_char_p))},  # CUDA 13.3, as --use-bundled-headers
    "install its package again",
)
