"""What a change touches: of sources, headers, links, settings, the machine or gpuforge's own code."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plan_samples import ONE_CELL, PACKAGE, LoadRecipe, changed, plan_of
from source_samples import parsed, statements

import gpuforge
from gpuforge.actions.audit import AuditWheel
from gpuforge.actions.cell_actions import Plan
from gpuforge.actions.environment import FetchRequirements
from gpuforge.actions.host_build import HostBuild
from gpuforge.actions.toolkit import FetchToolkit
from gpuforge.actions.wheel import PackageWheel
from gpuforge.manifest.load import load
from gpuforge.plan import programs, variables
from gpuforge.plan.action import ActionInput
from gpuforge.plan.keys import keys
from gpuforge.plan.site import Machine
from gpuforge.toolkits.toolkit import Wheels

ROOT = Path(gpuforge.__file__).parent
STEPS = sorted(path for path in (ROOT / "actions").glob("*.py") if "Step[P]):" in path.read_text())
FILES = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
PLANNING = ("actions", "manifest", "plan", "toolchains", "toolkits")


def test_the_compiler_cache_is_in_no_key_and_host_builds_share_a_path(recipe, machine):
    before = plan_of(recipe(), machine, **ONE_CELL)
    names = ("SCCACHE_BUCKET", "AWS_SECRET_ACCESS_KEY", "GPUFORGE_NO_SCCACHE", "SCCACHE_SERVER_PORT")
    after = plan_of(recipe(), machine, dict.fromkeys(names, "secret"), **ONE_CELL)
    assert changed(before, after) == set()
    builds = [action for action in after.actions if action.kind == "build"]
    assert {action.place for action in builds} == {"host-build"}
    assert {action.place for action in after.actions if action.kind != "build"} == {""}
    assert {"SCCACHE_DIR", "SCCACHE_BUCKET", "AWS_SECRET_ACCESS_KEY"} < set(builds[0].passes)
    assert "SCCACHE_SERVER_PORT" not in builds[0].passes
    assert variables.build_passes({}, contained=True) == ("GPUFORGE_NO_SCCACHE", "SCCACHE_CACHE_SIZE")


def test_a_kernel_source_touches_only_its_toolkits_kernels_and_wheels(recipe, machine):
    file = recipe()
    before = plan_of(file, machine, **ONE_CELL)
    (file.folder / "kernels/one.cu").write_text("// changed\n")
    assert changed(before, plan_of(file, machine, **ONE_CELL)) == {
        "cu13.0/kernels/default-kernels/kernels/one.cu",
        "cu13.0/kernels/default-kernels",
        *(f"cp311-cu13.0-x86_64/{name}" for name in ("wheel", "audit", "test-requirements", "test")),
    }


def test_a_host_source_leaves_kernels_alone(recipe, machine):
    file = recipe()
    before = plan_of(file, machine, **ONE_CELL)
    (file.folder / "src/core.cpp").write_text("int main() { return 1; }\n")
    assert changed(before, plan_of(file, machine, **ONE_CELL)) == {
        *(
            f"py3.11-cu13.0/{name}" for name in ("hook", "backend-requirements", "environment", "carried")
        ),  # the hook may read it
        *(
            f"cp311-cu13.0-x86_64/{name}"
            for name in ("host-build", "links", "provided", "wheel", "audit", "test-requirements", "test")
        ),
    }


@pytest.mark.parametrize(
    ("written", "old", "new", "touched"),
    [
        ('[test]\ncommand = ["python", "-V"]', "[test]", "# how the wheel is tested\n\n[test]", set()),
        ('[test]\ncommand = ["python", "-V"]', '"-V"', '"-VV"', {"cp311-cu13.0-x86_64/test"}),
        (
            '[audit]\nignore = [{ rule = "GF101", reason = "one" }]',
            *('"one"', '"two"'),
            {"cp311-cu13.0-x86_64/audit"},
        ),
    ],
    ids=["a comment", "the test command", "what the audit accepts"],
)
def test_a_change_of_the_manifest_touches_what_it_is_about_alone(recipe, machine, written, old, new, touched):
    file = recipe(add=f"\n{written}\n")
    before = plan_of(file, machine, **ONE_CELL)
    assert old in file.text
    file.path.write_text(file.text.replace(old, new))
    assert changed(before, plan_of(load(file.folder), machine, **ONE_CELL)) == touched


def test_build_products_are_no_source(recipe, machine):
    file = recipe()
    before = plan_of(file, machine, **ONE_CELL)
    (file.folder / "build/junk.o").write_text("other")
    (file.folder / "src/__pycache__").mkdir()
    (file.folder / "src/__pycache__/x.cpython-311.pyc").write_text("other")
    assert changed(before, plan_of(file, machine, **ONE_CELL)) == set()


def test_another_folder_has_the_same_keys(recipe, machine, tmp_path, monkeypatch):
    file = recipe()
    first = plan_of(file, machine, **ONE_CELL)
    elsewhere = file.folder.with_name("elsewhere")
    file.folder.rename(elsewhere)
    assert changed(first, plan_of(load(elsewhere), machine, **ONE_CELL)) == set()


def test_a_header_touches_every_kernel_of_its_object(recipe, machine):
    file = recipe(
        ('sources = ["kernels/*.cu"]', 'sources = ["kernels/*.cu"]\nheaders = ["kernels/*.cuh"]'),
        header="kernels/x.cuh",
    )
    before = plan_of(file, machine, **ONE_CELL)
    (file.folder / "kernels/x.cuh").write_text("// changed\n")
    touched = changed(before, plan_of(file, machine, **ONE_CELL))
    assert {name for name in touched if name.endswith(".cu")} == {
        f"cu13.0/kernels/default-kernels/kernels/{name}.cu" for name in ("one", "two")
    }


def test_a_file_named_like_a_fact_is_in_the_key(recipe, machine):
    file = recipe(header="command")
    before = plan_of(file, machine, **ONE_CELL)
    (file.folder / "command").write_text("changed\n")
    assert "cp311-cu13.0-x86_64/host-build" in changed(before, plan_of(file, machine, **ONE_CELL))


def test_links_are_sources_and_count_by_what_they_lead_to(recipe, machine):
    file = recipe()
    (file.folder / "linked").symlink_to("src")
    inside = file.folder / "src/more.h"
    inside.write_text("one")
    (file.folder / "also.h").symlink_to("src/more.h")
    before = plan_of(file, machine, **ONE_CELL)
    host = next(action for action in before.actions if action.kind == "build")
    members = ("also.h", "linked", "pyproject.toml", "src/core.cpp", "src/more.h")
    assert host.inputs["source"].members == members  # type: ignore[union-attr]
    inside.write_text("two")
    assert "cp311-cu13.0-x86_64/host-build" in changed(before, plan_of(file, machine, **ONE_CELL))


def test_pip_constraints_are_in_the_key_and_passwords_are_not(recipe, machine, tmp_path):
    file = recipe()
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("cmake<4")
    index = "https://user:secret@example.org/simple"
    environ = {"PIP_CONSTRAINT": str(constraints), "PIP_EXTRA_INDEX_URL": index}
    before = plan_of(file, machine, environ, **ONE_CELL)
    constraints.write_text("cmake<5")
    after = plan_of(file, machine, environ, **ONE_CELL)
    assert "py3.11/requirements" in changed(before, after)
    assert "secret" not in str(keys(before.actions))


def test_a_new_auditwheel_repairs_again(recipe, machine, monkeypatch):
    file = recipe()
    before = plan_of(file, machine, **ONE_CELL)
    real = programs._version
    monkeypatch.setattr(programs, "_version", lambda name: "99" if name == "auditwheel" else real(name))
    assert changed(before, plan_of(file, machine, **ONE_CELL)) == {
        *(f"cp311-cu13.0-x86_64/{name}" for name in ("wheel", "audit", "test-requirements", "test")),
    }


def test_a_wheel_is_made_again_after_a_change_of_any_file_that_goes_into_it():
    runtime = ROOT / "runtime"
    files = [path for path in runtime.rglob("*") if path.suffix in {".py", ".c", ".h"}]
    assert {str(path.relative_to(ROOT)) for path in files} <= {
        *programs.files_of(PackageWheel.__module__, PackageWheel.copied)
    }


@pytest.mark.xdist_group("architecture")  # which parses gpuforge once
def test_what_a_step_imports_is_found_as_pythons_parser_finds_it():
    """In every file of gpuforge, also within functions; not what is imported for annotations alone."""
    steps = {path.relative_to(ROOT).as_posix() for path in STEPS}
    missing = {name: imported(name) - programs.read_by(name) for name in FILES - steps}
    assert {name: found for name, found in missing.items() if found} == {}


@pytest.mark.parametrize("path", STEPS, ids=lambda path: path.stem)
def test_a_step_imports_where_it_works_what_its_key_must_cover(path):
    """What its module imports at the top from these folders is for decisions, and in no key."""
    tree = parsed(path)
    planning = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(tuple(f"gpuforge.{each}" for each in PLANNING))
        for alias in node.names
    }
    assert used_by_run(tree) & planning == set()


def used_by_run(tree: ast.Module) -> set[str]:
    """The names that steps take from the top of their module as they run, also in functions of the module."""
    methods = {n.name: n for c in tree.body if isinstance(c, ast.ClassDef) for n in functions(c)}
    own = {n.name: n for n in functions(tree)}
    todo, found = {"run": methods["run"]}, set()
    for each in (c for c in tree.body if isinstance(c, ast.ClassDef)):
        todo |= {f"{each.name}.{n.name}": n for n in functions(each) if n.name == "run"}
    seen = set[str]()
    while todo:
        key, function = todo.popitem()
        seen.add(key)
        nodes = [*body(function)]
        local = {a.asname or a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
        local |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        local |= {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        names = {n.id for n in nodes if isinstance(n, ast.Name)} - local
        attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        reached = {n: own[n] for n in names & own.keys()} | {
            n: methods[n] for n in attributes & methods.keys()
        }
        todo |= {name: node for name, node in reached.items() if name not in seen}
        found |= names
    return found


def functions(node: ast.Module | ast.ClassDef) -> list[ast.FunctionDef]:
    return [n for n in node.body if isinstance(n, ast.FunctionDef)]


def body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Every node of a function but its annotations."""
    todo: list[ast.AST] = [*function.body, *function.args.defaults]
    while todo:
        node = todo.pop()
        yield node
        annotations = {getattr(node, "annotation", None), getattr(node, "returns", None)}
        todo += [child for child in ast.iter_child_nodes(node) if child not in annotations]


def test_the_key_of_a_step_covers_tables_and_programs_that_it_reads_by_name():
    assert {"cuda/data/cuda.toml", "audit/data/loaders.toml"} < {*programs.files_of(AuditWheel.__module__)}
    assert "actions/pip_alone.py" in programs.files_of(FetchRequirements.__module__)


def test_the_key_of_a_toolkit_covers_its_own_provider_and_no_table_that_the_plan_has_read():
    step = FetchToolkit(provider="pypi", source=Wheels(()))
    found = programs.files_of(step.__module__, (), step.code())
    providers = [name for name in found if name.startswith("toolkits/providers/")]
    assert providers == ["toolkits/providers/__init__.py", "toolkits/providers/pypi.py"]
    assert [name for name in found if name.endswith(".toml")] == []


def test_an_audit_rule_is_no_part_of_the_key_of_a_host_build():
    assert not [
        name for name in programs.files_of(HostBuild.__module__) if name.startswith(("audit/", "package/"))
    ]


def imported(name: str) -> set[str]:
    """The files of gpuforge that one of its files imports when it runs."""
    package = ["gpuforge", *Path(name).parent.parts]
    found = set()
    for node in statements(ROOT / name, types=False):
        modules = []
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            modules = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        for path in (module.split(".")[1:] for module in modules if module.startswith("gpuforge")):
            places = ("/".join([*path, "__init__.py"]), f"{'/'.join(path)}.py")
            found |= FILES.intersection(places)
    return found


PROGRAM = """
import sys
from pathlib import Path
from gpuforge.digest import Contents
from gpuforge.manifest.load import load
from gpuforge.plan.source_files import host_tree

file = load(Path(sys.argv[1]))
print("done", file=sys.stdout, flush=True)
sys.stderr.write(" ".join(host_tree(file, file.folder, Contents()).members or ()))
"""
MANIFEST = (
    PACKAGE
    + """\
[toolchains.host]
compiler = "g++"
[cuda.13]
toolkit = "13.0"
archs = ["80"]
"""
)


@pytest.mark.thorough
def test_a_log_in_the_projects_folder_is_no_source(tmp_path):
    (tmp_path / "gpuforge.toml").write_text(MANIFEST)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "other.log").write_text("")
    with (tmp_path / "build.log").open("w") as log:
        program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
        done = subprocess.run(program, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "other.log pyproject.toml"


ONE, OTHER = "f" * 64, "e" * 64


def with_sdist(recipe: LoadRecipe, machine: Machine, sha256: str) -> Plan:
    sdist = f'{{ pypi = "Ducc_0==0.39.1", sha256 = "{sha256}" }}'
    recipe()  # makes the folder
    return plan_of(recipe(add=f"\n[build]\noverlay = [{sdist}]\n"), machine, **ONE_CELL)


def test_an_sdist_is_fetched_once_for_all_cells(recipe, machine):
    plan = with_sdist(recipe, machine, ONE)
    fetched = [action for action in plan.actions if action.id.startswith("overlay/")]
    assert [(action.id, action.title, action.network) for action in fetched] == [
        ("overlay/ducc-0", "fetch Ducc_0==0.39.1", True)
    ]
    builds = [action for action in plan.actions if action.kind == "build"]
    assert {str(build.inputs["sdist-ducc-0"]) for build in builds} == {
        str(ActionInput("overlay/ducc-0", "source"))
    }


def test_another_sha256_is_another_build(recipe, machine, tmp_path):
    touched = changed(*(with_sdist(recipe, machine, sha256) for sha256 in (ONE, OTHER)))
    assert {"overlay/ducc-0", "cp311-cu13.0-x86_64/host-build"} <= touched
    assert not [name for name in touched if "kernels" in name]
