/* ---- the kernels of modules, by name: names.py and signature.py ---- */

/* A kernel that is wanted: its module, the name as given, and its entry, NULL where only the driver can know it. */
typedef struct gpuf_kernel_name {
    const char *module, *name;
    const gpuf_entry *entry;
} gpuf_kernel_name;

/* Some entries, and the module that each is in. */
typedef struct gpuf_entries {
    const gpuf_entry **items;
    const char **modules;
    size_t count;
} gpuf_entries;

static const char *gpuf_signature(gpuf_arena *arena, const gpuf_entry *entry)
{
    gpuf_text text = gpuf_text_in(arena);
    size_t n;
    gpuf_put(&text, entry->name);
    gpuf_put(&text, "(");
    for (n = 0; n < entry->count; ++n) {
        const gpuf_parameter *parameter = &entry->parameters[n];
        gpuf_put(&text, n ? ", " : "");
        gpuf_put(&text, *parameter->type ? parameter->type : gpuf_number(arena, parameter->size));
        gpuf_put(&text, *parameter->type ? "" : parameter->size == 1 ? " byte" : " bytes");
    }
    gpuf_put(&text, ")");
    return text.data;
}

static int gpuf_in_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static int gpuf_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Return a name without the spaces that separate no words. */
static const char *gpuf_normal(gpuf_arena *arena, const char *name)
{
    char *made = (char *)gpuf_new(arena, strlen(name) + 1), *end = made;
    const char *next;
    while (*name) {
        for (next = name; gpuf_is_space(*next); ++next)
            ;
        if (next > name && end > made && gpuf_in_word(end[-1]) && gpuf_in_word(*next))
            *end++ = ' ';
        if (*next)
            *end++ = *next++;
        name = next;
    }
    return made;
}

/* Whether a name without some of its namespaces, and perhaps without its template arguments, is the wanted one. */
static int gpuf_is_spelled(gpuf_arena *arena, const char *name, const char *types, const char *wanted)
{
    size_t n, length = strlen(name);
    const char *start = name;
    int depth = 0, is_template = length && name[length - 1] == '>';
    for (n = 0; n <= length; ++n) {
        if (start == name + n) {
            const char *arguments = strchr(start, '<');
            if (gpuf_same(gpuf_join(arena, start, types, NULL, NULL), wanted))
                return 1;
            if (is_template && arguments &&
                gpuf_same(gpuf_join(arena, gpuf_copy(arena, start, (size_t)(arguments - start)), types, NULL, NULL),
                          wanted))
                return 1;
        }
        if (name[n] == '<' || name[n] == '(')
            ++depth;
        else if (name[n] == '>' || name[n] == ')')
            --depth;
        else if (depth == 0 && name[n] == ':' && name[n + 1] == ':')
            start = name + n + 2;
    }
    return 0;
}

enum { GPUF_SPELLINGS = 5 };

/* Whether a kernel has the wanted name in one of the ways to spell it, of which the first counts. */
static int gpuf_is_named_so(gpuf_arena *arena, const gpuf_entry *entry, int spelling, const char *wanted)
{
    const char *name = gpuf_normal(arena, entry->name);
    const char *signature = gpuf_normal(arena, gpuf_signature(arena, entry));
    switch (spelling) {
    case 0:
        return gpuf_same(gpuf_normal(arena, entry->symbol), wanted);
    case 1:
        return gpuf_same(signature, wanted);
    case 2:
        return gpuf_same(name, wanted);
    case 3:
        return gpuf_is_spelled(arena, name, signature + strlen(name), wanted);
    default:
        return gpuf_is_spelled(arena, name, "", wanted);
    }
}

/* Return the entries that a name may mean. */
static gpuf_entries gpuf_matching(gpuf_arena *arena, const gpuf_entries *listed, const char *name)
{
    const char *wanted = gpuf_normal(arena, name);
    gpuf_entries found;
    size_t n;
    int spelling;
    found.count = 0;
    found.items = (const gpuf_entry **)gpuf_array(arena, listed->count, sizeof *found.items);
    found.modules = (const char **)gpuf_array(arena, listed->count, sizeof *found.modules);
    for (spelling = 0; !found.count && spelling < GPUF_SPELLINGS; ++spelling)
        for (n = 0; n < listed->count; ++n)
            if (gpuf_is_named_so(arena, listed->items[n], spelling, wanted)) {
                found.items[found.count] = listed->items[n];
                found.modules[found.count++] = listed->modules[n];
            }
    return found;
}

/* Return the kernels that any index lists for a module, each once, or those of all modules. */
static gpuf_entries gpuf_listed(gpuf_arena *arena, const gpuf_places *places, const char *module)
{
    gpuf_entries found;
    size_t n, m, k, e, most = 0;
    for (n = 0; n < places->count; ++n)
        for (m = 0; places->items[n].contents && m < places->items[n].contents->count; ++m)
            most += places->items[n].contents->modules[m].kernel_count;
    found.count = 0;
    found.items = (const gpuf_entry **)gpuf_array(arena, most, sizeof *found.items);
    found.modules = (const char **)gpuf_array(arena, most, sizeof *found.modules);
    for (n = 0; n < places->count; ++n)
        for (m = 0; places->items[n].contents && m < places->items[n].contents->count; ++m) {
            const gpuf_module *one = &places->items[n].contents->modules[m];
            for (k = 0; (!module || gpuf_same(module, one->name)) && k < one->kernel_count; ++k) {
                for (e = 0; e < found.count && !(gpuf_same(found.items[e]->symbol, one->kernels[k].symbol) &&
                                                 gpuf_same(found.modules[e], one->name));
                     ++e)
                    ;
                if (e == found.count) {
                    found.items[e] = &one->kernels[k];
                    found.modules[e] = one->name;
                    ++found.count;
                }
            }
        }
    return found;
}

/* Whether a place has a file for a module without a list of its kernels. */
static int gpuf_has_unlisted(gpuf_arena *arena, const gpuf_places *places, const char *module)
{
    size_t n;
    for (n = 0; n < places->count; ++n) {
        const gpuf_module *file = gpuf_module_at(arena, &places->items[n], module);
        if (file && !places->items[n].problem.kind && !file->kernel_count)
            return 1;
    }
    return 0;
}

static const char *gpuf_lines_of(gpuf_arena *arena, const gpuf_entries *entries)
{
    gpuf_text text = gpuf_text_in(arena);
    size_t n;
    for (n = 0; n < entries->count; ++n)
        gpuf_put(&text, gpuf_join(arena, "\n  ", gpuf_signature(arena, entries->items[n]), NULL, NULL));
    return text.data;
}

/* Find the kernel of a name in a module, or in all modules where that is NULL; 0 and why in `*problem`. */
static int gpuf_find_kernel(gpuf_arena *arena, const gpuf_places *places, const char *set, const char *module,
                            const char *name, gpuf_kernel_name *wanted, const char **problem)
{
    gpuf_names names = gpuf_module_names(arena, places);
    gpuf_entries listed = gpuf_listed(arena, places, module), found = gpuf_matching(arena, &listed, name);
    const char **homes = (const char **)gpuf_array(arena, names.count + 1, sizeof *homes), *where;
    size_t n, count = 0;
    if (!names.count || module)
        module = gpuf_module_named(arena, places, set, module, problem);
    if (*problem)
        return 0;
    wanted->name = name;
    wanted->entry = found.count ? found.items[0] : NULL;
    wanted->module = found.count ? found.modules[0] : NULL;
    for (n = 1; n < found.count && gpuf_same(found.items[n]->symbol, found.items[0]->symbol); ++n)
        ;
    if (found.count > 1 && n == found.count)
        *problem = gpuf_join(arena, "kernel set ", set,
                             gpuf_join(arena, " has the kernel '", name, "' in several modules: name one of ",
                                       gpuf_list(arena, found.modules, found.count)),
                             NULL);
    else if (found.count > 1)
        *problem = gpuf_join(arena, "kernel set ", set, gpuf_join(arena, " has several kernels '", name,
                                                                  "': name one of", NULL),
                             gpuf_lines_of(arena, &found));
    if (found.count)
        return found.count == 1;
    for (n = 0; n < names.count; ++n)
        if ((!module || gpuf_same(module, names.items[n])) && gpuf_has_unlisted(arena, places, names.items[n]))
            homes[count++] = names.items[n];
    wanted->module = homes[0];
    if (count == 1)
        return 1;
    if (count > 1) {
        gpuforge_reason reason = gpuf_because("several-modules", "set", set, "name", name, "known",
                                              gpuf_list(arena, homes, count));
        *problem = gpuf_sentence(arena, &reason);
        return 0;
    }
    where = module || names.count == 1 ? gpuf_join(arena, "module ", module ? module : names.items[0], " of ", NULL) : "";
    *problem = gpuf_join(arena, where, "kernel set ", set,
                         gpuf_join(arena, " has no kernel '", name, listed.count ? "'; it has" : "'",
                                   gpuf_lines_of(arena, &listed)));
    return 0;
}

/* Return the symbols to look up in a module's file, one after the other; none where its list has not the kernel. */
static size_t gpuf_symbols(gpuf_arena *arena, const gpuf_kernel_name *wanted, const gpuf_module *file, const char *symbols[2])
{
    gpuf_entries own, found;
    size_t n;
    own.count = file->kernel_count;
    own.items = (const gpuf_entry **)gpuf_array(arena, own.count, sizeof *own.items);
    own.modules = (const char **)gpuf_array(arena, own.count, sizeof *own.modules);
    for (n = 0; n < own.count; ++n) {
        own.items[n] = &file->kernels[n];
        own.modules[n] = file->name;
    }
    symbols[0] = wanted->entry ? wanted->entry->symbol : wanted->name;
    symbols[1] = wanted->name;
    if (!own.count)
        return gpuf_same(symbols[0], symbols[1]) ? 1 : 2;
    for (n = 0; wanted->entry && n < own.count; ++n)
        if (gpuf_same(own.items[n]->symbol, symbols[0]))
            return 1;
    found = gpuf_matching(arena, &own, wanted->name);
    symbols[0] = found.count ? found.items[0]->symbol : NULL;
    return found.count ? 1 : 0;
}
