/* What the audit does most often: find a few bytes in many, as bytes.find does, and add up the sections of cubins.
 * search.py and elf.py have the twins in Python and choose between them.
 *
 * Blocks are compared in the first three bytes of the word and its last one at once, which compilers turn into vector
 * instructions; that passes over machine code and text at the speed of the cache. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define BLOCK 512    /* bytes compared before a decision is taken */
#define PIECE 65536  /* bytes searched for one word before the next */
#define LARGE 65536  /* bytes; for less, letting go of the interpreter's lock costs more than it gives */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#endif
#ifndef FOR_EACH_CPU
#define FOR_EACH_CPU
#endif

/* Return where `word` (of at least 4 bytes) begins in `data` at or after `at`, or -1. */
FOR_EACH_CPU
static Py_ssize_t search(const unsigned char *data, Py_ssize_t size, const unsigned char *word, Py_ssize_t length,
                         Py_ssize_t at)
{
    const unsigned char a = word[0], b = word[1], c = word[2], z = word[length - 1];
    const Py_ssize_t stop = size - length + 1; /* the word begins before it */
    for (; at + BLOCK <= stop; at += BLOCK) {
        const unsigned char *p = data + at, *q = p + length - 1;
        unsigned char any = 0;
        for (int i = 0; i < BLOCK; i++)
            any |= (p[i] == a) & (p[i + 1] == b) & (p[i + 2] == c) & (q[i] == z);
        if (any)
            for (int i = 0; i < BLOCK; i++)
                if (p[i] == a && memcmp(p + i, word, length) == 0)
                    return at + i;
    }
    for (; at < stop; at++)
        if (data[at] == a && memcmp(data + at, word, length) == 0)
            return at;
    return -1;
}

static PyObject *find(PyObject *module, PyObject *args)
{
    Py_buffer data, word;
    Py_ssize_t start, stop, hit;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*nn:find", &data, &word, &start, &stop))
        return NULL;
    if (word.len < 4 || start < 0 || stop > data.len) {
        PyErr_SetString(PyExc_ValueError, "find() wants a word of at least 4 bytes, and a range within the data");
        hit = -2;
    } else if (stop - start < LARGE) {
        hit = search(data.buf, stop, word.buf, word.len, start);
    } else {
        Py_BEGIN_ALLOW_THREADS
        hit = search(data.buf, stop, word.buf, word.len, start);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&word);
    return hit == -2 ? NULL : PyLong_FromSsize_t(hit);
}

/* Search for both at once, piece by piece: a piece is in the cache when it is searched for the second word, and the
 * interpreter's lock is let go once. */
static PyObject *find_both(PyObject *module, PyObject *args)
{
    Py_buffer data, word, mark;
    Py_ssize_t start, at, hit = -1, marked = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*n:find_both", &data, &word, &mark, &start))
        return NULL;
    if (word.len < 4 || mark.len < 4 || start < 0 || start > data.len) {
        PyErr_SetString(PyExc_ValueError, "find_both() wants words of at least 4 bytes, and a place within the data");
        hit = -2;
    } else {
        PyThreadState *state = data.len - start < LARGE ? NULL : PyEval_SaveThread();
        for (at = start; hit < 0 && at < data.len; at += PIECE) {
            Py_ssize_t left = data.len - at;
            Py_ssize_t seen = PIECE + word.len - 1, marks = PIECE + mark.len - 1;
            hit = search(data.buf, at + (seen < left ? seen : left), word.buf, word.len, at);
            if (marked < 0)
                marked = search(data.buf, hit >= 0 ? hit : at + (marks < left ? marks : left), mark.buf, mark.len, at);
        }
        if (hit >= 0 && marked + mark.len > hit)
            marked = -1;
        if (state)
            PyEval_RestoreThread(state);
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&word);
    PyBuffer_Release(&mark);
    return hit == -2 ? NULL : Py_BuildValue("nn", hit, marked);
}

#define HEADER 64         /* bytes of an ELF64 section header */
#define NOBITS 8          /* SHT_NOBITS: no bytes in the file */
#define MOST_KERNELS 64   /* of a cubin that is added up here */
#define TEXT ".text."     /* with its name: the section of a kernel's machine code */
#define TOOL ".note.nv.tkinfo"

static uint64_t number(const unsigned char *at, int size)
{
    uint64_t value = 0;
    while (size--)
        value = value << 8 | at[size];
    return value;
}

/* Add `size` to what `kinds` has for the name; false for an exception. */
static int add(PyObject *kinds, const char *name, Py_ssize_t length, uint64_t size)
{
    int done = -1;
    PyObject *sum = NULL, *more = PyLong_FromUnsignedLongLong(size);
    PyObject *key = PyUnicode_FromStringAndSize(name, length);
    if (key && more) {
        PyUnicode_InternInPlace(&key);
        PyObject *known = PyDict_GetItemWithError(kinds, key);
        if (known || !PyErr_Occurred()) {
            sum = known ? PyNumber_Add(known, more) : Py_NewRef(more);
            done = sum ? PyDict_SetItem(kinds, key, sum) : -1;
        }
    }
    Py_XDECREF(key);
    Py_XDECREF(more);
    Py_XDECREF(sum);
    return done == 0;
}

/* Append (offset, size) of a section; false for an exception. */
static int note(PyObject *notes, const unsigned char *header)
{
    PyObject *place = Py_BuildValue("KK", (unsigned long long)number(header + 24, 8),
                                    (unsigned long long)number(header + 32, 8));
    int done = place ? PyList_Append(notes, place) : -1;
    Py_XDECREF(place);
    return done == 0;
}

/* None stands for what the twin is to do: names that are no ASCII or none, many kernels, dots in a kernel's name. */
static PyObject *add_up(PyObject *module, PyObject *args)
{
    Py_buffer headers, names;
    struct { const char *name; size_t length; } kernels[MOST_KERNELS];
    size_t count = 0;
    PyObject *kinds = NULL, *notes = NULL, *found = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:add_up", &headers, &names))
        return NULL;
    const unsigned char *end = (const unsigned char *)headers.buf + headers.len / HEADER * HEADER;
    const char *table = names.buf;
    unsigned char any = 0;
    for (Py_ssize_t i = 0; i < names.len; i++)
        any |= (unsigned char)table[i];
    int usual = names.len > 0 && table[names.len - 1] == 0 && any < 128;
    for (const unsigned char *at = headers.buf; usual && at < end; at += HEADER) {
        uint64_t index = number(at, 4);
        usual = index < (uint64_t)names.len;
        if (usual && strncmp(table + index, TEXT, sizeof TEXT - 1) == 0) {
            const char *kernel = table + index + sizeof TEXT - 1;
            usual = count < MOST_KERNELS && *kernel && !strchr(kernel, '.');
            if (usual)
                kernels[count].length = strlen(kernel), kernels[count++].name = kernel;
        }
    }
    int good = usual && (kinds = PyDict_New()) && (notes = PyList_New(0));
    for (const unsigned char *at = headers.buf; good && at < end; at += HEADER) {
        uint64_t size = number(at + 32, 8);
        if (!size || number(at + 4, 4) == NOBITS)
            continue;
        const char *name = table + number(at, 4), *dot = strrchr(name, '.');
        size_t length = strlen(name), tail = dot && dot > name ? strlen(dot + 1) : 0;
        for (size_t i = 0; tail && i < count; i++)
            if (kernels[i].length == tail && memcmp(kernels[i].name, dot + 1, tail) == 0) {
                length = dot - name;
                break;
            }
        good = add(kinds, name, length, size) && (strcmp(name, TOOL) != 0 || note(notes, at));
    }
    if (good)
        found = PyTuple_Pack(2, kinds, notes);
    Py_XDECREF(kinds);
    Py_XDECREF(notes);
    PyBuffer_Release(&headers);
    PyBuffer_Release(&names);
    if (!usual)
        Py_RETURN_NONE;
    return found;
}

/* Have malloc use freed memory again; nothing where it is another C library's. */
static PyObject *keep_memory(PyObject *module, PyObject *args)
{
    int largest, kept;
    (void)module;
    if (!PyArg_ParseTuple(args, "ii:keep_memory", &largest, &kept))
        return NULL;
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, largest);
    mallopt(M_TRIM_THRESHOLD, kept);
#endif
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS,
     "find(data, word, start, stop, /)\n--\n\nReturn what data.find(word, start, stop) does, for words of at least "
     "4 bytes."},
    {"find_both", find_both, METH_VARARGS,
     "find_both(data, word, mark, start, /)\n--\n\nReturn where `word` begins at or after `start`, and where `mark` "
     "does that ends before it; -1 for what is not there."},
    {"add_up", add_up, METH_VARARGS,
     "add_up(headers, names, /)\n--\n\nReturn the bytes of a cubin's sections by their names without those of kernels, "
     "and where the notes of ptxas lie; None for what only Python does."},
    {"keep_memory", keep_memory, METH_VARARGS,
     "keep_memory(largest, kept, /)\n--\n\nHave blocks of up to `largest` bytes taken from memory that was freed, of "
     "which `kept` bytes are not given back."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_find", "Find a few bytes in many.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__find(void) { return PyModuleDef_Init(&definition); }
