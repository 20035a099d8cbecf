// saxpy._core: the computation on the CPU. Plain C++ and CPython's buffer protocol, no GPU toolchain.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>

namespace {

// A one-dimensional contiguous buffer of C floats, held for the life of the object.
class Floats {
public:
    Floats() = default;
    Floats(const Floats &) = delete;
    Floats &operator=(const Floats &) = delete;
    ~Floats() { PyBuffer_Release(&view_); }

    bool take(PyObject *object, const char *name, int flags)
    {
        if (PyObject_GetBuffer(object, &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) != 0)
            return false;
        if (view_.ndim == 1 && view_.format != nullptr && std::strcmp(view_.format, "f") == 0)
            return true;
        PyErr_Format(PyExc_TypeError, "%s must be a one-dimensional buffer of C floats", name);
        return false;
    }

    Py_ssize_t size() const { return view_.shape[0]; }
    float *data() const { return static_cast<float *>(view_.buf); }

private:
    Py_buffer view_{};
};

PyObject *saxpy(PyObject *, PyObject *args)
{
    float a;
    PyObject *x_object, *y_object, *out_object;
    if (!PyArg_ParseTuple(args, "fOOO:saxpy", &a, &x_object, &y_object, &out_object))
        return nullptr;

    Floats x, y, out;
    if (!x.take(x_object, "x", 0) || !y.take(y_object, "y", 0) || !out.take(out_object, "out", PyBUF_WRITABLE))
        return nullptr;
    const Py_ssize_t n = out.size();
    if (x.size() != n || y.size() != n) {
        PyErr_SetString(PyExc_ValueError, "x, y and out must have the same length");
        return nullptr;
    }

    const float *xs = x.data(), *ys = y.data();
    float *outs = out.data();
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; ++i)
        outs[i] = a * xs[i] + ys[i];
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"saxpy", saxpy, METH_VARARGS, "saxpy(a, x, y, out): write a * x + y into out; all are buffers of C floats."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "saxpy._core", "saxpy on the CPU.", 0, methods, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__core()
{
    return PyModuleDef_Init(&module);
}
