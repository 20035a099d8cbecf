"""What is refused before anything runs, in all of its places at once."""

import os
from pathlib import Path

import pytest
from packaging.version import Version
from plan_samples import ONE_CELL, LoadRecipe, plan_of, problems

from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.keys import keys
from gpuforge.plan.recipe import of_modules
from gpuforge.plan.site import Machine
from gpuforge.plan.survey import unfit_compilers
from gpuforge.toolchains.toolchain import Compiler


def test_a_pattern_without_a_file_is_an_error(recipe, machine):
    file = recipe(("kernels/*.cu", "kernel/*.cu"))
    with pytest.raises(UsageError, match=r"object 'default-kernels': 'kernel/\*\.cu' matches no file"):
        plan_of(file, machine)


def test_needs_that_name_no_library_of_a_gpu_stack_are_refused(recipe, machine):
    files = 'files = ["**/*.so"]'
    found = problems(recipe((files, f'{files}\nneeds = ["cufft", "cublass", "zlib"]')), machine)
    assert [(d.message, d.hint) for d in found] == [
        (
            "object 'core': `needs` names 'cublass', which is not a known library of a GPU stack",
            "did you mean 'cublas'?",
        ),
        (
            "object 'core': `needs` names 'zlib', which is not a known library of a GPU stack",
            "remove it: only GPU libraries are listed in `needs`",
        ),
    ]
    plan_of(recipe((files, f'{files}\nneeds = ["cufft", "nvjitlink", "cuda", "OpenCL"]')), machine)


def test_what_cannot_be_built_yet_is_refused_all_at_once(recipe, machine):
    file = recipe(
        ('toolchain = "device"', 'toolchain = "other"\nkind = "library"\nstands-in-for = "mechanisms"'),
        (
            'toolchains = ["host"]',
            'toolchains = ["host"]\nabi = { version = "1", headers = ["kernels/*.cu"] }',
        ),
        add="""
[toolchains.other]
compiler = "clang++"
[[objects]]
name = "more-kernels"
role = "fallback"
sources = ["kernels/*.cu"]
toolchain = "host"
""",
    )
    found = problems(file, machine)
    assert [d.message for d in found] == [
        "object 'default-kernels': CUDA for a wheel is compiled by nvcc",
        f"object 'more-kernels': modules are compiled by {' and '.join(of_modules())} only, so far",
    ]
    assert all(d.hint for d in found)


def test_gxx_gets_no_cuda(recipe, machine):
    def mixed(compiler: str) -> ManifestFile:
        return recipe(
            ('sources = ["mod/*.cpp"]', 'sources = ["mod/*.cpp", "kernels/*.cu"]'),
            ('toolchains = ["host"]', 'toolchains = ["device", "other"]'),
            add=f"[toolchains.other]\n{compiler}\n",
        )

    (problem,) = problems(mixed('compiler = "g++"'), machine)
    assert problem.message == "object 'mechanisms': g++ does not compile kernels/*.cu"
    for compiler in ('compiler = "g++"\nflags = ["-x", "c++"]', 'compiler = "clang++"'):
        plan_of(mixed(compiler), machine)


CLANG = 'compiler = "clang++"\nflags = ["-fopenmp", "-fopenmp-targets=nvptx64"]'


def offloading(recipe: LoadRecipe, compiler: str, head: str = "[toolchains.other]\n") -> ManifestFile:
    """Load a manifest with a fallback whose GPU code a host compiler makes."""
    kind = 'toolchain = "other"\nkind = "library"\nstands-in-for = "mechanisms"'
    return recipe(
        ('sources = ["kernels/*.cu"]', 'sources = ["mod/*.cpp"]'),
        ('toolchain = "device"', kind),
        ('toolchains = ["host"]', 'toolchains = ["host"]\nabi = { version = "1", headers = ["mod/*"] }'),
        add=f"{head}{compiler}\n",
    )


@pytest.mark.parametrize(
    ("compiler", "names"),
    [('compiler = "nvc++"', ["nvhpcatm", "nvomp"]), (CLANG, ["omp", "omptarget"])],
)
def test_runtimes_of_one_release_are_left_to_the_users_machine(recipe, machine, compiler, names):
    (problem,) = problems(offloading(recipe, compiler), machine)
    assert "runtimes that fit one release and must not be copied into a wheel" in problem.message
    assert f'[wheel] exclude = ["{names[0]}", "{names[1]}"' in problem.hint


def test_a_host_compilers_gpu_code_is_for_the_architectures_of_the_cell(recipe, machine):
    """nvc++ was not run: its manual joins architectures with commas."""
    left_out = """[wheel]
exclude = ["omp", "omptarget", "nvhpcatm", "nvomp", "nvcpumath", "nvc", "acchost", "acccuda"]
[toolchains.other]
"""
    clang = Compiler("clang++", Path("/usr/bin/clang++-19"), Version("19.1.7"), "clang (test)")
    (at,) = machine.locations
    for compiler, words in (
        (CLANG, ["--offload-arch=sm_80", "--offload-arch=sm_90"]),
        ('compiler = "nvc++"', ["-acc", "-gpu=cc80,cc90"]),
    ):
        there = Machine((at._replace(others={"other": clang}),))
        plan = plan_of(offloading(recipe, compiler, left_out), there)
        (action,) = [a for a in plan.actions if a.id == "cu12.4/kernels/default-kernels/library"]
        assert action.argv[0] == "${in:cxx}"
        assert {*words} <= {*action.argv}
        assert action.inputs["cxx"].path == clang.path
        assert action.inputs["toolkit"]


def test_a_path_that_would_change_nothing_is_refused(recipe, machine):
    assert plan_of(recipe(('compiler = "g++"', 'compiler = "g++"\npath = "/usr/bin/g++"')), machine).actions
    file = recipe(
        ('toolchains = ["', 'toolchains = ["theirs", "'),
        ('compiler = "nvcc"', 'compiler = "nvcc"\npath = "/opt/cuda/bin/nvcc"'),
        add='[toolchains.theirs]\ncompiler = "g++"\npath = "/usr/bin/g++-12"\n'
        '[toolchains.idle]\ncompiler = "clang++"\npath = "/usr/bin/clang++"\n',
    )
    assert [(d.message, d.hint) for d in problems(file, machine)] == [
        (
            "[toolchains.device] path: nvcc is always the one of the toolkit",
            "leave it out; [cuda.*] toolkit and provider choose the toolkit",
        ),
        (
            "[toolchains.theirs] path: the compiler is looked for on the user's machine",
            "leave it out; `version` says which ones are taken",
        ),
        (
            "[toolchains.idle] path: nothing is compiled with this toolchain here",
            "leave it out; the host build uses [toolchains.host]",
        ),
    ]


def test_an_action_before_what_it_needs_is_refused(recipe, machine):
    plan = plan_of(recipe(), machine, **ONE_CELL)
    some = [action for action in plan.actions if action.id != "cu13.0/toolkit"]
    with pytest.raises(ValueError, match=r"needs cu13\.0/toolkit, which does not come before it in the plan"):
        keys(some)
    with pytest.raises(ValueError, match="which does not come before it in the plan"):
        keys(reversed(plan.actions))


def test_an_nvcc_outside_the_declared_range_is_refused(recipe, machine):
    file = recipe(('compiler = "nvcc"', 'compiler = "nvcc"\nversion = "<13"'))
    (problem,) = unfit_compilers(file, "13", machine.locations[0].toolkits["13"])
    assert problem.message == "[cuda.13] has nvcc 13.0.88, which is not <13"
    assert problem.place
    assert problem.place.line == 12
    assert not list(unfit_compilers(recipe(), "13", machine.locations[0].toolkits["13"]))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("kernels/**.cu", r'"kernels/\*\*\.cu" is not a pattern of files'),
        ("../recipe/kernels/*.cu", "leads out of the manifest's folder"),
    ],
)
def test_patterns_that_are_wrong(recipe, machine, pattern, message):
    with pytest.raises(UsageError, match=message) as caught:
        plan_of(recipe(("kernels/*.cu", pattern)), machine)
    assert caught.value.diagnostics[0].place


def test_two_sources_of_one_module_name_are_refused(recipe, machine):
    file = recipe(('sources = ["kernels/*.cu"]', 'sources = ["kernels/*.cu", "one.cu"]'), header="one.cu")
    with pytest.raises(UsageError, match=r"kernels/one\.cu and one\.cu would both give the module 'one'"):
        plan_of(file, machine)


@pytest.mark.parametrize("naming", ["plain", "suffix", "local"])
def test_wheels_that_would_overwrite_each_other_are_refused(recipe, machine, naming):
    second = "12" if naming == "plain" else "13.1"
    file = recipe(
        ("[cuda.12]\n", f'[cuda."{second}"]\n'),
        ('toolkit = "12.4"', f'toolkit = "{second}"' if "." in second else 'toolkit = "12.4"'),
        add=f'\n[wheel]\nnaming = ["{naming}"]\n',
    )
    (here,) = machine.locations
    toolkits = {**here.toolkits, second: here.toolkits["13"]}
    machine = Machine((here._replace(toolkits=toolkits, hosts={**here.hosts, second: here.hosts["13"]}),))
    with pytest.raises(UsageError, match="would have the same file name"):
        plan_of(file, machine)
    assert plan_of(file, machine, cuda=["13.0"]).cells


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("src/passwd.h", "/etc/passwd"),
        ("src/out.h", "../../outside.h"),
        ("src/gone.h", "../../nowhere.h"),
        ("src/self.h", "{folder}/src/core.cpp"),
        ("folder", ".."),
        ("src/chain.h", "../passwd"),
        ("kernels/more.cu", "../../outside.h"),
    ],
)
def test_no_link_leads_out_of_the_project(recipe, machine, link, target):
    """What lies outside would be built, shipped, or printed by a test."""
    file = recipe()
    file.folder.with_name("outside.h").write_text("secret")
    if "passwd" in target:
        (file.folder / "passwd").symlink_to("/etc/passwd")
    (file.folder / link).symlink_to(target.format(folder=file.folder))
    with pytest.raises(UsageError, match="leads out of its folder, to "):
        plan_of(file, machine, **ONE_CELL)


def test_a_pipe_is_no_source(recipe, machine):
    file = recipe()
    os.mkfifo(file.folder / "src/wait")
    with pytest.raises(UsageError, match=r"src/wait is a pipe, and sources are files and folders"):
        plan_of(file, machine, **ONE_CELL)
