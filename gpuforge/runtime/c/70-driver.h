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
} gpuf_attempt;

static pthread_mutex_t gpuf_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gpuf_answer = PTHREAD_COND_INITIALIZER;

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
            advice = gpuf_advice[n].advice;
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

/* Read a byte of what the loader would open first, to wait here for a pipe or a dead mount: the loader would wait with
   a lock that the end of the process needs. */
static void gpuf_reach(const char *file)
{
    const char *folder = getenv("LD_LIBRARY_PATH"), *end;
    char name[4096], byte;
    if (!folder || !*folder)
        folder = "/";
    do {
        int handle;
        end = folder + strcspn(folder, ":");
        snprintf(name, sizeof name, "%.*s/%s", *file == '/' ? 0 : (int)(end - folder), folder, file);
        handle = open(name, O_RDONLY | O_CLOEXEC);
        while (handle >= 0 && read(handle, &byte, 1) < 0 && errno == EINTR)
            ;
        if (handle >= 0)
            close(handle);
        folder = end + 1;
    } while (*end);
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
        gpuf_reach(attempt->files[n]);
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
    int value = 0, known, failed, n;
    gpuf_open_first(attempt);
    if (!attempt->handle)
        return;
    {
        GPUF_FUNCTION(gpuf_call1, version, attempt->handle, "cuDriverGetVersion");
        known = version && version(&value) == 0;
    }
    value = known ? value : 0;
    attempt->version[0] = value / 1000, attempt->version[1] = value % 1000 / 10;
    if (known && gpuf_before(attempt->version[0], attempt->version[1], gpuf_driver_needed[0], gpuf_driver_needed[1])) {
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
        return gpuf_and(reason, "needed", gpuf_dotted(arena, gpuf_driver_needed));
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

/* Return the facts to decide on: those given, or this machine's. Where the GPU is switched off the driver is not opened. */
static gpuf_setting gpuf_set_up(gpuf_arena *arena, const gpuforge_host *host, int device)
{
    gpuforge_machine *machine = (gpuforge_machine *)gpuf_new(arena, sizeof *machine);
    gpuf_setting setting;
    setting.arena = arena;
    setting.host = host;
    setting.device = device;
    setting.machine = machine;
    if (host->machine)
        *machine = *host->machine;
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
