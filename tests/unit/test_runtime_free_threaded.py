"""The runtime without the GIL: many threads of a real free-threaded CPython, on a driver that stands in."""

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from interpreter_samples import free_threaded
from runtime_samples import write_set

from gpuforge import runtime

THREADS = """
    import sys, threading
    from array import array
    from ctypes import c_float, c_ulonglong
    from copied import KernelSet

    assert not sys._is_gil_enabled()
    kernels = KernelSet(sys.argv[1], env={}, driver=sys.argv[2])
    start, wrong = threading.Barrier(16), []
    three, none = c_ulonglong(3), array("f", [0] * 3)

    def work(number):
        start.wait()
        try:
            for turn in range(20):
                kernel = kernels.function("saxpy")
                with kernel.upload(array("f", [number] * 3)) as x, kernel.upload(none) as y:
                    for a in range(20):
                        kernel.launch(1, 32, three, c_float(a), x, y)
                    kernel.bind(1, 32, three, c_float(10), x, y)()
                    y.read(out := array("f", none))
                    if list(out) != [200.0 * number] * 3:
                        wrong.append((number, turn, list(out)))
        except BaseException as error:
            wrong.append((number, repr(error)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(wrong or "right")
"""


@pytest.mark.thorough
def test_sixteen_threads_load_bind_and_launch_at_once(tmp_path, stub):
    python = free_threaded().path
    folder = write_set(tmp_path / "default-kernels")
    shutil.copytree(Path(runtime.__file__).parent, tmp_path / "copied")
    (tmp_path / "program.py").write_text(textwrap.dedent(THREADS))
    command = [python, tmp_path / "program.py", folder, stub]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "right\n", done.stdout + done.stderr
