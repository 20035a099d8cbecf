"""`python -m ellipse`: which way solves how many orbits on this machine, and that both agree."""

import time

import numpy

from . import device, eccentric_anomaly

for count in (1_000, 100_000, 1_000_000):
    mean, eccentricity = numpy.linspace(0, 1000, count), numpy.linspace(0, 0.99, count)
    chosen = "opencl" if device.worthwhile(count) else "native"
    results, line = [], f"{count:>9} orbits: {chosen} is chosen"
    for way in ("native", "opencl"):
        try:
            eccentric_anomaly(mean[:1], eccentricity[:1], use=way)
        except RuntimeError:
            continue
        begin = time.perf_counter()
        results.append(eccentric_anomaly(mean, eccentricity, use=way))
        line += f", {way} takes {(time.perf_counter() - begin) * 1e3:.2f} ms"
    print(line)
    assert all(numpy.allclose(results[0], each, rtol=1e-12, atol=1e-12) for each in results)
try:
    print(f"OpenCL: {device.kernel().device}")
except RuntimeError as error:
    print(error)
