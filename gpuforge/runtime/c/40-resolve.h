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

/* Return a reason of at most four facts with another one. */
static gpuforge_reason gpuf_and(gpuforge_reason reason, const char *name, const char *text)
{
    size_t n = 0;
    while (reason.facts[n].name)
        ++n;
    reason.facts[n].name = name, reason.facts[n].text = text;
    return reason;
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

/* Return a text in which escapes stand for what steers a terminal; it may have lines. In a path of a record they stand
   for all control characters, and for bytes that are no text. */
static const char *gpuf_escaped(gpuf_arena *arena, const char *text, int in_record)
{
    gpuf_text out = gpuf_text_in(arena);
    size_t left = strlen(text), used;
    char escape[16];
    for (; left; text += used, left -= used) {
        long code = gpuf_character((const unsigned char *)text, left, &used);
        int is_control = in_record ? code < 0x20 || code == 0x7f
                                   : code >= 0 && code != '\n' && code != '\t' &&
                                         (code < 0x20 || (code >= 0x7f && code < 0xa0));
        int is_order = !in_record && ((code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                                      (code >= 0x2066 && code <= 0x2069));
        if (code < 0)
            used = 1, code = (unsigned char)*text;
        if (is_control || is_order) {
            snprintf(escape, sizeof escape, is_control ? "\\x%02lx" : "\\u%04lx", (unsigned long)code);
            gpuf_put(&out, escape);
        } else
            gpuf_add(&out, text, used);
    }
    return out.data;
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
    return gpuf_escaped(arena, text.data, 0);
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
