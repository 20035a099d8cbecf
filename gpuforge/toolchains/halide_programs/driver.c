/* How Halide's runtime reaches the CUDA driver: by the name that every driver has, and in the primary context. */
#include <dlfcn.h>
#include <string.h>

enum { NOT_FOUND = 500 }; /* CUDA_ERROR_NOT_FOUND */

static void *driver_symbol(const char *name)
{
    static void *driver; /* threads that race here get the same handle */

    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        driver = dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
    return driver ? dlsym(driver, name) : NULL;
}

/* The functions of the driver API that are called here have one of these types. */
static int with_context(const char *name, void *context)
{
    int (*function)(void *);
    void *symbol = driver_symbol(name);

    memcpy(&function, &symbol, sizeof function);
    return function ? function(context) : NOT_FOUND;
}

static int with_device(const char *name, int device)
{
    int (*function)(int);
    void *symbol = driver_symbol(name);

    memcpy(&function, &symbol, sizeof function);
    return function ? function(device) : NOT_FOUND;
}

/* Takes the place of cuCtxCreate. Other libraries of the process could not use the memory of another context. */
static int retain_primary(void **context, unsigned int flags, int device)
{
    int (*retain)(void **, int);
    void *symbol = driver_symbol("cuDevicePrimaryCtxRetain");
    int error;

    (void)flags;
    memcpy(&retain, &symbol, sizeof retain);
    error = retain ? retain(context, device) : NOT_FOUND;
    return error ? error : with_context("cuCtxPushCurrent_v2", *context); /* cuCtxCreate leaves it current */
}

/* Takes the place of cuCtxDestroy. */
static int release_primary(void *context)
{
    int device = 0;
    void *before = NULL;
    int error = with_context("cuCtxPushCurrent_v2", context);

    if (error)
        return error;
    error = with_context("cuCtxGetDevice", &device);
    with_context("cuCtxPopCurrent_v2", &before);
    return error ? error : with_device("cuDevicePrimaryCtxRelease_v2", device);
}

#ifdef __cplusplus
extern "C"
#endif
/* Takes the place of the weak function of this name in Halide's runtime (HalideRuntimeCuda.h). */
__attribute__((visibility("hidden"))) void *halide_cuda_get_symbol(void *user_context, const char *name)
{
    void *replaced = NULL;

    (void)user_context;
    if (strcmp(name, "cuCtxCreate_v2") == 0) {
        int (*create)(void **, unsigned int, int) = retain_primary;
        memcpy(&replaced, &create, sizeof replaced);
        return replaced;
    }
    if (strcmp(name, "cuCtxDestroy_v2") == 0) {
        int (*destroy)(void *) = release_primary;
        memcpy(&replaced, &destroy, sizeof replaced);
        return replaced;
    }
    return driver_symbol(name);
}
