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
    const char *name, *source, *file, *sha256, *again;
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
    module.again = gpuf_word(arena, entry, "again", gpuf_install_again, problem);
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
    const char *file, *sha256, *compiler, *arch, *home, *release;
    gpuf_image *images; /* NVIDIA's, in a library */
    size_t count;
} gpuf_active;

static gpuf_active gpuf_active_build(gpuf_arena *arena, const char *folder)
{
    const char *path = gpuf_path(arena, folder, "active.json"), *problem, *inside;
    gpuf_document document = gpuf_read(arena, path);
    const gpuf_json *item = NULL;
    gpuf_active active;
    size_t count, n;
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
    active.sha256 = gpuf_word(arena, document.content, "sha256", NULL, &problem);
    gpuf_word(arena, document.content, "toolchain", NULL, &problem);
    active.compiler = gpuf_word(arena, document.content, "compiler", NULL, &problem);
    active.arch = gpuf_word(arena, document.content, "arch", NULL, &problem);
    gpuf_items(arena, document.content, "sources", GPUF_TEXT, "a list of texts", &count, &problem);
    active.home = gpuf_word(arena, document.content, "home", "", &problem);
    active.release = gpuf_word(arena, document.content, "release", "", &problem);
    gpuf_word(arena, document.content, "requested", "", &problem);
    if (!problem && gpuf_find(document.content, "images"))
        item = gpuf_items(arena, document.content, "images", GPUF_TEXT, "a list of texts", &active.count, &problem);
    active.images = (gpuf_image *)gpuf_array(arena, active.count + 1, sizeof *active.images);
    for (n = 0; n < active.count && !problem; ++n, item = item->next) {
        active.images[n].kind = item->text[0] == 'c' ? "ptx" : "cubin";
        active.images[n].arch = item->text;
        if (!gpuf_parse_arch(item->text, &active.images[n].parsed))
            problem = gpuf_join(arena, "'", item->text, "' is not a GPU architecture", NULL);
    }
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
    own = gpuf_escaped(arena, own, 1);
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

/* Return why a file is not the one that `compile` made. */
static gpuforge_reason gpuf_changed(gpuf_arena *arena, const char *file, const char *sha256, const char *again)
{
    const char *problem, *found = gpuf_sha256_of(arena, file, &problem);
    if (!found)
        return gpuf_because("unreadable", "file", file, "problem", problem, NULL, NULL);
    if (gpuf_same(found, sha256))
        return gpuf_simply(NULL);
    return gpuf_and(gpuf_because("changed", "file", file, "found", found, "expected", sha256), "again", again);
}

/* Return what the user has compiled of an object: a library or, of a set of modules, a folder of images. Of a recipe that
   cannot be read, why is in `*unread`. */
static gpuf_library gpuf_built_library(const gpuf_setting *setting, const char *name, const gpuf_abi *abi,
                                       gpuforge_reason *unread)
{
    gpuf_arena *arena = setting->arena;
    const char *sources = gpuf_path(arena, gpuf_path(arena, setting->host->home, "sources"), name);
    const char *recipe = gpuf_path(arena, sources, "recipe.json"), *failure, *folder;
    const char *command = gpuf_join(arena, "python -m ", gpuf_package(setting->host), "._gpuforge compile", NULL);
    const char *again = gpuf_join(arena, "compile it again: ", command, NULL, NULL);
    char *digest = gpuf_sha256_of(arena, recipe, &failure);
    gpuforge_reason refusal, none = gpuf_simply(NULL);
    gpuf_library built;
    gpuf_active active;
    int tries, is_set;
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
            return gpuf_library_at(GPUF_USER_BUILD, folder,
                                   gpuf_same(active.problem.kind, "build-damaged")
                                       ? gpuf_and(active.problem, "again", again)
                                       : active.problem,
                                   none);
        if (!active.there) {
            const char *release = gpuf_former(arena, folder, setting->host->home);
            return gpuf_library_at(GPUF_USER_BUILD, "",
                                   gpuf_because(release ? "compiled-before" : "not-compiled", "command", command,
                                                release ? "release" : NULL, release, NULL, NULL),
                                   none);
        }
        is_set = gpuf_is_folder(active.file);
        refusal = gpuf_changed(arena, is_set ? gpuf_path(arena, active.file, "index.json") : active.file, active.sha256,
                               again);
        if (!refusal.kind && !is_set)
            refusal = gpuf_wrong_abi(arena, active.file, abi);
        if (refusal.kind && access(active.file, F_OK) != 0 && tries < 16) {
            gpuf_active now = gpuf_active_build(arena, folder);
            if (now.problem.kind || !now.there || !gpuf_same(now.file, active.file))
                continue; /* `compile` has put another build in use */
        }
        if (!refusal.kind)
            gpuf_touch(arena, folder);
        built = gpuf_library_at(GPUF_USER_BUILD, active.file, refusal,
                                gpuf_because("made-here", "compiler", active.compiler, "arch", active.arch, NULL, NULL));
        built.build.images = active.images;
        built.build.count = active.count;
        return built;
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

/* Return why none of the images of a user's library runs on the first GPU; without a kind where one does, or there is
   none. */
static gpuforge_reason gpuf_not_for(const gpuf_setting *setting, const gpuf_build *library)
{
    gpuf_setting here = *setting;
    gpuforge_reason obstacle, first = gpuf_simply(NULL);
    gpuf_builds one;
    size_t n;
    memset(&one, 0, sizeof one);
    if (!library->count)
        return first;
    *gpuf_add_build(setting->arena, &one, library->origin, library->place) = *library;
    here.machine = gpuf_machine_for(setting, &one);
    obstacle = gpuf_obstacle(&here);
    for (n = library->count; n-- > 0;) {
        gpuf_verdict verdict = gpuf_judge(&here, library, &library->images[n], &obstacle);
        if (verdict.accepted)
            return gpuf_simply(NULL);
        first = verdict.reason;
    }
    return first;
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
    if (recipe && !built.build.problem.kind)
        built.build.problem = gpuf_not_for(setting, &built.build);
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
    const gpuf_json *item;
    size_t count, ignored;
    gpuf_word(arena, entry, "name", NULL, problem);
    *family = gpuf_word(arena, entry, "family", NULL, problem);
    image->kind = gpuf_same(*family, "nvrtc") ? "cuda" : "opencl";
    image->arch = "";
    item = gpuf_items(arena, entry, "sources", GPUF_TEXT, "a list of texts", &count, problem);
    gpuf_word(arena, gpuf_table(arena, entry, "install", problem), "", "", problem);
    gpuf_items(arena, entry, "devices", GPUF_TEXT, "a list of texts", &ignored, problem);
    gpuf_items(arena, entry, "extensions", GPUF_TEXT, "a list of texts", &ignored, problem);
    gpuf_items(arena, entry, "argv", GPUF_TEXT, "a list of texts", &ignored, problem);
    index->compiler = *family, index->toolkit = index->cpu = "";
    index->modules = (gpuf_module *)gpuf_array(arena, count, sizeof *index->modules);
    for (; item && !*problem; item = item->next) {
        gpuf_module module;
        memset(&module, 0, sizeof module);
        module.name = gpuf_stem(arena, item->text);
        module.source = item->text;
        module.file = gpuf_path(arena, folder, item->text);
        module.again = gpuf_install_again;
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
    const char *problem = NULL;
    if (*module->sha256)
        return gpuf_changed(arena, module->file, module->sha256, module->again);
    if (!gpuf_sha256_of(arena, module->file, &problem))
        return gpuf_because("unreadable", "file", module->file, "problem", problem, NULL, NULL);
    return gpuf_simply(NULL);
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
