/* ---- the ABI id of a library, read from the file: elf.py. It is never run before it is known to fit ---- */

typedef struct gpuf_elf {
    int handle;
    unsigned long long size;
    const unsigned char *segments;
    size_t segment_count, segment_size;
    const char *problem;
} gpuf_elf;

static unsigned long long gpuf_little(const unsigned char *data, int bytes)
{
    unsigned long long value = 0;
    while (bytes--)
        value = value << 8 | data[bytes];
    return value;
}

/* Read a piece of the file; NULL and `problem` where it is not there. */
static unsigned char *gpuf_piece(gpuf_arena *arena, gpuf_elf *file, unsigned long long offset, unsigned long long size)
{
    unsigned char *data;
    if (size > GPUF_MOST) {
        file->problem = "it is damaged: a table is larger than any library's";
        return NULL;
    }
    if (offset > file->size || size > file->size - offset) {
        file->problem = "it is cut short";
        return NULL;
    }
    data = (unsigned char *)gpuf_new(arena, (size_t)size + 1);
    if (gpuf_read_at(file->handle, data, (size_t)size, (long long)offset) != (long)size)
        file->problem = "it is cut short";
    return file->problem ? NULL : data;
}

static const char *gpuf_this_machine(gpuf_arena *arena)
{
    struct utsname names;
    return uname(&names) == 0 ? gpuf_copy(arena, names.machine, strlen(names.machine)) : "";
}

static void gpuf_read_head(gpuf_arena *arena, gpuf_elf *file, unsigned char head[64])
{
    const unsigned char *data = gpuf_piece(arena, file, 0, 64);
    const char *machine = gpuf_this_machine(arena);
    size_t n;
    if (!data)
        return;
    memcpy(head, data, 64);
    if (memcmp(head, "\x7f" "ELF", 4) != 0)
        file->problem = "it is not an ELF file";
    else if (head[4] != 2 || head[5] != 1)
        file->problem = "it is not a 64-bit little-endian ELF file";
    for (n = 0; !file->problem && n < sizeof gpuf_machines / sizeof *gpuf_machines; ++n)
        if (gpuf_same(gpuf_machines[n].name, machine) && gpuf_machines[n].number != (int)gpuf_little(head + 18, 2))
            file->problem = gpuf_join(arena, "it is for another architecture than ", machine, NULL, NULL);
    if (file->problem)
        return;
    file->segment_size = (size_t)gpuf_little(head + 54, 2);
    file->segment_count = (size_t)gpuf_little(head + 56, 2);
    if (file->segment_count && file->segment_size < 56) {
        file->problem = "its program headers are damaged";
        return;
    }
    file->segments = gpuf_piece(arena, file, gpuf_little(head + 32, 8),
                                (unsigned long long)file->segment_size * file->segment_count);
}

/* Return the text at an address of the loaded library; NULL and `problem`. */
static const char *gpuf_text_at(gpuf_arena *arena, gpuf_elf *file, unsigned long long address)
{
    const unsigned char *found = NULL;
    unsigned long long offset, base, start, size;
    gpuf_text text = gpuf_text_in(arena);
    const char *end;
    size_t n, used, left;
    for (n = 0; n < file->segment_count && !found; ++n) {
        const unsigned char *row = file->segments + n * file->segment_size;
        start = gpuf_little(row + 16, 8);
        if (gpuf_little(row, 4) == 1 && address >= start && address - start < gpuf_little(row + 32, 8))
            found = row;
    }
    if (!found) {
        file->problem = "it is damaged: an address lies in no segment";
        return NULL;
    }
    base = gpuf_little(found + 8, 8);
    offset = base + (address - gpuf_little(found + 16, 8));
    if (offset < base)
        offset = ~0ull;
    size = offset < file->size ? file->size - offset : 0;
    if (size > GPUF_LONGEST)
        size = GPUF_LONGEST;
    found = gpuf_piece(arena, file, offset, size);
    if (!found)
        return NULL;
    end = (const char *)memchr(found, 0, (size_t)size);
    if (!end) {
        file->problem = "it is damaged: a string has no end";
        return NULL;
    }
    for (left = (size_t)(end - (const char *)found); left; found += used, left -= used) {
        if (gpuf_character(found, left, &used) < 0)
            gpuf_put(&text, "\xef\xbf\xbd");
        else
            gpuf_add(&text, (const char *)found, used);
    }
    return text.data;
}

/* Return the address of an exported symbol in one table, 0 when it is not there. */
static unsigned long long gpuf_in_table(gpuf_arena *arena, gpuf_elf *file, const unsigned char *symbols,
                                        const unsigned char *names, const char *wanted)
{
    unsigned long long room = gpuf_little(names + 32, 8), size = gpuf_little(symbols + 32, 8) / 24 * 24, n;
    const unsigned char *strings = gpuf_piece(arena, file, gpuf_little(names + 24, 8), room), *table;
    size_t length = strlen(wanted);
    if (!strings)
        return 0;
    table = gpuf_piece(arena, file, gpuf_little(symbols + 24, 8), size);
    for (n = 0; table && n < size; n += 24) {
        unsigned long long at = gpuf_little(table + n, 4), value = gpuf_little(table + n + 8, 8);
        if (!gpuf_little(table + n + 6, 2) || !value || at >= room || room - at <= length)
            continue;
        if (memcmp(strings + at, wanted, length) == 0 && (!strings[at + length] || room - at == length + 1))
            if (!strings[at + length] || !memchr(strings + at, 0, (size_t)(room - at)))
                return value;
    }
    return 0;
}

/* Return the text that a library exports under a name; NULL without `problem`: it exports no such symbol. */
static const char *gpuf_exported(gpuf_arena *arena, gpuf_elf *file, const char *symbol)
{
    unsigned char head[64];
    const unsigned char *rows;
    unsigned long long count, size, n, link, address = 0;
    gpuf_read_head(arena, file, head);
    if (file->problem)
        return NULL;
    size = gpuf_little(head + 58, 2), count = gpuf_little(head + 60, 2);
    rows = gpuf_piece(arena, file, gpuf_little(head + 40, 8), size * count);
    if (rows && count && size < 64)
        file->problem = "its section headers are damaged";
    for (n = 0; !file->problem && !address && n < count; ++n) {
        link = gpuf_little(rows + n * size + 40, 4);
        if (gpuf_little(rows + n * size + 4, 4) == 11 && link < count)
            address = gpuf_in_table(arena, file, rows + n * size, rows + link * size, symbol);
    }
    return file->problem || !address ? NULL : gpuf_text_at(arena, file, address);
}

/* The ABI id that a library must have, "" for none; or why none can serve. */
typedef struct gpuf_abi {
    const char *id;
    gpuforge_reason refusal;
} gpuf_abi;

/* Return why a file is not a library with this ABI id, without a kind for one that is. */
static gpuforge_reason gpuf_wrong_abi(gpuf_arena *arena, const char *path, const gpuf_abi *wanted)
{
    const char *abi = wanted->id;
    struct stat seen;
    gpuf_elf file;
    const char *found = NULL;
    if (wanted->refusal.kind)
        return wanted->refusal;
    memset(&file, 0, sizeof file);
    file.handle = gpuf_open_file(path, &file.problem);
    if (file.handle >= 0) {
        file.size = fstat(file.handle, &seen) == 0 && seen.st_size > 0 ? (unsigned long long)seen.st_size : 0;
        found = gpuf_exported(arena, &file, "gpuforge_abi_id");
        close(file.handle);
    }
    if (file.problem)
        return gpuf_because("unreadable", "file", path, "problem", file.problem, NULL, NULL);
    if (!*abi || (found && gpuf_same(found, abi)))
        return gpuf_simply(NULL);
    if (!found)
        return gpuf_because("no-abi", "file", path, "symbol", "gpuforge_abi_id", NULL, NULL);
    return gpuf_because("other-abi", "file", path, "found", found, "expected", abi);
}
