# cython: language_level=3, boundscheck=False, wraparound=False
"""The native loop; the body is kernels/anomaly.h, which the OpenCL kernel uses too."""

from libc.math cimport isfinite

from ellipse.problems import NOT_AN_ELLIPSE, NOT_FINITE, problem


cdef extern from *:
    """
    #include <math.h>
    #include "anomaly.h"
    """
    double eccentric_anomaly(double mean, double eccentricity) nogil


def solve(const double[:] mean, const double[:] eccentricity, double[:] anomaly):
    """Write the eccentric anomalies into `anomaly`, or nothing at all; raises ValueError for the first bad element.

    The memoryviews have one length. `anomaly` shares no memory with the others.
    """
    cdef Py_ssize_t i, count = mean.shape[0]
    cdef Py_ssize_t not_an_ellipse = -1, not_finite = -1
    with nogil:
        for i in range(count):
            if not (0.0 <= eccentricity[i] < 1.0):
                not_an_ellipse = i
                break
            if not isfinite(mean[i]):
                not_finite = i
                break
        else:
            for i in range(count):
                anomaly[i] = eccentric_anomaly(mean[i], eccentricity[i])
    if not_an_ellipse >= 0:
        raise problem(NOT_AN_ELLIPSE, not_an_ellipse)
    if not_finite >= 0:
        raise problem(NOT_FINITE, not_finite)
