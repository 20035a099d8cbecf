// membrane._core: the host. It steps the voltages in time, and calls whatever mechanisms a library has, through the
// table that mechanisms.h declares. Plain C++, compiled by g++ alone; it links no library and knows no GPU.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "mechanisms.h"

#include <vector>

namespace {

struct Spike {
    double time;
    int cell;
};

struct Run {
    std::vector<double> v;
    std::vector<Spike> spikes;
};

// One cell after another gets a little more current: 0 to 20 uA/cm2.
Run simulate(const mechanism *first, int cells, int steps, double dt)
{
    Run run{std::vector<double>(cells, -65.0), {}};
    std::vector<std::vector<double>> states;
    for (auto each = first; each; each = each->next) {
        states.emplace_back(static_cast<std::size_t>(each->states) * cells);
        each->initial(cells, run.v.data(), states.back().data());
    }
    std::vector<double> current(cells);
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < cells; ++i)
            current[i] = cells > 1 ? -20.0 * i / (cells - 1) : -20.0;
        auto state = states.begin();
        for (auto each = first; each; each = each->next, ++state)
            each->advance(cells, dt, run.v.data(), state->data(), current.data());
        for (int i = 0; i < cells; ++i) {
            const double before = run.v[i];
            run.v[i] -= dt * current[i];  // 1 uF/cm2
            if (before < 0.0 && run.v[i] >= 0.0)
                run.spikes.push_back({(step + 1) * dt, i});
        }
    }
    return run;
}

const mechanism *table(unsigned long long address)
{
    return reinterpret_cast<const mechanism *(*)()>(address)();
}

PyObject *py_simulate(PyObject *, PyObject *args)
{
    unsigned long long address;
    int cells, steps;
    double dt;
    if (!PyArg_ParseTuple(args, "Kiid:simulate", &address, &cells, &steps, &dt))
        return nullptr;
    if (cells < 1 || steps < 0) {
        PyErr_SetString(PyExc_ValueError, "there must be one cell at least, and no negative time");
        return nullptr;
    }
    Run run;
    Py_BEGIN_ALLOW_THREADS
    run = simulate(table(address), cells, steps, dt);
    Py_END_ALLOW_THREADS

    PyObject *voltages = PyList_New(cells), *spikes = PyList_New(static_cast<Py_ssize_t>(run.spikes.size()));
    for (int i = 0; voltages && i < cells; ++i)
        PyList_SET_ITEM(voltages, i, PyFloat_FromDouble(run.v[i]));
    for (std::size_t i = 0; spikes && i < run.spikes.size(); ++i)
        PyList_SET_ITEM(spikes, static_cast<Py_ssize_t>(i),
                        Py_BuildValue("di", run.spikes[i].time, run.spikes[i].cell));
    return Py_BuildValue("NN", voltages, spikes);
}

PyObject *py_names(PyObject *, PyObject *args)
{
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "K:names", &address))
        return nullptr;
    PyObject *names = PyList_New(0);
    for (auto each = table(address); names && each; each = each->next) {
        PyObject *name = PyUnicode_FromString(each->name);
        if (!name || PyList_Append(names, name) != 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyMethodDef methods[] = {
    {"simulate", py_simulate, METH_VARARGS, "simulate(mechanisms, cells, steps, dt): voltages, and (time, cell) of spikes."},
    {"names", py_names, METH_VARARGS, "names(mechanisms): the names of a library's mechanisms."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "membrane._core", "Steps voltages in time.", 0, methods, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__core()
{
    return PyModuleDef_Init(&module);
}
