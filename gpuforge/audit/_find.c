/* Find a few bytes in many, as bytes.find does: search.py has the twin in Python and chooses between them.
 *
 * Blocks are compared in the first three bytes of the word and its last one at once, which compilers turn into vector
 * instructions; that passes over machine code and text at the speed of the cache. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
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
