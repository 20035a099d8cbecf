/* A host in C that has no Python: saxpy_host HOME PACKAGE SET [DRIVER] loads the kernel `saxpy`, launches it on the
   primary context of device 0, and says whether the result is right. */
#define GPUFORGE_KERNELS_IMPLEMENTATION
#include <gpuforge_kernels.h>

typedef unsigned long long address;
enum { COUNT = 1000 };

static void *driver;

/* A function of the driver; the program ends where there is none. */
static void find(void *function, const char *name)
{
    void *found = dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(3);
    }
    memcpy(function, &found, sizeof found);
}

static int run(const gpuforge_kernel *kernel)
{
    int (*push)(void *), (*pop)(void **), (*allocate)(address *, size_t), (*release)(address);
    int (*in)(address, const void *, size_t), (*out)(void *, address, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    float x[COUNT], y[COUNT], a = 2;
    address n = COUNT, device_x = 0, device_y = 0;
    void *arguments[4], *before;
    int failed, i;
    find(&push, "cuCtxPushCurrent_v2");
    find(&pop, "cuCtxPopCurrent_v2");
    find(&allocate, "cuMemAlloc_v2");
    find(&release, "cuMemFree_v2");
    find(&in, "cuMemcpyHtoD_v2");
    find(&out, "cuMemcpyDtoH_v2");
    find(&launch, "cuLaunchKernel");
    for (i = 0; i < COUNT; ++i)
        x[i] = (float)i, y[i] = 1;
    arguments[0] = &n, arguments[1] = &a, arguments[2] = &device_x, arguments[3] = &device_y;
    failed = push(kernel->context) || allocate(&device_x, sizeof x) || allocate(&device_y, sizeof y) ||
             in(device_x, x, sizeof x) || in(device_y, y, sizeof y) ||
             launch(kernel->function, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL) || out(y, device_y, sizeof y) ||
             release(device_x) || release(device_y) || pop(&before);
    for (i = 0; i < COUNT; ++i)
        failed |= y[i] < 2 * i + 0.5f || y[i] > 2 * i + 1.5f;
    return failed;
}

int main(int count, char **arguments)
{
    static gpuforge_host host;
    gpuforge_kernel kernel;
    char *why = NULL;
    int loaded, failed = 0;
    if (count < 4)
        return 2;
    host.home = arguments[1], host.package = arguments[2];
    host.driver = count > 4 ? arguments[4] : NULL;
    loaded = gpuforge_load_kernel(&host, arguments[3], NULL, "saxpy", 0, &kernel, &why);
    if (why)
        printf("%s\n", why);
    free(why);
    if (loaded) {
        driver = dlopen(host.driver ? host.driver : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        failed = run(&kernel);
        printf("device %d: %s\n", kernel.device, failed ? "wrong" : "right");
        dlclose(driver);
    }
    gpuforge_unload_kernel(&host, &kernel);
    gpuforge_unload_kernel(&host, &kernel);
    return !loaded ? 4 : failed;
}
