/* ---- memory: what a call allocates is freed as a whole; without memory the call ends and returns NULL ---- */

typedef struct gpuf_chunk {
    struct gpuf_chunk *next;
    union {
        long long number;
        double real;
        void *address;
    } align;
} gpuf_chunk;

typedef struct gpuf_arena {
    gpuf_chunk *chunks;
    char *free;
    size_t left;
    jmp_buf no_memory;
} gpuf_arena;

static void *gpuf_new(gpuf_arena *arena, size_t size)
{
    const size_t head = offsetof(gpuf_chunk, align);
    void *found;
    if (size > SIZE_MAX / 2)
        longjmp(arena->no_memory, 1);
    size = (size + 15) / 16 * 16;
    if (size > arena->left) {
        size_t room = size > 16384 ? size : 16384;
        gpuf_chunk *chunk = (gpuf_chunk *)malloc(head + 16 + room);
        if (!chunk)
            longjmp(arena->no_memory, 1);
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->free = (char *)chunk + (head + 15) / 16 * 16;
        arena->left = room;
    }
    found = arena->free;
    arena->free += size;
    arena->left -= size;
    return memset(found, 0, size);
}

static void gpuf_release(gpuf_arena *arena)
{
    while (arena->chunks) {
        gpuf_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->free = NULL;
    arena->left = 0;
}

static void *gpuf_array(gpuf_arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 4 / size)
        longjmp(arena->no_memory, 1);
    return gpuf_new(arena, count * size + 1);
}

/* ---- text ---- */

typedef struct gpuf_text {
    gpuf_arena *arena;
    char *data; /* ends with a NUL */
    size_t length, room;
} gpuf_text;

static void gpuf_add(gpuf_text *text, const char *data, size_t length)
{
    if (length >= text->room - text->length) {
        size_t room = (text->length + length + 64) * 2;
        char *grown = (char *)gpuf_new(text->arena, room);
        if (text->length)
            memcpy(grown, text->data, text->length);
        text->data = grown;
        text->room = room;
    }
    if (length)
        memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

static void gpuf_put(gpuf_text *text, const char *data)
{
    gpuf_add(text, data, strlen(data));
}

static gpuf_text gpuf_text_in(gpuf_arena *arena)
{
    gpuf_text text;
    text.arena = arena;
    text.data = NULL;
    text.length = text.room = 0;
    gpuf_add(&text, "", 0);
    return text;
}

static char *gpuf_copy(gpuf_arena *arena, const char *data, size_t length)
{
    char *copy = (char *)gpuf_new(arena, length + 1);
    if (length)
        memcpy(copy, data, length);
    return copy;
}

/* Join four pieces; NULL is an empty one. */
static char *gpuf_join(gpuf_arena *arena, const char *a, const char *b, const char *c, const char *d)
{
    gpuf_text text = gpuf_text_in(arena);
    const char *pieces[4];
    int n;
    pieces[0] = a, pieces[1] = b, pieces[2] = c, pieces[3] = d;
    for (n = 0; n < 4; ++n)
        if (pieces[n])
            gpuf_put(&text, pieces[n]);
    return text.data;
}

static char *gpuf_number(gpuf_arena *arena, long long number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", number);
    return gpuf_copy(arena, digits, strlen(digits));
}

static char *gpuf_dotted(gpuf_arena *arena, const int version[2])
{
    return gpuf_join(arena, gpuf_number(arena, version[0]), ".", gpuf_number(arena, version[1]), NULL);
}

/* Read one character of UTF-8. `*used` is its length, of what is no UTF-8 the length of what is replaced by one U+FFFD;
   the result is then -1. */
static long gpuf_character(const unsigned char *data, size_t left, size_t *used)
{
    unsigned char first = data[0], low = 0x80, high = 0xbf;
    size_t more = first < 0x80 ? 0 : first < 0xc2 ? 9 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 9, n;
    long code = more == 0 ? first : more == 1 ? first & 0x1f : more == 2 ? first & 0x0f : first & 0x07;
    *used = 1;
    if (more == 9)
        return -1;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (n = 1; n <= more; ++n) {
        if (n >= left || data[n] < low || data[n] > high)
            return -1;
        code = code << 6 | (data[n] & 0x3f);
        *used = n + 1;
        low = 0x80, high = 0xbf;
    }
    return code;
}

/* Return how many columns a text takes, one for each character. */
static size_t gpuf_width(const char *text)
{
    size_t width = 0, left = strlen(text), used;
    for (; left; text += used, left -= used, ++width)
        if (gpuf_character((const unsigned char *)text, left, &used) < 0)
            used = 1;
    return width;
}

static int gpuf_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int gpuf_ends(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && memcmp(text + a - b, end, b) == 0;
}

/* ---- paths, as Python's os.path and pathlib make them ---- */

static char *gpuf_path(gpuf_arena *arena, const char *folder, const char *name)
{
    size_t length = strlen(folder);
    if (name[0] == '/')
        return gpuf_copy(arena, name, strlen(name));
    return gpuf_join(arena, folder, length && folder[length - 1] != '/' ? "/" : "", name, NULL);
}

static char *gpuf_here(gpuf_arena *arena)
{
    size_t room = 1024;
    for (;; room *= 2) {
        char *path = (char *)gpuf_new(arena, room);
        if (getcwd(path, room))
            return path;
        if (errno != ERANGE)
            return gpuf_copy(arena, "/", 1);
    }
}

/* Make a path of its parts: without empty ones and ".", and where `up` is set without "..". */
static char *gpuf_parts(gpuf_arena *arena, const char *path, int up)
{
    gpuf_text made = gpuf_text_in(arena);
    size_t root = path[0] != '/' ? 0 : path[1] == '/' && path[2] != '/' ? 2 : 1;
    const char *at = path;
    gpuf_add(&made, "//", root);
    while (*at) {
        size_t length = strcspn(at, "/");
        if (up && length == 2 && at[0] == '.' && at[1] == '.') {
            while (made.length > root && made.data[made.length - 1] != '/')
                --made.length;
            if (made.length > root)
                --made.length;
            made.data[made.length] = 0;
        } else if (length && !(length == 1 && at[0] == '.')) {
            if (made.length > root)
                gpuf_add(&made, "/", 1);
            gpuf_add(&made, at, length);
        }
        at += length;
        at += *at == '/';
    }
    return made.data;
}

/* os.path.abspath */
static char *gpuf_absolute(gpuf_arena *arena, const char *path)
{
    return gpuf_parts(arena, path[0] == '/' ? path : gpuf_path(arena, gpuf_here(arena), path), 1);
}

/* str(Path(path).absolute()) */
static char *gpuf_pathlib(gpuf_arena *arena, const char *path)
{
    return gpuf_parts(arena, path[0] == '/' ? path : gpuf_path(arena, gpuf_here(arena), path), 0);
}

static int gpuf_is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static int gpuf_is_file(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static int gpuf_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Return the names of the folders in home/kind, sorted. */
static const char **gpuf_folders(gpuf_arena *arena, const char *home, const char *kind, size_t *count)
{
    const char *folder = gpuf_path(arena, home, kind), **names = NULL;
    size_t room = 0;
    DIR *open = opendir(folder);
    struct dirent *entry;
    *count = 0;
    while (open && (entry = readdir(open)) != NULL) {
        if (gpuf_same(entry->d_name, ".") || gpuf_same(entry->d_name, ".."))
            continue;
        if (strlen(entry->d_name) > NAME_MAX || !gpuf_is_folder(gpuf_path(arena, folder, entry->d_name)))
            continue;
        if (*count == room) {
            const char **grown = (const char **)gpuf_array(arena, room = room * 2 + 16, sizeof *grown);
            if (*count)
                memcpy(grown, names, *count * sizeof *grown);
            names = grown;
        }
        names[(*count)++] = gpuf_copy(arena, entry->d_name, strlen(entry->d_name));
    }
    if (open)
        closedir(open);
    if (*count)
        qsort(names, *count, sizeof *names, gpuf_by_text);
    return names;
}
