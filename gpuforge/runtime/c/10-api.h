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
