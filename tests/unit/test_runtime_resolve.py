"""Which image of a fatbin runs where: the runtime's one decision, as tables."""

import pytest

from gpuforge.runtime.arch import Arch
from gpuforge.runtime.backends.nvrtc import Nvrtc
from gpuforge.runtime.backends.opencl.devices import OpenClDevice
from gpuforge.runtime.decide import resolve
from gpuforge.runtime.driver import Device, Probe
from gpuforge.runtime.values import Build, Candidate, Image, Origin, Reason


def cubin(arch: str, toolkit: tuple[int, int] = (13, 0)) -> Image:
    return Image("cubin", Arch.parse(arch), toolkit)


def ptx(arch: str, isa: tuple[int, int] = (9, 0)) -> Image:
    return Image("ptx", Arch.parse(arch), (13, 0), isa)


def machine(*capabilities: tuple[int, int], driver: tuple[int, int] = (13, 0)) -> Probe:
    return Probe(driver, tuple(Device(n, f"GPU {n}", pair) for n, pair in enumerate(capabilities)))


def judge(
    images: list[Image], probe: Probe, env: dict[str, str] | None = None, device: int = 0
) -> tuple[Candidate, ...]:
    """What becomes of the images of a wheel that has nothing else."""
    return resolve([Build(Origin.SHIPPED, "saxpy.fatbin", tuple(images))], probe, env or {}, device=device)


SAXPY_13 = [cubin("sm_75"), cubin("sm_80"), cubin("sm_90"), cubin("sm_120"), ptx("compute_120")]


@pytest.mark.parametrize(
    ("images", "capability", "chosen"),
    [
        pytest.param(SAXPY_13, (9, 0), "cubin sm_90", id="exact"),
        pytest.param(SAXPY_13, (8, 6), "cubin sm_80", id="lower-minor-of-the-same-major"),
        pytest.param(SAXPY_13, (7, 5), "cubin sm_75", id="lowest"),
        pytest.param(SAXPY_13, (12, 1), "cubin sm_120", id="two-digit-major"),
        pytest.param(SAXPY_13, (13, 0), "PTX compute_120", id="newer-than-every-cubin"),
        pytest.param(SAXPY_13, (10, 0), "CPU", id="between-cubins-below-the-ptx"),
        pytest.param(SAXPY_13, (7, 0), "CPU", id="older-than-all"),
        pytest.param([cubin("sm_86"), cubin("sm_80")], (8, 9), "cubin sm_86", id="nearest-minor"),
        pytest.param([cubin("sm_86")], (8, 0), "CPU", id="higher-minor"),
        pytest.param([cubin("sm_90")], (10, 0), "CPU", id="no-ptx-and-a-newer-gpu"),
        pytest.param([ptx("compute_90"), ptx("compute_80")], (10, 0), "PTX compute_90", id="nearest-ptx"),
        pytest.param([ptx("compute_90"), cubin("sm_80")], (9, 0), "PTX compute_90", id="ptx-of-this-arch"),
        pytest.param([ptx("compute_86"), cubin("sm_80")], (8, 9), "cubin sm_80", id="cubin-before-ptx"),
        pytest.param([cubin("sm_90"), cubin("sm_90a")], (9, 0), "cubin sm_90a", id="a-before-plain"),
        pytest.param([cubin("sm_80a")], (8, 6), "CPU", id="a-is-exact"),
        pytest.param([ptx("compute_90a")], (10, 0), "CPU", id="a-ptx-is-exact"),
        pytest.param([cubin("sm_100f")], (10, 0), "cubin sm_100f", id="f-exact"),
        pytest.param([cubin("sm_100f")], (10, 3), "cubin sm_100f", id="f-in-its-family"),
        pytest.param([cubin("sm_103f")], (10, 0), "CPU", id="f-not-downward"),
        pytest.param([ptx("compute_100f")], (12, 0), "CPU", id="f-ptx-not-outside-its-family"),
        pytest.param(
            [cubin("sm_120"), cubin("sm_120f"), cubin("sm_120a")], (12, 0), "cubin sm_120a", id="a-f-plain"
        ),
        pytest.param([cubin("sm_86")], (8, 7), "CPU", id="desktop-code-on-orin"),
        pytest.param([cubin("sm_72")], (7, 5), "CPU", id="xavier-code-on-desktop"),
        pytest.param([cubin("sm_87")], (8, 7), "cubin sm_87", id="orin-on-orin"),
        pytest.param([ptx("compute_80")], (8, 7), "PTX compute_80", id="ptx-on-orin"),
        pytest.param([], (9, 0), "CPU", id="no-images"),
        pytest.param([Image("lto-ir", "lto_90", (13, 0))], (9, 0), "CPU", id="a-linker's-input"),
    ],
)
def test_the_best_image_that_fits_comes_first(images, capability, chosen):
    assert judge(images, machine(capability), {})[0].label == chosen


@pytest.mark.parametrize(
    ("image", "driver", "refusal"),
    [
        (ptx("compute_80", (8, 4)), (12, 4), ""),
        (ptx("compute_80", (8, 5)), (12, 5), ""),
        (ptx("compute_80", (7, 8)), (11, 8), ""),
        (ptx("compute_80", (6, 5)), (10, 2), ""),
        (ptx("compute_50", (4, 0)), (9, 0), ""),
        (
            ptx("compute_80", (8, 5)),
            (12, 4),
            "PTX 8.5 needs a driver for CUDA 12.5 or newer; this one is for 12.4",
        ),
        (
            ptx("compute_80", (8, 8)),
            (12, 8),
            "PTX 8.8 needs a driver for CUDA 12.9 or newer; this one is for 12.8",
        ),
        (
            ptx("compute_80", (9, 9)),
            (13, 1),
            "PTX 9.9 needs a driver for CUDA 13.5 or newer; this one is for 13.1",
        ),
        (ptx("compute_80", (9, 9)), (14, 0), ""),
        (cubin("sm_80", (12, 9)), (12, 0), ""),
        (cubin("sm_80", (11, 8)), (13, 0), ""),
        (
            cubin("sm_80", (13, 0)),
            (12, 9),
            "code of CUDA 13.0 needs a driver for CUDA 13 or newer; this one is for 12.9",
        ),
    ],
)
def test_the_driver_must_be_new_enough(image, driver, refusal):
    found = next(
        c
        for c in judge([image], machine((9, 0) if image.kind == "ptx" else (8, 0), driver=driver), {})
        if c.image is image
    )
    assert (found.accepted, str(found.reason) if refusal else "") == (not refusal, refusal)


@pytest.mark.parametrize(
    ("probe", "env", "device", "reason"),
    [
        (
            Probe(None, problem=Reason("no-library", {"what": "NVIDIA driver", "problem": "…"})),
            {},
            0,
            "no usable NVIDIA GPU",
        ),
        (machine(), {}, 0, "the driver sees no GPU"),
        (machine((9, 0)), {"GPUFORGE_DISABLE_GPU": "1"}, 0, "switched off (GPUFORGE_DISABLE_GPU=1)"),
        (machine((9, 0)), {"GPUFORGE_DISABLE_GPU": "yes"}, 0, "switched off (GPUFORGE_DISABLE_GPU=yes)"),
        (machine((9, 0), (9, 0)), {}, 2, "there is no device 2: the driver sees 2"),
        (machine((9, 0)), {}, -1, "there is no device -1: the driver sees 1"),
    ],
)
def test_without_a_device_all_images_are_refused(probe, env, device, reason):
    cpu, *refused = judge(SAXPY_13, probe, env, device=device)
    assert cpu.label == "CPU"
    assert [(c.image, c.accepted, str(c.reason)) for c in refused] == [(i, False, reason) for i in SAXPY_13]


@pytest.mark.parametrize("value", ["", "0"])
def test_the_switch_is_off_when_empty_or_zero(value):
    assert judge(SAXPY_13, machine((9, 0)), {"GPUFORGE_DISABLE_GPU": value})[0].label == "cubin sm_90"


@pytest.mark.parametrize("arch", ["sm_9", "sm_90x", "sm_", "gfx90a"])
def test_an_architecture_of_another_form_is_an_error(arch):
    with pytest.raises(ValueError, match=f"^'{arch}' is not a GPU architecture$"):
        cubin(arch)


def user(*images: Image, problem: Reason | None = None) -> Build:
    return Build(Origin.USER_BUILD, "/home/u/saxpy.fatbin", images, problem)


def explicit(*images: Image) -> Build:
    return Build(Origin.EXPLICIT, "/home/u/saxpy.cubin", images)


SHIPPED = Build(Origin.SHIPPED, "saxpy.fatbin", tuple(SAXPY_13))


def test_the_origins_come_in_their_order_whatever_fits_best_in_each():
    cached = Build(Origin.CACHED_BUILD, "/cache/ab/saxpy", (ptx("compute_80"),))
    opencl = Build(Origin.OPENCL, "saxpy.cl", (), Reason("not-loadable"))
    builds = [SHIPPED, opencl, cached, user(cubin("sm_80"), ptx("compute_80")), explicit(ptx("compute_75"))]
    found = [c.label for c in resolve(builds, machine((9, 0)), {}) if c.accepted]
    assert found == [
        "environment PTX compute_75",
        "user build PTX compute_80",
        "cached build PTX compute_80",
        "cubin sm_90",
        "CPU",
    ]
    found = [c.label for c in resolve(builds, machine((8, 6)), {}) if c.accepted]
    assert found[1:3] == ["user build cubin sm_80", "user build PTX compute_80"]


def test_a_reason_is_data_first():
    (candidate,) = [c for c in judge([cubin("sm_87")], machine((8, 6))) if not c.accepted]
    assert candidate.reason == Reason("embedded", {"built": "8.7", "major": 8, "here": "8.6"})
    assert candidate.reason.as_data() == {
        "kind": "embedded",
        "built": "8.7",
        "major": 8,
        "here": "8.6",
        "text": "runs on 8.7 alone, as embedded GPUs share no binaries; this device is 8.6",
    }


NVRTC = Nvrtc("libnvrtc.so.12", (12, 4), "12.4.127", (Arch(5, 0), Arch(8, 0), Arch(9, 0)))
WITHOUT_NVRTC = Reason("not-installed", {"what": "NVRTC", "install": "pip install x"})
POCL = OpenClDevice("cpu-znver3", "3.0", "Portable Computing Language")
EVERYWHERE = [
    Build(Origin.CPU, "libop.so", (Image("library"),)),
    Build(Origin.OPENCL, "op.cl", (Image("opencl"),)),
    Build(Origin.SHIPPED, "op.fatbin", (ptx("compute_80"), cubin("sm_80"), cubin("sm_90"))),
    Build(Origin.CACHED_BUILD, "op.cu", (Image("cuda"),)),
    Build(Origin.USER_BUILD, "user.fatbin", (cubin("sm_90"),)),
    Build(Origin.EXPLICIT, "named.cubin", (Image("unread", variable="GPUFORGE_KERNELS_DEMO_OP"),)),
]


def test_the_order_of_all_origins():
    found = resolve(EVERYWHERE, machine((9, 0))._replace(found={"NVRTC": NVRTC, "OpenCL": (POCL,)}), {})
    assert [(c.label, str(c.reason)) for c in found if c.accepted] == [
        ("environment file", "set by GPUFORGE_KERNELS_DEMO_OP; not checked against this machine"),
        ("user build cubin sm_90", "built for this very architecture"),
        (
            "cached build CUDA source",
            "nvrtc 12.4.127 compiles it for sm_90 when it is first loaded; it is kept",
        ),
        ("cubin sm_90", "built for this very architecture"),
        ("PTX compute_80", "the driver compiles it for 9.0 when it is first loaded"),
        ("OpenCL source", "cpu-znver3 compiles it when it is first loaded; it is kept"),
        ("CPU library", "needs no GPU"),
    ]
    assert [(c.label, c.reason.kind) for c in found if not c.accepted] == [("cubin sm_80", "same-major-only")]


def test_without_a_gpu_opencl_and_the_cpu_are_left():
    found = resolve(EVERYWHERE, Probe(None, problem=Reason("no-devices"), found={"OpenCL": (POCL,)}), {})
    assert [c.label for c in found if c.accepted] == ["OpenCL source", "CPU library"]


def test_a_switched_off_gpu_leaves_the_cpu():
    """OpenCL too: looking for its devices starts NVIDIA's driver, where that is installed."""
    found = resolve(
        EVERYWHERE, machine((9, 0))._replace(found={"OpenCL": (POCL,)}), {"GPUFORGE_DISABLE_GPU": "1"}
    )
    assert [c.label for c in found if c.accepted] == ["CPU library"]
    assert {c.reason.kind for c in found if not c.accepted} == {"switched-off"}


@pytest.mark.parametrize(
    ("probe", "kind", "device", "sentence"),
    [
        (machine((9, 0)), "cuda", 0, "NVRTC was not looked for"),
        (
            machine((9, 0))._replace(found={"NVRTC": WITHOUT_NVRTC}),
            *("cuda", 0, "no NVRTC: pip install x"),
        ),
        (
            machine((12, 0))._replace(found={"NVRTC": NVRTC}),
            *("cuda", 0, "nvrtc 12.4.127 cannot compile for compute capability 12.0: install a release that can"),
        ),
        (
            machine((9, 0), driver=(11, 8))._replace(found={"NVRTC": NVRTC}),
            *("cuda", 0, "code of CUDA 12.4 needs a driver for CUDA 12 or newer; this one is for 11.8"),
        ),
        (Probe(None, problem=Reason("no-devices"), found={"NVRTC": NVRTC}), "cuda", 0, "no usable NVIDIA GPU"),
        (machine((9, 0))._replace(found={"OpenCL": (POCL,)}), "opencl", 1, "there is no OpenCL device 1: there are 1"),
    ],
)  # fmt: skip
def test_why_a_source_is_not_compiled_here(probe, kind, device, sentence):
    wide = probe._replace(devices=probe.devices * 2)
    (found, *_) = resolve([Build(Origin.CACHED_BUILD, "op.cu", (Image(kind),))], wide, {}, device=device)[
        ::-1
    ]
    assert (found.accepted, str(found.reason)) == (False, sentence)


@pytest.mark.parametrize(
    ("gpu", "target"),
    [((9, 0), "sm_90"), ((8, 6), "sm_80"), ((8, 9), "sm_80"), ((7, 5), None), ((5, 2), "sm_50"), ((12, 0), None)],
)  # fmt: skip
def test_what_nvrtc_compiles_for_a_device(gpu, target):
    arch = NVRTC.target(gpu)
    assert (arch and arch.sm) == target
