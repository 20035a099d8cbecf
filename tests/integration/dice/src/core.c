#include <Python.h>
#include <curand.h>

static PyObject *status(PyObject *self, PyObject *unused) {
    curandGenerator_t generator = 0;
    curandStatus_t answer = curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT);
    if (answer == CURAND_STATUS_SUCCESS) curandDestroyGenerator(generator);
    return PyLong_FromLong(answer);
}

static PyMethodDef methods[] = {{"status", status, METH_NOARGS, 0}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", 0, -1, methods};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
