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
    gpuf_setting setting = gpuf_set_up(request->arena, request->host, 0);
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
    gpuf_setting setting = gpuf_set_up(request->arena, request->host, request->device);
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
    *refusal = gpuf_and(gpuf_because("changed", "file", module->file, "found", problem, "expected", module->sha256),
                        "again", module->again);
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
    gpuf_setting setting = gpuf_set_up(arena, request->host, request->device);
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
