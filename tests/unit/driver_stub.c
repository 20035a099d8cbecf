// Stands in for libcuda in tests: what the runtime calls, on the CPU. STUB_* in the environment change its behaviour;
// compiled with -DOLD it is a driver before CUDA 11.8, without what later ones have.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long address;
enum { MOST = 64 };
int stub_loads, stub_allocated, stub_launches, stub_crossed, stub_waits, stub_events;
address stub_stream, stub_shared;
static __thread size_t stack[MOST];
static __thread int depth;

static int number(const char *name, int otherwise) { const char *t = getenv(name); return t ? atoi(t) : otherwise; }
static size_t current(void) { return depth ? stack[depth - 1] : 0; }
int stub_depth(void) { return depth; }

int cuInit(unsigned flags) { (void)flags; if (number("STUB_HANG", 0)) sleep(number("STUB_HANG", 0)); return number("STUB_INIT", 0); }
int cuDriverGetVersion(int *v) { *v = number("STUB_VERSION", 13000); return 0; }
int cuDeviceGetCount(int *n) { *n = number("STUB_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Stub %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    if (number("STUB_ATTRIBUTE", 0)) return number("STUB_ATTRIBUTE", 0);
    int capability = number("STUB_CAPABILITY", 90);
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return 0;
}

// A context is 0x100 and its device; one that a test makes itself is any other number of device 0.
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(size_t)(0x100 + device); return number("STUB_RETAIN", 0); }
int cuCtxGetCurrent(void **context) { *context = (void *)current(); return 0; }
int cuCtxGetDevice(int *device) { *device = current() & ~0xffu ? current() & 0xf : 0; return current() ? 0 : 201; }
int cuCtxPushCurrent_v2(void *context) { if (depth == MOST) return 1; stack[depth++] = (size_t)context; return 0; }
int cuCtxSetCurrent(void *context) { if (!depth) depth = 1; stack[depth - 1] = (size_t)context; return 0; }
int cuCtxPopCurrent_v2(void **context) { if (!depth) return 201; *context = (void *)stack[--depth]; return 0; }

// Its kernels are saxpy, and those that are named as Halide does.
static int unknown(const char *name) { return strcmp(name, "saxpy") && strncmp(name, "_kernel_", 8) ? 500 : 0; }
static int is_ptx(const char *text) { return !strncmp(text, "//", 2) && strstr(text, "\n.version "); }

// A module is 7 in its context, a library 7 in none; a function is 8 in its context.
static int load(const void *image, int *options, void **values)
{
    if ((strncmp(image, "a fatbin", 8) && !is_ptx(image)) || options[0] != 5 || options[1] != 6) return 200;
    __sync_fetch_and_add(&stub_loads, 1);
    if (!number("STUB_LOAD", 0)) return 0;
    snprintf(values[0], (size_t)values[1], "ptxas fatal: stub says no");
    return number("STUB_LOAD", 0);
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values)
{
    if (!depth || n != 2) return 201;
    *module = (void *)(current() << 8 | 7);
    return load(image, options, values);
}
int stub_unloads;
int cuModuleUnload(void *module) { ++stub_unloads; return ((size_t)module & 0xff) == 7 ? 0 : 400; }
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    if (((size_t)module & 0xff) != 7 || (size_t)module >> 8 != current()) return 400;
    *function = (void *)(current() << 8 | 8);
    return unknown(name);
}
#ifndef OLD
int cuLibraryLoadData(void **library, const void *image, int *options, void **values, unsigned n, int *lo, void **lv, unsigned ln)
{
    *library = (void *)7;
    return n != 2 || lo || lv || ln ? 1 : load(image, options, values);
}
int cuLibraryUnload(void *library) { ++stub_unloads; return library == (void *)7 ? 0 : 400; }
int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    *kernel = (void *)9;
    return library != (void *)7 ? 400 : unknown(name);
}
int cuKernelGetFunction(void **function, void *kernel)
{
    if (kernel != (void *)9 || !depth) return 400;
    *function = (void *)(current() << 8 | 8);
    return number("STUB_LAZY", 0);
}
// The linker makes "a fatbin" of whatever begins so, and says when it is used.
int stub_links;
int cuLinkCreate_v2(unsigned n, int *options, void **values, void **state)
{
    *state = values[0];
    return !depth || n != 2 || options[0] != 5;
}
int cuLinkAddData_v2(void *state, int kind, const void *data, size_t size, const char *name, unsigned n, int *o, void **v)
{
    int whole = kind == 1 ? size && !((const char *)data)[size - 1] && is_ptx(data) : kind == 2 && size >= 8 && !strncmp(data, "a fatbin", 8);

    (void)name, (void)o, (void)v;
    if (number("STUB_LINK", 0)) snprintf(state, 100, "ptxas fatal: no such target");
    return number("STUB_LINK", 0) ? number("STUB_LINK", 0) : n || !whole;
}
int cuLinkComplete(void *state, const void **code, size_t *size)
{
    (void)state;
    __sync_fetch_and_add(&stub_links, 1);
    *code = "a fatbin, linked", *size = 16;
    return 0;
}
int cuLinkDestroy(void *state) { return !state; }
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size)
{
    static const size_t sizes[] = {8, 4, 8, 8};
    (void)function;
    if (number("STUB_PARAMETERS", 0)) return number("STUB_PARAMETERS", 0);
    if (!depth) return 201;
    if (index >= 4) return 1;
    *offset = 0, *size = sizes[index];
    return 0;
}
#endif

int cuMemAlloc_v2(address *memory, size_t size)
{
    if (size > (1u << 20)) return 2;
    *memory = (address)malloc(size);
    __sync_fetch_and_add(&stub_allocated, 1);
    return 0;
}
int cuMemFree_v2(address memory) { free((void *)memory); __sync_fetch_and_sub(&stub_allocated, 1); return 0; }
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { memcpy(to, (void *)from, n); return number("STUB_READ", 0); }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *s) { stub_stream = (address)s; return cuMemcpyHtoD_v2(to, from, n); }
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *s) { stub_stream = (address)s; return cuMemcpyDtoH_v2(to, from, n); }
int cuStreamSynchronize(void *stream) { return stream != (void *)stub_stream; }
int cuEventCreate(void **event, unsigned flags) { *event = (void *)77; ++stub_events; return flags != 2; }
int cuEventRecord(void *event, void *stream) { (void)stream; return event != (void *)77; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { (void)stream; ++stub_waits; return event != (void *)77 || flags; }
int cuEventDestroy_v2(void *event) { --stub_events; return event != (void *)77; }

static int launch(void *function, const unsigned *d, void *stream, void **arguments)
{
    if ((size_t)function >> 8 != current()) { ++stub_crossed; return 201; }
    if (((size_t)function & 0xff) != 8 || !d[0] || d[1] * d[2] != 1 || !d[3] || d[4] * d[5] != 1) return 1;
    __sync_fetch_and_add(&stub_launches, 1);
    stub_stream = (address)stream, stub_shared = d[6];
    address n = *(address *)arguments[0];
    float a = *(float *)arguments[1], *x = *(float **)arguments[2], *y = *(float **)arguments[3];
    for (address i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    unsigned dims[] = {gx, gy, gz, bx, by, bz, shared};
    return extra ? 1 : launch(function, dims, stream, arguments);
}
#ifndef OLD
struct config { unsigned dims[7]; void *stream, *attributes; unsigned count; };  // CUlaunchConfig
int cuLaunchKernelEx(const struct config *config, void *function, void **arguments, void **extra)
{
    if (config->attributes || config->count || extra) return 1;
    return launch(function, config->dims, config->stream, arguments);
}
#endif

#ifndef OLD
// A graph is its one node, copied; its instance runs with what is current then. STUB_GRAPH fails one call by name.
struct node { void *function; unsigned dims[7]; void **arguments, *none[3]; };  // CUDA_KERNEL_NODE_PARAMS_v2
int stub_graphs, stub_replays, stub_updates, stub_capturing, stub_priority;
static int failed(const char *name) { const char *t = getenv("STUB_GRAPH"); return t && !strcmp(t, name) ? 900 : 0; }
struct graph { struct node node; void *at[4]; char values[4][8]; };
static int copied(struct graph *to, const struct node *from)
{
    if (from->none[0] || from->none[1] || from->none[2]) return 1;
    to->node = *from, to->node.arguments = to->at;
    for (int i = 0; i < 4; ++i) to->at[i] = memcpy(to->values[i], from->arguments[i], i == 1 ? 4 : 8);
    return 0;
}
int cuGraphCreate(void **graph, unsigned flags) { *graph = calloc(1, sizeof(struct graph)); __sync_fetch_and_add(&stub_graphs, 1); return (int)flags; }
int cuGraphAddKernelNode_v2(void **node, void *graph, void *needs, size_t n, const void *p) { *node = graph; return needs || n ? 1 : copied(graph, p); }
int cuGraphInstantiateWithFlags(void **instance, void *graph, address flags) { *instance = graph; return flags ? 1 : failed("instantiate"); }
int cuGraphExecKernelNodeSetParams_v2(void *instance, void *node, const void *p)
{
    __sync_fetch_and_add(&stub_updates, 1);
    return instance != node ? 1 : failed("update") ? 910 : copied(node, p);
}
int cuGraphLaunch(void *instance, void *stream)
{
    struct node *node = instance;
    if (stub_capturing) return 900;
    if (failed("launch")) return 719;
    __sync_fetch_and_add(&stub_replays, 1);
    cuCtxPushCurrent_v2((void *)((size_t)node->function >> 8));  // a graph knows its context
    int code = launch(node->function, node->dims, stream, node->arguments);
    --depth;
    return code;
}
int cuGraphExecDestroy(void *instance) { return !instance; }
int cuGraphDestroy(void *graph) { free(graph); __sync_fetch_and_sub(&stub_graphs, 1); return 0; }
int cuStreamIsCapturing(void *stream, int *state) { (void)stream; *state = stub_capturing; return 0; }
int cuStreamGetPriority(void *stream, int *priority) { (void)stream; *priority = stub_priority; return 0; }
int cuStreamGetCtx(void *stream, void **context) { (void)stream; *context = (void *)current(); return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { static __thread int held; int old = held; held = *mode; *mode = old; return 0; }
#endif

int cuGetErrorName(int code, const char **text)
{
    *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 500 ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_STUBBED";
    return code == 12345;
}
int cuGetErrorString(int code, const char **text) { *text = "words of the stub"; return code == 12345; }
