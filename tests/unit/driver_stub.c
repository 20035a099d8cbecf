// Stands in for libcuda in tests: what the runtime calls, on the CPU. STUB_* in the environment change its behaviour;
// compiled with -DOLD it is a driver before CUDA 11.8, without what later ones have.
//
// Work that is queued on a stream runs as late as it may: when something waits for it. So whatever is not ordered runs in
// the wrong order, every time. Streams are numbers; each but the default one is non-blocking.
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long address;
enum { MOST = 64, DEVICES = 4, OPERATIONS = 1 << 16, ALLOCATIONS = 1 << 12 };
int stub_loads, stub_allocated, stub_launches, stub_crossed, stub_waits, stub_events, stub_faults, stub_dynamic;
int stub_cooperative, stub_cluster;
address stub_stream, stub_shared, stub_capturing;
static __thread size_t stack[MOST];
static __thread int depth;

static int number(const char *name, int otherwise) { const char *t = getenv(name); return t ? atoi(t) : otherwise; }
static size_t current(void) { return depth ? stack[depth - 1] : 0; }
int stub_depth(void) { return depth; }

int stub_starts;
int cuInit(unsigned flags) { (void)flags; ++stub_starts; if (number("STUB_HANG", 0)) sleep(number("STUB_HANG", 0)); return number("STUB_INIT", 0); }
int cuDriverGetVersion(int *v) { *v = number("STUB_VERSION", 13000); return 0; }
int cuDeviceGetCount(int *n) { *n = number("STUB_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Stub %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const int limits[] = {0, 1024, 1024, 1024, 64, 2147483647, 65535, 65535};
    char name[] = "STUB_CAPABILITY_0";
    name[16] += device;
    if (number("STUB_ATTRIBUTE", 0)) return number("STUB_ATTRIBUTE", 0);
    int capability = number(name, number("STUB_CAPABILITY", 90));
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : attribute == 97 ? 232448
             : attribute < 8 ? limits[attribute] : 0;
    return 0;
}

// A context is PRIMARY and its device; one that a test makes itself is any other number of device 0.
static int retained[DEVICES];
static const size_t PRIMARY = 0x700000000100;  // handles are addresses: they fill more than four bytes
static int is_primary(size_t context) { return context >> 4 == PRIMARY >> 4; }
static int device_of(size_t context) { return is_primary(context) ? context & 0xf : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { ++retained[device]; *context = (void *)(PRIMARY + device); return number("STUB_RETAIN", 0); }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0, *active = retained[device] > 0; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)current(); return 0; }
int cuCtxGetDevice(int *device) { *device = device_of(current()); return current() ? 0 : 201; }
int cuCtxPushCurrent_v2(void *context) { if (depth == MOST) return 1; stack[depth++] = (size_t)context; return 0; }
int cuCtxSetCurrent(void *context) { if (!depth) depth = 1; stack[depth - 1] = (size_t)context; return 0; }
int cuCtxPopCurrent_v2(void **context) { if (!depth) return 201; *context = (void *)stack[--depth]; return 0; }

// Memory belongs to the context in which it was allocated, and the others cannot use it; managed memory can be used by all.
static struct { address start; size_t size, context; int managed; } allocations[ALLOCATIONS];
static int allocated;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int find(address at)
{
    for (int i = allocated; i-- > 0;)
        if (allocations[i].size && at >= allocations[i].start && at < allocations[i].start + allocations[i].size) return i;
    return -1;
}
static int reaches(size_t context, address at)
{
    int i = find(at);
    if (i < 0) return 0;
    int peers = number("STUB_PEERS", 0) && is_primary(context) && is_primary(allocations[i].context);
    return allocations[i].context == context || allocations[i].managed || peers;
}
static int allocate(address *memory, size_t size, int managed)
{
    if (!depth || size > (1u << 20)) return depth ? 2 : 201;
    pthread_mutex_lock(&lock);
    *memory = (address)malloc(size);
    int i = allocated < ALLOCATIONS ? allocated++ : 0;
    while (allocated == ALLOCATIONS && allocations[i].size) ++i;
    allocations[i].start = *memory, allocations[i].size = size, allocations[i].context = current(), allocations[i].managed = managed;
    ++stub_allocated;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemAlloc_v2(address *memory, size_t size) { return allocate(memory, size, 0); }
int cuMemAllocManaged(address *memory, size_t size, unsigned flags) { (void)flags; return allocate(memory, size, 1); }
int cuPointerGetAttribute(void *data, int attribute, address at)
{
    pthread_mutex_lock(&lock);
    int i = find(at), failed = i < 0 || (attribute == 3 && !reaches(current(), at));
    if (!failed && attribute == 8) *(char *)data = (char)allocations[i].managed;
    if (!failed && attribute == 9) *(int *)data = device_of(allocations[i].context);
    if (!failed && attribute == 1) *(size_t *)data = allocations[i].context;
    if (!failed && attribute == 3) *(address *)data = at;
    pthread_mutex_unlock(&lock);
    return failed;
}

// Its kernels are saxpy, with C's and C++'s linkage, and those that are named as Halide does.
static int unknown(const char *name)
{
    return strcmp(name, "saxpy") && strcmp(name, "_Z5saxpymfPKfPf") && strncmp(name, "_kernel_", 8) ? 500 : 0;
}
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
#endif

// The operations of all streams in the order in which they were queued. The default stream is 0 and 1, one for each context.
static struct operation { int kind, done, after; size_t context; address stream, n, event; float a, *x, *y; } queue[OPERATIONS];
enum { SAXPY = 1, FILL, COPY, RECORD, WAIT };
static int queued;
static int last_record[1 << 12];  // by event
static address same(address stream) { return stream == 1 ? 0 : stream; }
static int belongs(const struct operation *o, size_t context, address stream)
{
    return o->stream == same(stream) && (o->stream || o->context == context);
}
static void run(size_t context, address stream, int until);
static void perform(struct operation *o)
{
    if (o->done) return;
    o->done = 1;
    if (o->kind == WAIT && o->after >= 0) run(queue[o->after].context, queue[o->after].stream, o->after + 1);
    if (o->kind != SAXPY && o->kind != FILL && o->kind != COPY) return;
    if (o->n && (!reaches(o->context, (address)o->y) || (o->kind != FILL && !reaches(o->context, (address)o->x)))) { ++stub_faults; return; }
    for (address i = 0; i < o->n; ++i)
        o->y[i] = o->kind == FILL ? o->a : o->kind == COPY ? o->x[i] : o->a * o->x[i] + o->y[i];
}
static void run(size_t context, address stream, int until)
{
    for (int i = 0; i < until; ++i)
        if (belongs(&queue[i], context, stream)) perform(&queue[i]);
}
static int add(struct operation o)
{
    pthread_mutex_lock(&lock);
    if (queued == OPERATIONS) {  // all is done: begin again
        for (int i = 0; i < queued; ++i) perform(&queue[i]);
        for (int i = 0; i < 1 << 12; ++i) last_record[i] = -1;
        queued = 0;
    }
    o.stream = same(o.stream);
    o.done = 0;
    queue[queued] = o;
    int number = queued++;
    pthread_mutex_unlock(&lock);
    return number;
}
static int fault(void) { int found = stub_faults; stub_faults = 0; return found ? 700 : 0; }
static int wait_for(size_t context, address stream)
{
    pthread_mutex_lock(&lock);
    run(context, stream, queued);
    int code = fault();
    pthread_mutex_unlock(&lock);
    return code;
}
// What another library does: it fills an array, or copies one, on a stream of its own, and waits for a stream.
void stub_fill(size_t context, address stream, float *y, address n, float a) { add((struct operation){FILL, 0, 0, context, stream, n, 0, a, 0, y}); }
void stub_copy(size_t context, address stream, float *y, float *x, address n) { add((struct operation){COPY, 0, 0, context, stream, n, 0, 0, x, y}); }
int stub_wait(size_t context, address stream) { return wait_for(context, stream); }

int cuMemFree_v2(address memory)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < queued; ++i) perform(&queue[i]);
    int i = find(memory);
    if (i >= 0) allocations[i].size = 0, free((void *)memory), --stub_allocated;
    pthread_mutex_unlock(&lock);
    return i < 0;
}
static int copy(void *to, const void *from, size_t n, address device, address stream)
{
    int code = wait_for(current(), stream);
    if (code || !reaches(current(), device)) return code ? code : 1;
    memcpy(to, from, n);
    return 0;
}
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *s) { stub_stream = (address)s; return copy((void *)to, from, n, to, (address)s); }
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *s)
{
    stub_stream = (address)s;
    int code = copy(to, (void *)from, n, from, (address)s);
    return code ? code : number("STUB_READ", 0);
}
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { return cuMemcpyHtoDAsync_v2(to, from, n, 0); }
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { return cuMemcpyDtoHAsync_v2(to, from, n, 0); }
int cuStreamSynchronize(void *stream) { return depth ? wait_for(current(), (address)stream) : 201; }

// An event is a number from 0x1000 on, and its last record.
static int events = 0x1000;
int cuCtxSynchronize(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < queued; ++i) perform(&queue[i]);
    int code = fault();
    pthread_mutex_unlock(&lock);
    return depth ? code : 201;
}
int cuEventCreate(void **event, unsigned flags) { __sync_fetch_and_add(&stub_events, 1); *event = (void *)(size_t)__sync_fetch_and_add(&events, 1); return flags != 2 || !depth; }
int cuEventRecord(void *event, void *stream)
{
    if (stub_capturing && same((address)stream) == stub_capturing) return 900;
    last_record[(size_t)event & 0xfff] = add((struct operation){RECORD, 0, 0, current(), (address)stream, 0, (address)event, 0, 0, 0});
    return 0;
}
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    __sync_fetch_and_add(&stub_waits, 1);
    add((struct operation){WAIT, 0, last_record[(size_t)event & 0xfff], current(), (address)stream, 0, (address)event, 0, 0, 0});
    return (int)flags;
}
int cuEventSynchronize(void *event)
{
    int record = last_record[(size_t)event & 0xfff];
    pthread_mutex_lock(&lock);
    run(queue[record].context, queue[record].stream, record + 1);
    int code = fault();
    pthread_mutex_unlock(&lock);
    return code;
}
int cuEventDestroy_v2(void *event) { (void)event; __sync_fetch_and_sub(&stub_events, 1); return 0; }

static int launch(void *function, const unsigned *d, void *stream, void **arguments)
{
    if ((size_t)function >> 8 != current()) { ++stub_crossed; return 201; }
    if (((size_t)function & 0xff) != 8 || !d[0] || d[1] * d[2] != 1 || !d[3] || d[4] * d[5] != 1 || d[3] > 1024) return 1;
    __sync_fetch_and_add(&stub_launches, 1);
    stub_stream = (address)stream, stub_shared = d[6];
    if (d[6] > 48 * 1024 && (int)d[6] > stub_dynamic) return 1;
    add((struct operation){SAXPY, 0, 0, current(), (address)stream, *(address *)arguments[0], 0, *(float *)arguments[1],
                           *(float **)arguments[2], *(float **)arguments[3]});
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    unsigned dims[] = {gx, gy, gz, bx, by, bz, shared};
    return extra ? 1 : launch(function, dims, stream, arguments);
}
int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    *value = attribute == 0 ? number("STUB_KERNEL_THREADS", 1024) : attribute == 1 ? number("STUB_STATIC", 0) : 32;
    return ((size_t)function & 0xff) != 8;
}
int cuFuncSetAttribute(void *function, int attribute, int value)
{
    if (attribute == 8) stub_dynamic = value;
    return ((size_t)function & 0xff) != 8;
}
// Each context has its own `coefficients` in each module.
static float coefficients[0x200][4];
static int variable(address *at, size_t *size, size_t context, const char *name)
{
    if (strcmp(name, "coefficients")) return 500;
    *at = (address)coefficients[context & 0x1ff], *size = sizeof coefficients[0];
    pthread_mutex_lock(&lock);
    if (find(*at) < 0) allocations[allocated].start = *at, allocations[allocated].size = *size, allocations[allocated++].context = context;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuModuleGetGlobal_v2(address *at, size_t *size, void *module, const char *name) { (void)module; return variable(at, size, current(), name); }
int cuStreamIsCapturing(void *stream, int *state) { *state = stub_capturing && same((address)stream) == stub_capturing; return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { static __thread int held; int old = held; held = *mode; *mode = old; return 0; }
#ifndef OLD
int cuLibraryGetGlobal(address *at, size_t *size, void *library, const char *name) { return library == (void *)7 ? variable(at, size, current(), name) : 400; }
struct attribute { unsigned id, pad, value[16]; };  // CUlaunchAttribute
struct config { unsigned dims[7]; void *stream; struct attribute *attributes; unsigned count; };  // CUlaunchConfig
int cuLaunchKernelEx(const struct config *config, void *function, void **arguments, void **extra)
{
    if (!config->attributes != !config->count || extra) return 1;
    stub_cooperative = stub_cluster = 0;
    for (unsigned i = 0; i < config->count; ++i) {
        if (config->attributes[i].id == 2) stub_cooperative = (int)config->attributes[i].value[0];
        if (config->attributes[i].id == 4) stub_cluster = (int)config->attributes[i].value[0];
    }
    return launch(function, config->dims, config->stream, arguments);
}
#endif

#ifndef OLD
// A graph is its one node, copied; its instance runs with what is current then. STUB_GRAPH fails one call by name.
struct node { void *function; unsigned dims[7]; void **arguments, *none[3]; };  // CUDA_KERNEL_NODE_PARAMS_v2
int stub_graphs, stub_replays, stub_updates, stub_priority;
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
    if (!current()) abort();  // a real driver ends by a segmentation fault
    return instance != node ? 1 : failed("update") ? 910 : copied(node, p);
}
int cuGraphLaunch(void *instance, void *stream)
{
    struct node *node = instance;
    if (stub_capturing && stub_capturing == (address)stream) return 900;
    if (failed("launch")) return 719;
    __sync_fetch_and_add(&stub_replays, 1);
    cuCtxPushCurrent_v2((void *)((size_t)node->function >> 8));  // a graph knows its context
    int code = launch(node->function, node->dims, stream, node->arguments);
    --depth;
    return code;
}
int cuGraphExecDestroy(void *instance) { return !instance; }
int cuGraphDestroy(void *graph) { free(graph); __sync_fetch_and_sub(&stub_graphs, 1); return 0; }
int cuStreamGetPriority(void *stream, int *priority) { (void)stream; *priority = stub_priority; return 0; }
int cuStreamGetCtx(void *stream, void **context) { (void)stream; *context = (void *)current(); return 0; }
#endif

int cuGetErrorName(int code, const char **text)
{
    *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 500 ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_STUBBED";
    return code == 12345;
}
int cuGetErrorString(int code, const char **text) { *text = "words of the stub"; return code == 12345; }
