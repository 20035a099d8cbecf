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
        found.problem = gpuf_and(found.problem, "wanted", gpuf_wanted(arena, known, wheel));
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
