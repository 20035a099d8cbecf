import pytest
from packaging.requirements import Requirement

from gpuforge.errors import ActionError
from gpuforge.package import requirements
from gpuforge.wheel import metadata

TEXT = (
    "Metadata-Version: 2.4\nName: solver\nVersion: 1.0\nSummary: für GPUs\n"
    "Requires-Dist: numpy>=1.26\nRequires-Dist: jax\n  ; extra == 'jax'\nProvides-Extra: jax\n"
    "Description-Content-Type: text/markdown\n\n# Solver\n\nRequires-Dist: not a header\n"
).encode()
CUDART = "nvidia-cuda-runtime"


def with_requirement(line: str) -> bytes:
    return TEXT.replace(b"numpy>=1.26", line.encode())


@pytest.mark.parametrize(
    ("package", "linked", "bounds"),
    [
        (CUDART, "13.0.96", "<14,>=13.0"),
        ("nvidia-cufft", "12.0.0.61", "<13,>=12.0"),
        ("nvidia-cuda-runtime-cu12", "12.4.127", "<13,>=12.4"),
        ("nvidia-cudnn-cu12", "9.28.0.42", "<10,>=9.28"),
        ("nvidia-cufile", "0.9.1", "<1,>=0.9"),
    ],
)
def test_bounds_are_from_the_linked_minor_to_the_next_major(package, linked, bounds):
    assert str(requirements.requirement_for(package, linked)) == f"{package}{bounds}"


def test_requirements_are_added_behind_the_last_one():
    new, added = requirements.require(TEXT, {"nvidia-cufft": "12.0.0.61", CUDART: "13.0.96"})
    assert added == ["nvidia-cuda-runtime>=13.0,<14", "nvidia-cufft>=12.0,<13"]
    lines = b"Requires-Dist: nvidia-cuda-runtime>=13.0,<14\nRequires-Dist: nvidia-cufft>=12.0,<13\n"
    assert new == TEXT.replace(b"extra == 'jax'\n", b"extra == 'jax'\n" + lines)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("rest", [b"", b"\n", b"\nA body.\n"])
def test_without_requirements_the_line_ends_the_headers(newline, rest):
    head = b"Name: a\nVersion: 1\n"
    new, _ = requirements.require((head + rest).replace(b"\n", newline), {CUDART: "13.0.96"})
    assert new == (head + b"Requires-Dist: nvidia-cuda-runtime>=13.0,<14\n" + rest).replace(b"\n", newline)


def test_metadata_without_a_last_newline_gets_one():
    new, _ = requirements.require(b"Name: a\nVersion: 1", {CUDART: "13.0.96"})
    assert new == b"Name: a\nVersion: 1\nRequires-Dist: nvidia-cuda-runtime>=13.0,<14\n"


@pytest.mark.parametrize("own", ["==13.0.96", "~=13.0", ">=13.0,<14", ">=13.0.50,<13.1", "==13.*"])
def test_a_requirement_that_is_as_narrow_is_enough(own):
    text = with_requirement(f"NVIDIA_cuda.runtime {own}")
    assert requirements.require(text, {CUDART: "13.0.96"}) == (text, [])


@pytest.mark.parametrize(
    "own",
    [
        "",
        ">=13.0",
        "<14",
        ">=13.0,<14; extra == 'gpu'",
        "!=13.0.48",
        ">=13.0,<14; sys_platform != 'linux'",
        ">=13.0,<14; python_version >= '3.11'",
        ">=13.0,<14; python_version != '3.12'",
    ],
)
def test_a_wider_requirement_gets_a_narrow_one_beside_it(own):
    _, added = requirements.require(with_requirement(CUDART + own), {CUDART: "13.0.96"})
    assert added == ["nvidia-cuda-runtime>=13.0,<14"]


def test_requirements_of_an_extra_hold_with_it_alone():
    new, added = requirements.require(TEXT, {CUDART: "13.0.96"}, extra="cuda13")
    assert added == ['nvidia-cuda-runtime>=13.0,<14; extra == "cuda13"']
    new = metadata.provide_extras(new, ["cuda13", "cuda13-local"])
    assert metadata.provide_extras(new, ["CUDA13", "cuda13_local"]) == new
    assert requirements.require(new, {CUDART: "13.0.96"}, extra="cuda13") == (new, [])
    assert new.count(b"Provides-Extra: ") == 3
    declared = {r.name: r for r in metadata.requirements(new)}
    assert declared[CUDART].marker is not None
    assert declared[CUDART].marker.evaluate({"extra": "cuda13"})
    assert not declared[CUDART].marker.evaluate({"extra": "cuda13-local"})


@pytest.mark.parametrize(
    "own",
    [
        "",
        "; extra == 'cuda13'",
        '; extra == "CUDA_13"',
        "; 'cuda13' == extra",
        "; extra == 'gpu' or extra == 'cuda13'",
        "; sys_platform == 'linux'",
        "; sys_platform == 'linux' and extra == 'cuda13' and python_version >= '3'",
    ],
)
def test_the_projects_own_requirement_of_the_extra_is_enough(own):
    text = with_requirement(f"{CUDART} ==13.0.* {own}")
    extra = "cuda-13" if "CUDA_13" in own else "cuda13"
    assert requirements.require(text, {CUDART: "13.0.96"}, extra=extra) == (text, [])
    assert requirements.require(text, {CUDART: None}, extra=extra) == (text, [])


def test_a_requirement_that_excludes_the_linked_version_is_an_error():
    with pytest.raises(ActionError) as caught:
        requirements.require(with_requirement("nvidia-cuda-runtime>=13.1"), {CUDART: "13.0.96"})
    assert str(caught.value) == (
        "the project requires nvidia-cuda-runtime>=13.1, but the wheel was linked with nvidia-cuda-runtime 13.0.96\n"
        "  hint: correct the project's dependencies, or build with a toolkit that they allow"
    )


def test_an_unknown_version_needs_the_projects_own_requirement():
    text = with_requirement("nvidia-cuda-runtime>=13,<14")
    assert requirements.require(text, {CUDART: None}) == (text, [])
    with pytest.raises(ActionError, match="the toolkit does not give the version it was linked with"):
        requirements.require(TEXT, {CUDART: None})


def test_an_unknown_version_is_enough_with_proved_bounds():
    bounds = requirements.Bounds(Requirement("nvidia-cuda-runtime>=13.0,<14"), ("12.99999", "14"))
    _, added = requirements.require(TEXT, {CUDART: None}, proved={CUDART: bounds})
    assert added == ["nvidia-cuda-runtime>=13.0,<14"]


def test_invalid_requirements_are_errors():
    with pytest.raises(ActionError, match="a Requires-Dist that is not valid: numpy >one"):
        requirements.require(with_requirement("numpy >one"), {CUDART: "13.0.96"})
    with pytest.raises(ActionError, match="the toolkit reports version 'new' for nvidia-cuda-runtime"):
        requirements.requirement_for(CUDART, "new")
