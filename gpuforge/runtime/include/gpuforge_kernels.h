/* gpuforge_kernels.h: finds, explains and loads a wheel's kernels from C99 and C++11, without Python.

   In one source file of the program, before any other header:

       #define GPUFORGE_KERNELS_IMPLEMENTATION
       #include <gpuforge_kernels.h>

   It needs libc, POSIX threads and dlopen: link with `-pthread -ldl`. The order, the variables and the sentences are
   those of the Python runtime beside it. Made by scripts/join_header.py of gpuforge: change it there. */

#ifndef GPUFORGE_KERNELS_H
#define GPUFORGE_KERNELS_H

#if defined(GPUFORGE_KERNELS_IMPLEMENTATION) && !defined(_XOPEN_SOURCE) && !defined(_GNU_SOURCE)
#define _XOPEN_SOURCE 700
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One fact of a reason: `text`, or `number` where `text` is NULL. */
typedef struct gpuforge_fact {
    const char *name;
    const char *text;
    long long number;
} gpuforge_fact;

enum { GPUFORGE_FACTS = 5 };

/* Why something is used or not: a kind with its facts. All zero: no reason. Facts end with one without a name. */
typedef struct gpuforge_reason {
    const char *kind;
    gpuforge_fact facts[GPUFORGE_FACTS];
} gpuforge_reason;

/* A GPU: its name and its compute capability, 9 and 0 for an H200. */
typedef struct gpuforge_device {
    const char *name;
    int major, minor;
} gpuforge_device;

/* A library beside the driver: `text` is its version, NULL where `problem` says why it is not there. */
typedef struct gpuforge_beside {
    const char *name;
    const char *text;
    gpuforge_reason problem;
} gpuforge_beside;

/* NVIDIA's runtime compiler: its CUDA version, its whole version, and what it compiles for ("90a"). */
typedef struct gpuforge_nvrtc {
    int major, minor;
    const char *release;
    const char *const *archs;
    size_t arch_count;
    gpuforge_reason problem;
} gpuforge_nvrtc;

/* The devices of OpenCL by name. */
typedef struct gpuforge_opencl {
    const char *const *devices;
    size_t device_count;
    gpuforge_reason problem;
} gpuforge_opencl;

/* What a machine has. `has_driver` is 0 where there is no usable driver; `problem` then says why.
   NVRTC and OpenCL compile sources; the functions below do not call them, and leave NULL: not looked for. */
typedef struct gpuforge_machine {
    int has_driver;
    int cuda_major, cuda_minor; /* the newest CUDA version that the driver supports */
    const gpuforge_device *devices;
    size_t device_count;
    gpuforge_reason problem;
    const gpuforge_nvrtc *nvrtc;
    const gpuforge_opencl *opencl;
    const gpuforge_beside *beside;
    size_t beside_count;
    const char *cpu_machine;  /* "x86_64", as uname has it; NULL: look at this machine's CPU where that is needed */
    const char *cpu_features; /* the `flags` of /proc/cpuinfo; NULL where the system does not tell them */
} gpuforge_machine;

/* Whose kernels are looked up, and where. What is not needed is NULL. */
typedef struct gpuforge_host {
    const char *home;                                        /* the folder PACKAGE/_gpuforge of the installed wheel */
    const char *package;                                     /* the package's import name */
    const char *(*variable)(const char *name, void *data);   /* the environment; NULL: getenv */
    void *data;                                              /* given to `variable` */
    const gpuforge_machine *machine;                         /* facts to decide on; NULL: those of this machine */
    const char *driver;                                      /* NULL: libcuda.so.1, then libcuda.so */
    const char *const *folders; /* where wheels of kernels may lie, beside the folder that the package is in */
    size_t folder_count;
} gpuforge_host;

/* One way to run kernels. `verdict` is "used", "fits" or "refused"; `image` may be NULL, `place` is "" for the CPU. */
typedef struct gpuforge_candidate {
    const char *verdict;
    const char *origin;
    const char *place;
    const char *image;
    const char *kind; /* of the reason */
    const char *text; /* its sentence */
} gpuforge_candidate;

/* What was decided, in the order in which it is tried. `problem` is "" unless nothing could be decided. */
typedef struct gpuforge_decision {
    const gpuforge_candidate *candidates;
    size_t count;
    const char *problem;
} gpuforge_decision;

/* A kernel of a `module` set: a CUfunction and the CUcontext that it belongs to. */
typedef struct gpuforge_kernel {
    void *function;
    void *context;
    void *image; /* CUlibrary, or CUmodule before CUDA 12.0 */
    void *kept;  /* what the driver writes into when it compiles later */
    int device;
} gpuforge_kernel;

enum { GPUFORGE_CURRENT_CONTEXT = -1 };

/* Return what `python -m PACKAGE._gpuforge explain` prints, as text or as JSON: of these sets and libraries, or of
   all where `count` is 0. To be freed with free(). NULL: no memory. */
char *gpuforge_explain(const gpuforge_host *host, const char *const *names, size_t count, int json);

/* Decide for a kernel library, or for a module (NULL: the only one) of a kernel set on a device. To be freed with
   gpuforge_decision_free. NULL: no memory. */
gpuforge_decision *gpuforge_decide_library(const gpuforge_host *host, const char *name);
gpuforge_decision *gpuforge_decide_kernels(const gpuforge_host *host, const char *set, const char *module, int device);
void gpuforge_decision_free(gpuforge_decision *decision);

/* Open the first library of an object that can be used, with RTLD_LOCAL; its ABI id was read from the file before.
   Return what dlopen gave, or NULL. `why` (may be NULL) becomes a text to be freed: with NULL the reason of each place;
   else why what the environment names, or the user's own build, was passed over, NULL where nothing was. */
void *gpuforge_open_library(const gpuforge_host *host, const char *name, char **why);

/* Load a kernel for the primary context of a device, or for the current context and its device
   (GPUFORGE_CURRENT_CONTEXT). Its `name` may have its namespaces, template arguments and parameters, as `explain` shows
   them, or not, if one kernel is meant; `module` NULL: any. Return 1, or 0; `why` is as above. Each call loads anew: keep
   the kernel. */
int gpuforge_load_kernel(const gpuforge_host *host, const char *set, const char *module, const char *name, int device,
                         gpuforge_kernel *kernel, char **why);

/* Unload it; nothing is done for one that is all zero, so twice is harmless. */
void gpuforge_unload_kernel(const gpuforge_host *host, gpuforge_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif /* GPUFORGE_KERNELS_H */

#ifdef GPUFORGE_KERNELS_IMPLEMENTATION

#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__USE_XOPEN2K8XSI)
#error "include gpuforge_kernels.h before any other header where GPUFORGE_KERNELS_IMPLEMENTATION is defined"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tables of the Python runtime ---- */

enum {
    GPUF_LARGEST = 4194304,
    GPUF_DEEPEST = 16,
    GPUF_LONGEST_NUMBER = 15,
    GPUF_LONGEST_ARCH = 16,
    GPUF_MOST = 67108864,
    GPUF_LONGEST = 65536,
    GPUF_SCHEMA = 1,
};

static const char *const gpuf_sentences[][2] = {
    {"exact", "built for this very architecture"},
    {"same-major", "built for {built}, whose code {here} runs too"},
    {"jit", "the driver compiles it for {here} when it is first loaded"},
    {"unread", "set by {variable}; not checked against this machine"},
    {"nvrtc", "{compiler} compiles it for {arch} when it is first loaded; it is kept"},
    {"opencl", "{device} compiles it when it is first loaded; it is kept"},
    {"iree", "IREE's driver {driver} runs it on {device}"},
    {"iree-software", "IREE's driver {driver} runs it on {device}, which is the CPU"},
    {"no-gpu-needed", "needs no GPU"},
    {"own-code", "the package's own code; this set has no library for the CPU"},
    {"alone", "runs on {built} alone; this device is {here}"},
    {"family", "runs on the family of {built} alone; this device is {here}"},
    {"embedded", "runs on {built} alone, as embedded GPUs share no binaries; this device is {here}"},
    {"same-major-only", "runs on {major}.x from {built}; this device is {here}"},
    {"newer", "is for {built} and newer; this device is {here}"},
    {"driver-older-than-ptx", "PTX {isa} needs a driver for CUDA {needed} or newer; this one is for {found}"},
    {"driver-older-than-code", "code of CUDA {toolkit} needs a driver for CUDA {needed} or newer; this one is for {found}"},
    {"not-loadable", "only a cubin or PTX can be loaded"},
    {"part-left-out", "the runtime in this wheel cannot load it: it has only the parts that the wheel's kernels need"},
    {"unreadable", "{file}: {problem}"},
    {"damaged", "{file}: is damaged: {problem}"},
    {"changed", "{file}: its sha256 is {found}, and the index says {expected}: the file is damaged, install the wheel again"},
    {"other-schema", "{file}: has schema {found}; the runtime beside it reads {expected}"},
    {"is-library", "{file}: lists a kernel library, which KernelLibrary opens (in C: gpuforge_open_library)"},
    {"is-set", "{file}: lists a kernel set, which KernelSet loads (in C: gpuforge_load_kernel)"},
    {"no-set", "this wheel has no kernel set '{name}'"},
    {"no-kernels-wheel", "the kernels are in wheels of their own, and none is installed: pip install {wanted}"},
    {"other-version", "{wheel} is of version {found}, and this package of {expected}: pip install {wanted}"},
    {"other-interface", "{wheel} has kernels for the interface {found}, and this package was built for {expected}: install both from one build"},
    {"no-module", "kernel set {set} has no module '{name}'; it has: {known}"},
    {"several-modules", "kernel set {set} has several modules: name one of {known}"},
    {"not-kernels", "{variable} names {file}, which is neither a folder with an index.json nor a .fatbin, .cubin, .ptx or .so file"},
    {"made-here", "made by {compiler} for {arch}"},
    {"made-there", "{name}, made by {compiler}"},
    {"made-for-level", "compiled for {level}, which this CPU has"},
    {"cpu-lacks", "is for {level}; this CPU lacks {lacking}"},
    {"cpu-unknown", "is for {level}; {file} does not tell what this CPU has"},
    {"other-machine", "is for {level}; this machine is {here}"},
    {"not-compiled", "nothing was compiled yet: {command}"},
    {"compiled-before", "your build was made for {release}, and other sources are installed now: {command}"},
    {"nothing-shipped", "this wheel ships no library"},
    {"build-damaged", "{file}: is damaged: {problem}; compile again"},
    {"other-owner", "{path} belongs to another user, who could put code into it"},
    {"open-to-others", "{path} can be written by other users (chmod o-w {path})"},
    {"cut-short", "{file}: has {found} bytes and should have {expected}: it is damaged"},
    {"no-package", "{package} is not installed here, and its version is part of the ABI"},
    {"no-abi", "{file}: has no ABI id ({symbol}): it was not compiled for this package"},
    {"other-abi", "{file}: was compiled for the ABI {found}, and this package has {expected}"},
    {"not-opened", "cannot be loaded: {problem}"},
    {"no-library-set", "this wheel has no kernel library '{name}'"},
    {"driver-error", "{message}"},
    {"not-loaded", "kernel {kernel}: {message}"},
    {"no-such-kernel", "has no kernel {kernel}: {problem}"},
    {"nvrtc-older", "{compiler} cannot compile for compute capability {here}: install a release that can"},
    {"compile-failed", "{file}: {compiler} refuses it: {problem}"},
    {"no-cuda-headers", "{file}: includes {header}, which is no file of the package, and {compiler} does not have CUDA's headers; NVRTC has them from 13.3 on, for drivers of CUDA 13: pip install 'nvidia-cuda-nvrtc>=13.3'"},
    {"not-installed", "no {what}: {install}"},
    {"not-looked-for", "{what} was not looked for"},
    {"no-iree-driver", "IREE's driver {driver} does not start ({problem}); {advice}"},
    {"other-iree-release", "iree-base-runtime {found} is installed, and IREE {needed} compiled the module, which needs the runtime of the same release: {install}"},
    {"no-iree-device", "IREE's driver {driver} has no device"},
    {"no-such-iree-device", "IREE's driver {driver} has no device {device}: there are {count}"},
    {"own-context", "IREE uses the primary context of a device, and another one is given"},
    {"not-a-kernel", "{kernel} cannot be launched: {problem}"},
    {"relative-path", "{variable}={value}: expected an absolute path"},
    {"bad-value", "{variable}={value}: expected one of {expected}"},
    {"opencl-not-allowed", "{variable}={value} allows none of OpenCL's devices: {found}"},
    {"opencl-other-kind", "its devices must be {kinds}; OpenCL has {found}"},
    {"opencl-lacks", "needs {lacking}, which no device of OpenCL has: {found}"},
    {"no-opencl-devices", "OpenCL has no device: install a driver for one ({example})"},
    {"no-such-opencl-device", "there is no OpenCL device {device}: there are {count}"},
    {"switched-off", "switched off ({variable}={value})"},
    {"no-usable-gpu", "no usable NVIDIA GPU"},
    {"no-devices", "the driver sees no GPU"},
    {"no-such-device", "there is no device {device}: the driver sees {count}"},
    {"loader-off", "no {what} (switched off by {variable}={value})"},
    {"no-library", "no {what} ({problem})"},
    {"not-the-library", "{library} cannot be used as the {what}: {problem}"},
    {"library-too-old", "{library} is for {what} {found}; this runtime needs {needed} or newer"},
    {"no-answer", "the {what} did not answer within {seconds} seconds: {advice}"},
    {"forked", "this process was forked after its parent used the GPU; start workers with 'spawn'"},
};

static const char *const gpuf_without[][2] = {
    {"made-here", "made by {compiler}"},
    {"no-iree-driver", "IREE's driver {driver} does not start ({problem})"},
    {"compiled-before", "your build was made for an earlier release, and other sources are installed now: {command}"},
};

static const char *const gpuf_named[][2] = {
    {"unread", "file"},
    {"cuda", "CUDA source"},
    {"opencl", "source"},
    {"library", "library"},
};

static const char *const gpuf_levels[][3] = {
    {"x86_64", "x86-64", ""},
    {"x86_64", "x86-64-v2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"},
    {"x86_64", "x86-64-v3", "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"},
    {"x86_64", "x86-64-v4", "avx512bw avx512cd avx512dq avx512f avx512vl"},
};

static const char gpuf_cpuinfo[] = "/proc/cpuinfo";
enum { GPUF_CPUINFO_MOST = 16384 };

static const int gpuf_ptx_isa[][4] = {
    {4, 2, 7, 0},
    {4, 3, 7, 5},
    {5, 0, 8, 0},
    {6, 0, 9, 0},
    {6, 1, 9, 1},
    {6, 2, 9, 2},
    {6, 3, 10, 0},
    {6, 4, 10, 1},
    {6, 5, 10, 2},
    {7, 0, 11, 0},
    {7, 1, 11, 1},
    {7, 2, 11, 2},
    {7, 3, 11, 3},
    {7, 4, 11, 4},
    {7, 5, 11, 5},
    {7, 6, 11, 6},
    {7, 7, 11, 7},
    {7, 8, 11, 8},
    {8, 0, 12, 0},
    {8, 1, 12, 1},
    {8, 2, 12, 2},
    {8, 3, 12, 3},
    {8, 4, 12, 4},
    {8, 5, 12, 5},
    {8, 6, 12, 7},
    {8, 7, 12, 8},
    {8, 8, 12, 9},
    {9, 0, 13, 0},
    {9, 1, 13, 1},
    {9, 2, 13, 2},
    {9, 3, 13, 3},
    {9, 4, 13, 4},
    {9, 5, 13, 5},
};

static const int gpuf_embedded[][2] = {
    {5, 3},
    {6, 2},
    {7, 2},
    {8, 7},
    {11, 0},
};

static const int gpuf_renamed[][4] = {
    {10, 1, 11, 0},
};

static const int gpuf_minors_agree = 11;
static const int gpuf_driver_needed[2] = {11, 0};

static const struct { const char *name; int number; } gpuf_machines[] = {
    {"x86_64", 62},
    {"aarch64", 183},
    {"ppc64le", 21},
    {"riscv64", 243},
};

static const struct { int code; const char *name, *advice; } gpuf_advice[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "check the arguments, and grid, block and shared memory"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "free memory on the GPU: `nvidia-smi` lists the processes that hold it"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "a forked process cannot use its parent's GPU: start workers with 'spawn'"},
    {4, "CUDA_ERROR_DEINITIALIZED", "the process is ending: launch nothing from exit handlers"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "a toolkit's stub was loaded: take its `stubs` folder out of LD_LIBRARY_PATH"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "another process uses the GPU exclusively: see `nvidia-smi -q -d COMPUTE`"},
    {100, "CUDA_ERROR_NO_DEVICE", "check `nvidia-smi`, CUDA_VISIBLE_DEVICES and the container's --gpus option"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "check CUDA_VISIBLE_DEVICES; `nvidia-smi -L` lists the devices"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "the kernel's file is damaged: install the wheel again"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "the context was destroyed, or is of another device: look the kernel up again"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the kernel is not compiled for this GPU: compile it, or ask its authors"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "the GPU's state in this process is lost: end the process; `nvidia-smi` and `dmesg` say whether it works"},
    {218, "CUDA_ERROR_INVALID_PTX", "read the log of the driver's compiler, which refused the PTX"},
    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "the GPU's state in this process is lost: end the process; `nvidia-smi` and `dmesg` say whether it works"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "install the driver's libnvidia-ptxjitcompiler.so.1"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "update the driver, or use a wheel for an older CUDA"},
    {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "unset CUDA_DISABLE_PTX_JIT"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "use a stream and a kernel of the current context"},
    {500, "CUDA_ERROR_NOT_FOUND", "the module has no kernel of that name: declare it extern \"C\""},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel used memory that is not its own: run the program under `compute-sanitizer`, which names the kernel and the line"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "use fewer threads in a block, or less shared memory"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the kernel ran too long on a GPU that drives a display: split its work"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "look the kernel up again in a context that exists"},
    {710, "CUDA_ERROR_ASSERT", "read on stderr which assert() in a kernel failed"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "run the program under `compute-sanitizer`, which names the kernel and the line"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "an array is not aligned as the kernel expects: run the program under `compute-sanitizer`, which names the kernel and the line"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "run the program under `compute-sanitizer`, which names the kernel and the line"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "start nvidia-fabricmanager, which this machine's NVSwitch needs"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine: libcuda and the kernel module differ in version"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "take the `compat` folder out of LD_LIBRARY_PATH"},
    {999, "CUDA_ERROR_UNKNOWN", "check `nvidia-smi` and `dmesg`; after a suspend, load the module nvidia_uvm again"},
};

typedef struct gpuf_library_table {
    const char *what;
    const char *files[2];
    int file_count;
    const char *advice;
    const char *const *required; /* ends with NULL */
} gpuf_library_table;

static const char *const gpuf_cuda_required[] = {
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxGetState",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuCtxGetDevice",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuPointerGetAttribute",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuLaunchKernel",
    "cuGetErrorName",
    "cuGetErrorString",
    NULL,
};

static const gpuf_library_table gpuf_cuda = {
    "NVIDIA driver", {"libcuda.so.1", "libcuda.so"}, 2,
    "`nvidia-smi` and `dmesg` say what is wrong with it; a restart of the machine may be needed", gpuf_cuda_required};

static const char *const gpuf_nvml_required[] = {
    "nvmlInit_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlShutdown",
    NULL,
};

static const gpuf_library_table gpuf_nvml = {
    "NVML", {"libnvidia-ml.so.1", NULL}, 1,
    "`nvidia-smi` and `dmesg` say what is wrong with it; a restart of the machine may be needed", gpuf_nvml_required};

static const char *const gpuf_nccl_required[] = {
    "ncclGetVersion",
    NULL,
};

static const gpuf_library_table gpuf_nccl = {
    "NCCL", {"libnccl.so.2", NULL}, 1,
    "reinstall nvidia-nccl", gpuf_nccl_required};

static const char *const gpuf_opencl_loader_required[] = {
    "clGetPlatformIDs",
    "clGetPlatformInfo",
    NULL,
};

static const gpuf_library_table gpuf_opencl_loader = {
    "OpenCL loader", {"libOpenCL.so.1", "libOpenCL.so"}, 2,
    "one of the implementations listed in /etc/OpenCL/vendors hangs", gpuf_opencl_loader_required};

static const unsigned gpuf_rounds[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

static const unsigned gpuf_begin[8] = {
    0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u,
};

/* ---- memory: what a call allocates is freed as a whole; without memory the call ends and returns NULL ---- */

typedef struct gpuf_chunk {
    struct gpuf_chunk *next;
    union {
        long long number;
        double real;
        void *address;
    } align;
} gpuf_chunk;

typedef struct gpuf_arena {
    gpuf_chunk *chunks;
    char *free;
    size_t left;
    jmp_buf no_memory;
} gpuf_arena;

static void *gpuf_new(gpuf_arena *arena, size_t size)
{
    const size_t head = offsetof(gpuf_chunk, align);
    void *found;
    if (size > SIZE_MAX / 2)
        longjmp(arena->no_memory, 1);
    size = (size + 15) / 16 * 16;
    if (size > arena->left) {
        size_t room = size > 16384 ? size : 16384;
        gpuf_chunk *chunk = (gpuf_chunk *)malloc(head + 16 + room);
        if (!chunk)
            longjmp(arena->no_memory, 1);
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->free = (char *)chunk + (head + 15) / 16 * 16;
        arena->left = room;
    }
    found = arena->free;
    arena->free += size;
    arena->left -= size;
    return memset(found, 0, size);
}

static void gpuf_release(gpuf_arena *arena)
{
    while (arena->chunks) {
        gpuf_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->free = NULL;
    arena->left = 0;
}

static void *gpuf_array(gpuf_arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 4 / size)
        longjmp(arena->no_memory, 1);
    return gpuf_new(arena, count * size + 1);
}

/* ---- text ---- */

typedef struct gpuf_text {
    gpuf_arena *arena;
    char *data; /* ends with a NUL */
    size_t length, room;
} gpuf_text;

static void gpuf_add(gpuf_text *text, const char *data, size_t length)
{
    if (length >= text->room - text->length) {
        size_t room = (text->length + length + 64) * 2;
        char *grown = (char *)gpuf_new(text->arena, room);
        if (text->length)
            memcpy(grown, text->data, text->length);
        text->data = grown;
        text->room = room;
    }
    if (length)
        memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

static void gpuf_put(gpuf_text *text, const char *data)
{
    gpuf_add(text, data, strlen(data));
}

static gpuf_text gpuf_text_in(gpuf_arena *arena)
{
    gpuf_text text;
    text.arena = arena;
    text.data = NULL;
    text.length = text.room = 0;
    gpuf_add(&text, "", 0);
    return text;
}

static char *gpuf_copy(gpuf_arena *arena, const char *data, size_t length)
{
    char *copy = (char *)gpuf_new(arena, length + 1);
    if (length)
        memcpy(copy, data, length);
    return copy;
}

/* Join four pieces; NULL is an empty one. */
static char *gpuf_join(gpuf_arena *arena, const char *a, const char *b, const char *c, const char *d)
{
    gpuf_text text = gpuf_text_in(arena);
    const char *pieces[4];
    int n;
    pieces[0] = a, pieces[1] = b, pieces[2] = c, pieces[3] = d;
    for (n = 0; n < 4; ++n)
        if (pieces[n])
            gpuf_put(&text, pieces[n]);
    return text.data;
}

static char *gpuf_number(gpuf_arena *arena, long long number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", number);
    return gpuf_copy(arena, digits, strlen(digits));
}

static char *gpuf_dotted(gpuf_arena *arena, const int version[2])
{
    return gpuf_join(arena, gpuf_number(arena, version[0]), ".", gpuf_number(arena, version[1]), NULL);
}

/* Read one character of UTF-8. `*used` is its length, of what is no UTF-8 the length of what is replaced by one U+FFFD;
   the result is then -1. */
static long gpuf_character(const unsigned char *data, size_t left, size_t *used)
{
    unsigned char first = data[0], low = 0x80, high = 0xbf;
    size_t more = first < 0x80 ? 0 : first < 0xc2 ? 9 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 9, n;
    long code = more == 0 ? first : more == 1 ? first & 0x1f : more == 2 ? first & 0x0f : first & 0x07;
    *used = 1;
    if (more == 9)
        return -1;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (n = 1; n <= more; ++n) {
        if (n >= left || data[n] < low || data[n] > high)
            return -1;
        code = code << 6 | (data[n] & 0x3f);
        *used = n + 1;
        low = 0x80, high = 0xbf;
    }
    return code;
}

/* Return how many columns a text takes, one for each character. */
static size_t gpuf_width(const char *text)
{
    size_t width = 0, left = strlen(text), used;
    for (; left; text += used, left -= used, ++width)
        if (gpuf_character((const unsigned char *)text, left, &used) < 0)
            used = 1;
    return width;
}

static int gpuf_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int gpuf_ends(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && memcmp(text + a - b, end, b) == 0;
}

/* ---- paths, as Python's os.path and pathlib make them ---- */

static char *gpuf_path(gpuf_arena *arena, const char *folder, const char *name)
{
    size_t length = strlen(folder);
    if (name[0] == '/')
        return gpuf_copy(arena, name, strlen(name));
    return gpuf_join(arena, folder, length && folder[length - 1] != '/' ? "/" : "", name, NULL);
}

static char *gpuf_here(gpuf_arena *arena)
{
    size_t room = 1024;
    for (;; room *= 2) {
        char *path = (char *)gpuf_new(arena, room);
        if (getcwd(path, room))
            return path;
        if (errno != ERANGE)
            return gpuf_copy(arena, "/", 1);
    }
}

/* Make a path of its parts: without empty ones and ".", and where `up` is set without "..". */
static char *gpuf_parts(gpuf_arena *arena, const char *path, int up)
{
    gpuf_text made = gpuf_text_in(arena);
    size_t root = path[0] != '/' ? 0 : path[1] == '/' && path[2] != '/' ? 2 : 1;
    const char *at = path;
    gpuf_add(&made, "//", root);
    while (*at) {
        size_t length = strcspn(at, "/");
        if (up && length == 2 && at[0] == '.' && at[1] == '.') {
            while (made.length > root && made.data[made.length - 1] != '/')
                --made.length;
            if (made.length > root)
                --made.length;
            made.data[made.length] = 0;
        } else if (length && !(length == 1 && at[0] == '.')) {
            if (made.length > root)
                gpuf_add(&made, "/", 1);
            gpuf_add(&made, at, length);
        }
        at += length;
        at += *at == '/';
    }
    return made.data;
}

/* os.path.abspath */
static char *gpuf_absolute(gpuf_arena *arena, const char *path)
{
    return gpuf_parts(arena, path[0] == '/' ? path : gpuf_path(arena, gpuf_here(arena), path), 1);
}

/* str(Path(path).absolute()) */
static char *gpuf_pathlib(gpuf_arena *arena, const char *path)
{
    return gpuf_parts(arena, path[0] == '/' ? path : gpuf_path(arena, gpuf_here(arena), path), 0);
}

static int gpuf_is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static int gpuf_is_file(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static int gpuf_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Return the names of the folders in home/kind, sorted. */
static const char **gpuf_folders(gpuf_arena *arena, const char *home, const char *kind, size_t *count)
{
    const char *folder = gpuf_path(arena, home, kind), **names = NULL;
    size_t room = 0;
    DIR *open = opendir(folder);
    struct dirent *entry;
    *count = 0;
    while (open && (entry = readdir(open)) != NULL) {
        if (gpuf_same(entry->d_name, ".") || gpuf_same(entry->d_name, ".."))
            continue;
        if (strlen(entry->d_name) > NAME_MAX || !gpuf_is_folder(gpuf_path(arena, folder, entry->d_name)))
            continue;
        if (*count == room) {
            const char **grown = (const char **)gpuf_array(arena, room = room * 2 + 16, sizeof *grown);
            if (*count)
                memcpy(grown, names, *count * sizeof *grown);
            names = grown;
        }
        names[(*count)++] = gpuf_copy(arena, entry->d_name, strlen(entry->d_name));
    }
    if (open)
        closedir(open);
    if (*count)
        qsort(names, *count, sizeof *names, gpuf_by_text);
    return names;
}

/* ---- SHA-256, https://csrc.nist.gov/pubs/fips/180-4/upd1/final ---- */

typedef struct gpuf_sha256 {
    unsigned state[8];
    unsigned char block[64];
    unsigned long long length;
} gpuf_sha256;

static unsigned gpuf_rotate(unsigned value, int bits)
{
    return (value >> bits | value << (32 - bits)) & 0xffffffffu;
}

static void gpuf_sha256_block(gpuf_sha256 *hash)
{
    unsigned w[64], s[8], one, two;
    int n;
    for (n = 0; n < 16; ++n)
        w[n] = (unsigned)hash->block[4 * n] << 24 | (unsigned)hash->block[4 * n + 1] << 16 |
               (unsigned)hash->block[4 * n + 2] << 8 | hash->block[4 * n + 3];
    for (; n < 64; ++n) {
        one = gpuf_rotate(w[n - 15], 7) ^ gpuf_rotate(w[n - 15], 18) ^ w[n - 15] >> 3;
        two = gpuf_rotate(w[n - 2], 17) ^ gpuf_rotate(w[n - 2], 19) ^ w[n - 2] >> 10;
        w[n] = w[n - 16] + one + w[n - 7] + two;
    }
    memcpy(s, hash->state, sizeof s);
    for (n = 0; n < 64; ++n) {
        one = s[7] + (gpuf_rotate(s[4], 6) ^ gpuf_rotate(s[4], 11) ^ gpuf_rotate(s[4], 25)) +
              ((s[4] & s[5]) ^ (~s[4] & s[6])) + gpuf_rounds[n] + w[n];
        two = (gpuf_rotate(s[0], 2) ^ gpuf_rotate(s[0], 13) ^ gpuf_rotate(s[0], 22)) +
              ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (n = 0; n < 8; ++n)
        hash->state[n] += s[n];
}

static void gpuf_sha256_add(gpuf_sha256 *hash, const unsigned char *data, size_t length)
{
    for (; length; --length) {
        hash->block[hash->length++ % 64] = *data++;
        if (hash->length % 64 == 0)
            gpuf_sha256_block(hash);
    }
}

static void gpuf_sha256_begin(gpuf_sha256 *hash)
{
    memcpy(hash->state, gpuf_begin, sizeof hash->state);
    hash->length = 0;
}

/* Return the digest in hexadecimal. */
static char *gpuf_sha256_end(gpuf_arena *arena, gpuf_sha256 *hash)
{
    unsigned long long bits = hash->length * 8;
    unsigned char byte = 0x80;
    char *text = (char *)gpuf_new(arena, 65);
    int n;
    do {
        gpuf_sha256_add(hash, &byte, 1);
        byte = 0;
    } while (hash->length % 64 != 56);
    for (n = 7; n >= 0; --n) {
        byte = (unsigned char)(bits >> 8 * n);
        gpuf_sha256_add(hash, &byte, 1);
    }
    for (n = 0; n < 8; ++n)
        snprintf(text + 8 * n, 9, "%08x", hash->state[n]);
    return text;
}

/* ---- files and JSON: only what document.py takes, and refused in its words ---- */

/* Open a regular file, at once even for a pipe; -1, and why in `*problem`. */
static int gpuf_open_file(const char *path, const char **problem)
{
    struct stat found;
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *problem = NULL;
    if (handle < 0) {
        *problem = strerror(errno);
        return -1;
    }
    if (fstat(handle, &found) == 0 && S_ISREG(found.st_mode))
        return handle;
    close(handle);
    errno = EINVAL;
    *problem = "it is not a regular file";
    return -1;
}

/* Read up to `size` bytes at an offset; return how many there were, or -1. */
static long gpuf_read_at(int handle, unsigned char *data, size_t size, long long offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(handle, data + done, size - done, (off_t)(offset + (long long)done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (long)done;
}

/* Return the sha256 of a file, or NULL and why in `*problem`. */
static char *gpuf_sha256_of(gpuf_arena *arena, const char *path, const char **problem)
{
    unsigned char data[16384];
    gpuf_sha256 hash;
    long long offset = 0;
    long count;
    int handle = gpuf_open_file(path, problem);
    if (handle < 0)
        return NULL;
    gpuf_sha256_begin(&hash);
    while ((count = gpuf_read_at(handle, data, sizeof data, offset)) > 0) {
        gpuf_sha256_add(&hash, data, (size_t)count);
        offset += count;
    }
    if (count < 0)
        *problem = strerror(errno);
    close(handle);
    return *problem ? NULL : gpuf_sha256_end(arena, &hash);
}

typedef enum { GPUF_NULL, GPUF_BOOL, GPUF_WHOLE, GPUF_REAL, GPUF_TEXT, GPUF_LIST, GPUF_OBJECT } gpuf_type;

typedef struct gpuf_json {
    gpuf_type type;
    long long number;
    const char *text;
    const char *key; /* in an object */
    struct gpuf_json *first, *last, *next;
} gpuf_json;

typedef struct gpuf_parser {
    gpuf_arena *arena;
    const char *at, *end;
} gpuf_parser;

static gpuf_json *gpuf_parse_value(gpuf_parser *parser, int level);

static void gpuf_blank(gpuf_parser *parser)
{
    while (parser->at < parser->end && memchr(" \t\n\r", *parser->at, 4))
        ++parser->at;
}

/* Pass over a character; 0 when there is another. */
static int gpuf_take(gpuf_parser *parser, char wanted)
{
    if (parser->at >= parser->end || *parser->at != wanted)
        return 0;
    ++parser->at;
    return 1;
}

static int gpuf_take_word(gpuf_parser *parser, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0)
        return 0;
    parser->at += length;
    return 1;
}

/* Read the four digits of an escape, -1 where they are not there. */
static long gpuf_hex(gpuf_parser *parser)
{
    long code = 0;
    int n;
    if (parser->end - parser->at < 4)
        return -1;
    for (n = 0; n < 4; ++n) {
        const char *digits = "0123456789abcdef0123456789ABCDEF", *found = strchr(digits, parser->at[n]);
        if (!parser->at[n] || !found)
            return -1;
        code = code << 4 | ((found - digits) & 15);
    }
    parser->at += 4;
    return code;
}

static void gpuf_add_character(gpuf_text *text, long code)
{
    char bytes[4];
    if (code < 0x80) {
        bytes[0] = (char)code;
        gpuf_add(text, bytes, 1);
        return;
    }
    if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        bytes[1] = (char)(0x80 | (code & 0x3f));
        gpuf_add(text, bytes, 2);
        return;
    }
    if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        bytes[1] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (code & 0x3f));
        gpuf_add(text, bytes, 3);
        return;
    }
    bytes[0] = (char)(0xf0 | code >> 18);
    bytes[1] = (char)(0x80 | (code >> 12 & 0x3f));
    bytes[2] = (char)(0x80 | (code >> 6 & 0x3f));
    bytes[3] = (char)(0x80 | (code & 0x3f));
    gpuf_add(text, bytes, 4);
}

/* Read what follows a backslash; 0 for what is none. A NUL, and half of a pair, is none either. */
static int gpuf_escape(gpuf_parser *parser, gpuf_text *text)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    long code, low;
    if (parser->at >= parser->end)
        return 0;
    found = (const char *)memchr(names, *parser->at, 8);
    if (found) {
        ++parser->at;
        gpuf_add(text, values + (found - names), 1);
        return 1;
    }
    if (!gpuf_take(parser, 'u') || (code = gpuf_hex(parser)) <= 0 || (code >= 0xdc00 && code < 0xe000))
        return 0;
    if (code >= 0xd800 && code < 0xdc00) {
        if (!gpuf_take_word(parser, "\\u") || (low = gpuf_hex(parser)) < 0xdc00 || low >= 0xe000)
            return 0;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    gpuf_add_character(text, code);
    return 1;
}

static const char *gpuf_parse_text(gpuf_parser *parser)
{
    gpuf_text text = gpuf_text_in(parser->arena);
    if (!gpuf_take(parser, '"'))
        return NULL;
    while (parser->at < parser->end) {
        unsigned char c = (unsigned char)*parser->at;
        const char *from = parser->at;
        if (c < 0x20)
            return NULL;
        if (c == '"') {
            ++parser->at;
            return text.data;
        }
        if (c == '\\') {
            ++parser->at;
            if (!gpuf_escape(parser, &text))
                return NULL;
            continue;
        }
        while (parser->at < parser->end && (unsigned char)*parser->at >= 0x20 && !strchr("\"\\", *parser->at))
            ++parser->at;
        gpuf_add(&text, from, (size_t)(parser->at - from));
    }
    return NULL;
}

static size_t gpuf_digits(gpuf_parser *parser)
{
    const char *from = parser->at;
    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9')
        ++parser->at;
    return (size_t)(parser->at - from);
}

static int gpuf_parse_number(gpuf_parser *parser, gpuf_json *value)
{
    const char *from = parser->at, *whole;
    gpuf_take(parser, '-');
    if (!gpuf_take(parser, '0') && !gpuf_digits(parser))
        return 0;
    whole = parser->at;
    if (gpuf_take(parser, '.') && !gpuf_digits(parser))
        parser->at = whole;
    else {
        const char *before = parser->at;
        if (gpuf_take(parser, 'e') || gpuf_take(parser, 'E')) {
            if (!gpuf_take(parser, '-'))
                gpuf_take(parser, '+');
            if (!gpuf_digits(parser))
                parser->at = before;
        }
    }
    value->type = parser->at == whole ? GPUF_WHOLE : GPUF_REAL;
    if (value->type == GPUF_REAL)
        return 1;
    if (whole - from > GPUF_LONGEST_NUMBER)
        return 0;
    value->number = strtoll(gpuf_copy(parser->arena, from, (size_t)(whole - from)), NULL, 10);
    return 1;
}

static int gpuf_parse_members(gpuf_parser *parser, gpuf_json *value, int level, char end)
{
    gpuf_blank(parser);
    if (gpuf_take(parser, end))
        return 1;
    for (;;) {
        const char *key = NULL;
        gpuf_json *item;
        if (end == '}') {
            gpuf_blank(parser);
            key = gpuf_parse_text(parser);
            gpuf_blank(parser);
            if (!key || !gpuf_take(parser, ':'))
                return 0;
        }
        gpuf_blank(parser);
        item = gpuf_parse_value(parser, level + 1);
        if (!item)
            return 0;
        item->key = key;
        if (value->last)
            value->last->next = item;
        else
            value->first = item;
        value->last = item;
        gpuf_blank(parser);
        if (gpuf_take(parser, end))
            return 1;
        if (!gpuf_take(parser, ','))
            return 0;
    }
}

static gpuf_json *gpuf_parse_value(gpuf_parser *parser, int level)
{
    gpuf_json *value = (gpuf_json *)gpuf_new(parser->arena, sizeof *value);
    char c = parser->at < parser->end ? *parser->at : 0;
    if (c == '{' || c == '[') {
        if (level > GPUF_DEEPEST)
            return NULL;
        ++parser->at;
        value->type = c == '{' ? GPUF_OBJECT : GPUF_LIST;
        return gpuf_parse_members(parser, value, level, c == '{' ? '}' : ']') ? value : NULL;
    }
    if (c == '"') {
        value->type = GPUF_TEXT;
        value->text = gpuf_parse_text(parser);
        return value->text ? value : NULL;
    }
    if (gpuf_take_word(parser, "null"))
        return value;
    value->type = GPUF_BOOL;
    if (gpuf_take_word(parser, "true") || gpuf_take_word(parser, "false"))
        return value;
    return gpuf_parse_number(parser, value) ? value : NULL;
}

static int gpuf_is_utf8(const char *data, size_t left)
{
    size_t used;
    for (; left; data += used, left -= used)
        if (gpuf_character((const unsigned char *)data, left, &used) < 0)
            return 0;
    return 1;
}

static gpuf_json *gpuf_parse(gpuf_arena *arena, const char *data, size_t length)
{
    gpuf_parser parser;
    gpuf_json *value;
    if (!gpuf_is_utf8(data, length))
        return NULL;
    parser.arena = arena;
    parser.at = data;
    parser.end = data + length;
    gpuf_blank(&parser);
    value = gpuf_parse_value(&parser, 1);
    gpuf_blank(&parser);
    return parser.at == parser.end ? value : NULL;
}

/* A document that was read, or why not: `missing` for a file that is not there, `damage` for one that is damaged. */
typedef struct gpuf_document {
    gpuf_json *content;
    const char *problem;
    int missing, damage;
} gpuf_document;

static gpuf_document gpuf_read(gpuf_arena *arena, const char *path)
{
    gpuf_document document;
    struct stat found;
    char *data = NULL;
    long size = 0, most = GPUF_LARGEST;
    int handle;
    memset(&document, 0, sizeof document);
    handle = gpuf_open_file(path, &document.problem);
    if (handle < 0) {
        document.missing = errno == ENOENT;
        return document;
    }
    if (fstat(handle, &found) == 0 && found.st_size < most)
        most = (long)found.st_size;
    data = (char *)malloc((size_t)most + 1);
    if (data)
        size = gpuf_read_at(handle, (unsigned char *)data, (size_t)most + 1, 0);
    if (size < 0)
        document.problem = strerror(errno);
    close(handle);
    if (!data)
        longjmp(arena->no_memory, 1);
    if (!document.problem) {
        char *kept = size > GPUF_LARGEST ? NULL : gpuf_copy(arena, data, (size_t)size);
        document.damage = 1;
        document.content = kept ? gpuf_parse(arena, kept, (size_t)size) : NULL;
        document.problem = !kept ? "it has more than 4 MiB" : !document.content ? "it is not valid JSON" :
                           document.content->type != GPUF_OBJECT ? "it is not an object" : NULL;
    }
    free(data);
    return document;
}

/* ---- fields: the first that is wrong stays in `*problem`, and what follows it is not looked at ---- */

static const gpuf_json *gpuf_find(const gpuf_json *entry, const char *key)
{
    const gpuf_json *found = NULL, *item;
    for (item = entry ? entry->first : NULL; item; item = item->next)
        if (item->key && gpuf_same(item->key, key))
            found = item; /* of several the last, as in Python */
    return found;
}

static const gpuf_json *gpuf_field(gpuf_arena *arena, const gpuf_json *entry, const char *key, gpuf_type type,
                                   const char *expected, const char **problem)
{
    const gpuf_json *found;
    if (*problem)
        return NULL;
    found = gpuf_find(entry, key);
    if (found && found->type == type)
        return found;
    *problem = gpuf_join(arena, "'", key, found ? "' is not " : "' is missing in it", found ? expected : "");
    return NULL;
}

static const char *gpuf_word(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char *otherwise,
                             const char **problem)
{
    const gpuf_json *found;
    const char *c;
    if (otherwise && !*problem && !gpuf_find(entry, key))
        return otherwise;
    found = gpuf_field(arena, entry, key, GPUF_TEXT, "text", problem);
    for (c = found ? found->text : ""; *c; ++c)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *problem = gpuf_join(arena, "'", key, "' has a control character", NULL);
            return "";
        }
    return found ? found->text : "";
}

static const char *gpuf_file_name(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char *otherwise,
                                  const char **problem)
{
    const char *name = gpuf_word(arena, entry, key, otherwise, problem);
    if (*problem)
        return "";
    if (strchr(name, '/') || gpuf_same(name, ".") || gpuf_same(name, "..") || (!*name && !otherwise))
        *problem = gpuf_join(arena, "'", name, "' is not the name of a file beside it", NULL);
    return name;
}

static long long gpuf_whole(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char **problem)
{
    const gpuf_json *found = gpuf_field(arena, entry, key, GPUF_WHOLE, "a whole number", problem);
    return found ? found->number : 0;
}

static const gpuf_json *gpuf_table(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char **problem)
{
    return gpuf_field(arena, entry, key, GPUF_OBJECT, "an object", problem);
}

/* Return the first item of a list whose items are all of one type, and their number. */
static const gpuf_json *gpuf_items(gpuf_arena *arena, const gpuf_json *entry, const char *key, gpuf_type type,
                                   const char *expected, size_t *count, const char **problem)
{
    const gpuf_json *found = gpuf_field(arena, entry, key, GPUF_LIST, expected, problem), *item;
    *count = 0;
    for (item = found ? found->first : NULL; item; item = item->next, ++*count)
        if (item->type != type) {
            *problem = gpuf_join(arena, "'", key, "' is not ", expected);
            return NULL;
        }
    return found ? found->first : NULL;
}

/* ---- reasons ---- */

static gpuforge_reason gpuf_because(const char *kind, const char *name1, const char *text1, const char *name2,
                                    const char *text2, const char *name3, const char *text3)
{
    gpuforge_reason reason;
    memset(&reason, 0, sizeof reason);
    reason.kind = kind;
    reason.facts[0].name = name1, reason.facts[0].text = text1;
    reason.facts[1].name = name2, reason.facts[1].text = text2;
    reason.facts[2].name = name3, reason.facts[2].text = text3;
    return reason;
}

static gpuforge_reason gpuf_simply(const char *kind)
{
    return gpuf_because(kind, NULL, NULL, NULL, NULL, NULL, NULL);
}

static void gpuf_count(gpuforge_reason *reason, int fact, const char *name, long long number)
{
    reason->facts[fact].name = name;
    reason->facts[fact].text = NULL;
    reason->facts[fact].number = number;
}

static const char *gpuf_fact_text(gpuf_arena *arena, const gpuforge_fact *fact)
{
    return fact->text ? fact->text : gpuf_number(arena, fact->number);
}

/* Return whether a fact of a reason is "". */
static int gpuf_has_empty_fact(const gpuforge_reason *reason)
{
    size_t n;
    for (n = 0; n < GPUFORGE_FACTS && reason->facts[n].name; ++n)
        if (reason->facts[n].text && !*reason->facts[n].text)
            return 1;
    return 0;
}

/* Return the sentence of a reason; where a fact is "", the one in `gpuf_without`. */
static const char *gpuf_sentence(gpuf_arena *arena, const gpuforge_reason *reason)
{
    gpuf_text text = gpuf_text_in(arena);
    const char *at = reason->kind;
    size_t n;
    for (n = 0; n < sizeof gpuf_sentences / sizeof *gpuf_sentences; ++n)
        if (gpuf_same(gpuf_sentences[n][0], reason->kind))
            at = gpuf_sentences[n][1];
    if (gpuf_has_empty_fact(reason))
        for (n = 0; n < sizeof gpuf_without / sizeof *gpuf_without; ++n)
            if (gpuf_same(gpuf_without[n][0], reason->kind))
                at = gpuf_without[n][1];
    while (*at) {
        size_t plain = strcspn(at, "{"), length;
        gpuf_add(&text, at, plain);
        at += plain;
        if (!*at)
            break;
        length = strcspn(++at, "}");
        for (n = 0; n < GPUFORGE_FACTS && reason->facts[n].name; ++n)
            if (strlen(reason->facts[n].name) == length && memcmp(reason->facts[n].name, at, length) == 0)
                gpuf_put(&text, gpuf_fact_text(arena, &reason->facts[n]));
        at += length;
        at += *at == '}';
    }
    return text.data;
}

/* Whether an image can run, and the reason for it or against it. */
typedef struct gpuf_verdict {
    int accepted;
    gpuforge_reason reason;
} gpuf_verdict;

/* Return the verdict: accepted for its merit, unless the refusal has a kind. */
static gpuf_verdict gpuf_verdict_of(gpuforge_reason refusal, gpuforge_reason merit)
{
    gpuf_verdict verdict;
    verdict.accepted = !refusal.kind;
    verdict.reason = refusal.kind ? refusal : merit;
    return verdict;
}

static gpuf_verdict gpuf_refused(gpuforge_reason refusal)
{
    return gpuf_verdict_of(refusal, refusal);
}

static gpuf_verdict gpuf_accepted(gpuforge_reason merit)
{
    return gpuf_verdict_of(gpuf_simply(NULL), merit);
}

/* ---- architectures, and what runs where ---- */

typedef struct gpuf_arch {
    long long major, minor;
    char variant; /* 'a', 'f' or 0 */
} gpuf_arch;

/* Read "90a", "sm_90a", "compute_90a", "lto_90a" or "9.0a"; 0 for anything else, and for what is too long. */
static int gpuf_parse_arch(const char *text, gpuf_arch *arch)
{
    static const char *const prefixes[] = {"sm_", "compute_", "lto_"};
    char number[32];
    size_t n, length = strlen(text), dot;
    int prefix = 0;
    if (length > GPUF_LONGEST_ARCH)
        return 0;
    for (n = 0; n < 3 && !prefix; ++n)
        if (strncmp(text, prefixes[n], strlen(prefixes[n])) == 0) {
            prefix = 1;
            text += strlen(prefixes[n]);
        }
    length = strlen(text);
    memcpy(number, text, length + 1);
    arch->variant = length && (number[length - 1] == 'a' || number[length - 1] == 'f') ? number[length - 1] : 0;
    if (arch->variant)
        number[--length] = 0;
    dot = strcspn(number, ".");
    if (number[dot]) {
        if (prefix)
            return 0;
        number[dot] = 0;
        memmove(number + dot, number + dot + 1, length - dot);
        if (--length != dot + 1)
            return 0;
    }
    if (length < 2 || strspn(number, "0123456789") != length)
        return 0;
    arch->minor = number[length - 1] - '0';
    number[length - 1] = 0;
    arch->major = strtoll(number, NULL, 10);
    return 1;
}

static int gpuf_before(long long major, long long minor, long long other_major, long long other_minor)
{
    return major < other_major || (major == other_major && minor < other_minor);
}

static gpuf_arch gpuf_today(long long major, long long minor)
{
    gpuf_arch arch;
    size_t n;
    arch.major = major, arch.minor = minor, arch.variant = 0;
    for (n = 0; n < sizeof gpuf_renamed / sizeof *gpuf_renamed; ++n)
        if (gpuf_renamed[n][0] == major && gpuf_renamed[n][1] == minor)
            arch.major = gpuf_renamed[n][2], arch.minor = gpuf_renamed[n][3];
    return arch;
}

static int gpuf_is_embedded(gpuf_arch arch)
{
    size_t n;
    for (n = 0; n < sizeof gpuf_embedded / sizeof *gpuf_embedded; ++n)
        if (gpuf_embedded[n][0] == arch.major && gpuf_embedded[n][1] == arch.minor)
            return 1;
    return 0;
}

/* Return the kind of reason for which code does not run on a GPU, NULL when it does. */
static const char *gpuf_mismatch(int is_ptx, gpuf_arch arch, const int gpu[2])
{
    gpuf_arch built = gpuf_today(arch.major, arch.minor), here = gpuf_today(gpu[0], gpu[1]);
    int later = built.major == here.major && built.minor <= here.minor;
    int same = built.major == here.major && built.minor == here.minor;
    if (is_ptx) {
        if (arch.variant == 'a')
            return same ? NULL : "alone";
        if (arch.variant == 'f')
            return later ? NULL : "family";
        return gpuf_before(here.major, here.minor, built.major, built.minor) ? "newer" : NULL;
    }
    if (same)
        return NULL;
    if (arch.variant == 'a')
        return "alone";
    if (arch.variant == 'f')
        return later ? NULL : "family";
    if (gpuf_is_embedded(built) || gpuf_is_embedded(here))
        return "embedded";
    return later ? NULL : "same-major-only";
}

/* The CUDA version that a driver must support for a PTX ISA: of a later one than is known that of the last, at least. */
static void gpuf_driver_for_ptx(const int isa[2], int needed[2])
{
    size_t n, count = sizeof gpuf_ptx_isa / sizeof *gpuf_ptx_isa;
    const int *last = gpuf_ptx_isa[count - 1];
    needed[0] = needed[1] = 0;
    for (n = 0; n < count; ++n)
        if (gpuf_ptx_isa[n][0] == isa[0] && gpuf_ptx_isa[n][1] == isa[1])
            needed[0] = gpuf_ptx_isa[n][2], needed[1] = gpuf_ptx_isa[n][3];
    if (gpuf_before(last[0], last[1], isa[0], isa[1]))
        needed[0] = last[2], needed[1] = last[3];
}

/* ---- what is judged, and the judgement: resolve.py ---- */

enum { GPUF_EXPLICIT, GPUF_USER_BUILD, GPUF_CACHED_BUILD, GPUF_SHIPPED, GPUF_OPENCL, GPUF_CPU };

static const char *const gpuf_origins[] = {"environment", "user build", "cached build", "shipped", "OpenCL", "CPU"};

typedef struct gpuf_image {
    const char *kind, *arch;
    int toolkit[2], isa[2];
    gpuf_arch parsed; /* of cubin and PTX */
} gpuf_image;

typedef struct gpuf_build {
    int origin;
    const char *place;
    const gpuf_image *images;
    size_t count;
    gpuforge_reason problem; /* why it cannot be used at all */
    int own;                 /* the caller's own code for the CPU */
    const char *wheel;       /* the kernels wheel that it is in, NULL for the package's own */
    const char *name, *compiler; /* of a shipped library: the object that it was made for, and by what; or NULL */
} gpuf_build;

typedef struct gpuf_candidate {
    const gpuf_build *build;
    const gpuf_image *image;
    int accepted;
    gpuforge_reason reason;
} gpuf_candidate;

typedef struct gpuf_candidates {
    gpuf_candidate *items;
    size_t count;
} gpuf_candidates;

typedef struct gpuf_setting {
    gpuf_arena *arena;
    const gpuforge_host *host;
    const gpuforge_machine *machine; /* NULL where only libraries are looked up */
    int device;
} gpuf_setting;

static const char *gpuf_variable(const gpuforge_host *host, const char *name)
{
    const char *value = host->variable ? host->variable(name, host->data) : getenv(name);
    return value ? value : "";
}

static int gpuf_gpu_disabled(const gpuforge_host *host)
{
    const char *value = gpuf_variable(host, "GPUFORGE_DISABLE_GPU");
    return *value && !gpuf_same(value, "0");
}

static gpuforge_reason gpuf_switched_off(const gpuf_setting *setting)
{
    const char *value = gpuf_variable(setting->host, "GPUFORGE_DISABLE_GPU");
    return gpuf_because("switched-off", "variable", "GPUFORGE_DISABLE_GPU", "value",
                        gpuf_copy(setting->arena, value, strlen(value)), NULL, NULL);
}

/* Return why no image at all can run; without a kind where one may. */
static gpuforge_reason gpuf_obstacle(const gpuf_setting *setting)
{
    const gpuforge_machine *machine = setting->machine;
    gpuforge_reason reason = gpuf_simply(NULL);
    if (gpuf_gpu_disabled(setting->host))
        return gpuf_switched_off(setting);
    if (!machine->has_driver)
        return gpuf_simply("no-usable-gpu");
    if (!machine->device_count)
        return gpuf_simply("no-devices");
    if (setting->device < 0 || (size_t)setting->device >= machine->device_count) {
        reason.kind = "no-such-device";
        gpuf_count(&reason, 0, "device", setting->device);
        gpuf_count(&reason, 1, "count", (long long)machine->device_count);
    }
    return reason;
}

static gpuforge_reason gpuf_driver_refusal(const gpuf_setting *setting, const gpuf_image *image)
{
    gpuf_arena *arena = setting->arena;
    int driver[2], needed[2];
    driver[0] = setting->machine->cuda_major, driver[1] = setting->machine->cuda_minor;
    if (gpuf_same(image->kind, "ptx")) {
        gpuf_driver_for_ptx(image->isa, needed);
        if (!gpuf_before(driver[0], driver[1], needed[0], needed[1]))
            return gpuf_simply(NULL);
        return gpuf_because("driver-older-than-ptx", "isa", gpuf_dotted(arena, image->isa), "needed",
                            gpuf_dotted(arena, needed), "found", gpuf_dotted(arena, driver));
    }
    needed[0] = image->toolkit[0];
    needed[1] = image->toolkit[0] >= gpuf_minors_agree ? 0 : image->toolkit[1];
    if (!gpuf_before(driver[0], driver[1], needed[0], needed[1]))
        return gpuf_simply(NULL);
    return gpuf_because("driver-older-than-code", "toolkit", gpuf_dotted(arena, image->toolkit), "needed",
                        needed[1] ? gpuf_dotted(arena, needed) : gpuf_number(arena, needed[0]), "found",
                        gpuf_dotted(arena, driver));
}

static const char *gpuf_capability(gpuf_arena *arena, gpuf_arch arch)
{
    return gpuf_join(arena, gpuf_number(arena, arch.major), ".", gpuf_number(arena, arch.minor), NULL);
}

static gpuf_verdict gpuf_judge_code(const gpuf_setting *setting, const gpuf_image *image, const int gpu[2])
{
    gpuf_arena *arena = setting->arena;
    int is_ptx = gpuf_same(image->kind, "ptx");
    const char *mismatch = gpuf_mismatch(is_ptx, image->parsed, gpu), *here = gpuf_dotted(arena, gpu);
    gpuf_arch built = gpuf_today(image->parsed.major, image->parsed.minor), now = gpuf_today(gpu[0], gpu[1]);
    gpuforge_reason reason;
    if (mismatch) {
        reason = gpuf_because(mismatch, "built", gpuf_capability(arena, image->parsed), NULL, NULL, "here", here);
        gpuf_count(&reason, 1, "major", image->parsed.major);
        return gpuf_refused(reason);
    }
    if (is_ptx)
        reason = gpuf_because("jit", "here", here, NULL, NULL, NULL, NULL);
    else if (built.major == now.major && built.minor == now.minor)
        reason = gpuf_simply("exact");
    else
        reason = gpuf_because("same-major", "built", gpuf_capability(arena, image->parsed), "here", here, NULL, NULL);
    return gpuf_verdict_of(gpuf_driver_refusal(setting, image), reason);
}

static gpuf_verdict gpuf_judge_nvrtc(const gpuf_setting *setting, const int gpu[2])
{
    const gpuforge_nvrtc *nvrtc = setting->machine->nvrtc;
    gpuf_arena *arena = setting->arena;
    gpuf_image image;
    gpuf_arch arch, best;
    const char *label;
    char number[64];
    size_t n;
    int found = 0;
    if (!nvrtc)
        return gpuf_refused(gpuf_because("not-looked-for", "what", "NVRTC", NULL, NULL, NULL, NULL));
    if (nvrtc->problem.kind)
        return gpuf_refused(nvrtc->problem);
    memset(&best, 0, sizeof best);
    for (n = 0; n < nvrtc->arch_count; ++n)
        if (gpuf_parse_arch(nvrtc->archs[n], &arch) && !gpuf_mismatch(0, arch, gpu) &&
            (!found || gpuf_before(best.major, best.minor, arch.major, arch.minor) ||
             (best.major == arch.major && best.minor == arch.minor && best.variant < arch.variant)))
            best = arch, found = 1;
    label = gpuf_join(arena, "nvrtc ", nvrtc->release, NULL, NULL);
    if (!found)
        return gpuf_refused(gpuf_because("nvrtc-older", "compiler", label, "here", gpuf_dotted(arena, gpu), NULL, NULL));
    memset(&image, 0, sizeof image);
    image.kind = "cubin";
    image.toolkit[0] = nvrtc->major, image.toolkit[1] = nvrtc->minor;
    snprintf(number, sizeof number, "sm_%lld%lld%.1s", best.major, best.minor, &best.variant);
    return gpuf_verdict_of(gpuf_driver_refusal(setting, &image),
                           gpuf_because("nvrtc", "compiler", label, "arch", gpuf_copy(arena, number, strlen(number)),
                                        NULL, NULL));
}

static gpuf_verdict gpuf_judge_opencl(const gpuf_setting *setting)
{
    const gpuforge_opencl *opencl = setting->machine->opencl;
    gpuforge_reason reason;
    if (gpuf_gpu_disabled(setting->host))
        return gpuf_refused(gpuf_switched_off(setting));
    if (!opencl)
        return gpuf_refused(gpuf_because("not-looked-for", "what", "OpenCL", NULL, NULL, NULL, NULL));
    if (opencl->problem.kind)
        return gpuf_refused(opencl->problem);
    if (setting->device >= 0 && (size_t)setting->device < opencl->device_count)
        return gpuf_accepted(
            gpuf_because("opencl", "device", opencl->devices[setting->device], NULL, NULL, NULL, NULL));
    reason = gpuf_simply("no-such-opencl-device");
    gpuf_count(&reason, 0, "device", setting->device);
    gpuf_count(&reason, 1, "count", (long long)opencl->device_count);
    return gpuf_refused(reason);
}

/* ---- levels of CPUs: cpu.py ---- */

enum { GPUF_LEVELS = sizeof gpuf_levels / sizeof *gpuf_levels };

/* Return the place of a level in the table, GPUF_LEVELS for one that is not in it. */
static size_t gpuf_level(const char *level)
{
    size_t n;
    for (n = 0; n < GPUF_LEVELS && !gpuf_same(gpuf_levels[n][1], level); ++n)
        ;
    return n;
}

static int gpuf_rank(const char *level)
{
    size_t n, place = gpuf_level(level);
    int rank = 0;
    for (n = 0; place < GPUF_LEVELS && n < place; ++n)
        rank += gpuf_same(gpuf_levels[n][0], gpuf_levels[place][0]);
    return place < GPUF_LEVELS ? rank : -1;
}

static int gpuf_has_word(const char *words, const char *word, size_t length)
{
    while (*words) {
        size_t own = strcspn(words, " \t");
        if (own == length && memcmp(words, word, length) == 0)
            return 1;
        words += own;
        words += strspn(words, " \t");
    }
    return 0;
}

/* Return why code for a level does not run on the CPU, without a kind where it does. */
static gpuforge_reason gpuf_level_refusal(const gpuf_setting *setting, const char *level)
{
    const gpuforge_machine *machine = setting->machine;
    const char *here = machine->cpu_machine ? machine->cpu_machine : "", *word;
    gpuf_text lacking = gpuf_text_in(setting->arena);
    size_t n, place = gpuf_level(level);
    if (!*level)
        return gpuf_simply(NULL);
    if (place == GPUF_LEVELS || !gpuf_same(gpuf_levels[place][0], here))
        return gpuf_because("other-machine", "level", level, "here", here, NULL, NULL);
    for (n = 0; n <= place; ++n) {
        if (!gpuf_same(gpuf_levels[n][0], here))
            continue;
        for (word = gpuf_levels[n][2]; *word;) {
            size_t length = strcspn(word, " ");
            if (!machine->cpu_features)
                return gpuf_because("cpu-unknown", "level", level, "file", gpuf_cpuinfo, NULL, NULL);
            if (!gpuf_has_word(machine->cpu_features, word, length)) {
                gpuf_put(&lacking, lacking.length ? ", " : "");
                gpuf_add(&lacking, word, length);
            }
            word += length;
            word += strspn(word, " ");
        }
    }
    if (!lacking.length)
        return gpuf_simply(NULL);
    return gpuf_because("cpu-lacks", "level", level, "lacking", lacking.data, NULL, NULL);
}

static gpuf_verdict gpuf_judge_library(const gpuf_setting *setting, const gpuf_build *build, const char *level)
{
    gpuforge_reason merit = gpuf_simply("no-gpu-needed");
    if (*level)
        merit = gpuf_because("made-for-level", "level", level, NULL, NULL, NULL, NULL);
    else if (build->name)
        merit = gpuf_because("made-there", "name", build->name, "compiler", build->compiler, NULL, NULL);
    return gpuf_verdict_of(gpuf_level_refusal(setting, level), merit);
}

/* Return whether an image can run here, and why. */
static gpuf_verdict gpuf_judge(const gpuf_setting *setting, const gpuf_build *build, const gpuf_image *image,
                               const gpuforge_reason *obstacle)
{
    int gpu[2];
    if (gpuf_same(image->kind, "library"))
        return gpuf_judge_library(setting, build, image->arch);
    if (gpuf_same(image->kind, "opencl"))
        return gpuf_judge_opencl(setting);
    if (obstacle->kind)
        return gpuf_refused(*obstacle);
    gpu[0] = setting->machine->devices[setting->device].major;
    gpu[1] = setting->machine->devices[setting->device].minor;
    if (gpuf_same(image->kind, "cuda"))
        return gpuf_judge_nvrtc(setting, gpu);
    if (gpuf_same(image->kind, "unread"))
        return gpuf_accepted(gpuf_because("unread", "variable", image->arch, NULL, NULL, NULL, NULL));
    if (!gpuf_same(image->kind, "cubin") && !gpuf_same(image->kind, "ptx"))
        return gpuf_refused(gpuf_simply("not-loadable"));
    return gpuf_judge_code(setting, image, gpu);
}

/* Machine code comes first, then PTX, then libraries for the CPU. */
static int gpuf_sort(const gpuf_image *image)
{
    return image && gpuf_same(image->kind, "library") ? 2 : image && gpuf_same(image->kind, "ptx");
}

/* Say whether one accepted candidate is tried before another. */
static int gpuf_preferred(const gpuf_candidate *a, const gpuf_candidate *b)
{
    static const char order[] = "af";
    const gpuf_image *x = a->image, *y = b->image;
    int x_sort = gpuf_sort(x), y_sort = gpuf_sort(y);
    gpuf_arch p, q;
    memset(&p, 0, sizeof p);
    memset(&q, 0, sizeof q);
    if (a->build->origin != b->build->origin)
        return a->build->origin < b->build->origin;
    if (x_sort != y_sort)
        return x_sort < y_sort;
    if (x_sort == 2)
        return gpuf_rank(x->arch) > gpuf_rank(y->arch);
    if (x && (x_sort || gpuf_same(x->kind, "cubin")))
        p = x->parsed;
    if (y && (y_sort || gpuf_same(y->kind, "cubin")))
        q = y->parsed;
    if (p.major != q.major || p.minor != q.minor)
        return gpuf_before(q.major, q.minor, p.major, p.minor);
    return strchr(order, p.variant) < strchr(order, q.variant);
}

/* Judge every image of every build; the accepted ones first. With `has_cpu` 0 the caller's own code comes last. */
static gpuf_candidates gpuf_judge_all(const gpuf_setting *setting, const gpuf_build *builds, size_t count, int has_cpu)
{
    gpuf_arena *arena = setting->arena;
    gpuforge_reason obstacle = gpuf_obstacle(setting);
    gpuf_candidates found;
    gpuf_candidate *judged;
    gpuf_build *own = (gpuf_build *)gpuf_new(arena, sizeof *own);
    size_t n, m, most = 1, total = 0;
    int origin;
    own->origin = GPUF_CPU, own->place = "", own->own = 1;
    for (n = 0; n < count; ++n)
        most += builds[n].count + 1;
    judged = (gpuf_candidate *)gpuf_array(arena, most, sizeof *judged);
    for (origin = GPUF_EXPLICIT; origin <= GPUF_CPU; ++origin)
        for (n = 0; n <= count; ++n) {
            const gpuf_build *build = n < count ? &builds[n] : own;
            if (build->origin != origin || (build->own && has_cpu))
                continue;
            for (m = 0; m < build->count || (m == 0 && (build->own || build->problem.kind)); ++m) {
                gpuf_candidate *one = &judged[total++];
                gpuf_verdict verdict = gpuf_verdict_of(build->problem, gpuf_simply("own-code"));
                one->build = build;
                one->image = m < build->count ? &build->images[m] : NULL;
                if (!build->own && !build->problem.kind)
                    verdict = gpuf_judge(setting, build, one->image, &obstacle);
                one->accepted = verdict.accepted;
                one->reason = verdict.reason;
            }
        }
    found.items = (gpuf_candidate *)gpuf_array(arena, total, sizeof *found.items);
    found.count = 0;
    for (n = 0; n < total; ++n)
        if (judged[n].accepted) {
            for (m = found.count++; m > 0 && gpuf_preferred(&judged[n], &found.items[m - 1]); --m)
                found.items[m] = found.items[m - 1];
            found.items[m] = judged[n];
        }
    for (n = 0; n < total; ++n)
        if (!judged[n].accepted)
            found.items[found.count++] = judged[n];
    return found;
}

/* Judge what a set has, and the CPU, which comes last. */
static gpuf_candidates gpuf_resolve(const gpuf_setting *setting, const gpuf_build *builds, size_t count)
{
    size_t n;
    int has_cpu = 0;
    for (n = 0; n < count; ++n)
        has_cpu |= builds[n].origin == GPUF_CPU;
    return gpuf_judge_all(setting, builds, count, has_cpu);
}

/* Return the name of an image for people, NULL for none. */
static const char *gpuf_image_label(gpuf_arena *arena, const gpuf_image *image)
{
    size_t n;
    if (!image)
        return NULL;
    if (gpuf_same(image->kind, "library") && *image->arch)
        return gpuf_join(arena, "library ", image->arch, NULL, NULL);
    for (n = 0; n < sizeof gpuf_named / sizeof *gpuf_named; ++n)
        if (gpuf_same(gpuf_named[n][0], image->kind))
            return gpuf_named[n][1];
    return gpuf_join(arena, gpuf_same(image->kind, "ptx") ? "PTX" : image->kind, " ", image->arch, NULL);
}

/* Return the name of a candidate. */
static const char *gpuf_name_of(gpuf_arena *arena, const gpuf_candidate *candidate)
{
    const char *origin = gpuf_origins[candidate->build->origin];
    const char *image = gpuf_image_label(arena, candidate->image);
    if (candidate->build->origin == GPUF_SHIPPED) {
        const char *name = candidate->build->name, *own = origin;
        if (image && !gpuf_same(image, "library"))
            own = name ? gpuf_join(arena, name, " ", image, NULL) : image;
        return gpuf_join(arena, own, candidate->build->wheel ? " of " : "", candidate->build->wheel, NULL);
    }
    return gpuf_join(arena, origin, image ? " " : "", image, NULL);
}

/* Return its name, with its file where it is not one of the wheel. */
static const char *gpuf_label(gpuf_arena *arena, const gpuf_candidate *candidate)
{
    const char *label = gpuf_name_of(arena, candidate), *place = candidate->build->place;
    if (!*place || (candidate->build->origin != GPUF_EXPLICIT && candidate->build->origin != GPUF_USER_BUILD))
        return label;
    return gpuf_join(arena, gpuf_join(arena, label, " (", place, ")"), NULL, NULL, NULL);
}

/* ---- the ABI id of a library, read from the file: elf.py. It is never run before it is known to fit ---- */

typedef struct gpuf_elf {
    int handle;
    unsigned long long size;
    const unsigned char *segments;
    size_t segment_count, segment_size;
    const char *problem;
} gpuf_elf;

static unsigned long long gpuf_little(const unsigned char *data, int bytes)
{
    unsigned long long value = 0;
    while (bytes--)
        value = value << 8 | data[bytes];
    return value;
}

/* Read a piece of the file; NULL and `problem` where it is not there. */
static unsigned char *gpuf_piece(gpuf_arena *arena, gpuf_elf *file, unsigned long long offset, unsigned long long size)
{
    unsigned char *data;
    if (size > GPUF_MOST) {
        file->problem = "it is damaged: a table is larger than any library's";
        return NULL;
    }
    if (offset > file->size || size > file->size - offset) {
        file->problem = "it is cut short";
        return NULL;
    }
    data = (unsigned char *)gpuf_new(arena, (size_t)size + 1);
    if (gpuf_read_at(file->handle, data, (size_t)size, (long long)offset) != (long)size)
        file->problem = "it is cut short";
    return file->problem ? NULL : data;
}

static const char *gpuf_this_machine(gpuf_arena *arena)
{
    struct utsname names;
    return uname(&names) == 0 ? gpuf_copy(arena, names.machine, strlen(names.machine)) : "";
}

static void gpuf_read_head(gpuf_arena *arena, gpuf_elf *file, unsigned char head[64])
{
    const unsigned char *data = gpuf_piece(arena, file, 0, 64);
    const char *machine = gpuf_this_machine(arena);
    size_t n;
    if (!data)
        return;
    memcpy(head, data, 64);
    if (memcmp(head, "\x7f" "ELF", 4) != 0)
        file->problem = "it is not an ELF file";
    else if (head[4] != 2 || head[5] != 1)
        file->problem = "it is not a 64-bit little-endian ELF file";
    for (n = 0; !file->problem && n < sizeof gpuf_machines / sizeof *gpuf_machines; ++n)
        if (gpuf_same(gpuf_machines[n].name, machine) && gpuf_machines[n].number != (int)gpuf_little(head + 18, 2))
            file->problem = gpuf_join(arena, "it is for another architecture than ", machine, NULL, NULL);
    if (file->problem)
        return;
    file->segment_size = (size_t)gpuf_little(head + 54, 2);
    file->segment_count = (size_t)gpuf_little(head + 56, 2);
    if (file->segment_count && file->segment_size < 56) {
        file->problem = "its program headers are damaged";
        return;
    }
    file->segments = gpuf_piece(arena, file, gpuf_little(head + 32, 8),
                                (unsigned long long)file->segment_size * file->segment_count);
}

/* Return the text at an address of the loaded library; NULL and `problem`. */
static const char *gpuf_text_at(gpuf_arena *arena, gpuf_elf *file, unsigned long long address)
{
    const unsigned char *found = NULL;
    unsigned long long offset, base, start, size;
    gpuf_text text = gpuf_text_in(arena);
    const char *end;
    size_t n, used, left;
    for (n = 0; n < file->segment_count && !found; ++n) {
        const unsigned char *row = file->segments + n * file->segment_size;
        start = gpuf_little(row + 16, 8);
        if (gpuf_little(row, 4) == 1 && address >= start && address - start < gpuf_little(row + 32, 8))
            found = row;
    }
    if (!found) {
        file->problem = "it is damaged: an address lies in no segment";
        return NULL;
    }
    base = gpuf_little(found + 8, 8);
    offset = base + (address - gpuf_little(found + 16, 8));
    if (offset < base)
        offset = ~0ull;
    size = offset < file->size ? file->size - offset : 0;
    if (size > GPUF_LONGEST)
        size = GPUF_LONGEST;
    found = gpuf_piece(arena, file, offset, size);
    if (!found)
        return NULL;
    end = (const char *)memchr(found, 0, (size_t)size);
    if (!end) {
        file->problem = "it is damaged: a string has no end";
        return NULL;
    }
    for (left = (size_t)(end - (const char *)found); left; found += used, left -= used) {
        if (gpuf_character(found, left, &used) < 0)
            gpuf_put(&text, "\xef\xbf\xbd");
        else
            gpuf_add(&text, (const char *)found, used);
    }
    return text.data;
}

/* Return the address of an exported symbol in one table, 0 when it is not there. */
static unsigned long long gpuf_in_table(gpuf_arena *arena, gpuf_elf *file, const unsigned char *symbols,
                                        const unsigned char *names, const char *wanted)
{
    unsigned long long room = gpuf_little(names + 32, 8), size = gpuf_little(symbols + 32, 8) / 24 * 24, n;
    const unsigned char *strings = gpuf_piece(arena, file, gpuf_little(names + 24, 8), room), *table;
    size_t length = strlen(wanted);
    if (!strings)
        return 0;
    table = gpuf_piece(arena, file, gpuf_little(symbols + 24, 8), size);
    for (n = 0; table && n < size; n += 24) {
        unsigned long long at = gpuf_little(table + n, 4), value = gpuf_little(table + n + 8, 8);
        if (!gpuf_little(table + n + 6, 2) || !value || at >= room || room - at <= length)
            continue;
        if (memcmp(strings + at, wanted, length) == 0 && (!strings[at + length] || room - at == length + 1))
            if (!strings[at + length] || !memchr(strings + at, 0, (size_t)(room - at)))
                return value;
    }
    return 0;
}

/* Return the text that a library exports under a name; NULL without `problem`: it exports no such symbol. */
static const char *gpuf_exported(gpuf_arena *arena, gpuf_elf *file, const char *symbol)
{
    unsigned char head[64];
    const unsigned char *rows;
    unsigned long long count, size, n, link, address = 0;
    gpuf_read_head(arena, file, head);
    if (file->problem)
        return NULL;
    size = gpuf_little(head + 58, 2), count = gpuf_little(head + 60, 2);
    rows = gpuf_piece(arena, file, gpuf_little(head + 40, 8), size * count);
    if (rows && count && size < 64)
        file->problem = "its section headers are damaged";
    for (n = 0; !file->problem && !address && n < count; ++n) {
        link = gpuf_little(rows + n * size + 40, 4);
        if (gpuf_little(rows + n * size + 4, 4) == 11 && link < count)
            address = gpuf_in_table(arena, file, rows + n * size, rows + link * size, symbol);
    }
    return file->problem || !address ? NULL : gpuf_text_at(arena, file, address);
}

/* The ABI id that a library must have, "" for none; or why none can serve. */
typedef struct gpuf_abi {
    const char *id;
    gpuforge_reason refusal;
} gpuf_abi;

/* Return why a file is not a library with this ABI id, without a kind for one that is. */
static gpuforge_reason gpuf_wrong_abi(gpuf_arena *arena, const char *path, const gpuf_abi *wanted)
{
    const char *abi = wanted->id;
    struct stat seen;
    gpuf_elf file;
    const char *found = NULL;
    if (wanted->refusal.kind)
        return wanted->refusal;
    memset(&file, 0, sizeof file);
    file.handle = gpuf_open_file(path, &file.problem);
    if (file.handle >= 0) {
        file.size = fstat(file.handle, &seen) == 0 && seen.st_size > 0 ? (unsigned long long)seen.st_size : 0;
        found = gpuf_exported(arena, &file, "gpuforge_abi_id");
        close(file.handle);
    }
    if (file.problem)
        return gpuf_because("unreadable", "file", path, "problem", file.problem, NULL, NULL);
    if (!*abi || (found && gpuf_same(found, abi)))
        return gpuf_simply(NULL);
    if (!found)
        return gpuf_because("no-abi", "file", path, "symbol", "gpuforge_abi_id", NULL, NULL);
    return gpuf_because("other-abi", "file", path, "found", found, "expected", abi);
}

/* ---- kernels that come in wheels of their own: wheels.py ---- */

typedef struct gpuf_expected {
    const char *name, *kind, *abi, *stands_in_for, *cpu;
} gpuf_expected;

typedef struct gpuf_sets {
    gpuf_expected *items;
    size_t count;
} gpuf_sets;

typedef struct gpuf_known_wheel {
    const char *distribution, *folder, *extra;
} gpuf_known_wheel;

typedef struct gpuf_listing {
    const char *distribution, *version;
    gpuf_known_wheel *wheels;
    size_t count;
    gpuf_sets sets;
} gpuf_listing;

/* A kernels wheel that is installed: `problem` says why it cannot be used at all. */
typedef struct gpuf_wheel {
    const char *distribution, *home;
    gpuforge_reason problem;
    gpuf_sets sets;
} gpuf_wheel;

typedef struct gpuf_wheels {
    gpuf_wheel *items;
    size_t count;
} gpuf_wheels;

static const gpuf_expected *gpuf_expected_of(const gpuf_sets *sets, const char *name)
{
    size_t n;
    for (n = 0; n < sets->count; ++n)
        if (gpuf_same(sets->items[n].name, name))
            return &sets->items[n];
    return NULL;
}

static gpuf_document gpuf_read_listing(gpuf_arena *arena, const char *path)
{
    gpuf_document document = gpuf_read(arena, path);
    if (!document.problem && gpuf_whole(arena, document.content, "schema", &document.problem) != GPUF_SCHEMA &&
        !document.problem)
        document.problem = gpuf_join(arena, "its schema is not ", gpuf_number(arena, GPUF_SCHEMA), NULL, NULL);
    return document;
}

static gpuf_sets gpuf_read_sets(gpuf_arena *arena, const gpuf_json *content, const char **problem)
{
    gpuf_sets sets;
    size_t n, count;
    const gpuf_json *item = gpuf_items(arena, content, "sets", GPUF_OBJECT, "a list of objects", &count, problem);
    sets.items = (gpuf_expected *)gpuf_array(arena, count, sizeof *sets.items);
    sets.count = 0;
    for (; item && !*problem; item = item->next) {
        gpuf_expected one;
        one.name = gpuf_file_name(arena, item, "name", NULL, problem);
        one.kind = gpuf_word(arena, item, "kind", NULL, problem);
        one.abi = gpuf_word(arena, item, "abi", NULL, problem);
        one.stands_in_for = gpuf_word(arena, item, "stands-in-for", "", problem);
        one.cpu = gpuf_file_name(arena, item, "cpu", "", problem);
        for (n = 0; n < sets.count && !gpuf_same(sets.items[n].name, one.name); ++n)
            ;
        sets.items[n] = one;
        sets.count += n == sets.count;
    }
    return sets;
}

/* Return what a package says of its kernels wheels; NULL when it has none. */
static const gpuf_listing *gpuf_list_wheels(gpuf_arena *arena, const char *home)
{
    gpuf_listing *known = (gpuf_listing *)gpuf_new(arena, sizeof *known);
    gpuf_document document = gpuf_read_listing(arena, gpuf_path(arena, home, "wheels.json"));
    const gpuf_json *item;
    size_t count;
    item = gpuf_items(arena, document.content, "wheels", GPUF_OBJECT, "a list of objects", &count, &document.problem);
    known->wheels = (gpuf_known_wheel *)gpuf_array(arena, count, sizeof *known->wheels);
    for (; item && !document.problem; item = item->next) {
        gpuf_known_wheel *wheel = &known->wheels[known->count++];
        wheel->distribution = gpuf_word(arena, item, "distribution", NULL, &document.problem);
        wheel->folder = gpuf_file_name(arena, item, "folder", NULL, &document.problem);
        wheel->extra = gpuf_word(arena, item, "extra", NULL, &document.problem);
    }
    known->distribution = gpuf_word(arena, document.content, "distribution", NULL, &document.problem);
    known->version = gpuf_word(arena, document.content, "version", NULL, &document.problem);
    known->sets = gpuf_read_sets(arena, document.content, &document.problem);
    return document.problem ? NULL : known;
}

static const char *gpuf_wanted(gpuf_arena *arena, const gpuf_listing *known, const gpuf_known_wheel *wheel)
{
    return gpuf_join(arena, gpuf_join(arena, "'", known->distribution, "[", wheel->extra), "]'", NULL, NULL);
}

static gpuforge_reason gpuf_none_installed(gpuf_arena *arena, const gpuf_listing *known)
{
    gpuf_text wanted = gpuf_text_in(arena);
    size_t n;
    for (n = 0; n < known->count; ++n) {
        gpuf_put(&wanted, n ? " or " : "");
        gpuf_put(&wanted, gpuf_wanted(arena, known, &known->wheels[n]));
    }
    return gpuf_because("no-kernels-wheel", "wanted", wanted.data, NULL, NULL, NULL, NULL);
}

static gpuf_wheel gpuf_judge_wheel(gpuf_arena *arena, const gpuf_listing *known, const gpuf_known_wheel *wheel,
                                   const char *home)
{
    const char *file = gpuf_path(arena, home, "wheel.json"), *version;
    gpuf_document document = gpuf_read_listing(arena, file);
    gpuf_wheel found;
    memset(&found, 0, sizeof found);
    found.distribution = wheel->distribution;
    found.home = home;
    version = gpuf_word(arena, document.content, "version", NULL, &document.problem);
    found.sets = gpuf_read_sets(arena, document.content, &document.problem);
    if (document.problem)
        found.problem = gpuf_because(document.damage ? "damaged" : "unreadable", "file", file, "problem",
                                     document.problem, NULL, NULL);
    else if (!gpuf_same(version, known->version)) {
        found.problem = gpuf_because("other-version", "wheel", wheel->distribution, "found", version, "expected",
                                     known->version);
        found.problem.facts[3].name = "wanted";
        found.problem.facts[3].text = gpuf_wanted(arena, known, wheel);
    }
    return found;
}

/* Return why nothing of a set can be used, without a kind where it may be. */
static gpuforge_reason gpuf_wheel_problem(const gpuf_wheel *wheel, const gpuf_listing *known, const char *name)
{
    const gpuf_expected *there = gpuf_expected_of(&wheel->sets, name), *wanted = gpuf_expected_of(&known->sets, name);
    if (wheel->problem.kind || !there || !wanted || gpuf_same(there->abi, wanted->abi))
        return wheel->problem;
    return gpuf_because("other-interface", "wheel", wheel->distribution, "found", there->abi, "expected", wanted->abi);
}

/* os.path.dirname */
static const char *gpuf_parent(gpuf_arena *arena, const char *path)
{
    size_t length = strlen(path), all;
    while (length && path[length - 1] != '/')
        --length;
    for (all = length; all && path[all - 1] == '/'; --all)
        ;
    return gpuf_copy(arena, path, all ? all : length);
}

/* Return the folder that the package is in. */
static const char *gpuf_site(gpuf_arena *arena, const gpuforge_host *host)
{
    const char *at = host->package ? host->package : "", *site = gpuf_parent(arena, host->home);
    site = gpuf_parent(arena, site);
    for (; *at; ++at)
        if (*at == '.')
            site = gpuf_parent(arena, site);
    return site;
}

/* Return the kernels wheels that are installed: beside the package, or in the host's folders. */
static gpuf_wheels gpuf_installed(gpuf_arena *arena, const gpuforge_host *host, const gpuf_listing *known)
{
    const char *site = gpuf_site(arena, host);
    gpuf_wheels found;
    size_t n, m;
    found.items = (gpuf_wheel *)gpuf_array(arena, known->count, sizeof *found.items);
    found.count = 0;
    for (n = 0; n < known->count; ++n) {
        int copies = 0;
        for (m = 0; m <= host->folder_count; ++m) {
            const char *folder = m ? host->folders[m - 1] : site, *home;
            gpuf_wheel wheel;
            home = gpuf_path(arena, gpuf_path(arena, folder, known->wheels[n].folder), "_gpuforge");
            if (!*folder || !gpuf_is_file(gpuf_path(arena, home, "wheel.json")))
                continue;
            wheel = gpuf_judge_wheel(arena, known, &known->wheels[n], home);
            if (!copies++ || (found.items[found.count - 1].problem.kind && !wheel.problem.kind)) {
                found.count += copies == 1;
                found.items[found.count - 1] = wheel;
            }
        }
    }
    return found;
}

/* ---- the index of a kernel set: index.py ---- */

typedef struct gpuf_parameter {
    const char *type; /* "" where it is not known */
    long long size;
} gpuf_parameter;

typedef struct gpuf_entry {
    const char *symbol, *name;
    gpuf_parameter *parameters;
    size_t count;
} gpuf_entry;

typedef struct gpuf_module {
    const char *name, *source, *file, *sha256;
    gpuf_image *images;
    size_t count;
    gpuf_entry *kernels; /* none: not known */
    size_t kernel_count;
} gpuf_module;

typedef struct gpuf_names {
    const char **items;
    size_t count;
} gpuf_names;

typedef struct gpuf_index {
    const char *compiler, *toolkit, *cpu;
    gpuf_module *modules;
    size_t count;
} gpuf_index;

/* Return how many characters a number of up to four digits takes, 0 where there is none. */
static size_t gpuf_short_number(const char *text, int *number)
{
    size_t length = strspn(text, "0123456789");
    *number = 0;
    if (length == 0 || length > 4)
        return 0;
    *number = (int)strtol(text, NULL, 10);
    return length;
}

static void gpuf_version(gpuf_arena *arena, const char *text, int version[2], const char **problem)
{
    size_t major = gpuf_short_number(text, &version[0]), minor = 0;
    if (*problem)
        return;
    if (major && text[major] == '.')
        minor = gpuf_short_number(text + major + 1, &version[1]);
    if (!minor || (text[major + 1 + minor] && text[major + 1 + minor] != '.'))
        *problem = gpuf_join(arena, "'", text, "' is not a version like 13.0", NULL);
}

/* Return an architecture as nvcc writes it, however the index does: "sm_90a", for PTX "compute_90a". */
static const char *gpuf_arch_of(gpuf_arena *arena, const gpuf_arch *arch, int is_ptx)
{
    const char *number = gpuf_join(arena, gpuf_number(arena, arch->major), gpuf_number(arena, arch->minor), NULL, NULL);
    return gpuf_join(arena, is_ptx ? "compute_" : "sm_", number, gpuf_copy(arena, &arch->variant, 1), NULL);
}

static void gpuf_read_image(gpuf_arena *arena, const gpuf_json *entry, const char *toolkit, gpuf_image *image,
                            const char **problem)
{
    int is_ptx;
    image->kind = gpuf_word(arena, entry, "kind", NULL, problem);
    image->arch = gpuf_word(arena, entry, "arch", NULL, problem);
    is_ptx = gpuf_same(image->kind, "ptx");
    if (is_ptx)
        gpuf_version(arena, gpuf_word(arena, entry, "isa", NULL, problem), image->isa, problem);
    if (!gpuf_same(image->kind, "library") && strncmp(image->kind, "iree-", 5) != 0 && !(is_ptx && !*toolkit))
        gpuf_version(arena, toolkit, image->toolkit, problem);
    if (*problem || !(is_ptx || gpuf_same(image->kind, "cubin")))
        return;
    if (gpuf_parse_arch(image->arch, &image->parsed))
        image->arch = gpuf_arch_of(arena, &image->parsed, is_ptx);
    else
        *problem = gpuf_join(arena, "'", image->arch, "' is not a GPU architecture", NULL);
}

/* Add a module; one of the same name before it gives way. */
static void gpuf_keep(gpuf_index *index, const gpuf_module *module)
{
    size_t n;
    for (n = 0; n < index->count && !gpuf_same(index->modules[n].name, module->name); ++n)
        ;
    index->modules[n] = *module;
    index->count += n == index->count;
}

/* Whether a kind is what the runtime itself calls files that have no index: no image of a fatbin. */
static int gpuf_is_named(const char *kind)
{
    return gpuf_same(kind, "unread") || gpuf_same(kind, "cuda") || gpuf_same(kind, "opencl") ||
           gpuf_same(kind, "library");
}

static gpuf_entry gpuf_read_entry(gpuf_arena *arena, const gpuf_json *entry, const char **problem)
{
    const gpuf_json *item;
    gpuf_entry kernel;
    size_t n = 0;
    kernel.symbol = gpuf_word(arena, entry, "symbol", NULL, problem);
    kernel.name = gpuf_word(arena, entry, "name", NULL, problem);
    item = gpuf_items(arena, entry, "parameters", GPUF_OBJECT, "a list of objects", &kernel.count, problem);
    kernel.parameters = (gpuf_parameter *)gpuf_array(arena, kernel.count, sizeof *kernel.parameters);
    for (; item && !*problem; item = item->next, ++n) {
        kernel.parameters[n].type = gpuf_word(arena, item, "type", NULL, problem);
        kernel.parameters[n].size = gpuf_whole(arena, item, "size", problem);
    }
    return kernel;
}

static gpuf_module gpuf_read_module(gpuf_arena *arena, const char *folder, const gpuf_json *entry, const char *toolkit,
                                    const char **problem)
{
    gpuf_module module;
    const gpuf_json *image, *kernel;
    const char *file;
    size_t n = 0;
    memset(&module, 0, sizeof module);
    file = gpuf_file_name(arena, entry, "file", NULL, problem);
    image = gpuf_items(arena, entry, "images", GPUF_OBJECT, "a list of objects", &module.count, problem);
    module.images = (gpuf_image *)gpuf_array(arena, module.count, sizeof *module.images);
    for (; image && !*problem; image = image->next)
        gpuf_read_image(arena, image, toolkit, &module.images[n++], problem);
    for (n = 0; n < module.count && !*problem; ++n)
        if (gpuf_is_named(module.images[n].kind))
            *problem = gpuf_join(arena, "'", module.images[n].kind, "' is not the kind of an image", NULL);
    module.name = gpuf_word(arena, entry, "name", NULL, problem);
    module.source = gpuf_word(arena, entry, "source", NULL, problem);
    module.sha256 = gpuf_word(arena, entry, "sha256", NULL, problem);
    if (!*problem && !*module.sha256)
        *problem = "'sha256' is empty";
    kernel = gpuf_items(arena, entry, "kernels", GPUF_OBJECT, "a list of objects", &module.kernel_count, problem);
    module.kernels = (gpuf_entry *)gpuf_array(arena, module.kernel_count, sizeof *module.kernels);
    for (n = 0; kernel && !*problem; kernel = kernel->next)
        module.kernels[n++] = gpuf_read_entry(arena, kernel, problem);
    module.file = gpuf_path(arena, folder, file);
    return module;
}

static const char *gpuf_made_by(gpuf_arena *arena, const gpuf_json *content, const char **problem)
{
    const gpuf_json *toolchain = gpuf_table(arena, content, "toolchain", problem);
    const char *family = gpuf_word(arena, toolchain, "family", NULL, problem);
    return gpuf_join(arena, family, " ", gpuf_word(arena, toolchain, "version", NULL, problem), NULL);
}

static gpuforge_reason gpuf_other_schema(const char *path, long long found)
{
    gpuforge_reason reason = gpuf_because("other-schema", "file", path, NULL, NULL, NULL, NULL);
    gpuf_count(&reason, 1, "found", found);
    gpuf_count(&reason, 2, "expected", GPUF_SCHEMA);
    return reason;
}

static gpuforge_reason gpuf_unread(const char *path, const gpuf_document *document)
{
    return gpuf_because(document->damage ? "damaged" : "unreadable", "file", path, "problem", document->problem, NULL,
                        NULL);
}

/* Read the index of a folder; NULL and why in `*refusal`. */
static const gpuf_index *gpuf_read_index(gpuf_arena *arena, const char *folder, gpuforge_reason *refusal)
{
    const char *path = gpuf_path(arena, folder, "index.json");
    size_t slash = strlen(path) - strlen("/index.json"), count;
    gpuf_index *index = (gpuf_index *)gpuf_new(arena, sizeof *index);
    gpuf_document document = gpuf_read(arena, path);
    const char *inside = gpuf_copy(arena, path, slash ? slash : 1);
    const gpuf_json *item;
    long long schema = 0;
    if (!document.problem)
        schema = gpuf_whole(arena, document.content, "schema", &document.problem);
    if (!document.problem && schema != GPUF_SCHEMA) {
        *refusal = gpuf_other_schema(path, schema);
        return NULL;
    }
    if (gpuf_same(gpuf_word(arena, document.content, "kind", "module", &document.problem), "library")) {
        *refusal = gpuf_because("is-library", "file", path, NULL, NULL, NULL, NULL);
        return NULL;
    }
    index->toolkit = gpuf_word(arena, document.content, "toolkit", NULL, &document.problem);
    item = gpuf_items(arena, document.content, "modules", GPUF_OBJECT, "a list of objects", &count, &document.problem);
    index->modules = (gpuf_module *)gpuf_array(arena, count, sizeof *index->modules);
    for (; item && !document.problem; item = item->next) {
        gpuf_module module = gpuf_read_module(arena, inside, item, index->toolkit, &document.problem);
        if (!document.problem)
            gpuf_keep(index, &module);
    }
    gpuf_word(arena, document.content, "name", NULL, &document.problem);
    index->compiler = gpuf_made_by(arena, document.content, &document.problem);
    index->cpu = gpuf_file_name(arena, document.content, "cpu", "", &document.problem);
    if (!document.problem)
        return index;
    *refusal = gpuf_unread(path, &document);
    return NULL;
}

/* ---- where the user's kernels are kept, and who can write there: look.py, builds.py ---- */

static const char *gpuf_package(const gpuforge_host *host)
{
    return host->package ? host->package : "";
}

/* Return the variable that names a set's kernels: GPUFORGE_KERNELS_SAXPY_DEFAULT_KERNELS. */
static char *gpuf_variable_of(gpuf_arena *arena, const gpuforge_host *host, const char *name)
{
    const char *package = gpuf_package(host);
    const char *words = *package ? gpuf_join(arena, package, "_", name, NULL) : name;
    gpuf_text text = gpuf_text_in(arena);
    size_t used, left = strlen(words);
    gpuf_put(&text, "GPUFORGE_KERNELS_");
    for (; left; words += used, left -= used) {
        char c = *words;
        if (gpuf_character((const unsigned char *)words, left, &used) < 0)
            used = 1;
        c = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        c = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
        gpuf_add(&text, &c, 1);
    }
    return text.data;
}

static const char *gpuf_value(const gpuf_setting *setting, const char *name)
{
    const char *value = gpuf_variable(setting->host, name);
    return gpuf_copy(setting->arena, value, strlen(value));
}

static const char *gpuf_users_home(gpuf_arena *arena)
{
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    size_t length;
    if (!home) {
        char *room = (char *)gpuf_new(arena, 16384);
        if (getpwuid_r(getuid(), &entry, room, 16384, &found) != 0 || !found)
            return "~"; /* as os.path.expanduser leaves it */
        home = found->pw_dir;
    }
    length = strlen(home);
    while (length && home[length - 1] == '/')
        --length;
    return length ? gpuf_copy(arena, home, length) : "/";
}

/* Return why what GPUFORGE_KERNEL_HOME names cannot be used, without a kind where it can. */
static gpuforge_reason gpuf_home_problem(const gpuf_setting *setting)
{
    const char *value = gpuf_value(setting, "GPUFORGE_KERNEL_HOME");
    if (!*value || *value == '/')
        return gpuf_simply(NULL);
    return gpuf_because("relative-path", "variable", "GPUFORGE_KERNEL_HOME", "value", value, NULL, NULL);
}

static const char *gpuf_kernel_home(const gpuf_setting *setting)
{
    const char *home = gpuf_value(setting, "GPUFORGE_KERNEL_HOME");
    gpuf_arena *arena = setting->arena;
    if (*home)
        return home;
    home = gpuf_value(setting, "XDG_CACHE_HOME");
    if (*home != '/') { /* which its specification, XDG's basedir-spec, calls invalid */
        home = gpuf_users_home(arena);
        home = gpuf_path(arena, *home == '/' ? home : "/nonexistent", ".cache");
    }
    return gpuf_path(arena, gpuf_path(arena, home, "gpuforge"), "kernels");
}

static const char *gpuf_user_folder(const gpuf_setting *setting, const char *name)
{
    const char *package = gpuf_package(setting->host), *folder;
    folder = gpuf_path(setting->arena, gpuf_kernel_home(setting), "user");
    return gpuf_path(setting->arena, gpuf_path(setting->arena, folder, *package ? package : "-"), name);
}

/* Return why others could put code into a folder or file, without a kind where they could not. With `sticky`, a folder
   with that bit is safe: nobody can rename there what belongs to others. */
static gpuforge_reason gpuf_guard(const char *path, int sticky)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return gpuf_simply(NULL);
    if (found.st_uid != 0 && found.st_uid != geteuid())
        return gpuf_because("other-owner", "path", path, NULL, NULL, NULL, NULL);
    if ((found.st_mode & S_IWOTH) && !(sticky && (found.st_mode & S_ISVTX)))
        return gpuf_because("open-to-others", "path", path, NULL, NULL, NULL, NULL);
    return gpuf_simply(NULL);
}

/* The same of an object's folder, <home>/user/<package>/<object>, and of the folders of these above it. */
static gpuforge_reason gpuf_guard_place(gpuf_arena *arena, const char *folder)
{
    gpuforge_reason problem = gpuf_guard(folder, 0);
    int above;
    for (above = 0; above < 3 && !problem.kind; ++above) {
        folder = gpuf_parent(arena, folder);
        problem = gpuf_guard(folder, 1);
    }
    return problem;
}

/* ---- kernel libraries: candidates.py ---- */

/* A library that is looked up: `build.place` is its file; `merit` says why it is used where it has no problem. */
typedef struct gpuf_library {
    gpuf_build build;
    gpuforge_reason merit;
} gpuf_library;

static gpuf_library gpuf_library_at(int origin, const char *place, gpuforge_reason problem, gpuforge_reason merit)
{
    gpuf_library library;
    memset(&library, 0, sizeof library);
    library.build.origin = origin;
    library.build.place = place;
    library.build.problem = problem;
    library.merit = merit;
    return library;
}

static gpuforge_reason gpuf_cut_short(gpuf_arena *arena, const char *file, long long size)
{
    struct stat found;
    gpuforge_reason reason;
    (void)arena;
    if (stat(file, &found) != 0)
        return gpuf_because("unreadable", "file", file, "problem", strerror(errno), NULL, NULL);
    if ((long long)found.st_size == size)
        return gpuf_simply(NULL);
    reason = gpuf_because("cut-short", "file", file, NULL, NULL, NULL, NULL);
    gpuf_count(&reason, 1, "found", (long long)found.st_size);
    gpuf_count(&reason, 2, "expected", size);
    return reason;
}

/* Read a recipe or an index. NULL without a kind in `*refusal`: there is none. */
static const gpuf_json *gpuf_read_named(gpuf_arena *arena, const char *path, gpuforge_reason *refusal)
{
    gpuf_document document = gpuf_read(arena, path);
    *refusal = gpuf_simply(NULL);
    if (document.missing)
        return NULL;
    if (!document.problem)
        gpuf_word(arena, document.content, "name", NULL, &document.problem);
    if (!document.problem)
        return document.content;
    *refusal = gpuf_unread(path, &document);
    return NULL;
}

/* A build of the user's own that is in use. */
typedef struct gpuf_active {
    gpuforge_reason problem; /* why it cannot be used */
    int there;
    const char *file, *compiler, *arch, *home, *release;
    long long size;
} gpuf_active;

static gpuf_active gpuf_active_build(gpuf_arena *arena, const char *folder)
{
    const char *path = gpuf_path(arena, folder, "active.json"), *problem, *inside;
    gpuf_document document = gpuf_read(arena, path);
    gpuf_active active;
    size_t count;
    long long schema;
    memset(&active, 0, sizeof active);
    if (document.missing)
        return active;
    active.there = 1;
    if (document.problem && !document.damage) {
        active.problem = gpuf_unread(path, &document);
        return active;
    }
    problem = document.problem;
    schema = gpuf_whole(arena, document.content, "schema", &problem);
    if (!problem && schema != GPUF_SCHEMA) {
        active.problem = gpuf_other_schema(path, schema);
        return active;
    }
    inside = gpuf_path(arena, folder, gpuf_file_name(arena, document.content, "build", NULL, &problem));
    active.file = gpuf_path(arena, inside, gpuf_file_name(arena, document.content, "file", NULL, &problem));
    active.size = gpuf_whole(arena, document.content, "size", &problem);
    gpuf_word(arena, document.content, "toolchain", NULL, &problem);
    active.compiler = gpuf_word(arena, document.content, "compiler", NULL, &problem);
    active.arch = gpuf_word(arena, document.content, "arch", NULL, &problem);
    gpuf_items(arena, document.content, "sources", GPUF_TEXT, "a list of texts", &count, &problem);
    active.home = gpuf_word(arena, document.content, "home", "", &problem);
    active.release = gpuf_word(arena, document.content, "release", "", &problem);
    gpuf_word(arena, document.content, "asked", "", &problem);
    if (problem) {
        active.problem = gpuf_because("build-damaged", "file", path, "problem", problem, NULL, NULL);
        return active;
    }
    active.problem = gpuf_guard_place(arena, folder);
    if (!active.problem.kind)
        active.problem = gpuf_guard(path, 0);
    if (!active.problem.kind)
        active.problem = gpuf_guard(inside, 0);
    if (!active.problem.kind)
        active.problem = gpuf_guard(active.file, 0);
    if (!active.problem.kind) /* of a set: it has the digests of the images */
        active.problem = gpuf_guard(gpuf_path(arena, active.file, "index.json"), 0);
    return active;
}

/* Return a path as a record has it: bytes that are no text, and control characters, are spelled out. */
static const char *gpuf_recorded(gpuf_arena *arena, const char *path)
{
    gpuf_text text = gpuf_text_in(arena);
    size_t left = strlen(path), used;
    char escape[8];
    for (; left; path += used, left -= used) {
        long code = gpuf_character((const unsigned char *)path, left, &used);
        if (code < 0)
            used = 1;
        if (code < 0x20 || code == 0x7f) {
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)*path);
            gpuf_put(&text, escape);
        } else
            gpuf_add(&text, path, used);
    }
    return text.data;
}

/* Return how long the name of an object is in the name of its builds' folder, 0 for another folder. */
static size_t gpuf_object_in(const char *folder)
{
    size_t length = strlen(folder);
    if (length < 18 || folder[length - 17] != '-' || strspn(folder + length - 16, "0123456789abcdef") != 16)
        return 0;
    return strchr(folder, '\n') ? 0 : length - 17;
}

/* Return the release that the user's last build of an object was made for, NULL where there is none. */
static const char *gpuf_former(gpuf_arena *arena, const char *folder, const char *home)
{
    const char *all = gpuf_parent(arena, folder), *own_name = strrchr(folder, '/') + 1, *found = NULL, *own = home;
    char *real = realpath(home, NULL);
    struct timespec last;
    size_t n, count;
    const char **names = gpuf_folders(arena, all, ".", &count);
    memset(&last, 0, sizeof last);
    if (real)
        own = gpuf_copy(arena, real, strlen(real));
    free(real);
    own = gpuf_recorded(arena, own);
    for (n = 0; n < count; ++n) {
        const char *other = gpuf_path(arena, all, names[n]);
        size_t length = gpuf_object_in(names[n]);
        struct stat seen;
        gpuf_active build;
        if (!length || gpuf_same(names[n], own_name) || length != gpuf_object_in(own_name) ||
            memcmp(names[n], own_name, length) != 0)
            continue;
        build = gpuf_active_build(arena, other);
        if (!build.there || build.problem.kind || !gpuf_same(build.home, own) ||
            stat(gpuf_path(arena, other, "active.json"), &seen) != 0)
            continue;
        if (found && (seen.st_mtim.tv_sec < last.tv_sec ||
                      (seen.st_mtim.tv_sec == last.tv_sec && seen.st_mtim.tv_nsec <= last.tv_nsec)))
            continue;
        last = seen.st_mtim;
        found = build.release;
    }
    return found;
}

/* Note, by a day, that a build is in use: builds that are not are removed some time. */
static void gpuf_touch(gpuf_arena *arena, const char *folder)
{
    const char *path = gpuf_path(arena, folder, "active.json");
    struct stat seen;
    if (stat(path, &seen) == 0 && time(NULL) - seen.st_mtime > 86400)
        utimensat(AT_FDCWD, path, NULL, 0);
}

/* Return what the user has compiled of an object: a library or, of a set of modules, a folder of images. Of a recipe that
   cannot be read, why is in `*unread`. */
static gpuf_library gpuf_built_library(const gpuf_setting *setting, const char *name, const gpuf_abi *abi,
                                       gpuforge_reason *unread)
{
    gpuf_arena *arena = setting->arena;
    const char *sources = gpuf_path(arena, gpuf_path(arena, setting->host->home, "sources"), name);
    const char *recipe = gpuf_path(arena, sources, "recipe.json"), *failure, *folder;
    char *digest = gpuf_sha256_of(arena, recipe, &failure);
    gpuforge_reason refusal, none = gpuf_simply(NULL);
    gpuf_active active;
    int tries;
    refusal = gpuf_home_problem(setting);
    *unread = none;
    if (refusal.kind)
        return gpuf_library_at(GPUF_USER_BUILD, "", refusal, none);
    if (!digest) {
        *unread = gpuf_because("unreadable", "file", recipe, "problem", failure, NULL, NULL);
        return gpuf_library_at(GPUF_USER_BUILD, "", none, none);
    }
    digest[16] = 0;
    folder = gpuf_pathlib(arena, gpuf_join(arena, gpuf_user_folder(setting, name), "-", digest, NULL));
    for (tries = 0;; ++tries) {
        active = gpuf_active_build(arena, folder);
        if (active.problem.kind)
            return gpuf_library_at(GPUF_USER_BUILD, folder, active.problem, none);
        if (!active.there) {
            const char *command = gpuf_join(arena, "python -m ", gpuf_package(setting->host), "._gpuforge compile", NULL);
            const char *release = gpuf_former(arena, folder, setting->host->home);
            return gpuf_library_at(GPUF_USER_BUILD, "",
                                   gpuf_because(release ? "compiled-before" : "not-compiled", "command", command,
                                                release ? "release" : NULL, release, NULL, NULL),
                                   none);
        }
        refusal = none;
        if (!gpuf_is_folder(active.file)) {
            refusal = gpuf_cut_short(arena, active.file, active.size);
            if (!refusal.kind)
                refusal = gpuf_wrong_abi(arena, active.file, abi);
        }
        if (refusal.kind && access(active.file, F_OK) != 0 && tries < 16) {
            gpuf_active now = gpuf_active_build(arena, folder);
            if (now.problem.kind || !now.there || !gpuf_same(now.file, active.file))
                continue; /* `compile` has put another build in use */
        }
        if (!refusal.kind)
            gpuf_touch(arena, folder);
        return gpuf_library_at(GPUF_USER_BUILD, active.file, refusal,
                               gpuf_because("made-here", "compiler", active.compiler, "arch", active.arch,
                                            NULL, NULL));
    }
}

/* Return the library that the environment names; its place is NULL where it names none. */
static gpuf_library gpuf_explicit_library(const gpuf_setting *setting, const char *name, const gpuf_abi *abi)
{
    const char *named = gpuf_variable_of(setting->arena, setting->host, name), *file = gpuf_value(setting, named);
    gpuforge_reason none = gpuf_simply(NULL);
    if (!*file)
        return gpuf_library_at(GPUF_EXPLICIT, NULL, none, none);
    file = gpuf_absolute(setting->arena, file); /* the loader would look for a bare name in the system's folders */
    return gpuf_library_at(GPUF_EXPLICIT, file, gpuf_wrong_abi(setting->arena, file, abi),
                           gpuf_because("unread", "variable", named, NULL, NULL, NULL, NULL));
}

/* Builds, as many as there are. */
typedef struct gpuf_builds {
    gpuf_build *items;
    size_t count, most;
} gpuf_builds;

static gpuf_build *gpuf_add_build(gpuf_arena *arena, gpuf_builds *builds, int origin, const char *place)
{
    gpuf_build *build;
    if (builds->count == builds->most) {
        gpuf_build *grown = (gpuf_build *)gpuf_array(arena, builds->most = 2 * builds->most + 4, sizeof *grown);
        if (builds->count)
            memcpy(grown, builds->items, builds->count * sizeof *grown);
        builds->items = grown;
    }
    build = &builds->items[builds->count++];
    memset(build, 0, sizeof *build);
    build->origin = origin;
    build->place = place;
    return build;
}

/* Return whether an index is one of a library, and not of a kernel set. */
static int gpuf_lists_library(const gpuf_json *index)
{
    const gpuf_json *kind = index ? gpuf_find(index, "kind") : NULL;
    return kind && kind->type == GPUF_TEXT && gpuf_same(kind->text, "library");
}

/* Read one library of an index; `build` has what the index says of all of them. */
static void gpuf_read_library(gpuf_arena *arena, gpuf_build *build, const gpuf_json *entry, const char *folder,
                              const char *toolkit, const gpuf_abi *abi, const char **problem)
{
    const char *file = gpuf_path(arena, folder, gpuf_file_name(arena, entry, "file", NULL, problem));
    size_t count, n = 0;
    const gpuf_json *image = gpuf_items(arena, entry, "images", GPUF_OBJECT, "a list of objects", &count, problem);
    gpuf_image *images = (gpuf_image *)gpuf_array(arena, count, sizeof *images);
    long long size;
    for (; image && !*problem; image = image->next)
        gpuf_read_image(arena, image, toolkit, &images[n++], problem);
    if (!*problem && !n)
        *problem = "'images' is empty";
    size = gpuf_whole(arena, entry, "size", problem);
    if (*problem)
        return;
    build->place = file;
    build->problem = gpuf_cut_short(arena, file, size);
    if (!build->problem.kind)
        build->problem = gpuf_wrong_abi(arena, file, abi);
    if (!build->problem.kind)
        build->images = images, build->count = n;
}

/* Add the libraries of one object of a wheel: one for each level of CPUs, or one for GPUs. */
static void gpuf_add_from(gpuf_arena *arena, const char *home, gpuf_builds *builds, int origin, const char *name,
                          const gpuf_abi *abi)
{
    const char *folder = gpuf_path(arena, gpuf_path(arena, home, "kernels"), name), *problem = NULL;
    const char *file = gpuf_path(arena, folder, "index.json"), *made, *toolkit;
    gpuforge_reason refusal;
    const gpuf_json *index = gpuf_read_named(arena, file, &refusal), *entry;
    size_t before = builds->count, count;
    gpuf_build *build;
    if (!index) {
        build = gpuf_add_build(arena, builds, origin, folder);
        build->name = name;
        build->problem = refusal.kind
                             ? refusal
                             : gpuf_because("unreadable", "file", file, "problem", "it is missing", NULL, NULL);
        return;
    }
    made = gpuf_made_by(arena, index, &problem);
    toolkit = gpuf_word(arena, index, "toolkit", NULL, &problem);
    entry = gpuf_items(arena, index, "libraries", GPUF_OBJECT, "a list of objects", &count, &problem);
    for (; entry && !problem; entry = entry->next) {
        build = gpuf_add_build(arena, builds, origin, folder);
        build->name = name, build->compiler = made;
        gpuf_read_library(arena, build, entry, folder, toolkit, abi, &problem);
    }
    if (!problem)
        return;
    builds->count = before;
    build = gpuf_add_build(arena, builds, origin, folder);
    build->name = name;
    build->problem = gpuf_lists_library(index)
                         ? gpuf_because("damaged", "file", file, "problem", problem, NULL, NULL)
                         : gpuf_because("is-set", "file", file, NULL, NULL, NULL, NULL);
}

/* Add the libraries of one object: of the wheel itself, or of the kernels wheels that are installed. */
static void gpuf_add_libraries(const gpuf_setting *setting, const gpuf_listing *known, gpuf_builds *builds, int origin,
                               const char *name, const gpuf_abi *abi)
{
    gpuf_arena *arena = setting->arena;
    gpuf_wheels wheels;
    size_t n, m;
    if (!known || !gpuf_expected_of(&known->sets, name)) {
        gpuf_add_from(arena, setting->host->home, builds, origin, name, abi);
        return;
    }
    wheels = gpuf_installed(arena, setting->host, known);
    if (!wheels.count)
        gpuf_add_build(arena, builds, origin, "")->problem = gpuf_none_installed(arena, known);
    for (n = 0; n < wheels.count; ++n) {
        const gpuf_wheel *wheel = &wheels.items[n];
        gpuforge_reason refusal = gpuf_wheel_problem(wheel, known, name);
        m = builds->count;
        if (refusal.kind)
            gpuf_add_build(arena, builds, origin, wheel->home)->problem = refusal;
        else
            gpuf_add_from(arena, wheel->home, builds, origin, name, abi);
        for (; m < builds->count; ++m)
            builds->items[m].wheel = wheel->distribution;
    }
}

static const char *gpuf_damage(gpuf_arena *arena, const char *file, const char *problem)
{
    gpuforge_reason reason = gpuf_because("damaged", "file", file, "problem", problem, NULL, NULL);
    return gpuf_sentence(arena, &reason);
}

static void gpuf_probe_driver(gpuf_arena *arena, const gpuforge_host *host, gpuforge_machine *machine);

/* Read what this machine's CPU has. */
static void gpuf_look_at_cpu(gpuf_arena *arena, gpuforge_machine *machine)
{
    struct utsname kernel;
    FILE *file = fopen(gpuf_cpuinfo, "rb");
    char *text = (char *)gpuf_new(arena, GPUF_CPUINFO_MOST + 1), *line, *colon;
    machine->cpu_machine = uname(&kernel) == 0 ? gpuf_copy(arena, kernel.machine, strlen(kernel.machine)) : "";
    machine->cpu_features = NULL;
    if (!file)
        return;
    text[fread(text, 1, GPUF_CPUINFO_MOST, file)] = 0;
    fclose(file);
    for (line = strtok(text, "\n"); line && !machine->cpu_features; line = strtok(NULL, "\n")) {
        colon = strchr(line, ':');
        if (colon && strspn(line, "flags") == 5 && strncmp(line, "flags", 5) == 0 && colon[strspn(colon + 1, " \t") + 1])
            machine->cpu_features = colon + 1 + strspn(colon + 1, " \t");
    }
}

/* Return whether one of the builds is a library for a CPU of some level. */
static int gpuf_has_level(const gpuf_build *builds, size_t count)
{
    size_t n, m;
    for (n = 0; n < count; ++n)
        for (m = 0; m < builds[n].count; ++m)
            if (gpuf_same(builds[n].images[m].kind, "library") && *builds[n].images[m].arch)
                return 1;
    return 0;
}

/* Return the machine to judge libraries by: what is not known of it is looked at where one of them needs it. */
static const gpuforge_machine *gpuf_machine_for(const gpuf_setting *setting, const gpuf_builds *builds)
{
    gpuforge_machine *machine = (gpuforge_machine *)gpuf_new(setting->arena, sizeof *machine);
    const gpuforge_machine *given = setting->machine ? setting->machine : setting->host->machine;
    int gpu = 0;
    size_t n, m;
    for (n = 0; n < builds->count; ++n)
        for (m = 0; m < builds->items[n].count; ++m)
            gpu |= !gpuf_same(builds->items[n].images[m].kind, "library");
    if (given)
        *machine = *given;
    else if (gpu && !gpuf_gpu_disabled(setting->host))
        gpuf_probe_driver(setting->arena, setting->host, machine);
    if (!machine->cpu_machine && gpuf_has_level(builds->items, builds->count))
        gpuf_look_at_cpu(setting->arena, machine);
    return machine;
}

/* Return the objects whose libraries are tried, as a recipe or an index lists them. */
static const char **gpuf_fallbacks(gpuf_arena *arena, const gpuf_json *entry, const char *own, size_t *count,
                                   const char **problem)
{
    const gpuf_json *item = gpuf_items(arena, entry, "fallbacks", GPUF_TEXT, "a list of texts", count, problem);
    const char **names = (const char **)gpuf_array(arena, *count + 1, sizeof *names);
    const char *c;
    *count = 0;
    if (own)
        names[(*count)++] = own;
    for (; item && !*problem; item = item->next) {
        for (c = item->text; *c && !*problem; ++c)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                *problem = "'fallbacks' has a control character";
        if (!*problem && (!*item->text || strchr(item->text, '/') || gpuf_same(item->text, ".") ||
                          gpuf_same(item->text, "..")))
            *problem = gpuf_join(arena, "'", item->text, "' is not the name of a file beside it", NULL);
        names[(*count)++] = item->text;
    }
    return names;
}

/* Return an object that comes in kernels wheels, and those of them that stand in for it. */
static const char **gpuf_stand_ins(gpuf_arena *arena, const gpuf_listing *known, const char *own, size_t *count)
{
    const char **names = (const char **)gpuf_array(arena, known->sets.count + 1, sizeof *names);
    size_t n;
    names[0] = own;
    *count = 1;
    for (n = 0; n < known->sets.count; ++n)
        if (gpuf_same(known->sets.items[n].stands_in_for, own))
            names[(*count)++] = known->sets.items[n].name;
    return names;
}

/* Return the wheel's libraries, judged: `names` are the objects that have them. */
static gpuf_candidates gpuf_shipped_libraries(const gpuf_setting *setting, const gpuf_listing *known,
                                              const char **names, size_t count, const gpuf_abi *abi)
{
    gpuf_setting here = *setting;
    gpuf_builds builds;
    size_t n;
    memset(&builds, 0, sizeof builds);
    for (n = 0; n < count; ++n)
        gpuf_add_libraries(setting, known, &builds, GPUF_SHIPPED, names[n], abi);
    if (!builds.count)
        gpuf_add_build(setting->arena, &builds, GPUF_SHIPPED,
                       gpuf_path(setting->arena, setting->host->home, "kernels"))
            ->problem = gpuf_simply("nothing-shipped");
    here.machine = gpuf_machine_for(setting, &builds);
    return gpuf_judge_all(&here, builds.items, builds.count, 1);
}

static gpuf_candidate gpuf_as_candidate(gpuf_arena *arena, const gpuf_library *library)
{
    gpuf_library *kept = (gpuf_library *)gpuf_new(arena, sizeof *kept);
    gpuf_candidate candidate;
    *kept = *library;
    candidate.build = &kept->build;
    candidate.image = NULL;
    candidate.accepted = !kept->build.problem.kind;
    candidate.reason = candidate.accepted ? kept->merit : kept->build.problem;
    return candidate;
}

/* Compare the names of distributions: letters of any case, and runs of "-", "_" and "." as one. */
static int gpuf_same_project(const char *a, size_t length, const char *b)
{
    size_t n = 0;
    while (n < length && *b) {
        char x = a[n], y = *b;
        int dash = strchr("-_.", x) != NULL, other = strchr("-_.", y) != NULL;
        if (dash != other)
            return 0;
        if (dash) {
            while (n < length && strchr("-_.", a[n]))
                ++n;
            b += strspn(b, "-_.");
            continue;
        }
        x = x >= 'A' && x <= 'Z' ? (char)(x - 'A' + 'a') : x;
        y = y >= 'A' && y <= 'Z' ? (char)(y - 'A' + 'a') : y;
        if (x != y)
            return 0;
        ++n, ++b;
    }
    return n == length && !*b;
}

/* Return the version of a project as the name of its .dist-info has it, NULL where it is not installed. */
static const char *gpuf_version_of(const gpuf_setting *setting, const char *project)
{
    gpuf_arena *arena = setting->arena;
    const char *site = gpuf_site(arena, setting->host);
    size_t n, m, count;
    for (m = 0; m <= setting->host->folder_count; ++m) {
        const char **names = gpuf_folders(arena, m ? setting->host->folders[m - 1] : site, ".", &count);
        for (n = 0; n < count; ++n) {
            const char *dash = strchr(names[n], '-');
            if (dash && gpuf_ends(dash, ".dist-info") && gpuf_same_project(names[n], (size_t)(dash - names[n]), project))
                return gpuf_copy(arena, dash + 1, strlen(dash + 1) - strlen(".dist-info"));
        }
    }
    return NULL;
}

/* Return the ABI id that a recipe or an index demands here: its own, and the versions of packages that count. */
static gpuf_abi gpuf_demanded(const gpuf_setting *setting, const gpuf_json *content, const char **problem)
{
    gpuf_arena *arena = setting->arena;
    const gpuf_json *packages = NULL, *item;
    const char **names;
    gpuf_text id = gpuf_text_in(arena);
    gpuf_abi abi;
    size_t n, count = 0;
    abi.refusal = gpuf_simply(NULL);
    gpuf_put(&id, gpuf_word(arena, content, "abi", "", problem));
    if (!*problem && gpuf_find(content, "packages"))
        packages = gpuf_table(arena, content, "packages", problem);
    for (item = packages ? packages->first : NULL; item; item = item->next, ++count)
        gpuf_word(arena, packages, item->key, NULL, problem);
    names = (const char **)gpuf_array(arena, count, sizeof *names);
    for (n = 0, item = packages ? packages->first : NULL; item; item = item->next)
        names[n++] = item->key;
    if (count)
        qsort(names, count, sizeof *names, gpuf_by_text);
    for (n = 0; !*problem && !abi.refusal.kind && n < count; ++n) {
        const char *part = gpuf_word(arena, packages, names[n], NULL, problem), *version;
        int dots = gpuf_same(part, "major") ? 1 : gpuf_same(part, "major.minor") ? 2 : INT_MAX;
        if (n && gpuf_same(names[n], names[n - 1]))
            continue;
        version = gpuf_version_of(setting, names[n]);
        if (!version) {
            abi.refusal = gpuf_because("no-package", "package", names[n], NULL, NULL, NULL, NULL);
            break;
        }
        gpuf_put(&id, gpuf_join(arena, "+", names[n], "-", NULL));
        for (; *version && (*version != '.' || --dots > 0); ++version)
            gpuf_add(&id, version, 1);
    }
    abi.id = id.data;
    return abi;
}

/* Return every place where a library is looked for, in order; none and `*problem` for a damaged wheel. */
static gpuf_candidates gpuf_libraries(const gpuf_setting *setting, const char *name, const char **problem)
{
    gpuf_arena *arena = setting->arena;
    const char *home = setting->host->home, **names, *field = NULL;
    gpuf_abi abi;
    const char *file = gpuf_path(arena, gpuf_path(arena, gpuf_path(arena, home, "sources"), name), "recipe.json");
    gpuforge_reason refusal;
    const gpuf_json *recipe = gpuf_read_named(arena, file, &refusal), *declared = recipe;
    const gpuf_listing *known;
    const gpuf_expected *apart;
    gpuf_library explicit_one, built;
    gpuf_candidates all, shipped;
    size_t n, count;
    int is_library;
    memset(&all, 0, sizeof all);
    if (!recipe && !refusal.kind) {
        file = gpuf_path(arena, gpuf_path(arena, gpuf_path(arena, home, "kernels"), name), "index.json");
        declared = gpuf_read_named(arena, file, &refusal);
    }
    if (refusal.kind) {
        *problem = gpuf_sentence(arena, &refusal);
        return all;
    }
    known = gpuf_list_wheels(arena, home);
    apart = known && !recipe ? gpuf_expected_of(&known->sets, name) : NULL;
    is_library = gpuf_lists_library(declared);
    if (!recipe && !is_library && !apart) {
        gpuforge_reason none = declared ? gpuf_because("is-set", "file", file, NULL, NULL, NULL, NULL)
                                        : gpuf_because("no-library-set", "name", name, NULL, NULL, NULL, NULL);
        *problem = gpuf_sentence(arena, &none);
        return all;
    }
    if (recipe || is_library) {
        names = gpuf_fallbacks(arena, declared, recipe ? NULL : name, &count, &field);
        abi = gpuf_demanded(setting, declared, &field);
    } else {
        names = gpuf_stand_ins(arena, known, name, &count);
        abi.id = apart->abi;
        abi.refusal = gpuf_simply(NULL);
    }
    if (field) {
        *problem = gpuf_damage(arena, file, field);
        return all;
    }
    explicit_one = gpuf_explicit_library(setting, name, &abi);
    if (recipe)
        built = gpuf_built_library(setting, name, &abi, &refusal);
    if (refusal.kind) {
        *problem = gpuf_sentence(arena, &refusal);
        return all;
    }
    shipped = gpuf_shipped_libraries(setting, known, names, count, &abi);
    all.items = (gpuf_candidate *)gpuf_array(arena, shipped.count + 2, sizeof *all.items);
    if (explicit_one.build.place)
        all.items[all.count++] = gpuf_as_candidate(arena, &explicit_one);
    if (recipe)
        all.items[all.count++] = gpuf_as_candidate(arena, &built);
    for (n = 0; n < shipped.count; ++n)
        all.items[all.count++] = shipped.items[n];
    return all;
}

/* ---- sources that are compiled on the user's machine: recipe.py ---- */

typedef struct gpuf_recipe {
    const char *fallback, *cpu, *folder;
    gpuf_abi abi; /* what its libraries must have here */
    const gpuf_index *nvrtc, *opencl; /* what each of them compiles, NULL for nothing */
} gpuf_recipe;

/* Return the digest of a file that a recipe lists, NULL where it lists none; "" checks the whole list. */
static const char *gpuf_digest_of(gpuf_arena *arena, const gpuf_json *recipe, const char *key, const char *wanted,
                                  const char **problem)
{
    size_t count;
    const gpuf_json *item = gpuf_items(arena, recipe, key, GPUF_OBJECT, "a list of objects", &count, problem);
    const char *found = NULL, *at;
    for (; item && !*problem; item = item->next) {
        const char *name = gpuf_word(arena, item, "file", NULL, problem), *sha256;
        int out = name[0] == '/';
        for (at = name; *at; at += strcspn(at, "/"), at += *at == '/')
            out |= strcspn(at, "/") == 2 && at[0] == '.' && at[1] == '.';
        if (!*problem && out)
            *problem = gpuf_join(arena, "'", name, "' leads out of its folder", NULL);
        sha256 = gpuf_word(arena, item, "sha256", NULL, problem);
        if (gpuf_same(name, wanted))
            found = sha256;
    }
    return found;
}

/* Return a source's name without its folders and its suffix. */
static const char *gpuf_stem(gpuf_arena *arena, const char *source)
{
    const char *name = strrchr(source, '/') ? strrchr(source, '/') + 1 : source, *dot = strrchr(name, '.');
    if (!dot || strspn(name, ".") >= (size_t)(dot - name))
        return name;
    return gpuf_copy(arena, name, (size_t)(dot - name));
}

static const gpuf_index *gpuf_read_sources(gpuf_arena *arena, const char *folder, const gpuf_json *entry,
                                           const gpuf_json *recipe, const char **family, const char **problem)
{
    gpuf_index *index = (gpuf_index *)gpuf_new(arena, sizeof *index);
    gpuf_image *image = (gpuf_image *)gpuf_new(arena, sizeof *image);
    static const char *const added[] = {"devices", "extensions"}; /* not in the first wheels of this schema */
    const gpuf_json *item;
    size_t count, ignored, n;
    gpuf_word(arena, entry, "name", NULL, problem);
    *family = gpuf_word(arena, entry, "family", NULL, problem);
    image->kind = gpuf_same(*family, "nvrtc") ? "cuda" : "opencl";
    image->arch = "";
    item = gpuf_items(arena, entry, "sources", GPUF_TEXT, "a list of texts", &count, problem);
    gpuf_word(arena, gpuf_table(arena, entry, "install", problem), "", "", problem);
    for (n = 0; n < sizeof added / sizeof *added; ++n)
        if (gpuf_find(entry, added[n]))
            gpuf_items(arena, entry, added[n], GPUF_TEXT, "a list of texts", &ignored, problem);
    gpuf_items(arena, entry, "argv", GPUF_TEXT, "a list of texts", &ignored, problem);
    index->compiler = *family, index->toolkit = index->cpu = "";
    index->modules = (gpuf_module *)gpuf_array(arena, count, sizeof *index->modules);
    for (; item && !*problem; item = item->next) {
        gpuf_module module;
        memset(&module, 0, sizeof module);
        module.name = gpuf_stem(arena, item->text);
        module.source = item->text;
        module.file = gpuf_path(arena, folder, item->text);
        module.sha256 = gpuf_digest_of(arena, recipe, "sources", item->text, problem);
        module.images = image, module.count = 1;
        if (!module.sha256)
            *problem = gpuf_join(arena, "'", item->text, "' is not among its sources", NULL);
        else
            gpuf_keep(index, &module);
    }
    return index;
}

/* Read the recipe of a set of modules; 0 where there is none, or it cannot be used: why is in `*refusal`. */
static int gpuf_read_recipe(const gpuf_setting *setting, const char *folder, gpuf_recipe *recipe, gpuforge_reason *refusal)
{
    gpuf_arena *arena = setting->arena;
    const char *path = gpuf_path(arena, folder, "recipe.json"), *kind, *family;
    gpuf_document document = gpuf_read(arena, path);
    const gpuf_json *item;
    long long schema;
    size_t count;
    memset(recipe, 0, sizeof *recipe);
    *refusal = gpuf_simply(NULL);
    if (document.missing)
        return 0;
    kind = gpuf_word(arena, document.content, "kind", "library", &document.problem);
    if (!document.problem && !gpuf_same(kind, "module"))
        return 0;
    schema = gpuf_whole(arena, document.content, "schema", &document.problem);
    if (!document.problem && schema != GPUF_SCHEMA) {
        *refusal = gpuf_other_schema(path, schema);
        return 0;
    }
    recipe->folder = folder;
    gpuf_digest_of(arena, document.content, "sources", "", &document.problem);
    gpuf_digest_of(arena, document.content, "includes", "", &document.problem);
    item = gpuf_items(arena, document.content, "toolchains", GPUF_OBJECT, "a list of objects", &count, &document.problem);
    for (; item && !document.problem; item = item->next) {
        const gpuf_index *index = gpuf_read_sources(arena, folder, item, document.content, &family, &document.problem);
        if (gpuf_same(family, "nvrtc") && !recipe->nvrtc)
            recipe->nvrtc = index;
        if (gpuf_same(family, "opencl") && !recipe->opencl)
            recipe->opencl = index;
    }
    gpuf_word(arena, document.content, "name", NULL, &document.problem);
    gpuf_word(arena, document.content, "abi", NULL, &document.problem); /* which a library's recipe may lack */
    recipe->fallback = gpuf_fallbacks(arena, document.content, NULL, &count, &document.problem)[0];
    recipe->fallback = count ? recipe->fallback : "";
    recipe->abi = gpuf_demanded(setting, document.content, &document.problem);
    recipe->cpu = gpuf_file_name(arena, document.content, "cpu", "", &document.problem);
    if (!document.problem)
        return 1;
    *refusal = gpuf_unread(path, &document);
    return 0;
}

/* ---- the places of a kernel set: look.py ---- */

typedef struct gpuf_place {
    int origin;
    const char *path;
    const gpuf_index *contents;
    const char *file; /* one that serves for any module, "" for none */
    gpuf_image image; /* what it is */
    gpuforge_reason problem;
    int is_sources;
    const char *wheel; /* the kernels wheel that it is in, NULL for the package's own */
} gpuf_place;

typedef struct gpuf_places {
    gpuf_place *items;
    size_t count;
} gpuf_places;

static gpuf_place *gpuf_add_place(gpuf_places *places, int origin, const char *path)
{
    gpuf_place *place = &places->items[places->count++];
    memset(place, 0, sizeof *place);
    place->origin = origin;
    place->path = path;
    place->file = "";
    return place;
}

static gpuf_place *gpuf_add_folder(gpuf_arena *arena, gpuf_places *places, int origin, const char *path)
{
    gpuf_place *place = gpuf_add_place(places, origin, path);
    place->contents = gpuf_read_index(arena, path, &place->problem);
    return place;
}

static gpuf_place *gpuf_add_file(gpuf_places *places, int origin, const char *path, const char *file, const char *kind)
{
    gpuf_place *place = gpuf_add_place(places, origin, path);
    place->file = file;
    place->image.kind = kind;
    place->image.arch = "";
    return place;
}

static void gpuf_add_explicit(const gpuf_setting *setting, gpuf_places *places, const char *name, const gpuf_abi *abi)
{
    gpuf_arena *arena = setting->arena;
    const char *named = gpuf_variable_of(arena, setting->host, name), *path = gpuf_value(setting, named);
    int is_file = gpuf_is_file(path);
    if (!*path)
        return;
    if (gpuf_is_file(gpuf_path(arena, path, "index.json")))
        gpuf_add_folder(arena, places, GPUF_EXPLICIT, path);
    else if (is_file && (gpuf_ends(path, ".fatbin") || gpuf_ends(path, ".cubin") || gpuf_ends(path, ".ptx")))
        gpuf_add_file(places, GPUF_EXPLICIT, path, path, "unread")->image.arch = named;
    else if (is_file && gpuf_ends(path, ".so")) {
        gpuf_library library = gpuf_explicit_library(setting, name, abi);
        gpuf_add_file(places, GPUF_EXPLICIT, path, library.build.place, "library")->problem = library.build.problem;
    } else
        gpuf_add_place(places, GPUF_EXPLICIT, path)->problem =
            gpuf_because("not-kernels", "variable", named, "file", path, NULL, NULL);
}

/* Add the places of a set in the wheel itself, or in its kernels wheels. */
static void gpuf_add_shipped(const gpuf_setting *setting, const gpuf_listing *known, gpuf_places *places,
                             const char *name, gpuforge_reason problem)
{
    gpuf_arena *arena = setting->arena;
    const char *folder = gpuf_path(arena, gpuf_path(arena, setting->host->home, "kernels"), name);
    gpuf_wheels wheels;
    size_t n;
    if (gpuf_is_folder(folder)) {
        gpuf_add_folder(arena, places, GPUF_SHIPPED, folder);
        return;
    }
    if (!known || !gpuf_expected_of(&known->sets, name)) {
        gpuf_add_place(places, GPUF_SHIPPED, folder)->problem =
            problem.kind ? problem : gpuf_because("no-set", "name", name, NULL, NULL, NULL, NULL);
        return;
    }
    wheels = gpuf_installed(arena, setting->host, known);
    if (!wheels.count)
        gpuf_add_place(places, GPUF_SHIPPED, folder)->problem = gpuf_none_installed(arena, known);
    for (n = 0; n < wheels.count; ++n) {
        const char *inside = gpuf_path(arena, gpuf_path(arena, wheels.items[n].home, "kernels"), name);
        gpuforge_reason refused = gpuf_wheel_problem(&wheels.items[n], known, name);
        gpuf_place *place = refused.kind ? gpuf_add_place(places, GPUF_SHIPPED, inside)
                                         : gpuf_add_folder(arena, places, GPUF_SHIPPED, inside);
        if (refused.kind)
            place->problem = refused;
        place->wheel = wheels.items[n].distribution;
    }
}

/* Add the places of the library that does a set's work on the CPU. */
static void gpuf_add_cpu(const gpuf_setting *setting, const gpuf_listing *known, gpuf_places *places, const char *name,
                         const gpuf_abi *abi)
{
    gpuf_builds builds;
    gpuf_place *grown;
    size_t n;
    memset(&builds, 0, sizeof builds);
    if (*name)
        gpuf_add_libraries(setting, known, &builds, GPUF_CPU, name, abi);
    grown = (gpuf_place *)gpuf_array(setting->arena, places->count + builds.count + 1, sizeof *grown);
    memcpy(grown, places->items, places->count * sizeof *grown);
    places->items = grown; /* it is the last that is added */
    for (n = 0; n < builds.count; ++n) {
        const gpuf_build *build = &builds.items[n];
        gpuf_place *place = gpuf_add_file(places, GPUF_CPU, build->place, build->place, "library");
        place->problem = build->problem;
        place->wheel = build->wheel;
        place->image.arch = build->count ? build->images[0].arch : "";
    }
}

static void gpuf_add_sources(gpuf_places *places, int origin, const char *folder, const gpuf_index *index)
{
    gpuf_place *place = index ? gpuf_add_place(places, origin, folder) : NULL;
    if (place) {
        place->contents = index;
        place->is_sources = 1;
    }
}

static void gpuf_add_built(const gpuf_setting *setting, gpuf_places *places, const char *name, const gpuf_abi *abi)
{
    gpuforge_reason unread;
    gpuf_library built = gpuf_built_library(setting, name, abi, &unread);
    if (unread.kind)
        gpuf_add_place(places, GPUF_USER_BUILD, "")->problem = unread;
    else if (*built.build.place && gpuf_is_folder(built.build.place) && !built.build.problem.kind)
        gpuf_add_folder(setting->arena, places, GPUF_USER_BUILD, built.build.place);
    else
        gpuf_add_file(places, GPUF_USER_BUILD, built.build.place, built.build.place, "library")->problem =
            built.build.problem;
}

static void gpuf_add_own(const gpuf_setting *setting, gpuf_places *places, const char *name)
{
    gpuforge_reason wrong = gpuf_home_problem(setting);
    const char *user = gpuf_user_folder(setting, name), *folder;
    gpuforge_reason problem;
    if (wrong.kind)
        gpuf_add_place(places, GPUF_USER_BUILD, "")->problem = wrong;
    if (wrong.kind || !gpuf_is_folder(user))
        return;
    folder = gpuf_parts(setting->arena, user, 0);
    problem = gpuf_guard_place(setting->arena, folder);
    if (!problem.kind)
        problem = gpuf_guard(gpuf_path(setting->arena, folder, "index.json"), 0);
    if (problem.kind)
        gpuf_add_place(places, GPUF_USER_BUILD, user)->problem = problem;
    else
        gpuf_add_folder(setting->arena, places, GPUF_USER_BUILD, user);
}

static void gpuf_look(const gpuf_setting *setting, const char *name, gpuf_places *places)
{
    gpuf_arena *arena = setting->arena;
    const char *home = setting->host->home, *cpu = "";
    const char *sources = gpuf_path(arena, gpuf_path(arena, home, "sources"), name);
    const gpuf_listing *known = gpuf_list_wheels(arena, home);
    gpuforge_reason refusal;
    const gpuf_expected *apart = known ? gpuf_expected_of(&known->sets, name) : NULL;
    gpuf_recipe recipe;
    int has_recipe = gpuf_read_recipe(setting, sources, &recipe, &refusal);
    gpuf_abi abi;
    size_t n;
    abi.id = "";
    abi.refusal = gpuf_simply(NULL);
    if (has_recipe)
        abi = recipe.abi;
    places->items = (gpuf_place *)gpuf_array(arena, 8 + 2 * (known ? known->count : 0), sizeof *places->items);
    places->count = 0;
    gpuf_add_explicit(setting, places, name, &abi);
    if (has_recipe) {
        gpuf_add_built(setting, places, name, &abi);
        gpuf_add_sources(places, GPUF_CACHED_BUILD, sources, recipe.nvrtc);
        if (*recipe.fallback)
            gpuf_add_shipped(setting, known, places, recipe.fallback, gpuf_simply(NULL));
        gpuf_add_sources(places, GPUF_OPENCL, sources, recipe.opencl);
        gpuf_add_cpu(setting, known, places, recipe.cpu, &abi);
        return;
    }
    gpuf_add_own(setting, places, name);
    n = places->count;
    gpuf_add_shipped(setting, known, places, name, refusal);
    for (; n < places->count && !*cpu; ++n) {
        if (places->items[n].contents) {
            cpu = places->items[n].contents->cpu;
            break;
        }
    }
    gpuf_add_cpu(setting, known, places, apart ? apart->cpu : cpu, &abi);
}

/* Return the module of that name at a place, NULL for none. */
static const gpuf_module *gpuf_module_at(gpuf_arena *arena, const gpuf_place *place, const char *name)
{
    size_t n;
    if (*place->file) {
        gpuf_module *module = (gpuf_module *)gpuf_new(arena, sizeof *module);
        module->name = name;
        module->file = place->file;
        module->source = module->sha256 = "";
        module->images = (gpuf_image *)gpuf_new(arena, sizeof *module->images);
        *module->images = place->image;
        module->count = 1;
        return module;
    }
    for (n = 0; place->contents && n < place->contents->count; ++n)
        if (gpuf_same(place->contents->modules[n].name, name))
            return &place->contents->modules[n];
    return NULL;
}

/* Return sorted names as one text, "none" for none. */
static const char *gpuf_list(gpuf_arena *arena, const char **names, size_t count)
{
    gpuf_text text = gpuf_text_in(arena);
    size_t n;
    if (count)
        qsort(names, count, sizeof *names, gpuf_by_text);
    for (n = 0; n < count; ++n) {
        gpuf_put(&text, n ? ", " : "");
        gpuf_put(&text, names[n]);
    }
    return count ? text.data : "none";
}

/* Return why the file of a module cannot be used, without a kind where it can. */
static gpuforge_reason gpuf_trouble(gpuf_arena *arena, const gpuf_module *module)
{
    const char *problem = NULL, *found = gpuf_sha256_of(arena, module->file, &problem);
    if (!found)
        return gpuf_because("unreadable", "file", module->file, "problem", problem, NULL, NULL);
    if (!*module->sha256 || gpuf_same(found, module->sha256))
        return gpuf_simply(NULL);
    return gpuf_because("changed", "file", module->file, "found", found, "expected", module->sha256);
}

/* Return what is judged of a place for a module. */
static gpuf_build gpuf_build_of(gpuf_arena *arena, const gpuf_place *place, const char *name)
{
    const gpuf_module *module = gpuf_module_at(arena, place, name);
    gpuf_build build;
    size_t n, count = place->contents ? place->contents->count : 0;
    memset(&build, 0, sizeof build);
    build.origin = place->origin;
    build.place = place->path;
    build.wheel = place->wheel;
    build.problem = place->problem;
    if (place->problem.kind || (!place->contents && !*place->file))
        return build;
    if (!module) {
        const char **names = (const char **)gpuf_array(arena, count, sizeof *names);
        for (n = 0; n < count; ++n)
            names[n] = place->contents->modules[n].name;
        build.problem = gpuf_because("no-module", "set", place->path, "name", name, "known",
                                     gpuf_list(arena, names, count));
        return build;
    }
    build.place = module->file;
    build.images = module->images;
    build.count = module->count;
    build.problem = gpuf_trouble(arena, module);
    return build;
}

/* Return the names of a set's modules. */
static gpuf_names gpuf_module_names(gpuf_arena *arena, const gpuf_places *places)
{
    gpuf_names names;
    size_t n, m, k, most = 0;
    for (n = 0; n < places->count; ++n)
        most += places->items[n].contents ? places->items[n].contents->count : 0;
    names.count = 0;
    names.items = (const char **)gpuf_array(arena, most, sizeof *names.items);
    for (n = 0; n < places->count; ++n)
        for (m = 0; places->items[n].contents && m < places->items[n].contents->count; ++m) {
            const char *name = places->items[n].contents->modules[m].name;
            for (k = 0; k < names.count && !gpuf_same(names.items[k], name); ++k)
                ;
            names.items[k] = name;
            names.count += k == names.count;
        }
    return names;
}

/* Return why a set's kernels cannot be looked up, or the module's name, of NULL that of the only one. */
static const char *gpuf_module_named(gpuf_arena *arena, const gpuf_places *places, const char *set, const char *wanted,
                                     const char **problem)
{
    gpuf_names names = gpuf_module_names(arena, places);
    gpuf_text lines = gpuf_text_in(arena);
    size_t n, indexed = 0;
    gpuforge_reason reason;
    for (n = 0; n < places->count; ++n) {
        if (places->items[n].contents)
            ++indexed;
        else if (places->items[n].problem.kind) {
            gpuf_put(&lines, lines.length ? "\n" : "");
            gpuf_put(&lines, gpuf_sentence(arena, &places->items[n].problem));
        }
    }
    *problem = indexed ? NULL : lines.data;
    if (*problem)
        return NULL;
    if (!wanted && names.count == 1)
        return names.items[0];
    for (n = 0; wanted && n < names.count; ++n)
        if (gpuf_same(names.items[n], wanted))
            return wanted;
    reason = gpuf_because(wanted ? "no-module" : "several-modules", "set", set, "name", wanted ? wanted : "", "known",
                          gpuf_list(arena, names.items, names.count));
    *problem = gpuf_sentence(arena, &reason);
    return NULL;
}

/* Judge what a set has for a module. */
static gpuf_candidates gpuf_judged(const gpuf_setting *setting, const gpuf_places *places, const char *module)
{
    gpuf_build *builds = (gpuf_build *)gpuf_array(setting->arena, places->count, sizeof *builds);
    gpuforge_machine *machine = (gpuforge_machine *)gpuf_new(setting->arena, sizeof *machine);
    gpuf_setting here = *setting;
    size_t n;
    for (n = 0; n < places->count; ++n)
        builds[n] = gpuf_build_of(setting->arena, &places->items[n], module);
    *machine = *setting->machine;
    if (!machine->cpu_machine && gpuf_has_level(builds, places->count))
        gpuf_look_at_cpu(setting->arena, machine);
    here.machine = machine;
    return gpuf_resolve(&here, builds, places->count);
}

/* ---- which sets and libraries there are ---- */

static int gpuf_is_library(gpuf_arena *arena, const char *folder, const gpuf_json **index)
{
    gpuforge_reason refusal;
    *index = gpuf_read_named(arena, gpuf_path(arena, folder, "index.json"), &refusal);
    return gpuf_lists_library(*index);
}

static int gpuf_has(const gpuf_names *names, const char *name)
{
    size_t n;
    for (n = 0; n < names->count; ++n)
        if (gpuf_same(names->items[n], name))
            return 1;
    return 0;
}

static void gpuf_name(gpuf_names *names, const char *name)
{
    if (!gpuf_has(names, name))
        names->items[names->count++] = name;
}

/* Return the names of the kernel sets, and of the libraries, sorted. */
static void gpuf_all_names(const gpuf_setting *setting, gpuf_names *sets, gpuf_names *libraries)
{
    gpuf_arena *arena = setting->arena;
    const char *home = setting->host->home, *problem = NULL, *target;
    const char *kernels = gpuf_path(arena, home, "kernels"), *sources = gpuf_path(arena, home, "sources");
    size_t n, shipped, compiled;
    const char **there = gpuf_folders(arena, home, "kernels", &shipped);
    const char **made = gpuf_folders(arena, home, "sources", &compiled);
    gpuf_names stand_ins, all;
    gpuf_recipe recipe;
    gpuforge_reason refusal;
    const gpuf_json *index;
    const gpuf_listing *known = gpuf_list_wheels(arena, home);
    size_t apart = known ? known->sets.count : 0;
    sets->count = libraries->count = stand_ins.count = all.count = 0;
    sets->items = (const char **)gpuf_array(arena, shipped + compiled + apart, sizeof *sets->items);
    libraries->items = (const char **)gpuf_array(arena, shipped + compiled + apart, sizeof *sets->items);
    all.items = (const char **)gpuf_array(arena, shipped + compiled + apart, sizeof *sets->items);
    stand_ins.items = (const char **)gpuf_array(arena, 2 * compiled, sizeof *sets->items);
    for (n = 0; n < compiled; ++n) {
        gpuf_name(&all, made[n]);
        if (!gpuf_read_recipe(setting, gpuf_path(arena, sources, made[n]), &recipe, &refusal))
            continue;
        gpuf_name(sets, made[n]);
        gpuf_name(&stand_ins, recipe.fallback);
        gpuf_name(&stand_ins, recipe.cpu);
    }
    for (n = 0; n < shipped; ++n) {
        if (!gpuf_is_library(arena, gpuf_path(arena, kernels, there[n]), &index)) {
            if (!gpuf_has(&stand_ins, there[n]))
                gpuf_name(sets, there[n]);
            continue;
        }
        problem = NULL;
        target = gpuf_word(arena, index, "stands-in-for", "", &problem);
        if (!problem)
            gpuf_name(&all, *target ? target : there[n]);
    }
    for (n = 0; n < apart; ++n) {
        const gpuf_expected *one = &known->sets.items[n];
        if (gpuf_same(one->kind, "library"))
            gpuf_name(&all, *one->stands_in_for ? one->stands_in_for : one->name);
        else if (gpuf_same(one->kind, "module") && !gpuf_has(&stand_ins, one->name))
            gpuf_name(sets, one->name);
    }
    for (n = 0; n < all.count; ++n)
        if (!gpuf_has(sets, all.items[n]))
            gpuf_name(libraries, all.items[n]);
    if (sets->count)
        qsort(sets->items, sets->count, sizeof *sets->items, gpuf_by_text);
    if (libraries->count)
        qsort(libraries->items, libraries->count, sizeof *libraries->items, gpuf_by_text);
}

/* ---- the kernels of modules, by name: names.py and signature.py ---- */

/* A kernel that is wanted: its module, the name as given, and its entry, NULL where only the driver can know it. */
typedef struct gpuf_kernel_name {
    const char *module, *name;
    const gpuf_entry *entry;
} gpuf_kernel_name;

/* Some entries, and the module that each is in. */
typedef struct gpuf_entries {
    const gpuf_entry **items;
    const char **modules;
    size_t count;
} gpuf_entries;

static const char *gpuf_signature(gpuf_arena *arena, const gpuf_entry *entry)
{
    gpuf_text text = gpuf_text_in(arena);
    size_t n;
    gpuf_put(&text, entry->name);
    gpuf_put(&text, "(");
    for (n = 0; n < entry->count; ++n) {
        const gpuf_parameter *parameter = &entry->parameters[n];
        gpuf_put(&text, n ? ", " : "");
        gpuf_put(&text, *parameter->type ? parameter->type : gpuf_number(arena, parameter->size));
        gpuf_put(&text, *parameter->type ? "" : parameter->size == 1 ? " byte" : " bytes");
    }
    gpuf_put(&text, ")");
    return text.data;
}

static int gpuf_in_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static int gpuf_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Return a name without the spaces that separate no words. */
static const char *gpuf_normal(gpuf_arena *arena, const char *name)
{
    char *made = (char *)gpuf_new(arena, strlen(name) + 1), *end = made;
    const char *next;
    while (*name) {
        for (next = name; gpuf_is_space(*next); ++next)
            ;
        if (next > name && end > made && gpuf_in_word(end[-1]) && gpuf_in_word(*next))
            *end++ = ' ';
        if (*next)
            *end++ = *next++;
        name = next;
    }
    return made;
}

/* Whether a name without some of its namespaces, and perhaps without its template arguments, is the wanted one. */
static int gpuf_is_spelled(gpuf_arena *arena, const char *name, const char *types, const char *wanted)
{
    size_t n, length = strlen(name);
    const char *start = name;
    int depth = 0, is_template = length && name[length - 1] == '>';
    for (n = 0; n <= length; ++n) {
        if (start == name + n) {
            const char *arguments = strchr(start, '<');
            if (gpuf_same(gpuf_join(arena, start, types, NULL, NULL), wanted))
                return 1;
            if (is_template && arguments &&
                gpuf_same(gpuf_join(arena, gpuf_copy(arena, start, (size_t)(arguments - start)), types, NULL, NULL),
                          wanted))
                return 1;
        }
        if (name[n] == '<' || name[n] == '(')
            ++depth;
        else if (name[n] == '>' || name[n] == ')')
            --depth;
        else if (depth == 0 && name[n] == ':' && name[n + 1] == ':')
            start = name + n + 2;
    }
    return 0;
}

enum { GPUF_SPELLINGS = 5 };

/* Whether a kernel has the wanted name in one of the ways to spell it, of which the first counts. */
static int gpuf_is_named_so(gpuf_arena *arena, const gpuf_entry *entry, int spelling, const char *wanted)
{
    const char *name = gpuf_normal(arena, entry->name);
    const char *signature = gpuf_normal(arena, gpuf_signature(arena, entry));
    switch (spelling) {
    case 0:
        return gpuf_same(gpuf_normal(arena, entry->symbol), wanted);
    case 1:
        return gpuf_same(signature, wanted);
    case 2:
        return gpuf_same(name, wanted);
    case 3:
        return gpuf_is_spelled(arena, name, signature + strlen(name), wanted);
    default:
        return gpuf_is_spelled(arena, name, "", wanted);
    }
}

/* Return the entries that a name may mean. */
static gpuf_entries gpuf_matching(gpuf_arena *arena, const gpuf_entries *listed, const char *name)
{
    const char *wanted = gpuf_normal(arena, name);
    gpuf_entries found;
    size_t n;
    int spelling;
    found.count = 0;
    found.items = (const gpuf_entry **)gpuf_array(arena, listed->count, sizeof *found.items);
    found.modules = (const char **)gpuf_array(arena, listed->count, sizeof *found.modules);
    for (spelling = 0; !found.count && spelling < GPUF_SPELLINGS; ++spelling)
        for (n = 0; n < listed->count; ++n)
            if (gpuf_is_named_so(arena, listed->items[n], spelling, wanted)) {
                found.items[found.count] = listed->items[n];
                found.modules[found.count++] = listed->modules[n];
            }
    return found;
}

/* Return the kernels that any index lists for a module, each once, or those of all modules. */
static gpuf_entries gpuf_listed(gpuf_arena *arena, const gpuf_places *places, const char *module)
{
    gpuf_entries found;
    size_t n, m, k, e, most = 0;
    for (n = 0; n < places->count; ++n)
        for (m = 0; places->items[n].contents && m < places->items[n].contents->count; ++m)
            most += places->items[n].contents->modules[m].kernel_count;
    found.count = 0;
    found.items = (const gpuf_entry **)gpuf_array(arena, most, sizeof *found.items);
    found.modules = (const char **)gpuf_array(arena, most, sizeof *found.modules);
    for (n = 0; n < places->count; ++n)
        for (m = 0; places->items[n].contents && m < places->items[n].contents->count; ++m) {
            const gpuf_module *one = &places->items[n].contents->modules[m];
            for (k = 0; (!module || gpuf_same(module, one->name)) && k < one->kernel_count; ++k) {
                for (e = 0; e < found.count && !(gpuf_same(found.items[e]->symbol, one->kernels[k].symbol) &&
                                                 gpuf_same(found.modules[e], one->name));
                     ++e)
                    ;
                if (e == found.count) {
                    found.items[e] = &one->kernels[k];
                    found.modules[e] = one->name;
                    ++found.count;
                }
            }
        }
    return found;
}

/* Whether a place has a file for a module without a list of its kernels. */
static int gpuf_has_unlisted(gpuf_arena *arena, const gpuf_places *places, const char *module)
{
    size_t n;
    for (n = 0; n < places->count; ++n) {
        const gpuf_module *file = gpuf_module_at(arena, &places->items[n], module);
        if (file && !places->items[n].problem.kind && !file->kernel_count)
            return 1;
    }
    return 0;
}

static const char *gpuf_lines_of(gpuf_arena *arena, const gpuf_entries *entries)
{
    gpuf_text text = gpuf_text_in(arena);
    size_t n;
    for (n = 0; n < entries->count; ++n)
        gpuf_put(&text, gpuf_join(arena, "\n  ", gpuf_signature(arena, entries->items[n]), NULL, NULL));
    return text.data;
}

/* Find the kernel of a name in a module, or in all modules where that is NULL; 0 and why in `*problem`. */
static int gpuf_find_kernel(gpuf_arena *arena, const gpuf_places *places, const char *set, const char *module,
                            const char *name, gpuf_kernel_name *wanted, const char **problem)
{
    gpuf_names names = gpuf_module_names(arena, places);
    gpuf_entries listed = gpuf_listed(arena, places, module), found = gpuf_matching(arena, &listed, name);
    const char **homes = (const char **)gpuf_array(arena, names.count + 1, sizeof *homes), *where;
    size_t n, count = 0;
    if (!names.count || module)
        module = gpuf_module_named(arena, places, set, module, problem);
    if (*problem)
        return 0;
    wanted->name = name;
    wanted->entry = found.count ? found.items[0] : NULL;
    wanted->module = found.count ? found.modules[0] : NULL;
    for (n = 1; n < found.count && gpuf_same(found.items[n]->symbol, found.items[0]->symbol); ++n)
        ;
    if (found.count > 1 && n == found.count)
        *problem = gpuf_join(arena, "kernel set ", set,
                             gpuf_join(arena, " has the kernel '", name, "' in several modules: name one of ",
                                       gpuf_list(arena, found.modules, found.count)),
                             NULL);
    else if (found.count > 1)
        *problem = gpuf_join(arena, "kernel set ", set, gpuf_join(arena, " has several kernels '", name,
                                                                  "': name one of", NULL),
                             gpuf_lines_of(arena, &found));
    if (found.count)
        return found.count == 1;
    for (n = 0; n < names.count; ++n)
        if ((!module || gpuf_same(module, names.items[n])) && gpuf_has_unlisted(arena, places, names.items[n]))
            homes[count++] = names.items[n];
    wanted->module = homes[0];
    if (count == 1)
        return 1;
    if (count > 1) {
        gpuforge_reason reason = gpuf_because("several-modules", "set", set, "name", name, "known",
                                              gpuf_list(arena, homes, count));
        *problem = gpuf_sentence(arena, &reason);
        return 0;
    }
    where = module || names.count == 1 ? gpuf_join(arena, "module ", module ? module : names.items[0], " of ", NULL) : "";
    *problem = gpuf_join(arena, where, "kernel set ", set,
                         gpuf_join(arena, " has no kernel '", name, listed.count ? "'; it has" : "'",
                                   gpuf_lines_of(arena, &listed)));
    return 0;
}

/* Return the symbols to look up in a module's file, one after the other; none where its list has not the kernel. */
static size_t gpuf_symbols(gpuf_arena *arena, const gpuf_kernel_name *wanted, const gpuf_module *file, const char *symbols[2])
{
    gpuf_entries own, found;
    size_t n;
    own.count = file->kernel_count;
    own.items = (const gpuf_entry **)gpuf_array(arena, own.count, sizeof *own.items);
    own.modules = (const char **)gpuf_array(arena, own.count, sizeof *own.modules);
    for (n = 0; n < own.count; ++n) {
        own.items[n] = &file->kernels[n];
        own.modules[n] = file->name;
    }
    symbols[0] = wanted->entry ? wanted->entry->symbol : wanted->name;
    symbols[1] = wanted->name;
    if (!own.count)
        return gpuf_same(symbols[0], symbols[1]) ? 1 : 2;
    for (n = 0; wanted->entry && n < own.count; ++n)
        if (gpuf_same(own.items[n]->symbol, symbols[0]))
            return 1;
    found = gpuf_matching(arena, &own, wanted->name);
    symbols[0] = found.count ? found.items[0]->symbol : NULL;
    return found.count ? 1 : 0;
}

/* ---- shared libraries that may be there: library.py. Each answers in a thread of its own, so nothing hangs ---- */

typedef struct gpuf_attempt {
    void (*run)(struct gpuf_attempt *attempt);
    const gpuf_library_table *table;
    char *files[2];
    int file_count, done, waited, users;
    /* the result */
    char *problem, *call; /* a refusal in words, or why there is no such library */
    const char *kind;
    int code, version[2], device_count;
    const char *file;
    void *handle;
    gpuforge_device *devices;
    char *text;
} gpuf_attempt;

static pthread_mutex_t gpuf_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gpuf_answer = PTHREAD_COND_INITIALIZER;

typedef int (*gpuf_call0)(void);
typedef int (*gpuf_call1)(void *);
typedef int (*gpuf_call2)(void *, void *);
typedef int (*gpuf_call_init)(unsigned);
typedef int (*gpuf_call_code)(int, const char **);
typedef int (*gpuf_call_device)(int *, int);
typedef int (*gpuf_call_name)(char *, int, int);
typedef int (*gpuf_call_attribute)(int *, int, int);
typedef int (*gpuf_call_context)(void **, int);
typedef int (*gpuf_call_load)(void **, const void *, unsigned, int *, void **);
typedef int (*gpuf_call_library)(void **, const void *, int *, void **, unsigned, int *, void **, unsigned);
typedef int (*gpuf_call_function)(void **, void *, const char *);
typedef int (*gpuf_call_find)(void **, void *);
typedef int (*gpuf_call_platforms)(unsigned, void **, unsigned *);
typedef int (*gpuf_call_info)(void *, unsigned, size_t, void *, size_t *);
typedef int (*gpuf_call_text)(char *, unsigned);

/* ISO C knows no conversion from an object's address to a function's; POSIX does. */
#define GPUF_FUNCTION(type, variable, handle, name)             \
    type variable;                                              \
    do {                                                        \
        void *found_ = dlsym(handle, name);                     \
        memcpy(&variable, &found_, sizeof variable);            \
    } while (0)

static char *gpuf_keep_text(const char *text)
{
    size_t length = strlen(text);
    char *copy = (char *)malloc(length + 1);
    return copy ? (char *)memcpy(copy, text, length + 1) : NULL;
}

/* Put texts after another in memory of their own. */
static char *gpuf_format(const char *a, const char *b, const char *c, const char *d)
{
    size_t length = strlen(a) + strlen(b) + strlen(c) + strlen(d) + 1;
    char *text = (char *)malloc(length);
    if (text)
        snprintf(text, length, "%s%s%s%s", a, b, c, d);
    return text;
}

/* Say what went wrong in words of the driver's own, and what to do. `log` may be "". */
static char *gpuf_driver_words(void *handle, const char *call, int code, const char *log)
{
    const char *name = "unknown error", *advice = "", *text = NULL, *description = "no description";
    char number[32], *first, *whole, *rest;
    size_t n;
    GPUF_FUNCTION(gpuf_call_code, name_of, handle, "cuGetErrorName");
    GPUF_FUNCTION(gpuf_call_code, text_of, handle, "cuGetErrorString");
    for (n = 0; n < sizeof gpuf_advice / sizeof *gpuf_advice; ++n)
        if (gpuf_advice[n].code == code)
            name = gpuf_advice[n].name, advice = gpuf_advice[n].advice;
    if (name_of && name_of(code, &text) == 0 && text && *text)
        name = text;
    text = NULL;
    if (text_of && text_of(code, &text) == 0 && text && *text)
        description = text;
    snprintf(number, sizeof number, " (%d): ", code);
    first = gpuf_format(call, " failed: ", name, number);
    rest = first ? gpuf_format(description, *log ? "\n" : "", log, *advice ? "\nWhat to do: " : "") : NULL;
    whole = rest ? gpuf_format(first, rest, advice, "") : NULL;
    free(first);
    free(rest);
    return whole;
}

/* Open the first of the files that is there; keep why none is. */
static void gpuf_open_first(gpuf_attempt *attempt)
{
    char *words[2];
    int n;
    words[0] = words[1] = NULL;
    for (n = 0; n < attempt->file_count; ++n) {
        const char *error;
        char *begin;
        attempt->handle = dlopen(attempt->files[n], RTLD_NOW | RTLD_LOCAL);
        attempt->file = attempt->files[n];
        if (attempt->handle)
            break;
        error = dlerror();
        words[n] = gpuf_keep_text(error ? error : "unknown error");
        begin = words[n] ? strstr(words[n], attempt->files[n]) : NULL;
        if (begin && strncmp(begin + strlen(attempt->files[n]), ": ", 2) == 0) {
            char *after = begin + strlen(attempt->files[n]) + 2;
            memmove(begin, after, strlen(after) + 1);
        }
    }
    if (!attempt->handle) {
        attempt->kind = "no-library";
        if (attempt->file_count == 2 && words[0] && words[1] && !gpuf_same(words[0], words[1])) {
            char *one = gpuf_format(attempt->files[0], ": ", words[0], "; ");
            attempt->problem = one ? gpuf_format(one, attempt->files[1], ": ", words[1]) : NULL;
            free(one);
        } else if (words[0])
            attempt->problem = gpuf_format(attempt->files[0], attempt->file_count == 2 ? ", " : "",
                                           attempt->file_count == 2 ? attempt->files[1] : "", ": ");
        if (attempt->problem && (attempt->file_count == 1 || !words[1] || gpuf_same(words[0], words[1]))) {
            char *whole = gpuf_format(attempt->problem, words[0], "", "");
            free(attempt->problem);
            attempt->problem = whole;
        }
    }
    free(words[0]);
    free(words[1]);
}

/* Say which functions a library lacks; 0 where it has all that are required. */
static int gpuf_lacks(gpuf_attempt *attempt)
{
    const char *const *name;
    char *missing = NULL;
    for (name = attempt->table->required; *name; ++name)
        if (!dlsym(attempt->handle, *name)) {
            char *longer = gpuf_format(missing ? missing : "it lacks ", missing ? ", " : "", *name, "");
            free(missing);
            missing = longer;
            if (!missing)
                break;
        }
    attempt->problem = missing;
    attempt->kind = missing ? "not-the-library" : NULL;
    return missing != NULL;
}

static void gpuf_driver_failed(gpuf_attempt *attempt, const char *call, int code)
{
    attempt->kind = "driver-error";
    attempt->problem = gpuf_driver_words(attempt->handle, call, code, "");
    attempt->call = gpuf_keep_text(call);
    attempt->code = code;
}

static void gpuf_read_device(gpuf_attempt *attempt, int ordinal)
{
    gpuforge_device *device = &attempt->devices[ordinal];
    char name[256] = "";
    int handle = 0, failed;
    GPUF_FUNCTION(gpuf_call_device, get, attempt->handle, "cuDeviceGet");
    GPUF_FUNCTION(gpuf_call_name, name_of, attempt->handle, "cuDeviceGetName");
    GPUF_FUNCTION(gpuf_call_attribute, attribute, attempt->handle, "cuDeviceGetAttribute");
    if ((failed = get(&handle, ordinal)) != 0)
        gpuf_driver_failed(attempt, "cuDeviceGet", failed);
    else if ((failed = name_of(name, sizeof name, handle)) != 0)
        gpuf_driver_failed(attempt, "cuDeviceGetName", failed);
    else if ((failed = attribute(&device->major, 75, handle)) != 0 ||
             (failed = attribute(&device->minor, 76, handle)) != 0)
        gpuf_driver_failed(attempt, "cuDeviceGetAttribute", failed);
    name[sizeof name - 1] = 0;
    device->name = gpuf_keep_text(name);
}

/* Open and start the driver, and ask it for its devices: its version first, then its functions. */
static void gpuf_start_driver(gpuf_attempt *attempt)
{
    int value = 0, failed, n;
    gpuf_open_first(attempt);
    if (!attempt->handle)
        return;
    {
        GPUF_FUNCTION(gpuf_call1, version, attempt->handle, "cuDriverGetVersion");
        if (version && version(&value) != 0)
            value = 0;
    }
    attempt->version[0] = value / 1000, attempt->version[1] = value % 1000 / 10;
    if (value && gpuf_before(attempt->version[0], attempt->version[1], gpuf_driver_needed[0], gpuf_driver_needed[1])) {
        attempt->kind = "library-too-old";
        return;
    }
    if (gpuf_lacks(attempt))
        return;
    {
        GPUF_FUNCTION(gpuf_call_init, start, attempt->handle, "cuInit");
        GPUF_FUNCTION(gpuf_call1, count, attempt->handle, "cuDeviceGetCount");
        if ((failed = start(0)) != 0) {
            gpuf_driver_failed(attempt, "cuInit", failed);
            return;
        }
        if ((failed = count(&attempt->device_count)) != 0) {
            gpuf_driver_failed(attempt, "cuDeviceGetCount", failed);
            return;
        }
    }
    if (attempt->device_count < 0 || attempt->device_count > 4096)
        attempt->device_count = 0;
    attempt->devices = (gpuforge_device *)calloc((size_t)attempt->device_count + 1, sizeof *attempt->devices);
    if (!attempt->devices)
        attempt->device_count = 0;
    for (n = 0; n < attempt->device_count && !attempt->kind; ++n)
        gpuf_read_device(attempt, n);
}

static void gpuf_ask_nvml(gpuf_attempt *attempt)
{
    char release[80] = "unknown", number[64];
    int failed;
    gpuf_open_first(attempt);
    if (!attempt->handle || gpuf_lacks(attempt))
        return;
    {
        GPUF_FUNCTION(gpuf_call0, start, attempt->handle, "nvmlInit_v2");
        GPUF_FUNCTION(gpuf_call_text, version, attempt->handle, "nvmlSystemGetDriverVersion");
        GPUF_FUNCTION(gpuf_call0, stop, attempt->handle, "nvmlShutdown");
        if ((failed = start()) != 0) {
            snprintf(number, sizeof number, "does not start (nvmlReturn_t %d)", failed);
            attempt->text = gpuf_keep_text(number);
            return;
        }
        if (version(release, sizeof release) != 0)
            strcpy(release, "unknown");
        release[sizeof release - 1] = 0;
        stop();
    }
    attempt->text = gpuf_format("driver release ", release, "", "");
}

static void gpuf_ask_nccl(gpuf_attempt *attempt)
{
    char text[64];
    int value = 0, scale;
    gpuf_open_first(attempt);
    if (!attempt->handle || gpuf_lacks(attempt))
        return;
    {
        GPUF_FUNCTION(gpuf_call1, version, attempt->handle, "ncclGetVersion");
        version(&value);
    }
    scale = value >= 10000 ? 10000 : 1000; /* 22706 is 2.27.6; before 2.9 it was 2804 for 2.8.4 */
    snprintf(text, sizeof text, "%d.%d.%d", value / scale, value % scale / 100, value % 100);
    attempt->text = gpuf_keep_text(text);
}

static void gpuf_ask_opencl(gpuf_attempt *attempt)
{
    void *platforms[16];
    unsigned count = 0, n;
    char *names = NULL;
    memset(platforms, 0, sizeof platforms);
    gpuf_open_first(attempt);
    if (!attempt->handle || gpuf_lacks(attempt))
        return;
    {
        GPUF_FUNCTION(gpuf_call_platforms, list, attempt->handle, "clGetPlatformIDs");
        GPUF_FUNCTION(gpuf_call_info, info, attempt->handle, "clGetPlatformInfo");
        if (list(16, platforms, &count) != 0 || !count) {
            attempt->text = gpuf_keep_text("no platform");
            return;
        }
        for (n = 0; n < count && n < 16; ++n) {
            char name[256] = "", *longer;
            info(platforms[n], 0x0902, sizeof name, name, NULL);
            name[sizeof name - 1] = 0;
            longer = gpuf_format(names ? names : "", names ? ", " : "", name, "");
            free(names);
            names = longer;
        }
    }
    attempt->text = names;
}

static void gpuf_forget(gpuf_attempt *attempt)
{
    int n;
    for (n = 0; attempt->devices && n < attempt->device_count; ++n)
        free((void *)(size_t)attempt->devices[n].name);
    for (n = 0; n < attempt->file_count; ++n)
        free(attempt->files[n]);
    free(attempt->devices);
    free(attempt->problem);
    free(attempt->call);
    free(attempt->text);
    free(attempt);
}

/* The number of those who hold an attempt: its thread, and whoever waits for it or keeps it. */
static void gpuf_let_go(gpuf_attempt *attempt)
{
    int last;
    pthread_mutex_lock(&gpuf_lock);
    last = --attempt->users == 0;
    pthread_mutex_unlock(&gpuf_lock);
    if (last)
        gpuf_forget(attempt);
}

static void *gpuf_run(void *data)
{
    gpuf_attempt *attempt = (gpuf_attempt *)data;
    attempt->run(attempt);
    pthread_mutex_lock(&gpuf_lock);
    attempt->done = 1;
    pthread_cond_broadcast(&gpuf_answer);
    pthread_mutex_unlock(&gpuf_lock);
    gpuf_let_go(attempt);
    return NULL;
}

/* Begin an attempt; NULL: no memory. The caller holds it once. */
static gpuf_attempt *gpuf_begin_attempt(const gpuf_library_table *table, const char *file,
                                        void (*run)(gpuf_attempt *attempt))
{
    gpuf_attempt *attempt = (gpuf_attempt *)calloc(1, sizeof *attempt);
    pthread_attr_t detached;
    pthread_t thread;
    if (!attempt)
        return NULL;
    attempt->table = table;
    attempt->run = run;
    for (; attempt->file_count < (file ? 1 : table->file_count); ++attempt->file_count) {
        attempt->files[attempt->file_count] = gpuf_keep_text(file ? file : table->files[attempt->file_count]);
        if (!attempt->files[attempt->file_count]) {
            gpuf_forget(attempt);
            return NULL;
        }
    }
    attempt->users = 2;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, gpuf_run, attempt) != 0)
        gpuf_run(attempt); /* no thread to be had: it may hang, and mostly does not */
    pthread_attr_destroy(&detached);
    return attempt;
}

/* Return how many seconds a library may take to answer. */
static double gpuf_patience(const gpuforge_host *host)
{
    const char *text = gpuf_variable(host, "GPUFORGE_DRIVER_TIMEOUT");
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || seconds != seconds)
        return 60.0;
    return seconds < 0 ? 0.0 : seconds;
}

/* Wait for an answer; 0 when it takes longer. The second call does not wait again. */
static int gpuf_wait(gpuf_attempt *attempt, double seconds)
{
    struct timespec until;
    int done;
    if (seconds > 1e8)
        seconds = 1e8;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(long long)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000L)
        until.tv_nsec -= 1000000000L, ++until.tv_sec;
    pthread_mutex_lock(&gpuf_lock);
    while (!attempt->done && !attempt->waited)
        if (pthread_cond_timedwait(&gpuf_answer, &gpuf_lock, &until) == ETIMEDOUT)
            break;
    attempt->waited = 1;
    done = attempt->done;
    pthread_mutex_unlock(&gpuf_lock);
    return done;
}

static gpuforge_reason gpuf_no_answer(gpuf_arena *arena, const gpuf_attempt *attempt, double seconds)
{
    char number[64];
    snprintf(number, sizeof number, "%g", seconds);
    return gpuf_because("no-answer", "what", attempt->table->what, "seconds", gpuf_copy(arena, number, strlen(number)),
                        "advice", attempt->table->advice);
}

/* Return why what was attempted did not work; without a kind where it did. */
static gpuforge_reason gpuf_refusal_of(gpuf_arena *arena, const gpuf_attempt *attempt)
{
    const char *problem = attempt->problem ? gpuf_copy(arena, attempt->problem, strlen(attempt->problem)) : "";
    const char *file = attempt->file ? gpuf_copy(arena, attempt->file, strlen(attempt->file)) : "", *call;
    const char *what = attempt->table->what;
    gpuforge_reason reason;
    if (!attempt->kind)
        return gpuf_simply(NULL);
    if (gpuf_same(attempt->kind, "no-library"))
        return gpuf_because("no-library", "what", what, "problem", problem, NULL, NULL);
    if (gpuf_same(attempt->kind, "not-the-library"))
        return gpuf_because("not-the-library", "library", file, "what", what, "problem", problem);
    if (gpuf_same(attempt->kind, "library-too-old")) {
        reason = gpuf_because("library-too-old", "library", file, "what", "CUDA", "found",
                              gpuf_dotted(arena, attempt->version));
        reason.facts[3].name = "needed", reason.facts[3].text = gpuf_dotted(arena, gpuf_driver_needed);
        return reason;
    }
    call = attempt->call ? gpuf_copy(arena, attempt->call, strlen(attempt->call)) : "";
    reason = gpuf_because("driver-error", "message", problem, "call", call, NULL, NULL);
    gpuf_count(&reason, 2, "code", attempt->code);
    return reason;
}

/* ---- the driver of this process: what opened is kept for its life, a failure is not ---- */

typedef struct gpuf_opened {
    struct gpuf_opened *next;
    gpuf_attempt *attempt;
    char *name; /* "" for the usual files */
    long process;
} gpuf_opened;

static gpuf_opened *gpuf_drivers;

/* Return the attempt to open a driver, begun where there is none, and the process that began it. */
static gpuf_attempt *gpuf_driver_attempt(const char *file, long *process)
{
    gpuf_opened *one;
    gpuf_attempt *attempt = NULL;
    pthread_mutex_lock(&gpuf_lock);
    for (one = gpuf_drivers; one; one = one->next)
        if (gpuf_same(one->name, file ? file : ""))
            break;
    if (!one && (one = (gpuf_opened *)calloc(1, sizeof *one)) != NULL) {
        one->name = gpuf_keep_text(file ? file : "");
        if (one->name) {
            one->next = gpuf_drivers;
            gpuf_drivers = one;
        } else {
            free(one);
            one = NULL;
        }
    }
    if (one && one->attempt) {
        attempt = one->attempt;
        ++attempt->users;
        *process = one->process;
    }
    pthread_mutex_unlock(&gpuf_lock);
    if (attempt || !one)
        return attempt;
    attempt = gpuf_begin_attempt(&gpuf_cuda, file, gpuf_start_driver);
    if (!attempt)
        return NULL;
    pthread_mutex_lock(&gpuf_lock);
    if (!one->attempt) { /* two threads may have begun one: each is whole, the first is kept */
        one->attempt = attempt;
        one->process = (long)getpid();
        ++attempt->users;
    }
    pthread_mutex_unlock(&gpuf_lock);
    *process = (long)getpid();
    return attempt;
}

/* Forget an attempt that failed, so that the next call tries again. */
static void gpuf_drop_driver(gpuf_attempt *attempt)
{
    gpuf_opened *one;
    int kept = 0;
    pthread_mutex_lock(&gpuf_lock);
    for (one = gpuf_drivers; one; one = one->next)
        if (one->attempt == attempt) {
            one->attempt = NULL;
            kept = 1;
        }
    pthread_mutex_unlock(&gpuf_lock);
    if (kept)
        gpuf_let_go(attempt);
}

/* Open the driver; NULL and why in `*refusal`. What opened stays for the life of the process. */
static const gpuf_attempt *gpuf_open_driver(gpuf_arena *arena, const gpuforge_host *host, gpuforge_reason *refusal)
{
    long process = 0;
    gpuf_attempt *attempt = gpuf_driver_attempt(host->driver, &process);
    double seconds = gpuf_patience(host);
    if (!attempt)
        longjmp(arena->no_memory, 1);
    if (process != (long)getpid())
        *refusal = gpuf_simply("forked");
    else if (!gpuf_wait(attempt, seconds))
        *refusal = gpuf_no_answer(arena, attempt, seconds);
    else {
        *refusal = gpuf_refusal_of(arena, attempt);
        if (refusal->kind)
            gpuf_drop_driver(attempt);
    }
    gpuf_let_go(attempt);
    return refusal->kind ? NULL : attempt;
}

/* ---- this machine ---- */

static void gpuf_probe_driver(gpuf_arena *arena, const gpuforge_host *host, gpuforge_machine *machine)
{
    const gpuf_attempt *driver = gpuf_open_driver(arena, host, &machine->problem);
    if (!driver)
        return;
    machine->has_driver = 1;
    machine->cuda_major = driver->version[0], machine->cuda_minor = driver->version[1];
    machine->devices = driver->devices;
    machine->device_count = (size_t)driver->device_count;
    if (!driver->device_count)
        machine->problem = gpuf_simply("no-devices");
}

/* Return why OpenCL's loader is not to be opened; without a kind where it may be. */
static gpuforge_reason gpuf_opencl_off(gpuf_arena *arena, const gpuforge_host *host)
{
    const char *name = gpuf_gpu_disabled(host) ? "GPUFORGE_DISABLE_GPU" : "GPUFORGE_OPENCL";
    const char *value = gpuf_variable(host, name);
    if (!gpuf_gpu_disabled(host) && (!*value || gpuf_same(value, "gpu") || gpuf_same(value, "accelerator") ||
                                     gpuf_same(value, "cpu")))
        return gpuf_simply(NULL);
    return gpuf_because("loader-off", "what", gpuf_opencl_loader.what, "variable", name, "value",
                        gpuf_copy(arena, value, strlen(value)));
}

/* Look at what is beside the driver, each in its own thread. */
static void gpuf_probe_beside(gpuf_arena *arena, const gpuforge_host *host, gpuforge_machine *machine)
{
    static const char *const names[] = {"NVML", "NCCL", "OpenCL"};
    gpuforge_beside *beside = (gpuforge_beside *)gpuf_array(arena, 3, sizeof *beside);
    gpuf_attempt *attempts[3];
    double seconds = gpuf_patience(host);
    gpuforge_reason off = gpuf_opencl_off(arena, host);
    int n, memory = 1;
    attempts[0] = gpuf_begin_attempt(&gpuf_nvml, NULL, gpuf_ask_nvml);
    attempts[1] = gpuf_begin_attempt(&gpuf_nccl, NULL, gpuf_ask_nccl);
    attempts[2] = off.kind ? NULL : gpuf_begin_attempt(&gpuf_opencl_loader, NULL, gpuf_ask_opencl);
    for (n = 0; n < 3; ++n) {
        beside[n].name = names[n];
        if (n == 2 && off.kind) {
            beside[n].problem = off;
            continue;
        }
        if (!attempts[n]) {
            memory = 0;
            continue;
        }
        if (!gpuf_wait(attempts[n], seconds))
            beside[n].problem = gpuf_no_answer(arena, attempts[n], seconds);
        else {
            beside[n].problem = gpuf_refusal_of(arena, attempts[n]);
            beside[n].text = attempts[n]->text ? gpuf_copy(arena, attempts[n]->text, strlen(attempts[n]->text)) : "";
        }
        gpuf_let_go(attempts[n]);
    }
    if (!memory)
        longjmp(arena->no_memory, 1);
    machine->beside = beside;
    machine->beside_count = 3;
}

/* Return the facts to decide on: those given, or this machine's. Where the GPU is switched off the driver is not opened. */
static gpuf_setting gpuf_set_up(gpuf_arena *arena, const gpuforge_host *host, int device, int beside)
{
    gpuforge_machine *machine = (gpuforge_machine *)gpuf_new(arena, sizeof *machine);
    gpuf_setting setting;
    setting.arena = arena;
    setting.host = host;
    setting.device = device;
    setting.machine = machine;
    if (host->machine)
        *machine = *host->machine;
    else if (beside)
        gpuf_probe_beside(arena, host, machine);
    if (gpuf_gpu_disabled(host)) {
        machine->has_driver = 0;
        machine->device_count = 0;
        machine->nvrtc = NULL;
        machine->opencl = NULL;
        machine->problem = gpuf_switched_off(&setting);
    } else if (!host->machine)
        gpuf_probe_driver(arena, host, machine);
    return setting;
}

/* ---- what `explain` prints: explain.py ---- */

/* One thing that is explained: a kernel set with its modules, or a kernel library. */
typedef struct gpuf_module_verdict {
    const int *devices;
    size_t device_count;
    gpuf_candidates candidates;
} gpuf_module_verdict;

typedef struct gpuf_explained_module {
    const char *name, *source;
    gpuf_entries kernels;
    gpuf_module_verdict *verdicts;
    size_t count;
} gpuf_explained_module;

typedef struct gpuf_explained_set {
    const char *name, *made_by, *problem;
    gpuf_explained_module *modules;
    size_t count;
} gpuf_explained_set;

typedef struct gpuf_explained_library {
    const char *name, *problem;
    gpuf_candidates candidates;
} gpuf_explained_library;

typedef struct gpuf_explained {
    const gpuforge_machine *machine;
    gpuf_explained_set *sets;
    gpuf_explained_library *libraries;
    size_t set_count, library_count;
} gpuf_explained;

static void gpuf_explain_module(gpuf_setting *setting, const gpuf_places *places, gpuf_explained_module *module)
{
    gpuf_arena *arena = setting->arena;
    const gpuforge_machine *machine = setting->machine;
    size_t n, m, count = machine->device_count;
    module->verdicts = (gpuf_module_verdict *)gpuf_array(arena, count + 1, sizeof *module->verdicts);
    for (n = 0; n < count; ++n) {
        gpuf_module_verdict *verdict = &module->verdicts[module->count];
        int *devices = (int *)gpuf_array(arena, count, sizeof *devices);
        int known = 0;
        for (m = 0; m < n; ++m)
            known |= machine->devices[m].major == machine->devices[n].major &&
                     machine->devices[m].minor == machine->devices[n].minor;
        if (known)
            continue;
        verdict->devices = devices;
        for (m = n; m < count; ++m)
            if (machine->devices[m].major == machine->devices[n].major &&
                machine->devices[m].minor == machine->devices[n].minor)
                devices[verdict->device_count++] = (int)m;
        setting->device = (int)n;
        verdict->candidates = gpuf_judged(setting, places, module->name);
        ++module->count;
    }
    setting->device = 0;
    if (!count)
        module->verdicts[module->count++].candidates = gpuf_judged(setting, places, module->name);
}

/* Return what made an index's modules: "nvcc 13.0.88 with CUDA 13.0". */
static const char *gpuf_maker(gpuf_arena *arena, const gpuf_index *index)
{
    return *index->toolkit ? gpuf_join(arena, index->compiler, " with CUDA ", index->toolkit, NULL) : index->compiler;
}

/* Return what made a set: of its shipped places, or where it has none of the first; "" where it has sources alone. */
static const char *gpuf_who_made(gpuf_arena *arena, const gpuf_places *places)
{
    gpuf_text text = gpuf_text_in(arena);
    const gpuf_index *first = NULL;
    size_t n;
    int sources = 0;
    for (n = 0; n < places->count; ++n) {
        const gpuf_place *place = &places->items[n];
        sources |= place->is_sources;
        first = first ? first : place->contents;
        if (place->origin != GPUF_SHIPPED || !place->contents)
            continue;
        gpuf_put(&text, text.length ? " and " : "");
        gpuf_put(&text, gpuf_maker(arena, place->contents));
    }
    if (!text.length && !sources && first)
        gpuf_put(&text, gpuf_maker(arena, first));
    return text.data;
}

static void gpuf_explain_set(gpuf_setting *setting, gpuf_explained_set *set)
{
    gpuf_arena *arena = setting->arena;
    gpuf_places places;
    size_t n, m, k, most = 0;
    gpuf_look(setting, set->name, &places);
    set->problem = set->made_by = "";
    for (n = 0; n < places.count; ++n)
        most += places.items[n].contents ? places.items[n].contents->count : 0;
    for (n = 0; n < places.count && !places.items[n].contents; ++n)
        ;
    if (n == places.count) {
        gpuf_module_named(arena, &places, set->name, NULL, &set->problem);
        return;
    }
    set->made_by = gpuf_who_made(arena, &places);
    set->modules = (gpuf_explained_module *)gpuf_array(arena, most, sizeof *set->modules);
    for (n = places.count; n-- > 0;)
        for (m = 0; places.items[n].contents && m < places.items[n].contents->count; ++m) {
            const gpuf_module *module = &places.items[n].contents->modules[m];
            for (k = 0; k < set->count && !gpuf_same(set->modules[k].name, module->name); ++k)
                ;
            set->modules[k].name = module->name;
            set->modules[k].source = module->source;
            set->count += k == set->count;
        }
    for (k = 0; k < set->count; ++k) {
        set->modules[k].kernels = gpuf_listed(arena, &places, set->modules[k].name);
        gpuf_explain_module(setting, &places, &set->modules[k]);
    }
}

/* Look a library up; what is used comes first, as in a set's table. */
static void gpuf_explain_library(const gpuf_setting *setting, gpuf_explained_library *library)
{
    const char *problem = NULL;
    gpuf_candidates found = gpuf_libraries(setting, library->name, &problem);
    size_t n;
    library->problem = problem ? problem : "";
    library->candidates.items = (gpuf_candidate *)gpuf_array(setting->arena, found.count, sizeof *found.items);
    for (n = 0; n < found.count; ++n)
        if (found.items[n].accepted)
            library->candidates.items[library->candidates.count++] = found.items[n];
    for (n = 0; n < found.count; ++n)
        if (!found.items[n].accepted)
            library->candidates.items[library->candidates.count++] = found.items[n];
}

static gpuf_explained gpuf_explain_all(gpuf_setting *setting, const char *const *names, size_t count)
{
    gpuf_arena *arena = setting->arena;
    gpuf_explained all;
    gpuf_names sets, libraries, wanted;
    size_t n;
    wanted.items = (const char **)gpuf_array(arena, count, sizeof *wanted.items);
    for (wanted.count = 0; wanted.count < count; ++wanted.count)
        wanted.items[wanted.count] = names[wanted.count];
    gpuf_all_names(setting, &sets, &libraries);
    all.machine = setting->machine;
    all.set_count = all.library_count = 0;
    all.sets = (gpuf_explained_set *)gpuf_array(arena, sets.count, sizeof *all.sets);
    all.libraries = (gpuf_explained_library *)gpuf_array(arena, libraries.count, sizeof *all.libraries);
    for (n = 0; n < sets.count; ++n)
        if (!count || gpuf_has(&wanted, sets.items[n])) {
            all.sets[all.set_count].name = sets.items[n];
            gpuf_explain_set(setting, &all.sets[all.set_count++]);
        }
    for (n = 0; n < libraries.count; ++n)
        if (!count || gpuf_has(&wanted, libraries.items[n])) {
            all.libraries[all.library_count].name = libraries.items[n];
            gpuf_explain_library(setting, &all.libraries[all.library_count++]);
        }
    return all;
}

/* ---- for people ---- */

static const char *gpuf_verdict_word(size_t rank, const gpuf_candidate *candidate)
{
    return !candidate->accepted ? "refused" : rank ? "fits" : "used";
}

static void gpuf_pad(gpuf_text *text, const char *word, size_t width)
{
    size_t n;
    gpuf_put(text, word);
    for (n = gpuf_width(word); n < width; ++n)
        gpuf_put(text, " ");
}

/* Return where a line ends, and how many bytes its end has: all ends that Python's str.splitlines knows. */
static size_t gpuf_line(const char *text, size_t *end)
{
    size_t n;
    *end = 1;
    for (n = 0; text[n]; ++n) {
        if (text[n] == '\r' && text[n + 1] == '\n')
            *end = 2;
        if (strchr("\n\r\v\f\x1c\x1d\x1e", text[n]))
            return n;
        if (strncmp(text + n, "\xc2\x85", 2) == 0) {
            *end = 2;
            return n;
        }
        if (strncmp(text + n, "\xe2\x80\xa8", 3) == 0 || strncmp(text + n, "\xe2\x80\xa9", 3) == 0) {
            *end = 3;
            return n;
        }
    }
    *end = 0;
    return n;
}

static void gpuf_print_table(gpuf_text *out, const char *margin, const gpuf_candidates *candidates)
{
    gpuf_arena *arena = out->arena;
    size_t n, width = 0, length, end;
    for (n = 0; n < candidates->count; ++n) {
        length = gpuf_width(gpuf_label(arena, &candidates->items[n]));
        width = length > width ? length : width;
    }
    for (n = 0; n < candidates->count; ++n) {
        const gpuf_candidate *candidate = &candidates->items[n];
        const char *text = gpuf_sentence(arena, &candidate->reason), *word = gpuf_verdict_word(n, candidate);
        const char *label = gpuf_label(arena, candidate);
        do {
            length = gpuf_line(text, &end);
            gpuf_put(out, margin);
            gpuf_pad(out, word, 7);
            gpuf_put(out, "  ");
            gpuf_pad(out, label, width);
            gpuf_put(out, "  ");
            gpuf_add(out, text, length);
            gpuf_put(out, "\n");
            text += length + end;
            word = label = "";
        } while (*text);
    }
}

static void gpuf_print_machine(gpuf_text *out, const gpuforge_machine *machine)
{
    gpuf_arena *arena = out->arena;
    char line[80];
    size_t n;
    if (machine->has_driver) {
        snprintf(line, sizeof line, "  driver: supports CUDA up to %d.%d\n", machine->cuda_major, machine->cuda_minor);
        gpuf_put(out, line);
    }
    if (machine->problem.kind)
        gpuf_put(out, gpuf_join(arena, "  GPU: ", gpuf_sentence(arena, &machine->problem), "\n", NULL));
    for (n = 0; n < machine->device_count; ++n) {
        gpuf_put(out, gpuf_join(arena, "  GPU ", gpuf_number(arena, (long long)n), ": ", machine->devices[n].name));
        snprintf(line, sizeof line, ", compute capability %d.%d\n", machine->devices[n].major, machine->devices[n].minor);
        gpuf_put(out, line);
    }
}

static void gpuf_print_set(gpuf_text *out, const gpuf_explained_set *set, const gpuforge_machine *machine)
{
    gpuf_arena *arena = out->arena;
    size_t n, m, k;
    if (*set->problem) {
        gpuf_put(out, gpuf_join(arena, "kernel set ", set->name, ": cannot be used\n  ", set->problem));
        gpuf_put(out, "\n");
        return;
    }
    gpuf_put(out, gpuf_join(arena, "kernel set ", set->name, ": ",
                            *set->made_by ? gpuf_join(arena, "made by ", set->made_by, NULL, NULL)
                                          : "compiled on the user's machine"));
    gpuf_put(out, "\n");
    gpuf_print_machine(out, machine);
    for (n = 0; n < set->count; ++n) {
        const gpuf_explained_module *module = &set->modules[n];
        gpuf_put(out, gpuf_join(arena, "  module ", module->name, *module->source ? ", from " : "", module->source));
        gpuf_put(out, "\n");
        for (m = 0; m < module->kernels.count; ++m)
            gpuf_put(out, gpuf_join(arena, "    kernel   ", gpuf_signature(arena, module->kernels.items[m]), "\n", NULL));
        for (m = 0; m < module->count; ++m) {
            const gpuf_module_verdict *verdict = &module->verdicts[m];
            for (k = 0; module->count > 1 && k < verdict->device_count; ++k)
                gpuf_put(out, gpuf_join(arena, k ? ", " : "    on GPU ", gpuf_number(arena, verdict->devices[k]), NULL,
                                        NULL));
            gpuf_put(out, module->count > 1 ? ":\n" : "");
            gpuf_print_table(out, "    ", &verdict->candidates);
        }
    }
}

static void gpuf_print_text(gpuf_text *out, const gpuf_explained *all)
{
    gpuf_arena *arena = out->arena;
    size_t n;
    for (n = 0; n < all->set_count; ++n)
        gpuf_print_set(out, &all->sets[n], all->machine);
    for (n = 0; n < all->library_count; ++n) {
        const gpuf_explained_library *library = &all->libraries[n];
        gpuf_put(out, gpuf_join(arena, "kernel library ", library->name,
                                *library->problem ? ": cannot be used\n  " : "", library->problem));
        gpuf_put(out, "\n");
        gpuf_print_table(out, "  ", &library->candidates);
    }
    if (!all->set_count && !all->library_count)
        gpuf_put(out, "this package has no kernels\n");
    for (n = 0; n < all->machine->beside_count; ++n) {
        const gpuforge_beside *beside = &all->machine->beside[n];
        if (beside->problem.kind)
            gpuf_put(out, gpuf_sentence(arena, &beside->problem));
        else
            gpuf_put(out, gpuf_join(arena, beside->name, ": ", beside->text, NULL));
        gpuf_put(out, "\n");
    }
}

/* ---- as JSON, in the same bytes as Python's json.dumps(…, indent=2) ---- */

typedef struct gpuf_writer {
    gpuf_text *out;
    int level, first; /* nothing was written at this level yet */
} gpuf_writer;

static void gpuf_write_text(gpuf_text *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t left = strlen(text), used;
    char escape[32];
    gpuf_put(out, "\"");
    for (; left; at += used, left -= used) {
        static const char plain[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
        const char *found = (const char *)memchr(plain, *at, 7);
        long code = gpuf_character(at, left, &used);
        if (found)
            snprintf(escape, sizeof escape, "\\%c", names[found - plain]);
        else if (code < 0) { /* as Python shows a byte of a path that is no text */
            snprintf(escape, sizeof escape, "\\udc%02x", (unsigned)*at);
            used = 1;
        } else if (code >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(code - 0x10000) >> 10),
                     0xdc00u + ((unsigned)(code - 0x10000) & 0x3ffu));
        else if (code < 0x20 || code > 0x7e)
            snprintf(escape, sizeof escape, code == 0x7f ? "\x7f" : "\\u%04lx", (unsigned long)code);
        else
            snprintf(escape, sizeof escape, "%c", (char)code);
        gpuf_put(out, escape);
    }
    gpuf_put(out, "\"");
}

/* Begin a member or an item: `key` is NULL in a list. */
static void gpuf_member(gpuf_writer *writer, const char *key)
{
    int n;
    gpuf_put(writer->out, writer->first ? "\n" : ",\n");
    for (n = 0; n < writer->level; ++n)
        gpuf_put(writer->out, "  ");
    writer->first = 0;
    if (key) {
        gpuf_write_text(writer->out, key);
        gpuf_put(writer->out, ": ");
    }
}

static void gpuf_begin_group(gpuf_writer *writer, const char *key, const char *bracket)
{
    if (writer->level)
        gpuf_member(writer, key);
    gpuf_put(writer->out, bracket);
    ++writer->level;
    writer->first = 1;
}

static void gpuf_end_group(gpuf_writer *writer, const char *bracket)
{
    int n, empty = writer->first;
    --writer->level;
    gpuf_put(writer->out, empty ? "" : "\n");
    for (n = 0; !empty && n < writer->level; ++n)
        gpuf_put(writer->out, "  ");
    gpuf_put(writer->out, bracket);
    writer->first = 0;
}

static void gpuf_write_member(gpuf_writer *writer, const char *key, const char *text)
{
    gpuf_member(writer, key);
    if (text)
        gpuf_write_text(writer->out, text);
    else
        gpuf_put(writer->out, "null");
}

static void gpuf_write_number(gpuf_writer *writer, const char *key, long long number)
{
    gpuf_member(writer, key);
    gpuf_put(writer->out, gpuf_number(writer->out->arena, number));
}

static void gpuf_write_reason(gpuf_writer *writer, const char *key, const gpuforge_reason *reason)
{
    int n;
    gpuf_begin_group(writer, key, "{");
    gpuf_write_member(writer, "kind", reason->kind);
    for (n = 0; n < GPUFORGE_FACTS && reason->facts[n].name; ++n) {
        if (reason->facts[n].text)
            gpuf_write_member(writer, reason->facts[n].name, reason->facts[n].text);
        else
            gpuf_write_number(writer, reason->facts[n].name, reason->facts[n].number);
    }
    gpuf_write_member(writer, "text", gpuf_sentence(writer->out->arena, reason));
    gpuf_end_group(writer, "}");
}

static void gpuf_write_candidates(gpuf_writer *writer, const gpuf_candidates *candidates)
{
    size_t n;
    gpuf_begin_group(writer, "candidates", "[");
    for (n = 0; n < candidates->count; ++n) {
        const gpuf_candidate *candidate = &candidates->items[n];
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_member(writer, "verdict", gpuf_verdict_word(n, candidate));
        gpuf_write_member(writer, "origin", gpuf_origins[candidate->build->origin]);
        gpuf_write_member(writer, "place", candidate->build->place);
        if (candidate->build->wheel)
            gpuf_write_member(writer, "wheel", candidate->build->wheel);
        gpuf_write_member(writer, "image", gpuf_image_label(writer->out->arena, candidate->image));
        gpuf_write_reason(writer, "reason", &candidate->reason);
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
}

static void gpuf_write_machine(gpuf_writer *writer, const gpuforge_machine *machine)
{
    gpuf_arena *arena = writer->out->arena;
    size_t n;
    int version[2];
    version[0] = machine->cuda_major, version[1] = machine->cuda_minor;
    gpuf_begin_group(writer, "machine", "{");
    gpuf_write_member(writer, "cuda", machine->has_driver ? gpuf_dotted(arena, version) : NULL);
    if (machine->problem.kind)
        gpuf_write_reason(writer, "problem", &machine->problem);
    else
        gpuf_write_member(writer, "problem", NULL);
    gpuf_begin_group(writer, "devices", "[");
    for (n = 0; n < machine->device_count; ++n) {
        version[0] = machine->devices[n].major, version[1] = machine->devices[n].minor;
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_number(writer, "ordinal", (long long)n);
        gpuf_write_member(writer, "name", machine->devices[n].name);
        gpuf_write_member(writer, "capability", gpuf_dotted(arena, version));
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
    gpuf_end_group(writer, "}");
}

static void gpuf_write_kernels(gpuf_writer *writer, const gpuf_entries *kernels)
{
    size_t n, m;
    gpuf_begin_group(writer, "kernels", "[");
    for (n = 0; n < kernels->count; ++n) {
        const gpuf_entry *kernel = kernels->items[n];
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_member(writer, "symbol", kernel->symbol);
        gpuf_write_member(writer, "name", kernel->name);
        gpuf_write_member(writer, "signature", gpuf_signature(writer->out->arena, kernel));
        gpuf_begin_group(writer, "parameters", "[");
        for (m = 0; m < kernel->count; ++m) {
            gpuf_begin_group(writer, NULL, "{");
            gpuf_write_member(writer, "type", kernel->parameters[m].type);
            gpuf_write_number(writer, "size", kernel->parameters[m].size);
            gpuf_end_group(writer, "}");
        }
        gpuf_end_group(writer, "]");
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
}

static void gpuf_write_set(gpuf_writer *writer, const gpuf_explained_set *set)
{
    size_t n, m, k;
    gpuf_begin_group(writer, NULL, "{");
    gpuf_write_member(writer, "name", set->name);
    gpuf_write_member(writer, "made_by", set->made_by);
    gpuf_write_member(writer, "problem", set->problem);
    gpuf_begin_group(writer, "modules", "[");
    for (n = 0; n < set->count; ++n) {
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_member(writer, "name", set->modules[n].name);
        gpuf_write_member(writer, "source", set->modules[n].source);
        gpuf_write_kernels(writer, &set->modules[n].kernels);
        gpuf_begin_group(writer, "verdicts", "[");
        for (m = 0; m < set->modules[n].count; ++m) {
            const gpuf_module_verdict *verdict = &set->modules[n].verdicts[m];
            gpuf_begin_group(writer, NULL, "{");
            gpuf_begin_group(writer, "devices", "[");
            for (k = 0; k < verdict->device_count; ++k)
                gpuf_write_number(writer, NULL, verdict->devices[k]);
            gpuf_end_group(writer, "]");
            gpuf_write_candidates(writer, &verdict->candidates);
            gpuf_end_group(writer, "}");
        }
        gpuf_end_group(writer, "]");
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
    gpuf_end_group(writer, "}");
}

static void gpuf_print_json(gpuf_text *out, const gpuf_explained *all)
{
    gpuf_writer writer;
    size_t n;
    writer.out = out, writer.level = 0, writer.first = 1;
    gpuf_begin_group(&writer, NULL, "{");
    gpuf_write_number(&writer, "schema", 1);
    if (all->set_count)
        gpuf_write_machine(&writer, all->machine);
    else
        gpuf_write_member(&writer, "machine", NULL);
    gpuf_begin_group(&writer, "libraries", "{");
    for (n = 0; n < all->machine->beside_count; ++n) {
        const gpuforge_beside *beside = &all->machine->beside[n];
        if (beside->problem.kind) {
            gpuf_write_reason(&writer, beside->name, &beside->problem);
            continue;
        }
        gpuf_begin_group(&writer, beside->name, "{");
        gpuf_write_member(&writer, "text", beside->text);
        gpuf_end_group(&writer, "}");
    }
    gpuf_end_group(&writer, "}");
    gpuf_begin_group(&writer, "sets", "[");
    for (n = 0; n < all->set_count; ++n)
        gpuf_write_set(&writer, &all->sets[n]);
    gpuf_end_group(&writer, "]");
    gpuf_begin_group(&writer, "kernel_libraries", "[");
    for (n = 0; n < all->library_count; ++n) {
        gpuf_begin_group(&writer, NULL, "{");
        gpuf_write_member(&writer, "name", all->libraries[n].name);
        gpuf_write_member(&writer, "problem", all->libraries[n].problem);
        gpuf_write_candidates(&writer, &all->libraries[n].candidates);
        gpuf_end_group(&writer, "}");
    }
    gpuf_end_group(&writer, "]");
    gpuf_end_group(&writer, "}");
    gpuf_put(out, "\n");
}

/* ---- what the header offers ---- */

/* What is asked for, and what comes back. */
typedef struct gpuf_request {
    gpuf_arena *arena;
    const gpuforge_host *host;
    const char *set, *module, *name;
    const char *const *names;
    size_t count;
    int json, device, done;
    gpuforge_kernel *kernel;
    gpuforge_decision *decision;
    void *handle;
    char *text;
} gpuf_request;

static gpuf_request gpuf_ask(const gpuforge_host *host, const char *set, const char *module, const char *name)
{
    gpuf_request request;
    memset(&request, 0, sizeof request);
    request.host = host;
    request.set = set, request.module = module, request.name = name;
    return request;
}

/* Do what is asked for; 0 where there was no memory for it. The arena is the caller's. */
static int gpuf_do(gpuf_request *request, gpuf_arena *arena, void (*work)(gpuf_request *request))
{
    request->arena = arena;
    if (setjmp(arena->no_memory))
        return 0;
    work(request);
    return 1;
}

static void gpuf_do_explain(gpuf_request *request)
{
    gpuf_setting setting = gpuf_set_up(request->arena, request->host, 0, 1);
    gpuf_explained all = gpuf_explain_all(&setting, request->names, request->count);
    gpuf_text out = gpuf_text_in(request->arena);
    if (request->json)
        gpuf_print_json(&out, &all);
    else
        gpuf_print_text(&out, &all);
    request->text = gpuf_keep_text(out.data);
}

char *gpuforge_explain(const gpuforge_host *host, const char *const *names, size_t count, int json)
{
    gpuf_request request = gpuf_ask(host, NULL, NULL, NULL);
    gpuf_arena arena;
    memset(&arena, 0, sizeof arena);
    request.names = names, request.count = count, request.json = json;
    gpuf_do(&request, &arena, gpuf_do_explain);
    gpuf_release(&arena);
    return request.text;
}

/* A decision and the memory that it lies in. */
typedef struct gpuf_decided {
    gpuforge_decision decision;
    gpuf_arena arena;
} gpuf_decided;

static void gpuf_show(gpuf_request *request, const gpuf_candidates *found, const char *problem)
{
    gpuf_arena *arena = request->arena;
    gpuforge_candidate *shown = (gpuforge_candidate *)gpuf_array(arena, found->count, sizeof *shown);
    size_t n;
    for (n = 0; n < found->count; ++n) {
        shown[n].verdict = gpuf_verdict_word(n, &found->items[n]);
        shown[n].origin = gpuf_origins[found->items[n].build->origin];
        shown[n].place = found->items[n].build->place;
        shown[n].image = gpuf_image_label(arena, found->items[n].image);
        shown[n].kind = found->items[n].reason.kind;
        shown[n].text = gpuf_sentence(arena, &found->items[n].reason);
    }
    request->decision->candidates = shown;
    request->decision->count = found->count;
    request->decision->problem = problem ? problem : "";
}

static void gpuf_do_decide_library(gpuf_request *request)
{
    gpuf_explained_library library;
    gpuf_setting setting;
    memset(&setting, 0, sizeof setting);
    memset(&library, 0, sizeof library);
    setting.arena = request->arena;
    setting.host = request->host;
    library.name = request->name;
    gpuf_explain_library(&setting, &library);
    gpuf_show(request, &library.candidates, library.problem);
}

static void gpuf_do_decide_kernels(gpuf_request *request)
{
    gpuf_setting setting = gpuf_set_up(request->arena, request->host, request->device, 0);
    gpuf_candidates found;
    gpuf_places places;
    const char *problem = NULL, *named;
    memset(&found, 0, sizeof found);
    gpuf_look(&setting, request->set, &places);
    named = gpuf_module_named(request->arena, &places, request->set, request->module, &problem);
    if (named)
        found = gpuf_judged(&setting, &places, named);
    gpuf_show(request, &found, problem);
}

static gpuforge_decision *gpuf_decide(gpuf_request *request, void (*work)(gpuf_request *request))
{
    gpuf_decided *decided = (gpuf_decided *)calloc(1, sizeof *decided);
    if (!decided)
        return NULL;
    request->decision = &decided->decision;
    if (gpuf_do(request, &decided->arena, work))
        return &decided->decision;
    gpuforge_decision_free(&decided->decision);
    return NULL;
}

gpuforge_decision *gpuforge_decide_library(const gpuforge_host *host, const char *name)
{
    gpuf_request request = gpuf_ask(host, NULL, NULL, name);
    return gpuf_decide(&request, gpuf_do_decide_library);
}

gpuforge_decision *gpuforge_decide_kernels(const gpuforge_host *host, const char *set, const char *module, int device)
{
    gpuf_request request = gpuf_ask(host, set, module, NULL);
    request.device = device;
    return gpuf_decide(&request, gpuf_do_decide_kernels);
}

void gpuforge_decision_free(gpuforge_decision *decision)
{
    gpuf_decided *decided = (gpuf_decided *)(void *)decision;
    if (!decided)
        return;
    gpuf_release(&decided->arena);
    free(decided);
}

/* Add a reason, which may have several lines; one that is there already is not repeated. */
static void gpuf_add_reason(gpuf_text *reasons, const char *added)
{
    const char *at = reasons->data;
    size_t length = strlen(added);
    for (; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, added, length) == 0 && (!at[length] || at[length] == '\n'))
            return;
    gpuf_put(reasons, reasons->length ? "\n" : "");
    gpuf_put(reasons, added);
}

static void *gpuf_open_one(const gpuf_setting *setting, const char *name, gpuf_text *reasons, gpuf_text *passed)
{
    gpuf_arena *arena = setting->arena;
    const char *problem = NULL;
    gpuf_candidates found = gpuf_libraries(setting, name, &problem);
    size_t n, m;
    if (problem)
        gpuf_add_reason(reasons, problem);
    for (n = 0; n < found.count; ++n) {
        gpuf_candidate *candidate = &found.items[n];
        const char *line;
        if (candidate->accepted) {
            const char *error;
            void *handle = dlopen(candidate->build->place, RTLD_NOW | RTLD_LOCAL);
            if (handle)
                return handle;
            error = dlerror();
            error = error ? error : "";
            candidate->reason = gpuf_because("not-opened", "problem", gpuf_copy(arena, error, strlen(error)), NULL,
                                             NULL, NULL, NULL);
            for (m = n + 1; m < found.count; ++m) /* its images for other GPUs are in the same file */
                if (found.items[m].accepted && gpuf_same(found.items[m].build->place, candidate->build->place)) {
                    found.items[m].accepted = 0;
                    found.items[m].reason = candidate->reason;
                }
        }
        line = gpuf_join(arena, gpuf_name_of(arena, candidate), ": ",
                         gpuf_sentence(arena, &candidate->reason), NULL);
        gpuf_add_reason(reasons, line);
        if (candidate->build->origin == GPUF_EXPLICIT ||
            (candidate->build->origin == GPUF_USER_BUILD && !gpuf_same(candidate->reason.kind, "not-compiled")))
            gpuf_add_reason(passed, line);
    }
    return NULL;
}

static void gpuf_do_open(gpuf_request *request)
{
    gpuf_text reasons = gpuf_text_in(request->arena), passed = gpuf_text_in(request->arena);
    gpuf_setting setting;
    memset(&setting, 0, sizeof setting);
    setting.arena = request->arena;
    setting.host = request->host;
    request->handle = gpuf_open_one(&setting, request->name, &reasons, &passed);
    if (!request->handle || passed.length)
        request->text = gpuf_keep_text(request->handle ? passed.data : reasons.data);
}

/* Give what was said to the caller, who may not want it. */
static void gpuf_tell(gpuf_request *request, char **why)
{
    if (why)
        *why = request->text;
    else
        free(request->text);
}

void *gpuforge_open_library(const gpuforge_host *host, const char *name, char **why)
{
    gpuf_request request = gpuf_ask(host, NULL, NULL, name);
    gpuf_arena arena;
    memset(&arena, 0, sizeof arena);
    gpuf_do(&request, &arena, gpuf_do_open);
    gpuf_release(&arena);
    gpuf_tell(&request, why);
    return request.handle;
}

/* ---- kernels of `module` sets, through the driver ---- */

enum { GPUF_LOG_BUFFER = 5, GPUF_LOG_BUFFER_SIZE = 6 }; /* CUjit_option */

/* What the driver's compiler writes about errors. It lives as long as the image: the driver may compile later. */
typedef struct gpuf_log {
    int options[2];
    void *values[2];
    char text[8192];
} gpuf_log;

/* Read a file whole, with a NUL behind it; NULL and why in `*refusal` where it is not the one that was indexed. */
static unsigned char *gpuf_contents(gpuf_arena *arena, const gpuf_module *module, gpuforge_reason *refusal)
{
    const char *problem = NULL;
    struct stat found;
    gpuf_sha256 hash;
    unsigned char *data = NULL;
    long size = -1;
    int handle = gpuf_open_file(module->file, &problem);
    if (handle >= 0 && fstat(handle, &found) == 0 && found.st_size >= 0 && (data = (unsigned char *)malloc(
                                                                               (size_t)found.st_size + 1)) != NULL)
        size = gpuf_read_at(handle, data, (size_t)found.st_size, 0);
    if (handle >= 0)
        close(handle);
    if (size < 0) {
        free(data);
        *refusal = gpuf_because("unreadable", "file", module->file, "problem", problem ? problem : "cannot be read", NULL,
                                NULL);
        return NULL;
    }
    data[size] = 0;
    gpuf_sha256_begin(&hash);
    gpuf_sha256_add(&hash, data, (size_t)size);
    problem = gpuf_sha256_end(arena, &hash);
    if (!*module->sha256 || gpuf_same(problem, module->sha256))
        return data;
    free(data);
    *refusal = gpuf_because("changed", "file", module->file, "found", problem, "expected", module->sha256);
    return NULL;
}

enum { GPUF_NOT_FOUND = 500 }; /* CUDA_ERROR_NOT_FOUND */

static int gpuf_is_absent(const char *call, int code)
{
    return code == GPUF_NOT_FOUND && (gpuf_same(call, "cuLibraryGetKernel") || gpuf_same(call, "cuModuleGetFunction"));
}

/* Keep why the driver refused a kernel, or that the image does not have it. */
static gpuforge_reason gpuf_not_loaded(gpuf_arena *arena, void *driver, const char *name, const char *call, int code,
                                       const char *log)
{
    char *words = gpuf_driver_words(driver, call, code, log);
    const char *message = words ? gpuf_copy(arena, words, strlen(words)) : call;
    gpuforge_reason reason = gpuf_because("not-loaded", "kernel", name, "call", call, NULL, NULL);
    free(words);
    if (gpuf_is_absent(call, code))
        return gpuf_because("no-such-kernel", "kernel", name, "problem", message, NULL, NULL);
    gpuf_count(&reason, 2, "code", code);
    reason.facts[3].name = "message";
    reason.facts[3].text = message;
    return reason;
}

/* What to look up in a file: its symbols, of which the first that is there is the kernel; `name` is the caller's. */
typedef struct gpuf_sought {
    const char *name, *symbols[2];
    size_t count;
} gpuf_sought;

/* Load a file's image and find a kernel in it; the context is current. The driver may write into `log` later. */
static int gpuf_load_image(gpuf_arena *arena, void *driver, const unsigned char *data, const gpuf_sought *sought,
                           gpuforge_kernel *kernel, gpuforge_reason *refusal)
{
    gpuf_log *log = (gpuf_log *)calloc(1, sizeof *log);
    size_t n;
    int code;
    void *found = NULL;
    const char *call;
    GPUF_FUNCTION(gpuf_call_library, load_library, driver, "cuLibraryLoadData");
    GPUF_FUNCTION(gpuf_call_function, library_kernel, driver, "cuLibraryGetKernel");
    GPUF_FUNCTION(gpuf_call_find, kernel_function, driver, "cuKernelGetFunction");
    GPUF_FUNCTION(gpuf_call_load, load_module, driver, "cuModuleLoadDataEx");
    GPUF_FUNCTION(gpuf_call_function, module_function, driver, "cuModuleGetFunction");
    if (!log)
        longjmp(arena->no_memory, 1);
    kernel->kept = log;
    log->options[0] = GPUF_LOG_BUFFER, log->options[1] = GPUF_LOG_BUFFER_SIZE;
    log->values[0] = log->text, log->values[1] = (void *)(size_t)sizeof log->text;
    if (load_library && library_kernel && kernel_function) {
        call = "cuLibraryLoadData";
        code = load_library(&kernel->image, data, log->options, log->values, 2, NULL, NULL, 0);
        if (!code) {
            call = "cuLibraryGetKernel";
            code = GPUF_NOT_FOUND;
            for (n = 0; n < sought->count && code == GPUF_NOT_FOUND; ++n)
                code = library_kernel(&found, kernel->image, sought->symbols[n]);
        }
        if (!code) {
            call = "cuKernelGetFunction";
            code = kernel_function(&kernel->function, found);
        }
    } else {
        call = "cuModuleLoadDataEx";
        code = load_module(&kernel->image, data, 2, log->options, log->values);
        if (!code) {
            call = "cuModuleGetFunction";
            code = GPUF_NOT_FOUND;
            for (n = 0; n < sought->count && code == GPUF_NOT_FOUND; ++n)
                code = module_function(&kernel->function, kernel->image, sought->symbols[n]);
        }
    }
    log->text[sizeof log->text - 1] = 0;
    if (code)
        *refusal = gpuf_not_loaded(arena, driver, sought->name, call, code, log->text);
    return code == 0;
}

static void gpuf_unload(void *driver, void *image)
{
    GPUF_FUNCTION(gpuf_call1, library, driver, "cuLibraryUnload");
    GPUF_FUNCTION(gpuf_call1, module, driver, "cuModuleUnload");
    GPUF_FUNCTION(gpuf_call_library, loaded, driver, "cuLibraryLoadData");
    if (image && loaded && library)
        library(image);
    else if (image && module)
        module(image);
}

/* Find the context that a kernel is loaded for, and its device; 0 and a line in `reasons`. */
static int gpuf_context(gpuf_arena *arena, void *driver, int device, gpuforge_kernel *kernel, gpuf_text *reasons)
{
    const char *call = "cuCtxGetCurrent";
    int code, handle = 0;
    char *words;
    GPUF_FUNCTION(gpuf_call1, current, driver, "cuCtxGetCurrent");
    GPUF_FUNCTION(gpuf_call1, device_of, driver, "cuCtxGetDevice");
    GPUF_FUNCTION(gpuf_call_device, get, driver, "cuDeviceGet");
    GPUF_FUNCTION(gpuf_call_context, retain, driver, "cuDevicePrimaryCtxRetain");
    kernel->device = device;
    if (device == GPUFORGE_CURRENT_CONTEXT) {
        code = current(&kernel->context);
        if (!code && !kernel->context) {
            gpuf_add_reason(reasons, "no CUDA context is current in this thread");
            return 0;
        }
        if (!code) {
            call = "cuCtxGetDevice";
            code = device_of(&kernel->device);
        }
    } else {
        call = "cuDeviceGet";
        code = get(&handle, device);
        if (!code) {
            call = "cuDevicePrimaryCtxRetain"; /* for the life of the process */
            code = retain(&kernel->context, handle);
        }
    }
    if (!code)
        return 1;
    words = gpuf_driver_words(driver, call, code, "");
    gpuf_add_reason(reasons, gpuf_join(arena, "GPU ", gpuf_number(arena, device), ": ", words ? words : call));
    free(words);
    return 0;
}

static int gpuf_load_candidate(gpuf_arena *arena, void *driver, const gpuf_module *module, const gpuf_kernel_name *wanted,
                               gpuforge_kernel *kernel, gpuforge_reason *refusal)
{
    unsigned char *data = gpuf_contents(arena, module, refusal);
    gpuf_sought sought;
    int code, loaded;
    void *before = NULL;
    GPUF_FUNCTION(gpuf_call1, push, driver, "cuCtxPushCurrent_v2");
    GPUF_FUNCTION(gpuf_call1, pop, driver, "cuCtxPopCurrent_v2");
    if (!data)
        return 0;
    sought.name = wanted->name;
    sought.count = gpuf_symbols(arena, wanted, module, sought.symbols);
    if (!sought.count) {
        *refusal = gpuf_because("no-such-kernel", "kernel", wanted->name, "problem",
                                gpuf_join(arena, module->file, " lists others", NULL, NULL), NULL, NULL);
        free(data);
        return 0;
    }
    kernel->image = kernel->function = NULL;
    code = push(kernel->context);
    if (code) {
        *refusal = gpuf_not_loaded(arena, driver, wanted->name, "cuCtxPushCurrent_v2", code, "");
        free(data);
        return 0;
    }
    loaded = gpuf_load_image(arena, driver, data, &sought, kernel, refusal);
    if (!loaded) {
        gpuf_unload(driver, kernel->image);
        free(kernel->kept);
        kernel->image = kernel->kept = NULL;
    }
    pop(&before);
    free(data);
    return loaded;
}

/* Find the module that a candidate is an image of. */
static const gpuf_module *gpuf_module_of(gpuf_arena *arena, const gpuf_places *places, const gpuf_build *build,
                                         const char *name)
{
    size_t n;
    for (n = 0; n < places->count; ++n) {
        const gpuf_module *module = gpuf_module_at(arena, &places->items[n], name);
        if (module && places->items[n].origin == build->origin && gpuf_same(module->file, build->place))
            return module;
    }
    return NULL;
}

/* Say whether a reason is what the machine's own problem says already. */
static int gpuf_is_of_machine(const gpuforge_reason *reason)
{
    return gpuf_same(reason->kind, "no-usable-gpu") || gpuf_same(reason->kind, "no-devices") ||
           gpuf_same(reason->kind, "switched-off");
}

/* Walk the candidates until one loads: each file once, the driver chooses among its images. Without a context nothing is
   loaded, and each place's reason is told. */
static int gpuf_walk(const gpuf_setting *setting, void *driver, const gpuf_places *places, gpuf_request *request,
                     const gpuf_kernel_name *wanted, gpuf_text *reasons, gpuf_text *passed)
{
    gpuf_arena *arena = setting->arena;
    gpuf_candidates found = gpuf_judged(setting, places, wanted->module);
    gpuf_candidate *tried = (gpuf_candidate *)gpuf_array(arena, found.count, sizeof *tried);
    size_t n, m, count = 0;
    for (n = 0; n < found.count; ++n) {
        gpuf_candidate *candidate = &found.items[n];
        const gpuf_module *file = gpuf_module_of(arena, places, candidate->build, wanted->module);
        const char *kind = candidate->image ? candidate->image->kind : "", *line;
        int loadable = gpuf_same(kind, "cubin") || gpuf_same(kind, "ptx") || gpuf_same(kind, "unread");
        if (candidate->build->own || (candidate->accepted && !loadable))
            continue;
        if (setting->machine->problem.kind && gpuf_is_of_machine(&candidate->reason))
            continue;
        for (m = 0; m < count && !gpuf_same(tried[m].build->place, candidate->build->place); ++m)
            ;
        if (candidate->accepted && m < count)
            candidate->reason = tried[m].reason;
        else if (candidate->accepted && file && request->kernel->context) {
            if (gpuf_load_candidate(arena, driver, file, wanted, request->kernel, &candidate->reason))
                return 1;
            tried[count++] = *candidate;
        }
        line = gpuf_join(arena, gpuf_label(arena, candidate), ": ", gpuf_sentence(arena, &candidate->reason), NULL);
        gpuf_add_reason(reasons, line);
        if (candidate->build->origin == GPUF_EXPLICIT)
            gpuf_add_reason(passed, line);
    }
    return 0;
}

static void gpuf_do_load(gpuf_request *request)
{
    gpuf_arena *arena = request->arena;
    gpuf_setting setting = gpuf_set_up(arena, request->host, request->device, 0);
    gpuf_text reasons = gpuf_text_in(arena), passed = gpuf_text_in(arena);
    gpuforge_reason refusal = gpuf_simply(NULL);
    const gpuforge_machine *machine = setting.machine;
    const gpuf_attempt *driver = NULL;
    const char *problem = NULL;
    gpuf_kernel_name wanted;
    gpuf_places places;
    int known;
    gpuf_look(&setting, request->set, &places);
    known = gpuf_find_kernel(arena, &places, request->set, request->module, request->name, &wanted, &problem);
    if (!machine->problem.kind)
        driver = gpuf_open_driver(arena, request->host, &refusal);
    if (!known)
        gpuf_add_reason(&reasons, problem);
    else if (!driver && refusal.kind)
        gpuf_add_reason(&reasons, gpuf_sentence(arena, &refusal));
    else if (!driver) {
        gpuf_add_reason(&reasons, gpuf_sentence(arena, &machine->problem));
        gpuf_walk(&setting, NULL, &places, request, &wanted, &reasons, &passed);
    } else if (request->device >= (int)machine->device_count ||
               gpuf_context(arena, driver->handle, request->device, request->kernel, &reasons)) {
        setting.device = request->kernel->context ? request->kernel->device : request->device;
        request->done = gpuf_walk(&setting, driver->handle, &places, request, &wanted, &reasons, &passed);
    }
    if (!request->done || passed.length)
        request->text = gpuf_keep_text(request->done ? passed.data : reasons.data);
}

int gpuforge_load_kernel(const gpuforge_host *host, const char *set, const char *module, const char *name, int device,
                         gpuforge_kernel *kernel, char **why)
{
    gpuf_request request = gpuf_ask(host, set, module, name);
    gpuf_arena arena;
    memset(&arena, 0, sizeof arena);
    memset(kernel, 0, sizeof *kernel);
    request.device = device;
    request.kernel = kernel;
    gpuf_do(&request, &arena, gpuf_do_load);
    gpuf_release(&arena);
    gpuf_tell(&request, why);
    if (!request.done)
        memset(kernel, 0, sizeof *kernel);
    return request.done;
}

void gpuforge_unload_kernel(const gpuforge_host *host, gpuforge_kernel *kernel)
{
    gpuf_opened *one;
    void *driver = NULL, *before = NULL;
    pthread_mutex_lock(&gpuf_lock);
    for (one = gpuf_drivers; one; one = one->next)
        if (gpuf_same(one->name, host->driver ? host->driver : "") && one->attempt && one->attempt->done &&
            one->process == (long)getpid())
            driver = one->attempt->handle;
    pthread_mutex_unlock(&gpuf_lock);
    if (driver && kernel->image) {
        GPUF_FUNCTION(gpuf_call1, push, driver, "cuCtxPushCurrent_v2");
        GPUF_FUNCTION(gpuf_call1, pop, driver, "cuCtxPopCurrent_v2");
        if (push(kernel->context) == 0) {
            gpuf_unload(driver, kernel->image);
            pop(&before);
        }
    }
    free(kernel->kept);
    memset(kernel, 0, sizeof *kernel);
}

#ifdef __cplusplus
}
#endif

#endif /* GPUFORGE_KERNELS_IMPLEMENTATION */
