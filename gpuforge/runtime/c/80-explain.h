/* ---- what `explain` prints: explain.py ---- */

/* One thing that is explained: a kernel set with its modules, or a kernel library. */
typedef struct gpuf_module_verdict {
    const int *devices;
    size_t device_count;
    gpuf_candidates candidates;
} gpuf_module_verdict;

typedef struct gpuf_explained_module {
    const char *name, *source;
    gpuf_entries kernels;
    gpuf_module_verdict *verdicts;
    size_t count;
} gpuf_explained_module;

typedef struct gpuf_explained_set {
    const char *name, *made_by, *problem;
    gpuf_explained_module *modules;
    size_t count;
} gpuf_explained_set;

typedef struct gpuf_explained_library {
    const char *name, *problem;
    gpuf_candidates candidates;
} gpuf_explained_library;

typedef struct gpuf_explained {
    const gpuforge_machine *machine;
    gpuf_explained_set *sets;
    gpuf_explained_library *libraries;
    size_t set_count, library_count;
} gpuf_explained;

static void gpuf_explain_module(gpuf_setting *setting, const gpuf_places *places, gpuf_explained_module *module)
{
    gpuf_arena *arena = setting->arena;
    const gpuforge_machine *machine = setting->machine;
    size_t n, m, count = machine->device_count;
    module->verdicts = (gpuf_module_verdict *)gpuf_array(arena, count + 1, sizeof *module->verdicts);
    for (n = 0; n < count; ++n) {
        gpuf_module_verdict *verdict = &module->verdicts[module->count];
        int *devices = (int *)gpuf_array(arena, count, sizeof *devices);
        int known = 0;
        for (m = 0; m < n; ++m)
            known |= machine->devices[m].major == machine->devices[n].major &&
                     machine->devices[m].minor == machine->devices[n].minor;
        if (known)
            continue;
        verdict->devices = devices;
        for (m = n; m < count; ++m)
            if (machine->devices[m].major == machine->devices[n].major &&
                machine->devices[m].minor == machine->devices[n].minor)
                devices[verdict->device_count++] = (int)m;
        setting->device = (int)n;
        verdict->candidates = gpuf_judged(setting, places, module->name);
        ++module->count;
    }
    setting->device = 0;
    if (!count)
        module->verdicts[module->count++].candidates = gpuf_judged(setting, places, module->name);
}

/* Return what made an index's modules: "nvcc 13.0.88 with CUDA 13.0". */
static const char *gpuf_maker(gpuf_arena *arena, const gpuf_index *index)
{
    return *index->toolkit ? gpuf_join(arena, index->compiler, " with CUDA ", index->toolkit, NULL) : index->compiler;
}

/* Return what made a set: of its shipped places, or where it has none of the first; "" where it has sources alone. */
static const char *gpuf_who_made(gpuf_arena *arena, const gpuf_places *places)
{
    gpuf_text text = gpuf_text_in(arena);
    const gpuf_index *first = NULL;
    size_t n;
    int sources = 0;
    for (n = 0; n < places->count; ++n) {
        const gpuf_place *place = &places->items[n];
        sources |= place->is_sources;
        first = first ? first : place->contents;
        if (place->origin != GPUF_SHIPPED || !place->contents)
            continue;
        gpuf_put(&text, text.length ? " and " : "");
        gpuf_put(&text, gpuf_maker(arena, place->contents));
    }
    if (!text.length && !sources && first)
        gpuf_put(&text, gpuf_maker(arena, first));
    return text.data;
}

static void gpuf_explain_set(gpuf_setting *setting, gpuf_explained_set *set)
{
    gpuf_arena *arena = setting->arena;
    gpuf_places places;
    size_t n, m, k, most = 0;
    gpuf_look(setting, set->name, &places);
    set->problem = set->made_by = "";
    for (n = 0; n < places.count; ++n)
        most += places.items[n].contents ? places.items[n].contents->count : 0;
    for (n = 0; n < places.count && !places.items[n].contents; ++n)
        ;
    if (n == places.count) {
        gpuf_module_named(arena, &places, set->name, NULL, &set->problem);
        return;
    }
    set->made_by = gpuf_who_made(arena, &places);
    set->modules = (gpuf_explained_module *)gpuf_array(arena, most, sizeof *set->modules);
    for (n = places.count; n-- > 0;)
        for (m = 0; places.items[n].contents && m < places.items[n].contents->count; ++m) {
            const gpuf_module *module = &places.items[n].contents->modules[m];
            for (k = 0; k < set->count && !gpuf_same(set->modules[k].name, module->name); ++k)
                ;
            set->modules[k].name = module->name;
            set->modules[k].source = module->source;
            set->count += k == set->count;
        }
    for (k = 0; k < set->count; ++k) {
        set->modules[k].kernels = gpuf_listed(arena, &places, set->modules[k].name);
        gpuf_explain_module(setting, &places, &set->modules[k]);
    }
}

/* Look a library up; what is used comes first, as in a set's table. */
static void gpuf_explain_library(const gpuf_setting *setting, gpuf_explained_library *library)
{
    const char *problem = NULL;
    gpuf_candidates found = gpuf_libraries(setting, library->name, &problem);
    size_t n;
    library->problem = problem ? problem : "";
    library->candidates.items = (gpuf_candidate *)gpuf_array(setting->arena, found.count, sizeof *found.items);
    for (n = 0; n < found.count; ++n)
        if (found.items[n].accepted)
            library->candidates.items[library->candidates.count++] = found.items[n];
    for (n = 0; n < found.count; ++n)
        if (!found.items[n].accepted)
            library->candidates.items[library->candidates.count++] = found.items[n];
}

static gpuf_explained gpuf_explain_all(gpuf_setting *setting, const char *const *names, size_t count)
{
    gpuf_arena *arena = setting->arena;
    gpuf_explained all;
    gpuf_names sets, libraries, wanted;
    size_t n;
    wanted.items = (const char **)gpuf_array(arena, count, sizeof *wanted.items);
    for (wanted.count = 0; wanted.count < count; ++wanted.count)
        wanted.items[wanted.count] = names[wanted.count];
    gpuf_all_names(setting, &sets, &libraries);
    all.machine = setting->machine;
    all.set_count = all.library_count = 0;
    all.sets = (gpuf_explained_set *)gpuf_array(arena, sets.count, sizeof *all.sets);
    all.libraries = (gpuf_explained_library *)gpuf_array(arena, libraries.count, sizeof *all.libraries);
    for (n = 0; n < sets.count; ++n)
        if (!count || gpuf_has(&wanted, sets.items[n])) {
            all.sets[all.set_count].name = sets.items[n];
            gpuf_explain_set(setting, &all.sets[all.set_count++]);
        }
    for (n = 0; n < libraries.count; ++n)
        if (!count || gpuf_has(&wanted, libraries.items[n])) {
            all.libraries[all.library_count].name = libraries.items[n];
            gpuf_explain_library(setting, &all.libraries[all.library_count++]);
        }
    return all;
}

/* ---- for people ---- */

static const char *gpuf_verdict_word(size_t rank, const gpuf_candidate *candidate)
{
    return !candidate->accepted ? "refused" : rank ? "fits" : "used";
}

static void gpuf_pad(gpuf_text *text, const char *word, size_t width)
{
    size_t n;
    gpuf_put(text, word);
    for (n = gpuf_width(word); n < width; ++n)
        gpuf_put(text, " ");
}

/* Return where a line ends, and how many bytes its end has: all ends that Python's str.splitlines knows. */
static size_t gpuf_line(const char *text, size_t *end)
{
    size_t n;
    *end = 1;
    for (n = 0; text[n]; ++n) {
        if (text[n] == '\r' && text[n + 1] == '\n')
            *end = 2;
        if (strchr("\n\r\v\f\x1c\x1d\x1e", text[n]))
            return n;
        if (strncmp(text + n, "\xc2\x85", 2) == 0) {
            *end = 2;
            return n;
        }
        if (strncmp(text + n, "\xe2\x80\xa8", 3) == 0 || strncmp(text + n, "\xe2\x80\xa9", 3) == 0) {
            *end = 3;
            return n;
        }
    }
    *end = 0;
    return n;
}

static void gpuf_print_table(gpuf_text *out, const char *margin, const gpuf_candidates *candidates)
{
    gpuf_arena *arena = out->arena;
    size_t n, width = 0, length, end;
    for (n = 0; n < candidates->count; ++n) {
        length = gpuf_width(gpuf_label(arena, &candidates->items[n]));
        width = length > width ? length : width;
    }
    for (n = 0; n < candidates->count; ++n) {
        const gpuf_candidate *candidate = &candidates->items[n];
        const char *text = gpuf_sentence(arena, &candidate->reason), *word = gpuf_verdict_word(n, candidate);
        const char *label = gpuf_label(arena, candidate);
        do {
            length = gpuf_line(text, &end);
            gpuf_put(out, margin);
            gpuf_pad(out, word, 7);
            gpuf_put(out, "  ");
            gpuf_pad(out, label, width);
            gpuf_put(out, "  ");
            gpuf_add(out, text, length);
            gpuf_put(out, "\n");
            text += length + end;
            word = label = "";
        } while (*text);
    }
}

static void gpuf_print_machine(gpuf_text *out, const gpuforge_machine *machine)
{
    gpuf_arena *arena = out->arena;
    char line[80];
    size_t n;
    if (machine->has_driver) {
        snprintf(line, sizeof line, "  driver: supports CUDA up to %d.%d\n", machine->cuda_major, machine->cuda_minor);
        gpuf_put(out, line);
    }
    if (machine->problem.kind)
        gpuf_put(out, gpuf_join(arena, "  GPU: ", gpuf_sentence(arena, &machine->problem), "\n", NULL));
    for (n = 0; n < machine->device_count; ++n) {
        gpuf_put(out, gpuf_join(arena, "  GPU ", gpuf_number(arena, (long long)n), ": ",
                                gpuf_escaped(arena, machine->devices[n].name, 0)));
        snprintf(line, sizeof line, ", compute capability %d.%d\n", machine->devices[n].major, machine->devices[n].minor);
        gpuf_put(out, line);
    }
}

static void gpuf_print_set(gpuf_text *out, const gpuf_explained_set *set, const gpuforge_machine *machine)
{
    gpuf_arena *arena = out->arena;
    size_t n, m, k;
    if (*set->problem) {
        gpuf_put(out, gpuf_join(arena, "kernel set ", set->name, ": cannot be used\n  ", set->problem));
        gpuf_put(out, "\n");
        return;
    }
    gpuf_put(out, gpuf_join(arena, "kernel set ", set->name, ": ",
                            *set->made_by ? gpuf_join(arena, "made by ", set->made_by, NULL, NULL)
                                          : "compiled on the user's machine"));
    gpuf_put(out, "\n");
    gpuf_print_machine(out, machine);
    for (n = 0; n < set->count; ++n) {
        const gpuf_explained_module *module = &set->modules[n];
        gpuf_put(out, gpuf_join(arena, "  module ", module->name, *module->source ? ", from " : "", module->source));
        gpuf_put(out, "\n");
        for (m = 0; m < module->kernels.count; ++m)
            gpuf_put(out, gpuf_join(arena, "    kernel   ", gpuf_signature(arena, module->kernels.items[m]), "\n", NULL));
        for (m = 0; m < module->count; ++m) {
            const gpuf_module_verdict *verdict = &module->verdicts[m];
            for (k = 0; module->count > 1 && k < verdict->device_count; ++k)
                gpuf_put(out, gpuf_join(arena, k ? ", " : "    on GPU ", gpuf_number(arena, verdict->devices[k]), NULL,
                                        NULL));
            gpuf_put(out, module->count > 1 ? ":\n" : "");
            gpuf_print_table(out, "    ", &verdict->candidates);
        }
    }
}

static void gpuf_print_text(gpuf_text *out, const gpuf_explained *all)
{
    gpuf_arena *arena = out->arena;
    size_t n;
    for (n = 0; n < all->set_count; ++n)
        gpuf_print_set(out, &all->sets[n], all->machine);
    for (n = 0; n < all->library_count; ++n) {
        const gpuf_explained_library *library = &all->libraries[n];
        gpuf_put(out, gpuf_join(arena, "kernel library ", library->name,
                                *library->problem ? ": cannot be used\n  " : "", library->problem));
        gpuf_put(out, "\n");
        gpuf_print_table(out, "  ", &library->candidates);
    }
    if (!all->set_count && !all->library_count)
        gpuf_put(out, "this package has no kernels\n");
}

/* ---- as JSON, in the same bytes as Python's json.dumps(…, indent=2) ---- */

typedef struct gpuf_writer {
    gpuf_text *out;
    int level, first; /* nothing was written at this level yet */
} gpuf_writer;

static void gpuf_write_text(gpuf_text *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t left = strlen(text), used;
    char escape[32];
    gpuf_put(out, "\"");
    for (; left; at += used, left -= used) {
        static const char plain[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
        const char *found = (const char *)memchr(plain, *at, 7);
        long code = gpuf_character(at, left, &used);
        if (found)
            snprintf(escape, sizeof escape, "\\%c", names[found - plain]);
        else if (code < 0) { /* as Python shows a byte of a path that is no text */
            snprintf(escape, sizeof escape, "\\udc%02x", (unsigned)*at);
            used = 1;
        } else if (code >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(code - 0x10000) >> 10),
                     0xdc00u + ((unsigned)(code - 0x10000) & 0x3ffu));
        else if (code < 0x20 || code > 0x7e)
            snprintf(escape, sizeof escape, code == 0x7f ? "\x7f" : "\\u%04lx", (unsigned long)code);
        else
            snprintf(escape, sizeof escape, "%c", (char)code);
        gpuf_put(out, escape);
    }
    gpuf_put(out, "\"");
}

/* Begin a member or an item: `key` is NULL in a list. */
static void gpuf_member(gpuf_writer *writer, const char *key)
{
    int n;
    gpuf_put(writer->out, writer->first ? "\n" : ",\n");
    for (n = 0; n < writer->level; ++n)
        gpuf_put(writer->out, "  ");
    writer->first = 0;
    if (key) {
        gpuf_write_text(writer->out, key);
        gpuf_put(writer->out, ": ");
    }
}

static void gpuf_begin_group(gpuf_writer *writer, const char *key, const char *bracket)
{
    if (writer->level)
        gpuf_member(writer, key);
    gpuf_put(writer->out, bracket);
    ++writer->level;
    writer->first = 1;
}

static void gpuf_end_group(gpuf_writer *writer, const char *bracket)
{
    int n, empty = writer->first;
    --writer->level;
    gpuf_put(writer->out, empty ? "" : "\n");
    for (n = 0; !empty && n < writer->level; ++n)
        gpuf_put(writer->out, "  ");
    gpuf_put(writer->out, bracket);
    writer->first = 0;
}

static void gpuf_write_member(gpuf_writer *writer, const char *key, const char *text)
{
    gpuf_member(writer, key);
    if (text)
        gpuf_write_text(writer->out, text);
    else
        gpuf_put(writer->out, "null");
}

static void gpuf_write_number(gpuf_writer *writer, const char *key, long long number)
{
    gpuf_member(writer, key);
    gpuf_put(writer->out, gpuf_number(writer->out->arena, number));
}

static void gpuf_write_reason(gpuf_writer *writer, const char *key, const gpuforge_reason *reason)
{
    int n;
    gpuf_begin_group(writer, key, "{");
    gpuf_write_member(writer, "kind", reason->kind);
    for (n = 0; n < GPUFORGE_FACTS && reason->facts[n].name; ++n) {
        if (reason->facts[n].text)
            gpuf_write_member(writer, reason->facts[n].name, reason->facts[n].text);
        else
            gpuf_write_number(writer, reason->facts[n].name, reason->facts[n].number);
    }
    gpuf_write_member(writer, "text", gpuf_sentence(writer->out->arena, reason));
    gpuf_end_group(writer, "}");
}

static void gpuf_write_candidates(gpuf_writer *writer, const gpuf_candidates *candidates)
{
    size_t n;
    gpuf_begin_group(writer, "candidates", "[");
    for (n = 0; n < candidates->count; ++n) {
        const gpuf_candidate *candidate = &candidates->items[n];
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_member(writer, "verdict", gpuf_verdict_word(n, candidate));
        gpuf_write_member(writer, "origin", gpuf_origins[candidate->build->origin]);
        gpuf_write_member(writer, "place", candidate->build->place);
        if (candidate->build->wheel)
            gpuf_write_member(writer, "wheel", candidate->build->wheel);
        gpuf_write_member(writer, "image", gpuf_image_label(writer->out->arena, candidate->image));
        gpuf_write_reason(writer, "reason", &candidate->reason);
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
}

static void gpuf_write_machine(gpuf_writer *writer, const gpuforge_machine *machine)
{
    gpuf_arena *arena = writer->out->arena;
    size_t n;
    int version[2];
    version[0] = machine->cuda_major, version[1] = machine->cuda_minor;
    gpuf_begin_group(writer, "machine", "{");
    gpuf_write_member(writer, "cuda", machine->has_driver ? gpuf_dotted(arena, version) : NULL);
    if (machine->problem.kind)
        gpuf_write_reason(writer, "problem", &machine->problem);
    else
        gpuf_write_member(writer, "problem", NULL);
    gpuf_begin_group(writer, "devices", "[");
    for (n = 0; n < machine->device_count; ++n) {
        version[0] = machine->devices[n].major, version[1] = machine->devices[n].minor;
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_number(writer, "ordinal", (long long)n);
        gpuf_write_member(writer, "name", machine->devices[n].name);
        gpuf_write_member(writer, "capability", gpuf_dotted(arena, version));
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
    gpuf_end_group(writer, "}");
}

static void gpuf_write_kernels(gpuf_writer *writer, const gpuf_entries *kernels)
{
    size_t n, m;
    gpuf_begin_group(writer, "kernels", "[");
    for (n = 0; n < kernels->count; ++n) {
        const gpuf_entry *kernel = kernels->items[n];
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_member(writer, "symbol", kernel->symbol);
        gpuf_write_member(writer, "name", kernel->name);
        gpuf_write_member(writer, "signature", gpuf_signature(writer->out->arena, kernel));
        gpuf_begin_group(writer, "parameters", "[");
        for (m = 0; m < kernel->count; ++m) {
            gpuf_begin_group(writer, NULL, "{");
            gpuf_write_member(writer, "type", kernel->parameters[m].type);
            gpuf_write_number(writer, "size", kernel->parameters[m].size);
            gpuf_end_group(writer, "}");
        }
        gpuf_end_group(writer, "]");
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
}

static void gpuf_write_set(gpuf_writer *writer, const gpuf_explained_set *set)
{
    size_t n, m, k;
    gpuf_begin_group(writer, NULL, "{");
    gpuf_write_member(writer, "name", set->name);
    gpuf_write_member(writer, "made_by", set->made_by);
    gpuf_write_member(writer, "problem", set->problem);
    gpuf_begin_group(writer, "modules", "[");
    for (n = 0; n < set->count; ++n) {
        gpuf_begin_group(writer, NULL, "{");
        gpuf_write_member(writer, "name", set->modules[n].name);
        gpuf_write_member(writer, "source", set->modules[n].source);
        gpuf_write_kernels(writer, &set->modules[n].kernels);
        gpuf_begin_group(writer, "verdicts", "[");
        for (m = 0; m < set->modules[n].count; ++m) {
            const gpuf_module_verdict *verdict = &set->modules[n].verdicts[m];
            gpuf_begin_group(writer, NULL, "{");
            gpuf_begin_group(writer, "devices", "[");
            for (k = 0; k < verdict->device_count; ++k)
                gpuf_write_number(writer, NULL, verdict->devices[k]);
            gpuf_end_group(writer, "]");
            gpuf_write_candidates(writer, &verdict->candidates);
            gpuf_end_group(writer, "}");
        }
        gpuf_end_group(writer, "]");
        gpuf_end_group(writer, "}");
    }
    gpuf_end_group(writer, "]");
    gpuf_end_group(writer, "}");
}

static void gpuf_print_json(gpuf_text *out, const gpuf_explained *all)
{
    gpuf_writer writer;
    size_t n;
    writer.out = out, writer.level = 0, writer.first = 1;
    gpuf_begin_group(&writer, NULL, "{");
    gpuf_write_number(&writer, "schema", 1);
    if (all->set_count)
        gpuf_write_machine(&writer, all->machine);
    else
        gpuf_write_member(&writer, "machine", NULL);
    gpuf_begin_group(&writer, "libraries", "{");
    gpuf_end_group(&writer, "}");
    gpuf_begin_group(&writer, "sets", "[");
    for (n = 0; n < all->set_count; ++n)
        gpuf_write_set(&writer, &all->sets[n]);
    gpuf_end_group(&writer, "]");
    gpuf_begin_group(&writer, "kernel_libraries", "[");
    for (n = 0; n < all->library_count; ++n) {
        gpuf_begin_group(&writer, NULL, "{");
        gpuf_write_member(&writer, "name", all->libraries[n].name);
        gpuf_write_member(&writer, "problem", all->libraries[n].problem);
        gpuf_write_candidates(&writer, &all->libraries[n].candidates);
        gpuf_end_group(&writer, "}");
    }
    gpuf_end_group(&writer, "]");
    gpuf_end_group(&writer, "}");
    gpuf_put(out, "\n");
}
