"""`gpuforge matrix`: whole outputs, in every format."""

import json
import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import golden
import pytest
import yaml
from draws import draws
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpuforge.cli import matrix
from gpuforge.cli.main import run
from gpuforge.containers import expected


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuforge.cli.matrix.machine_type", lambda: "x86_64")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("form", ["table", "github", "gitlab", "json"])
def test_output(recipe, capsys, monkeypatch, form):
    monkeypatch.chdir(recipe().folder.parent)
    assert run(["matrix", "recipe", "--cuda", "13", "--format", form]) == 0
    output = capsys.readouterr()
    found = f"{output.out}--- stderr\n{output.err}"
    golden.hold(f"matrix/{form}.txt", found)


TEST_MATRIX = """
[test.matrix]
requirements = ["oldest", "newest"]
minors = ["13.1"]
[[test.matrix.gpu]]
runner = ["self-hosted", "gpu"]
driver = "535"
[[test.matrix.gpu]]
runner = "new"
"""


def test_tests_of_the_wheels(recipe, capsys, monkeypatch):
    """CUDA 13 needs a newer driver than 535, and a pull request gets no GPU."""
    monkeypatch.chdir(recipe(add=TEST_MATRIX + '[wheel]\nimage = "bookworm"\n').folder.parent)
    found = ""
    for event in ("release", "pull-request"):
        assert run(["matrix", "recipe", "--python", "3.13", "--tests", "--event", event]) == 0
        found += f"--- {event}\n{capsys.readouterr().out}"
    golden.hold("matrix/tests.txt", found)
    assert run(["matrix", "recipe", "--format", "gitlab"]) == 2
    assert "GitLab's jobs select a runner by one tag, not by self-hosted, gpu" in capsys.readouterr().err
    assert run(["matrix", "recipe", "--format", "gitlab", "--cuda", "13"]) == 0
    jobs = yaml.safe_load(capsys.readouterr().out)[".gpuforge-test"]["parallel"]["matrix"]
    assert run(["matrix", "recipe", "--format", "github", "--cuda", "13", "--tests"]) == 0
    on_github = json.loads(capsys.readouterr().out)["include"]
    assert [job["RUN"] for job in jobs] == [job["run"] for job in on_github]
    assert {tuple(job["runner"]) for job in on_github if "--gpu" in job["run"]} == {("new",)}


def test_gitlab_tests_no_wheel_whose_python_cannot_run_gpuforge(recipe, capsys):
    """The job's image has the wheel's Python alone; GitHub's job has a second one."""
    add = '[test.matrix]\nrequirements = ["newest"]\n[wheel]\nimage = "manylinux_2_28"\n'
    pythons = ('python = ["3.11", "3.13"]', 'python = ["3.10", "3.13"]')
    folder = str(recipe(pythons, add=add).folder)
    assert run(["matrix", folder, "--format", "gitlab", "--cuda", "13"]) == 0
    found = capsys.readouterr()
    jobs = yaml.safe_load(found.out)[".gpuforge-test"]["parallel"]["matrix"]
    assert [job["PYTHON"] for job in jobs] == ["3.13"]
    assert "gpuforge needs Python 3.11, and GitLab's image has one Python: cp310-cu13.0-" in found.err


def test_a_pull_request_builds_one_wheel_for_each_cuda(recipe, capsys):
    folder = str(recipe().folder)
    assert run(["matrix", folder, "--image", "bookworm", "--event", "pull-request", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [job["cell"] for job in found["cells"]] == ["cp313-cu12.4-x86_64", "cp313-cu13.0-x86_64"]
    assert found["tests"] == []


def test_each_machine_type_has_a_runner_of_its_own_that_needs_no_image_of_another(recipe, capsys):
    both = '[wheel]\nmachines = ["x86_64", "aarch64"]\n[cuda.13.aarch64]\narchs = ["90"]\n'
    folder = str(recipe(add=both).folder)
    chosen = ["matrix", folder, "--image", "bookworm", "--cuda", "13", "--python", "3.11"]
    assert run([*chosen, "--format", "json"]) == 0
    intel, arm = json.loads(capsys.readouterr().out)["cells"]
    assert (intel["runner"], arm["runner"]) == ("ubuntu-24.04", "ubuntu-24.04-arm")
    assert (intel["archs"], arm["archs"]) == (["80", "90a"], ["90"])
    assert intel["prepare"] == arm["prepare"] == "gpuforge images build bookworm bookworm-test"
    assert intel["image"] != arm["image"]
    assert run([*chosen, "--format", "json", "--machine", "aarch64"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == [arm]


def test_what_a_toolkit_cannot_compile_is_shown_where_it_is_written(recipe, capsys):
    """Here it is in the table of a machine type."""
    both = '[wheel]\nmachines = ["x86_64", "aarch64"]\n[cuda.13.aarch64]\narchs = ["90", "50"]\n'
    folder = recipe(add=both).folder
    line = (folder / "gpuforge.toml").read_text().splitlines().index('archs = ["90", "50"]') + 1
    assert run(["matrix", str(folder), "--image", "bookworm"]) == 2
    message = f"gpuforge.toml:{line}:16: CUDA 13.0 does not compile for sm_50; "
    assert message in capsys.readouterr().err


def test_github_reads_one_line_of_json(recipe, capsys):
    assert run(["matrix", str(recipe().folder), "--format", "github", "--image", "bookworm"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    jobs = json.loads(line)["include"]
    assert [job["cell"] for job in jobs] == [
        f"cp{python}-cu{cuda}-x86_64" for cuda in ("12.4", "13.0") for python in (311, 313)
    ]
    build = f"gpuforge build {recipe().folder} --cell {{}} --runner docker --image bookworm"
    assert all(job["build"] == build.format(job["cell"]) for job in jobs)


@pytest.mark.thorough
def test_more_jobs_than_github_runs_is_said(recipe, capsys):
    many = ", ".join(f'"3.{minor}"' for minor in range(10, 100))
    file = recipe(
        ('python = ["3.11", "3.13"]', f"python = [{many}]"), add='[wheel]\nnaming = ["suffix", "local"]\n'
    )
    assert run(["matrix", str(file.folder), "--format", "github", "--image", "registry/own"]) == 0
    assert "warning: 360 jobs, but github runs at most 256 of one matrix" in capsys.readouterr().err


REFUSED = {
    "an architecture that the toolkit lacks": ('archs = ["80", "90a"]', 'archs = ["52"]'),
    "a toolkit that nobody has": ('toolkit = "12.4"', 'toolkit = "12.7"'),
    "a provider that does not have it": ('toolkit = "12.4"', 'toolkit = "12.4"\nprovider = "pypi"'),
    "a library that the toolkit lacks": ('libraries = ["cufft"]', 'libraries = ["cuffft"]'),
    "an nvcc of another version": ('compiler = "nvcc"', 'compiler = "nvcc"\nversion = "<12"'),
    "a source that is not there": ('sources = ["kernels/*.cu"]', 'sources = ["kernel/*.cu"]'),
    "what cannot be built yet": ('compiler = "nvcc"', 'compiler = "nvcc"\npath = "/opt/nvcc"'),
    "a project named for another CUDA": ('name = "demo-pkg"', 'name = "demo-cuda12x"'),
    "wheels of one name": ("[toolchains.host]", '[wheel]\nnaming = ["plain"]\n[toolchains.host]'),
    "a host compiler that the image lacks": ('compiler = "g++"', 'compiler = "g++"\nversion = ">=13"'),
    "a host compiler that a toolkit refuses": ('compiler = "g++"', 'compiler = "clang++"\nversion = ">=25"'),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_a_build_refuses_is_refused_with_the_same_words(recipe, capsys, monkeypatch, why):
    """In an image that the catalog describes; the build's is stood in for by that description."""
    old, new = REFUSED[why]
    folder = str(recipe((old, new)).folder)
    monkeypatch.setattr(
        "gpuforge.execute.runners.docker.setup.sites",
        lambda wanted: [expected.image(name, "x86_64", test=wanted.test) for name in wanted.images],
    )
    monkeypatch.setattr("gpuforge.cli.build.machine_type", lambda: "x86_64")
    said = []
    for command in (["build", "--runner", "docker", "--dry-run"], ["matrix"]):
        status = run([command[0], folder, *command[1:], "--image", "bookworm", "--cuda", "12,13"])
        said.append((status, capsys.readouterr().err))
    assert said[0] == said[1]
    assert said[0][0] in {2, 3}
    assert said[0][1].startswith("error: ")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (
            "bokworm",
            "image bokworm is not here, and gpuforge knows none of this name\n  hint: did you mean bookworm?",
        ),
        ("gpuforge/bookworm", "image gpuforge/bookworm is not here. It is never pulled"),
        (
            "localhost/gpuforge/bookworm:0",
            "image localhost/gpuforge/bookworm:0 is not here. It is never pulled",
        ),
    ],
)
def test_names_that_no_registry_has_are_refused_as_a_build_refuses_them(recipe, capsys, image, message):
    file = recipe()
    assert run(["matrix", str(file.folder), "--image", image]) == 3
    assert capsys.readouterr().err.startswith(f"error: {message}")
    old = "[toolchains.host]"
    for key in (f'[wheel]\nimage = "{image}"', f'[test]\nimage = "{image}"'):
        assert run(["matrix", str(recipe((old, f"{key}\n{old}")).folder)]) == 3
        assert capsys.readouterr().err.startswith(f"error: {message}")


@pytest.mark.thorough
def test_what_an_image_lacks_is_left_out_and_without_any_cell_an_error(recipe, capsys):
    file = recipe(
        ('python = ["3.11", "3.13"]', 'python = ["3.11", "3.12"]'), add='[wheel]\nimage = "bookworm"\n'
    )
    assert run(["matrix", str(file.folder), "--format", "json"]) == 3
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [job["cell"] for job in found["cells"]] == ["cp311-cu12.4-x86_64", "cp311-cu13.0-x86_64"]
    assert {(item["kind"], item["reason"]) for item in found["left_out"]} == {
        ("missing", "no CPython 3.12 in image bookworm; it has 3.11.2, 3.13.5")
    }
    assert err == (
        "hint: choose another with --python, or name another image with --image or in [wheel] image\n"
        "2 cells are left out, so the exit status is 3; --python 3.11, or --allow-missing, makes it 0\n"
    )
    assert run(["matrix", str(file.folder), "--allow-missing"]) == 0
    assert run(["matrix", str(file.folder), "--python", "3.11"]) == 0
    assert run(["matrix", str(file.folder), "--python", "3.12"]) == 3
    assert run(["matrix", str(file.folder), "--python", "3.12", "--allow-missing"]) == 3  # nothing is left
    assert run(["matrix", str(file.folder), "--python", "3.11,3.12", "--allow-missing"]) == 0


def test_every_python_of_the_default_image_has_a_job_and_one_that_cannot_be_tested_is_an_error(
    recipe, capsys
):
    """The test image beside manylinux_2_28 has no CPython 3.12: the wheel is tested in manylinux_2_28 itself."""
    pythons = ('python = ["3.11", "3.13"]', 'python = ["3.11", "3.12"]')
    assert run(["matrix", str(recipe(pythons).folder), "--cuda", "13", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [job["python"] for job in found["cells"]] == ["3.11", "3.12"]
    assert {job["prepare"] for job in found["cells"]} == {"gpuforge images build bullseye-test"}
    file = recipe(pythons, add='[test]\nimage = "bullseye-test"\n')
    assert run(["matrix", str(file.folder), "--cuda", "13"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"error: {file.place('test', 'image')}: no CPython 3.12 in image bullseye-test; it has 3.9.x, 3.11.2, 3.13.5\n"
        '  hint: name an image that has it in [test] image, such as "python:3.12-slim", '
        "or choose others with --python\n"
    )


def jobs_of(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[Any, Any]:
    """What GitHub and GitLab would run."""
    assert run(["matrix", str(folder), "--format", "github", *options]) == 0
    github = json.loads(capsys.readouterr().out)["include"]
    assert run(["matrix", str(folder), "--format", "gitlab", *options]) == 0
    gitlab = yaml.safe_load(capsys.readouterr().out)[".gpuforge"]["parallel"]["matrix"]
    return github, gitlab


@pytest.mark.parametrize(
    ("images", "image", "compiler", "prepare"),
    [
        (
            ["bookworm"],
            "localhost/gpuforge/bookworm:",
            "g++ 12",
            "gpuforge images build bookworm bookworm-test",
        ),
        (
            ["manylinux_2_28"],
            "quay.io/pypa/manylinux_2_28_x86_64@sha256:",
            "g++ 14",
            "gpuforge images build bullseye-test",
        ),
        (["ghcr.io/own/image@sha256:abc"], "ghcr.io/own/image@sha256:abc", None, ""),
    ],
)
def test_each_image_by_what_it_is_made_of_and_what_makes_it(recipe, capsys, images, image, compiler, prepare):
    file = recipe(add=f"[wheel]\nimage = {json.dumps(images)}\n")
    github, _ = jobs_of(file.folder, capsys, "--cuda", "13", "--python", "3.11", "--archs", "80")
    (job,) = github
    assert job["image"].startswith(image)
    assert (job["compiler"], job["prepare"], job["runner"]) == (compiler, prepare, "ubuntu-24.04")
    assert job["build"] == (
        f"gpuforge build {file.folder} --cell cp311-cu13.0-x86_64 --runner docker --archs 80"
    )
    assert job["archs"] == ["80"]


@pytest.mark.thorough
def test_a_toolkit_gets_the_image_and_the_compiler_that_it_takes(recipe, capsys):
    old = (
        '[cuda.12]\ntoolkit = "12.4"\narchs = ["80", "90+ptx"]',
        '[cuda.11]\ntoolkit = "11.8"\narchs = ["80"]',
    )
    file = recipe(old, add='[wheel]\nimage = ["trixie", "bookworm"]\n')
    github, _ = jobs_of(file.folder, capsys, "--python", "3.11")
    assert [(job["toolkit"], job["compiler"]) for job in github] == [("11.8", "g++ 11"), ("13.0", "g++ 14")]


@pytest.mark.parametrize(
    ("toolchain", "image", "why"),
    [
        ("", "manylinux_2_28", "CUDA 12.4 takes g++ 6 to 13 as host compiler, not 14"),
        ('compiler = "clang++"', "bookworm", "no usable clang++ in image bookworm; it has none"),
        ("", "manylinux_2_28-cuda12.4", ""),
        ("", "registry/own", ""),  # which compilers it has is not known
        ('compiler = "clang++"', "registry/own", ""),
    ],
)
def test_a_compiler_that_an_image_does_not_have_is_not_planned_with(recipe, capsys, toolchain, image, why):
    old = 'compiler = "g++"'
    file = recipe((old, toolchain or old))
    chosen = ["matrix", str(file.folder), "--cuda", "12", "--python", "3.11", "--image", image]
    assert run(chosen) == (3 if why else 0)
    assert why in capsys.readouterr().err


@pytest.mark.thorough
def test_the_workflow_of_init_uses_what_the_jobs_have(recipe, capsys):
    workflow = resources.files("gpuforge.cli").joinpath("workflows", "github.yml").read_text()
    steps = yaml.safe_load(workflow)["jobs"]["build"]
    used = set(re.findall(r"(?<!needs\.)\bmatrix\.(\w+)", json.dumps(steps)))
    (job, *_), _ = jobs_of(recipe().folder, capsys, "--cuda", "13")
    assert {"runner", "prepare", "build", "cell"} == used
    assert used <= job.keys()
    assert "pip install gpuforge" not in workflow  # a name on PyPI that is not the project's


@pytest.mark.thorough
@given(
    pythons=st.lists(st.sampled_from(["3.11", "3.12", "3.13"]), min_size=2, unique=True),
    images=st.lists(st.sampled_from(["bookworm", "bullseye", "manylinux_2_28", "own/image:1"]), unique=True),
    naming=st.lists(st.sampled_from(["suffix", "local"]), min_size=1, unique=True),
    machine=st.sampled_from(["x86_64", "aarch64"]),
)
@draws(10, HealthCheck.function_scoped_fixture)
def test_github_and_gitlab_run_the_same_jobs(recipe, capsys, pythons, images, naming, machine):
    file = recipe(
        ('python = ["3.11", "3.13"]', f"python = {json.dumps(pythons)}"),
        add=f"[wheel]\nimage = {json.dumps(images)}\nnaming = {json.dumps(naming)}\n",
    )
    with mock.patch("gpuforge.cli.matrix.machine_type", return_value=machine):
        github, gitlab = jobs_of(file.folder, capsys, "--cuda", "13", "--allow-missing")
    labels = dict(zip(matrix.RUNNERS["github"].values(), matrix.RUNNERS["gitlab"].values(), strict=True))
    as_variables = [
        {
            name.upper(): labels[value]
            if name == "runner"
            else " ".join(value)
            if name in {"archs", "distributions"}
            else value or ""
            for name, value in job.items()
        }
        for job in github
    ]
    assert gitlab == as_variables
    assert len(github) == len({job["cell"] for job in github}) > 0
    assert all(shlex.split(job["build"])[-2:] == ["--runner", "docker"] for job in github)
    assert all(job["image"] and "latest" not in job["image"] for job in github)


def test_jobs_that_share_a_store_get_its_address_and_no_secret():
    store = {"GPUFORGE_STORE": "s3://bucket/team", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}
    assert matrix.shared_by_jobs(store) == [
        "note: set GPUFORGE_STORE=s3://bucket/team in every job, and AWS_SECRET_ACCESS_KEY as secrets"
    ]
    others = {
        "SCCACHE_ENDPOINT": "https://me:hidden@host",
        "SCCACHE_S3_KEY_PREFIX": "team",
        "SCCACHE_REDIS_PASSWORD": "hidden",
    }
    cache = {"GPUFORGE_COMPILER_CACHE": "acme", "SCCACHE_BUCKET": "objects"}
    assert matrix.shared_by_jobs(store | cache | others) == [
        "note: set GPUFORGE_STORE=s3://bucket/team, GPUFORGE_COMPILER_CACHE=acme, SCCACHE_BUCKET=objects, "
        "SCCACHE_S3_KEY_PREFIX=team in every job, and AWS_SECRET_ACCESS_KEY, SCCACHE_ENDPOINT, "
        "SCCACHE_REDIS_PASSWORD as secrets",
    ]
    assert matrix.shared_by_jobs(others | {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}) == []
