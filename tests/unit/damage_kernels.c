/* damage_kernels SEED ROUNDS FACTS: damages one file of a case at a time, explains the case, and puts the file back. What
   is wrong with that is for the sanitizers to find. */
#include "explain_facts.h"

enum { LONGEST = 1 << 16 };

static unsigned long long state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return below ? (unsigned)(state >> 33) % below : 0;
}

static size_t read_whole(const char *path, unsigned char *data)
{
    FILE *file = fopen(path, "rb");
    size_t size;
    if (!file)
        exit(2);
    size = fread(data, 1, LONGEST, file);
    fclose(file);
    return size;
}

static void write_whole(const char *path, const unsigned char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        exit(2);
}

/* Cut, change, repeat or put in what may be mistaken for something else. */
static size_t damage(unsigned char *data, size_t size)
{
    static const char *const words[] = {"\"", "\\u0000", "\\ud800", "[[[[[[[[[[[[[[[[[[", "null", "1e999", "-", "{", "}", "]",
                                        "9999999999999999", "../", "\xff", "\xf0\x9f\x92", "\"a\":", "true", ",", "\n"};
    size_t at = draw((unsigned)size + 1), n, length;
    const char *word;
    switch (draw(6)) {
    case 0:
        return at;
    case 1:
        for (n = draw(4) + 1; n && size; --n)
            data[draw((unsigned)size)] = (unsigned char)draw(256);
        return size;
    case 2:
        for (n = at; n < size && n < at + 8; ++n)
            data[n] = draw(2) ? 0xff : 0;
        return size;
    case 3:
        length = draw((unsigned)(size - at) + 1);
        if (size + length > LONGEST)
            return size;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    case 4:
        if (size)
            data[draw((unsigned)size)] ^= (unsigned char)(1u << draw(8));
        return size;
    default:
        word = words[draw(sizeof words / sizeof *words)];
        length = strlen(word);
        if (size + length > LONGEST)
            return size;
        memmove(data + at + length, data + at, size - at);
        memcpy(data + at, word, length);
        return size + length;
    }
}

int main(int count, char **arguments)
{
    static unsigned char whole[LONGEST], other[LONGEST];
    facts *known;
    long round, rounds;
    if (count != 4)
        return 2;
    state = strtoull(arguments[1], NULL, 10);
    rounds = atol(arguments[2]);
    known = read_facts(arguments[3]);
    for (round = 0; round < rounds; ++round) {
        const char *path = known->files[draw((unsigned)known->file_count)];
        size_t size = read_whole(path, whole);
        char *text;
        memcpy(other, whole, size);
        write_whole(path, other, damage(other, size));
        text = gpuforge_explain(&known->host, known->names, known->name_count, (int)draw(2));
        if (!text)
            return 3;
        free(text);
        write_whole(path, whole, size);
    }
    free_facts(known);
    return 0;
}
