"""The driver's error codes that users meet, with their names and advice.

Names and numbers: enum CUresult, https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html The names of
other codes come from the driver.
"""

_RESTART = (
    "the GPU's state in this process is lost: end the process; `nvidia-smi` and `dmesg` say whether it works"
)
_DEBUG = "run the program under `compute-sanitizer`, which names the kernel and the line"

ADVICE = {
    1: ("CUDA_ERROR_INVALID_VALUE", "check the arguments, and grid, block and shared memory"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "free memory on the GPU: `nvidia-smi` lists the processes that hold it"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "a forked process cannot use its parent's GPU: start workers with 'spawn'"),
    4: ("CUDA_ERROR_DEINITIALIZED", "the process is ending: launch nothing from exit handlers"),
    34: ("CUDA_ERROR_STUB_LIBRARY", "a toolkit's stub was loaded: take its `stubs` folder out of LD_LIBRARY_PATH"),
    46: ("CUDA_ERROR_DEVICE_UNAVAILABLE", "another process uses the GPU exclusively: see `nvidia-smi -q -d COMPUTE`"),
    100: ("CUDA_ERROR_NO_DEVICE", "check `nvidia-smi`, CUDA_VISIBLE_DEVICES and the container's --gpus option"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "check CUDA_VISIBLE_DEVICES; `nvidia-smi -L` lists the devices"),
    200: ("CUDA_ERROR_INVALID_IMAGE", "the kernel's file is damaged: install the wheel again"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "the context was destroyed, or is of another device: look the kernel up again"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "the kernel is not compiled for this GPU: compile it, or ask its authors"),
    214: ("CUDA_ERROR_ECC_UNCORRECTABLE", _RESTART),
    218: ("CUDA_ERROR_INVALID_PTX", "read the log of the driver's compiler, which refused the PTX"),
    220: ("CUDA_ERROR_NVLINK_UNCORRECTABLE", _RESTART),
    221: ("CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "install the driver's libnvidia-ptxjitcompiler.so.1"),
    222: ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "update the driver, or use a wheel for an older CUDA"),
    223: ("CUDA_ERROR_JIT_COMPILATION_DISABLED", "unset CUDA_DISABLE_PTX_JIT"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "use a stream and a kernel of the current context"),
    500: ("CUDA_ERROR_NOT_FOUND", 'the module has no kernel of that name: declare it extern "C"'),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", f"a kernel used memory that is not its own: {_DEBUG}"),
    701: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "use fewer threads in a block, or less shared memory"),
    702: ("CUDA_ERROR_LAUNCH_TIMEOUT", "the kernel ran too long on a GPU that drives a display: split its work"),
    709: ("CUDA_ERROR_CONTEXT_IS_DESTROYED", "look the kernel up again in a context that exists"),
    710: ("CUDA_ERROR_ASSERT", "read on stderr which assert() in a kernel failed"),
    715: ("CUDA_ERROR_ILLEGAL_INSTRUCTION", _DEBUG),
    716: ("CUDA_ERROR_MISALIGNED_ADDRESS", f"an array is not aligned as the kernel expects: {_DEBUG}"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", _DEBUG),
    802: ("CUDA_ERROR_SYSTEM_NOT_READY", "start nvidia-fabricmanager, which this machine's NVSwitch needs"),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine: libcuda and the kernel module differ in version"),
    804: ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "take the `compat` folder out of LD_LIBRARY_PATH"),
    999: ("CUDA_ERROR_UNKNOWN", "check `nvidia-smi` and `dmesg`; after a suspend, load the module nvidia_uvm again"),
}  # fmt: skip
