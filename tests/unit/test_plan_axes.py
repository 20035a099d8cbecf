"""`[axes]`: the maintainer's own dimensions, from the manifest to cells, actions, keys and wheels."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_samples import plan_of, problems, request_of

from gpuforge.actions.cell_actions import Plan
from gpuforge.actions.wheel import record_of
from gpuforge.cli.matrix import github, gitlab
from gpuforge.errors import UsageError
from gpuforge.execute.substitution import RunPaths, fill
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.cell import Choice, matrix, select
from gpuforge.plan.context import PlanContext
from gpuforge.plan.keys import keys

AXES = """
[axes]
torch = ["2.10", "2.11", "2.15"]
[build]
requires = ["torch=={torch}.*"]
[test]
requires = ["torch>={torch},<{torch-next}"]
command = ["true"]
"""
NAME = ('name = "demo-pkg"', 'name = "demo-torch{torch}"\nimport = "demo"')
OLD = ('toolkit = "12.4"', 'toolkit = "12.4"\naxes = { torch = ["2.10"] }')
NEW = ('toolkit = "13.0"', 'toolkit = "13.0"\naxes = { torch = ["2.11", "2.15"] }')
ONE = ('python = ["3.11", "3.13"]', 'python = ["3.11"]')
SPANS = '[wheel]\nspans = ["torch"]\n'


def ids(file: ManifestFile) -> list[str]:
    return [cell.id for cell in matrix(file.manifest, "x86_64")]


def requests(plan: Plan, program: str) -> dict[str, Any]:
    found = [action for action in plan.actions if action.step and action.step.program() == program]
    return {action.id: request_of(action) for action in found}


def test_each_value_that_a_toolkit_has_is_a_cell(recipe):
    assert ids(recipe(NAME, OLD, NEW, ONE, add=AXES)) == [
        "cp311-cu12.4-torch2.10-x86_64",
        "cp311-cu13.0-torch2.11-x86_64",
        "cp311-cu13.0-torch2.15-x86_64",
    ]


def test_two_axes_make_every_combination(recipe):
    axes = AXES.replace("[build]", 'blas = ["mkl", "open"]\n[build]\nenv = { BLAS = "{blas}" }')
    assert ids(recipe(NAME, OLD, ONE, add=axes))[:3] == [
        "cp311-cu12.4-torch2.10-blasmkl-x86_64",
        "cp311-cu12.4-torch2.10-blasopen-x86_64",
        "cp311-cu13.0-torch2.10-blasmkl-x86_64",
    ]


@pytest.mark.parametrize("spans", ["", SPANS.replace('"torch"', '"torch", "a", "b", "c", "d", "e", "f"')])
def test_more_combinations_than_anybody_could_build_are_refused_at_once(recipe, spans):
    """They are counted, not listed: these are ten thousand millions."""
    values = json.dumps([f"v{number}" for number in range(30)])
    more = "".join(f"{name} = {values}\n" for name in "abcdef")
    env = ", ".join(f'{name} = "{{{name}}}"' for name in "abcdef")
    axes = AXES.replace("[build]", f"{more}[build]\nenv = {{ {env} }}")
    with pytest.raises(UsageError, match=r"\[axes\] has more than 200 combinations of values"):
        recipe(NAME, add=axes + spans)


def test_one_wheel_serves_the_values_that_it_spans(recipe, machine):
    file = recipe(OLD, NEW, ONE, add=AXES + SPANS)
    assert ids(file) == ["cp311-cu12.4-x86_64", "cp311-cu13.0-x86_64"]
    plan = plan_of(file, machine, cuda=["13"])
    assert [end.action for end in plan.tests["cp311-cu13.0-x86_64"]] == [
        "cp311-cu13.0-x86_64/test-torch2.11",
        "cp311-cu13.0-x86_64/test-torch2.15",
    ]
    built = {name: each["requires"] for name, each in requests(plan, "environment.FetchRequirements").items()}
    assert set(map(tuple, built.values())) == {("torch==2.11.*",)}
    tried = requests(plan, "trial.TryWheel")
    assert [each["requires"] for each in tried.values()] == [["torch>=2.11,<2.16"], ["torch>=2.15,<2.16"]]


def test_the_values_are_in_every_place_that_may_use_them(recipe, machine):
    kernels = ('sources = ["kernels/*.cu"]', 'sources = ["kernels/*.cu"]\nflags = ["-DTORCH={torch}"]')
    env = ("[build]", '[build]\nenv = { WANT = "{torch} ${torch} {{torch}}" }')
    file = recipe(NAME, NEW, ONE, kernels, add=AXES.replace(*env))
    plan = plan_of(file, machine, cuda=["13"])
    builds = [action for action in plan.actions if action.kind == "build"]
    places = RunPaths(Path(), Path(), dict.fromkeys(builds[0].inputs, Path()))
    values = [fill(action, places)[1]["WANT"] for action in builds]
    assert values == ["2.11 ${torch} {torch}", "2.15 ${torch} {torch}"]
    compiled = [action for action in plan.actions if action.id.endswith("one.cu")]
    assert ["-DTORCH=2.11" in compiled[0].argv, "-DTORCH=2.15" in compiled[1].argv] == [True, True]
    assert [each["name"] for each in requests(plan, "wheel.PackageWheel").values()] == [
        "demo-torch2.11",
        "demo-torch2.15",
    ]


def test_what_does_not_use_an_axis_is_done_once(recipe, machine):
    plan = plan_of(recipe(NAME, NEW, ONE, add=AXES), machine, cuda=["13"])
    names = [action.id for action in plan.actions]
    assert names.count("cu13.0/kernels/default-kernels/kernels/one.cu") == 1
    assert names.count("cu13.0/toolkit") == 1
    assert {name for name in names if name.endswith("/environment")} == {
        "py3.11-torch2.11-cu13.0/environment",
        "py3.11-torch2.15-cu13.0/environment",
    }
    shared = next(action for action in plan.actions if action.id == "cu13.0/toolkit")
    assert shared.cells == ("cp311-cu13.0-torch2.11-x86_64", "cp311-cu13.0-torch2.15-x86_64")


def test_what_uses_one_of_two_axes_is_done_once_for_the_other(recipe, machine):
    two = AXES.replace("[build]", 'blas = ["mkl", "open"]\n[build]').replace('["true"]', '["true", "{blas}"]')
    plan = plan_of(recipe(NEW, ONE, add=two + '[wheel]\nnaming = ["local"]\n'), machine, cuda=["13"])
    environments = [action for action in plan.actions if action.id.endswith("/environment")]
    assert [(action.id.partition("/")[0], len(action.cells)) for action in environments] == [
        ("py3.11-torch2.11-blasmkl-cu13.0", 2),
        ("py3.11-torch2.15-blasmkl-cu13.0", 2),
    ]
    assert len(plan.tests) == 4


def test_keys_are_those_of_a_build_of_one_cell(recipe, machine):
    file = recipe(NAME, OLD, NEW, ONE, add=AXES)
    whole = {name: key.digest for name, key in keys(plan_of(file, machine).actions).items()}
    alone = keys(plan_of(file, machine, cell="cp311-cu13.0-torch2.15-x86_64").actions)
    assert {name: key.digest for name, key in alone.items()}.items() <= whole.items()


def test_a_new_value_leaves_the_others_keys_alone(recipe, machine):
    new = AXES.replace('"2.15"]', '"2.15", "2.16"]')
    wider = (NEW[0], NEW[1].replace('"2.15"]', '"2.15", "2.16"]'))
    before = keys(plan_of(recipe(NAME, OLD, NEW, ONE, add=AXES), machine).actions)
    after = keys(plan_of(recipe(NAME, OLD, wider, ONE, add=new), machine).actions)
    kinds = ("host-build", "environment")
    kept = [name for name in before if name.endswith(kinds)]
    assert kept
    assert [name for name in kept if before[name].digest != after[name].digest] == []


def test_axis_chooses_cells(recipe):
    file = recipe(NAME, OLD, NEW, ONE, add=AXES)
    chosen = select(file, "x86_64", Choice(axis=["torch=2.15", "torch=2.10"]))
    assert [cell.axes for cell in chosen.cells] == [(("torch", "2.10"),), (("torch", "2.15"),)]
    (left,) = chosen.left_out
    assert left.reason.facts == {"option": ("--axis",), "values": ("torch=2.15", "torch=2.10")}


@pytest.mark.parametrize(
    ("axis", "spans", "message"),
    [
        ("torhc=2.15", "", "the manifest has no axis 'torhc'\n  hint: it has torch"),
        ("torch=2.9", "", "hint: write one of torch=2.10, torch=2.11, torch=2.15"),
        ("torch", "", "the axis has no such value"),
        ("torch=2.15", SPANS, "one wheel serves every value of this axis"),
    ],
)
def test_an_axis_that_is_not_there_is_refused(recipe, axis, spans, message):
    with pytest.raises(UsageError, match=r"--axis torh?c?h?") as caught:
        select(recipe(NAME, OLD, NEW, ONE, add=AXES + spans), "x86_64", Choice(axis=[axis]))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "add", "message", "hint"),
    [
        (
            [NAME, OLD],
            AXES,
            "the wheels of torch==2.10.* on PyPI are for CUDA 12, and [cuda.13] is 13.0",
            'write axes = { torch = ["2.11", "2.15"] } below [cuda.13]',
        ),
        (
            [NAME, NEW],
            AXES,
            "the wheels of torch==2.15.* on PyPI are for CUDA 13, and [cuda.12] is 12.4",
            'write axes = { torch = ["2.10"] } below [cuda.12]',
        ),
        (
            [OLD],
            AXES + SPANS,
            "the wheels of torch==2.10.* on PyPI are for CUDA 12, and [cuda.13] is 13.0",
            'write axes = { torch = ["2.11", "2.15"] } below [cuda.13]',
        ),
        (
            [],
            '\n[build]\nrequires = ["numpy", "torch==2.11.*"]\n',
            "the wheels of torch==2.11.* on PyPI are for CUDA 13, and [cuda.12] is 12.4",
            "require a release for CUDA 12 (torch 2.10.0 is the newest known), or remove [cuda.12]",
        ),
        (
            [NAME, NEW],
            AXES.replace('"2.10", ', ""),
            "the wheels of torch==2.11.* on PyPI are for CUDA 13, and [cuda.12] is 12.4",
            "no value of [axes] torch has wheels for CUDA 12: add one (torch 2.10.0 is the newest known), "
            "or remove [cuda.12]",
        ),
    ],
)
def test_a_package_of_another_cuda_major_is_refused_before_anything_runs(
    recipe, machine, change, add, message, hint
):
    found = [(d.message, d.hint) for d in problems(recipe(ONE, *change, add=add), machine)]
    own_index = (
        '; or [indexes] torch = "https://download.pytorch.org/whl/cu{cuda-short}", where it is for each CUDA'
    )
    assert (message, hint + own_index) in found


@pytest.mark.parametrize(
    "requirement",
    [
        "torch>=2.10",  # pip may choose either
        "torch==2.15.0+cu126",  # of an index of torch's own
        "numpy==2.11.*",
        "torch",
    ],
)
def test_what_may_fit_the_toolkit_is_not_refused(recipe, machine, requirement):
    assert plan_of(recipe(add=f'\n[build]\nrequires = ["{requirement}"]\n'), machine, cuda=["12"]).cells


def test_wheels_of_two_values_need_two_names(recipe, machine):
    with pytest.raises(UsageError, match="would have the same file name") as caught:
        plan_of(recipe(OLD, NEW, ONE, add=AXES), machine)
    assert 'naming = ["local"] or ["variant"] puts torch into the file name' in str(caught.value)
    local = recipe(OLD, NEW, ONE, add=AXES + '[wheel]\nnaming = ["local"]\n')
    assert labels(plan_of(local, machine)) == ["cu12.torch2.10", "cu13.torch2.11", "cu13.torch2.15"]


def labels(plan: Plan) -> list[str]:
    return [each["label"] for each in requests(plan, "wheel.PackageWheel").values()]


def test_a_label_of_the_maintainers_own_is_appended_to_the_version(recipe, machine):
    named = AXES + '[wheel]\nnaming = ["local"]\nlabel = "{0}"\n'
    local = recipe(OLD, NEW, ONE, add=named.replace("{0}", "cu{cuda-short}torch{torch}"))
    assert labels(plan_of(local, machine)) == ["cu124torch2.10", "cu130torch2.11", "cu130torch2.15"]
    with pytest.raises(UsageError, match="would have the same file name"):
        plan_of(recipe(OLD, NEW, ONE, add=named.replace("{0}", "cu{cuda-major}")), machine)
    with pytest.raises(UsageError, match=r"\{cuda\} is not a placeholder"):
        recipe(OLD, NEW, ONE, add=named.replace("{0}", "{cuda}torch{torch}"))
    with pytest.raises(UsageError, match="naming does not have it"):
        recipe(ONE, add='\n[wheel]\nlabel = "cu{cuda-short}"\n')


def test_a_variant_has_the_axes_that_are_releases_of_packages(recipe, machine):
    named = AXES + '[wheel]\nnaming = ["variant"]\n'
    plan = plan_of(recipe(OLD, NEW, ONE, add=named), machine)
    assert [each["axes"] for each in requests(plan, "wheel.VariantWheel").values()] == [
        [["torch", "2.10"]],
        [["torch", "2.11"]],
        [["torch", "2.15"]],
    ]
    one_for_all = plan_of(recipe(OLD, NEW, ONE, add=AXES + SPANS + 'naming = ["variant"]\n'), machine)
    assert [each["axes"] for each in requests(one_for_all, "wheel.VariantWheel").values()] == [[], []]
    other = '\n[axes]\nblas = ["1", "2"]\n[build]\nenv = { BLAS = "{blas}" }\n[wheel]\nnaming = ["variant"]\n'
    with pytest.raises(UsageError, match="which is for releases only") as caught:
        plan_of(recipe(ONE, add=other), machine)
    assert '[wheel] spans = ["blas"]' in str(caught.value)


def test_the_record_names_the_values(recipe, machine):
    file = recipe(NEW, ONE, add=AXES + SPANS)
    cell = select(file, "x86_64", Choice(cuda=["13"])).cells[0]
    at, host = machine.host_at(cell)
    record = record_of(PlanContext(file.at(cell.point), (), machine), at, cell, host, host)
    assert record["axes"] == {"built": {"torch": "2.11"}, "serves": [{"torch": "2.11"}, {"torch": "2.15"}]}
    plain = recipe(ONE)
    cell = select(plain, "x86_64").cells[0]
    assert "axes" not in record_of(PlanContext(plain, (), machine), at, cell, host, host)


def test_a_narrowed_manifest_keeps_its_architectures_at_every_point(recipe):
    file = recipe(NAME, NEW, ONE, add=AXES)
    versions = dict(file.manifest.cuda.versions)
    versions["13"] = versions["13"].model_copy(update={"archs": ("90a",)})
    cuda = file.manifest.cuda.model_copy(update={"versions": versions})
    narrowed = replace(file, manifest=file.manifest.model_copy(update={"cuda": cuda}), whole=file.manifest)
    there = narrowed.at(matrix(file.manifest, "x86_64")[-1].point)
    assert there.manifest.package.name == "demo-torch2.15"
    assert there.manifest.cuda.versions["13"].archs == ("90a",)
    assert there.whole
    assert there.whole.cuda.versions["13"].archs == ("80", "90a")


def test_ci_jobs_have_the_values():
    job = {"cell": "c", "machine": "x86_64", "axes": {"torch": "2.11"}}
    assert json.loads(github([job]))["include"][0]["axes"] == {"torch": "2.11"}
    assert 'AXES: "torch=2.11"' in gitlab([job], "matrix-gitlab.yml")


INDEX = '[indexes]\ntorch = "https://download.example/whl/cu{cuda-short}/{torch}"\n'


def test_an_index_of_a_package_is_for_a_toolkit_and_a_value(recipe, machine):
    """torch 2.11 on PyPI is for CUDA 13; its own index has it for CUDA 12, too."""
    file = recipe(ONE, add=AXES.replace('"2.10", ', "") + SPANS[:8] + 'naming = ["local"]\n' + INDEX)
    plan = plan_of(file, machine)
    cells = [cell.id for cell in plan.cells]
    assert cells[0] == "cp311-cu12.4-torch2.11-x86_64"
    of_build = requests(plan, "environment.FetchRequirements")
    assert {each["indexes"]["torch"] for each in of_build.values()} == {
        f"https://download.example/whl/{cuda}/{torch}"
        for cuda in ("cu124", "cu130")
        for torch in ("2.11", "2.15")
    }
    assert all("-cu" in name for name in of_build)
    of_test = requests(plan, "trial.FetchTestRequirements")
    assert of_test[f"{cells[0]}/test-requirements"]["indexes"] == {
        "torch": "https://download.example/whl/cu124/2.11"
    }
    records = [each["record"] for each in requests(plan, "wheel.PackageWheel").values()]
    assert records[0]["indexes"] == {"torch": "https://download.example/whl/cu124/2.11"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[build]\ncuda = false\n[indexes]\ntorch = "https://x/cu{cuda-short}"\n',
            "the host build gets none",
        ),
        ('[indexes]\ntorch = "https://me:secret@x/whl"\n', "holds a user name, a password or a query"),
        ('[indexes]\ntorch = "cu130"\n', "the URL of a package index"),
        ('[indexes]\ntorch = "https://x/{cuda-shrt}"\n', "did you mean {cuda-short}?"),
    ],
)
def test_an_index_that_cannot_be_used_is_refused(recipe, text, message):
    with pytest.raises(UsageError) as caught:
        recipe(add=f"\n{text}")
    assert message in str(caught.value)
