/* ---- SHA-256, https://csrc.nist.gov/pubs/fips/180-4/upd1/final ---- */

typedef struct gpuf_sha256 {
    unsigned state[8];
    unsigned char block[64];
    unsigned long long length;
} gpuf_sha256;

static unsigned gpuf_rotate(unsigned value, int bits)
{
    return (value >> bits | value << (32 - bits)) & 0xffffffffu;
}

static void gpuf_sha256_block(gpuf_sha256 *hash)
{
    unsigned w[64], s[8], one, two;
    int n;
    for (n = 0; n < 16; ++n)
        w[n] = (unsigned)hash->block[4 * n] << 24 | (unsigned)hash->block[4 * n + 1] << 16 |
               (unsigned)hash->block[4 * n + 2] << 8 | hash->block[4 * n + 3];
    for (; n < 64; ++n) {
        one = gpuf_rotate(w[n - 15], 7) ^ gpuf_rotate(w[n - 15], 18) ^ w[n - 15] >> 3;
        two = gpuf_rotate(w[n - 2], 17) ^ gpuf_rotate(w[n - 2], 19) ^ w[n - 2] >> 10;
        w[n] = w[n - 16] + one + w[n - 7] + two;
    }
    memcpy(s, hash->state, sizeof s);
    for (n = 0; n < 64; ++n) {
        one = s[7] + (gpuf_rotate(s[4], 6) ^ gpuf_rotate(s[4], 11) ^ gpuf_rotate(s[4], 25)) +
              ((s[4] & s[5]) ^ (~s[4] & s[6])) + gpuf_rounds[n] + w[n];
        two = (gpuf_rotate(s[0], 2) ^ gpuf_rotate(s[0], 13) ^ gpuf_rotate(s[0], 22)) +
              ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (n = 0; n < 8; ++n)
        hash->state[n] += s[n];
}

static void gpuf_sha256_add(gpuf_sha256 *hash, const unsigned char *data, size_t length)
{
    for (; length; --length) {
        hash->block[hash->length++ % 64] = *data++;
        if (hash->length % 64 == 0)
            gpuf_sha256_block(hash);
    }
}

static void gpuf_sha256_begin(gpuf_sha256 *hash)
{
    memcpy(hash->state, gpuf_begin, sizeof hash->state);
    hash->length = 0;
}

/* Return the digest in hexadecimal. */
static char *gpuf_sha256_end(gpuf_arena *arena, gpuf_sha256 *hash)
{
    unsigned long long bits = hash->length * 8;
    unsigned char byte = 0x80;
    char *text = (char *)gpuf_new(arena, 65);
    int n;
    do {
        gpuf_sha256_add(hash, &byte, 1);
        byte = 0;
    } while (hash->length % 64 != 56);
    for (n = 7; n >= 0; --n) {
        byte = (unsigned char)(bits >> 8 * n);
        gpuf_sha256_add(hash, &byte, 1);
    }
    for (n = 0; n < 8; ++n)
        snprintf(text + 8 * n, 9, "%08x", hash->state[n]);
    return text;
}

/* ---- files and JSON: only what document.py takes, and refused in its words ---- */

/* Open a regular file, at once even for a pipe; -1, and why in `*problem`. */
static int gpuf_open_file(const char *path, const char **problem)
{
    struct stat found;
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *problem = NULL;
    if (handle < 0) {
        *problem = strerror(errno);
        return -1;
    }
    if (fstat(handle, &found) == 0 && S_ISREG(found.st_mode))
        return handle;
    close(handle);
    errno = EINVAL;
    *problem = "it is not a regular file";
    return -1;
}

/* Read up to `size` bytes at an offset; return how many there were, or -1. */
static long gpuf_read_at(int handle, unsigned char *data, size_t size, long long offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(handle, data + done, size - done, (off_t)(offset + (long long)done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (long)done;
}

/* Return the sha256 of a file, or NULL and why in `*problem`. */
static char *gpuf_sha256_of(gpuf_arena *arena, const char *path, const char **problem)
{
    unsigned char data[16384];
    gpuf_sha256 hash;
    long long offset = 0;
    long count;
    int handle = gpuf_open_file(path, problem);
    if (handle < 0)
        return NULL;
    gpuf_sha256_begin(&hash);
    while ((count = gpuf_read_at(handle, data, sizeof data, offset)) > 0) {
        gpuf_sha256_add(&hash, data, (size_t)count);
        offset += count;
    }
    if (count < 0)
        *problem = strerror(errno);
    close(handle);
    return *problem ? NULL : gpuf_sha256_end(arena, &hash);
}

typedef enum { GPUF_NULL, GPUF_BOOL, GPUF_WHOLE, GPUF_REAL, GPUF_TEXT, GPUF_LIST, GPUF_OBJECT } gpuf_type;

typedef struct gpuf_json {
    gpuf_type type;
    long long number;
    const char *text;
    const char *key; /* in an object */
    struct gpuf_json *first, *last, *next;
} gpuf_json;

typedef struct gpuf_parser {
    gpuf_arena *arena;
    const char *at, *end;
} gpuf_parser;

static gpuf_json *gpuf_parse_value(gpuf_parser *parser, int level);

static void gpuf_blank(gpuf_parser *parser)
{
    while (parser->at < parser->end && memchr(" \t\n\r", *parser->at, 4))
        ++parser->at;
}

/* Pass over a character; 0 when there is another. */
static int gpuf_take(gpuf_parser *parser, char wanted)
{
    if (parser->at >= parser->end || *parser->at != wanted)
        return 0;
    ++parser->at;
    return 1;
}

static int gpuf_take_word(gpuf_parser *parser, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0)
        return 0;
    parser->at += length;
    return 1;
}

/* Read the four digits of an escape, -1 where they are not there. */
static long gpuf_hex(gpuf_parser *parser)
{
    long code = 0;
    int n;
    if (parser->end - parser->at < 4)
        return -1;
    for (n = 0; n < 4; ++n) {
        const char *digits = "0123456789abcdef0123456789ABCDEF", *found = strchr(digits, parser->at[n]);
        if (!parser->at[n] || !found)
            return -1;
        code = code << 4 | ((found - digits) & 15);
    }
    parser->at += 4;
    return code;
}

static void gpuf_add_character(gpuf_text *text, long code)
{
    char bytes[4];
    if (code < 0x80) {
        bytes[0] = (char)code;
        gpuf_add(text, bytes, 1);
        return;
    }
    if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        bytes[1] = (char)(0x80 | (code & 0x3f));
        gpuf_add(text, bytes, 2);
        return;
    }
    if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        bytes[1] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (code & 0x3f));
        gpuf_add(text, bytes, 3);
        return;
    }
    bytes[0] = (char)(0xf0 | code >> 18);
    bytes[1] = (char)(0x80 | (code >> 12 & 0x3f));
    bytes[2] = (char)(0x80 | (code >> 6 & 0x3f));
    bytes[3] = (char)(0x80 | (code & 0x3f));
    gpuf_add(text, bytes, 4);
}

/* Read what follows a backslash; 0 for what is none. A NUL, and half of a pair, is none either. */
static int gpuf_escape(gpuf_parser *parser, gpuf_text *text)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    long code, low;
    if (parser->at >= parser->end)
        return 0;
    found = (const char *)memchr(names, *parser->at, 8);
    if (found) {
        ++parser->at;
        gpuf_add(text, values + (found - names), 1);
        return 1;
    }
    if (!gpuf_take(parser, 'u') || (code = gpuf_hex(parser)) <= 0 || (code >= 0xdc00 && code < 0xe000))
        return 0;
    if (code >= 0xd800 && code < 0xdc00) {
        if (!gpuf_take_word(parser, "\\u") || (low = gpuf_hex(parser)) < 0xdc00 || low >= 0xe000)
            return 0;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    gpuf_add_character(text, code);
    return 1;
}

static const char *gpuf_parse_text(gpuf_parser *parser)
{
    gpuf_text text = gpuf_text_in(parser->arena);
    if (!gpuf_take(parser, '"'))
        return NULL;
    while (parser->at < parser->end) {
        unsigned char c = (unsigned char)*parser->at;
        const char *from = parser->at;
        if (c < 0x20)
            return NULL;
        if (c == '"') {
            ++parser->at;
            return text.data;
        }
        if (c == '\\') {
            ++parser->at;
            if (!gpuf_escape(parser, &text))
                return NULL;
            continue;
        }
        while (parser->at < parser->end && (unsigned char)*parser->at >= 0x20 && !strchr("\"\\", *parser->at))
            ++parser->at;
        gpuf_add(&text, from, (size_t)(parser->at - from));
    }
    return NULL;
}

static size_t gpuf_digits(gpuf_parser *parser)
{
    const char *from = parser->at;
    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9')
        ++parser->at;
    return (size_t)(parser->at - from);
}

static int gpuf_parse_number(gpuf_parser *parser, gpuf_json *value)
{
    const char *from = parser->at, *whole;
    gpuf_take(parser, '-');
    if (!gpuf_take(parser, '0') && !gpuf_digits(parser))
        return 0;
    whole = parser->at;
    if (gpuf_take(parser, '.') && !gpuf_digits(parser))
        parser->at = whole;
    else {
        const char *before = parser->at;
        if (gpuf_take(parser, 'e') || gpuf_take(parser, 'E')) {
            if (!gpuf_take(parser, '-'))
                gpuf_take(parser, '+');
            if (!gpuf_digits(parser))
                parser->at = before;
        }
    }
    value->type = parser->at == whole ? GPUF_WHOLE : GPUF_REAL;
    if (value->type == GPUF_REAL)
        return 1;
    if (whole - from > GPUF_LONGEST_NUMBER)
        return 0;
    value->number = strtoll(gpuf_copy(parser->arena, from, (size_t)(whole - from)), NULL, 10);
    return 1;
}

static int gpuf_parse_members(gpuf_parser *parser, gpuf_json *value, int level, char end)
{
    gpuf_blank(parser);
    if (gpuf_take(parser, end))
        return 1;
    for (;;) {
        const char *key = NULL;
        gpuf_json *item;
        if (end == '}') {
            gpuf_blank(parser);
            key = gpuf_parse_text(parser);
            gpuf_blank(parser);
            if (!key || !gpuf_take(parser, ':'))
                return 0;
        }
        gpuf_blank(parser);
        item = gpuf_parse_value(parser, level + 1);
        if (!item)
            return 0;
        item->key = key;
        if (value->last)
            value->last->next = item;
        else
            value->first = item;
        value->last = item;
        gpuf_blank(parser);
        if (gpuf_take(parser, end))
            return 1;
        if (!gpuf_take(parser, ','))
            return 0;
    }
}

static gpuf_json *gpuf_parse_value(gpuf_parser *parser, int level)
{
    gpuf_json *value = (gpuf_json *)gpuf_new(parser->arena, sizeof *value);
    char c = parser->at < parser->end ? *parser->at : 0;
    if (c == '{' || c == '[') {
        if (level > GPUF_DEEPEST)
            return NULL;
        ++parser->at;
        value->type = c == '{' ? GPUF_OBJECT : GPUF_LIST;
        return gpuf_parse_members(parser, value, level, c == '{' ? '}' : ']') ? value : NULL;
    }
    if (c == '"') {
        value->type = GPUF_TEXT;
        value->text = gpuf_parse_text(parser);
        return value->text ? value : NULL;
    }
    if (gpuf_take_word(parser, "null"))
        return value;
    value->type = GPUF_BOOL;
    if (gpuf_take_word(parser, "true") || gpuf_take_word(parser, "false"))
        return value;
    return gpuf_parse_number(parser, value) ? value : NULL;
}

static int gpuf_is_utf8(const char *data, size_t left)
{
    size_t used;
    for (; left; data += used, left -= used)
        if (gpuf_character((const unsigned char *)data, left, &used) < 0)
            return 0;
    return 1;
}

static gpuf_json *gpuf_parse(gpuf_arena *arena, const char *data, size_t length)
{
    gpuf_parser parser;
    gpuf_json *value;
    if (!gpuf_is_utf8(data, length))
        return NULL;
    parser.arena = arena;
    parser.at = data;
    parser.end = data + length;
    gpuf_blank(&parser);
    value = gpuf_parse_value(&parser, 1);
    gpuf_blank(&parser);
    return parser.at == parser.end ? value : NULL;
}

/* A document that was read, or why not: `missing` for a file that is not there, `damage` for one that is damaged. */
typedef struct gpuf_document {
    gpuf_json *content;
    const char *problem;
    int missing, damage;
} gpuf_document;

static gpuf_document gpuf_read(gpuf_arena *arena, const char *path)
{
    gpuf_document document;
    struct stat found;
    char *data = NULL;
    long size = 0, most = GPUF_LARGEST;
    int handle;
    memset(&document, 0, sizeof document);
    handle = gpuf_open_file(path, &document.problem);
    if (handle < 0) {
        document.missing = errno == ENOENT;
        return document;
    }
    if (fstat(handle, &found) == 0 && found.st_size < most)
        most = (long)found.st_size;
    data = (char *)malloc((size_t)most + 1);
    if (data)
        size = gpuf_read_at(handle, (unsigned char *)data, (size_t)most + 1, 0);
    if (size < 0)
        document.problem = strerror(errno);
    close(handle);
    if (!data)
        longjmp(arena->no_memory, 1);
    if (!document.problem) {
        char *kept = size > GPUF_LARGEST ? NULL : gpuf_copy(arena, data, (size_t)size);
        document.damage = 1;
        document.content = kept ? gpuf_parse(arena, kept, (size_t)size) : NULL;
        document.problem = !kept ? "it has more than 4 MiB" : !document.content ? "it is not valid JSON" :
                           document.content->type != GPUF_OBJECT ? "it is not an object" : NULL;
    }
    free(data);
    return document;
}

/* ---- fields: the first that is wrong stays in `*problem`, and what follows it is not looked at ---- */

static const gpuf_json *gpuf_find(const gpuf_json *entry, const char *key)
{
    const gpuf_json *found = NULL, *item;
    for (item = entry ? entry->first : NULL; item; item = item->next)
        if (item->key && gpuf_same(item->key, key))
            found = item; /* of several the last, as in Python */
    return found;
}

static const gpuf_json *gpuf_field(gpuf_arena *arena, const gpuf_json *entry, const char *key, gpuf_type type,
                                   const char *expected, const char **problem)
{
    const gpuf_json *found;
    if (*problem)
        return NULL;
    found = gpuf_find(entry, key);
    if (found && found->type == type)
        return found;
    *problem = gpuf_join(arena, "'", key, found ? "' is not " : "' is missing in it", found ? expected : "");
    return NULL;
}

static const char *gpuf_word(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char *otherwise,
                             const char **problem)
{
    const gpuf_json *found;
    const char *c;
    if (otherwise && !*problem && !gpuf_find(entry, key))
        return otherwise;
    found = gpuf_field(arena, entry, key, GPUF_TEXT, "text", problem);
    for (c = found ? found->text : ""; *c; ++c)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *problem = gpuf_join(arena, "'", key, "' has a control character", NULL);
            return "";
        }
    return found ? found->text : "";
}

static const char *gpuf_file_name(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char *otherwise,
                                  const char **problem)
{
    const char *name = gpuf_word(arena, entry, key, otherwise, problem);
    if (*problem)
        return "";
    if (strchr(name, '/') || gpuf_same(name, ".") || gpuf_same(name, "..") || (!*name && !otherwise))
        *problem = gpuf_join(arena, "'", name, "' is not the name of a file beside it", NULL);
    return name;
}

static long long gpuf_whole(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char **problem)
{
    const gpuf_json *found = gpuf_field(arena, entry, key, GPUF_WHOLE, "a whole number", problem);
    return found ? found->number : 0;
}

static const gpuf_json *gpuf_table(gpuf_arena *arena, const gpuf_json *entry, const char *key, const char **problem)
{
    return gpuf_field(arena, entry, key, GPUF_OBJECT, "an object", problem);
}

/* Return the first item of a list whose items are all of one type, and their number. */
static const gpuf_json *gpuf_items(gpuf_arena *arena, const gpuf_json *entry, const char *key, gpuf_type type,
                                   const char *expected, size_t *count, const char **problem)
{
    const gpuf_json *found = gpuf_field(arena, entry, key, GPUF_LIST, expected, problem), *item;
    *count = 0;
    for (item = found ? found->first : NULL; item; item = item->next, ++*count)
        if (item->type != type) {
            *problem = gpuf_join(arena, "'", key, "' is not ", expected);
            return NULL;
        }
    return found ? found->first : NULL;
}
