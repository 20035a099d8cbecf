#include <Python.h>

int count(int *devices);

static PyObject *count_devices(PyObject *, PyObject *) {
    int devices = 0;
    int error = count(&devices);
    return Py_BuildValue("ii", error, devices);
}

static PyMethodDef methods[] = {
    {"count", count_devices, METH_NOARGS, "Return cudaGetDeviceCount's error code and count."}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_runtime", nullptr, 0, methods};

PyMODINIT_FUNC PyInit__runtime() { return PyModule_Create(&module); }
