"""Project names that end in a CUDA major: read and written alike, wherever a name is met."""

import shutil

import pytest
from draws import draws
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.cli import matrix
from gpuforge.cuda import suffix
from gpuforge.cuda.carriers import cuda_majors
from gpuforge.errors import UsageError
from gpuforge.package import naming
from gpuforge.plan import cell
from gpuforge.runtime import guard
from gpuforge.wheel.filename import WheelName

NAMES = st.builds(
    "{}{}{}".format,
    st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,6}[A-Za-z0-9]", fullmatch=True),
    st.sampled_from(["-", "_", ".", "--", "-._", ""]),
    st.sampled_from(["cu12", "CU13", "cu12x", "cuda12x", "cuda13", "cu118", "cuda", "x", "cu12-tools", "cu12345"]),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found", "plain"),
    [
        ("nvidia-cufft-cu12", "cu12", "nvidia-cufft"),
        ("cupy-cuda12x", "cuda12x", "cupy"),
        ("demo-cu12x", "cu12x", "demo"),
        ("spconv-cu118", "cu118", "spconv"),
        ("My.Solver_CU13", "CU13", "My.Solver"),
        ("jax-cuda12-plugin", "", "jax-cuda12-plugin"),
        ("cuda-toolkit", "", "cuda-toolkit"),
        ("cu12", "", "cu12"),
        ("democu12", "", "democu12"),
        ("demo-cu12-tools", "", "demo-cu12-tools"),
    ],
)
def test_a_suffix_is_found_and_removed(name, found, plain):
    assert suffix.suffix_of(name) == found
    assert suffix.without_suffix(name) == plain


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("2.11.0+cu126", 12),
        ("1.0+cu118", 11),
        ("1.0+cu92", 9),
        ("1.0+cu13", 13),
        ("1.0+cu13.torch2.11", 13),
        ("1.0+git0a1b2c3.cu128", 12),
        ("1.0", None),
        ("1.0+cpu", None),
        ("1.0+cu", None),
        ("1.0+ncu12", None),
    ],
)
def test_the_cuda_major_of_a_local_version(version, major):
    assert suffix.major_of_local(version) == major


@given(NAMES, st.sampled_from([12, 13]))
@draws(200)
def test_a_name_for_a_cuda_major_is_the_same_however_it_is_spelled(name, major):
    try:
        named = suffix.named_for(name, major)
    except UsageError:
        with pytest.raises(UsageError):
            suffix.named_for(canonicalize_name(name), major)
        assert suffix.number_of(name) not in {None, major}
        return
    assert canonicalize_name(named) == suffix.named_for(canonicalize_name(name), major)
    assert suffix.named_for(named, major) == named
    assert suffix.number_of(named) == major


@given(NAMES)
@draws(100)
def test_the_guard_in_a_wheel_cuts_the_suffixes_that_names_have(name):
    plain = canonicalize_name(suffix.without_suffix(canonicalize_name(name)))
    assert guard._stem(name).replace("_", "-") == plain


@given(NAMES)
@draws(60, HealthCheck.function_scoped_fixture)
def test_matrix_and_build_give_a_wheel_the_same_name(recipe, tmp_path, name):
    file = recipe(('name = "demo-pkg"', f'name = "{name}"\nimport = "demo"'))
    for each in cell.matrix(file.manifest, "x86_64"):
        tree = tmp_path / "tree"
        info = tree / "demo-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\n")
        before = WheelName("demo", "1", "", "py3", "none", "any")
        try:
            built = naming.rename(tree, before, each.naming, each.toolkit)
        except UsageError:
            with pytest.raises(UsageError):
                matrix.distributions(file, each)
        else:
            assert matrix.distributions(file, each) == [canonicalize_name(built.distribution)]
        shutil.rmtree(tree)


@pytest.mark.parametrize(
    ("requirement", "majors"),
    [
        ("torch==2.10.*", {12}),
        ("torch==2.11.*", {13}),
        ("torch==2.13.*", {13}),  # no row lists it: the range of a row has it
        ("torch~=2.11.0", {13}),
        ("torch>=2.11", {13}),
        ("torch<2.11,>=2.10", {12}),
        ("torch>=2.10", {12, 13}),
        ("torch", {11, 12, 13}),
        ("Torch==2.11", {13}),
        ("torch==2.11.0+cu126", {12}),
        ("torch==2.11.0+cu130", {13}),
        ("torch==2.11.0+cu13", {13}),
        ("torch==2.11.0+cpu", set()),
        ("torch===nonsense", set()),
        ("torch>99", set()),
        ("numpy==2.11.*", set()),
    ],
)
def test_majors(requirement, majors):
    assert cuda_majors(Requirement(requirement)) == majors
