"""Where real wheels have their libraries, against the table that RUNPATH and the audit are computed from."""

from typing import Any

import pytest

from gpuforge.cuda import libraries

pytestmark = pytest.mark.network


@pytest.fixture
def refresh() -> Any:
    """The script that makes the table: it reads a wheel's directory of files without downloading the wheel."""
    import pypi_wheels
    import refresh_toolkits

    yield refresh_toolkits
    pypi_wheels.session().close()
    pypi_wheels.session.cache_clear()


@pytest.mark.parametrize(
    ("package", "cuda", "soname", "folder"),
    [
        ("nvidia-cuda-runtime-cu11", 11, "libcudart.so.11.0", "nvidia/cuda_runtime/lib"),
        ("nvidia-cufft-cu11", 11, "libcufft.so.10", "nvidia/cufft/lib"),
        ("nvidia-cublas-cu12", 12, "libcublasLt.so.12", "nvidia/cublas/lib"),
        ("nvidia-cudnn-cu12", 12, "libcudnn.so.9", "nvidia/cudnn/lib"),
        ("nvidia-nccl-cu12", 12, "libnccl.so.2", "nvidia/nccl/lib"),
        ("nvidia-cuda-runtime", 13, "libcudart.so.13", "nvidia/cu13/lib"),
        ("nvidia-cublas", 13, "libcublas.so.13", "nvidia/cu13/lib"),
        ("nvidia-cudnn-cu13", 13, "libcudnn.so.9", "nvidia/cudnn/lib"),
        ("nvidia-nccl-cu13", 13, "libnccl.so.2", "nvidia/nccl/lib"),
        ("nvidia-cusparselt-cu13", 13, "libcusparseLt.so.0", "nvidia/cu13/lib"),
    ],
)
def test_real_wheels_have_their_libraries_where_the_table_says(refresh, package, cuda, soname, folder):
    (known,) = [entry for entry in libraries.by_soname(soname) if entry.package == package]
    assert (known.cuda, known.folder) == (cuda, folder)
    (wheel, *_) = [w for w in refresh.wheels_of(package)[known.last] if w.serves("x86_64")]
    found = refresh.libraries_in(wheel)
    assert (folder, soname) in found
    for place, name in found:
        assert any(e.package == package and e.folder == place for e in libraries.by_soname(name)), (
            place,
            name,
        )
