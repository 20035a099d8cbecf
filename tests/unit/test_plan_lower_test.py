"""The tests of wheels as actions: what is shared, what they read, and what is left out."""

from typing import Any

import pytest
from plan_samples import ONE_CELL, plan_of, problems, request_of

from gpuforge.actions.cell_actions import Plan
from gpuforge.cli.main import run
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.site import Machine

CELL = "cp311-cu13.0-x86_64"
TEST = '\n[test]\nrequires = ["pytest"]\ncommand = ["pytest", "{project}/tests"]\n'


def action(plan: Plan, name: str) -> Action:
    return next(action for action in plan.actions if action.id == name)


def options(action: Action) -> dict[str, Any]:
    """What a step is asked to do, but for what is empty."""
    return {name: value for name, value in request_of(action).items() if value not in (None, [], "")}


def test_every_wheel_is_installed_and_imported_where_the_manifest_says_nothing(recipe, machine):
    plan = plan_of(recipe(), machine)
    assert {name: [end.action for end in ends] for name, ends in plan.tests.items()} == {
        cell.id: [f"{cell.id}/test"] for cell in plan.cells
    }
    assert set(plan.tests) == {cell.id for cell in plan.cells}
    test = action(plan, f"{CELL}/test")
    assert (test.kind, test.network, test.passes) == ("test", False, ())
    assert test.title == f"test the wheel of {CELL} on Python 3.11"
    assert test.needs == (f"{CELL}/test-requirements", f"{CELL}/wheel")
    assert options(test) == {
        "python": "input",
        "wheel": "input",
        "needed": "input",
        "cell": CELL,
        "cuda": "13.0",
        "package": "demo_pkg",
        "stub": True,
    }
    assert test.env["CUDA_VISIBLE_DEVICES"] == ""
    assert test.env["LD_LIBRARY_PATH"] == ""  # whatever an image sets
    assert not [a for a in plan.actions if a.id.startswith("py") and a.id.endswith("/test-requirements")]


def test_what_the_command_needs_is_fetched_once_per_python(recipe, machine):
    plan = plan_of(recipe(add=TEST), machine)
    shared = {a.id: a for a in plan.actions if a.id.startswith("py") and a.id.endswith("/test-requirements")}
    assert set(shared) == {"py3.11/test-requirements", "py3.13/test-requirements"}
    fetch = shared["py3.11/test-requirements"]
    assert (fetch.kind, fetch.network, fetch.needs) == ("fetch", True, ())
    assert fetch.cells == ("cp311-cu12.4-x86_64", CELL)
    own = action(plan, f"{CELL}/test-requirements")
    assert own.needs == (f"{CELL}/wheel", "py3.11/test-requirements")
    assert own.inputs["shared"] == ActionInput(fetch.id, "wheels")
    test = action(plan, f"{CELL}/test")
    assert test.inputs["needed"] == ActionInput(own.id, "wheels")
    assert test.inputs["shared"] == ActionInput(fetch.id, "wheels")
    assert options(test)["command"] == ["pytest", "{project}/tests"]
    assert options(test)["project"] == "Staged"
    assert "tests" not in options(test)


def test_sources_of_the_tests_are_all_that_is_read_of_the_tree(recipe, machine):
    add = '\n[test]\nsources = ["tests"]\ncommand = ["python", "tests/run.py"]\n'
    file = recipe(add=add, header="tests/run.py")
    plan = plan_of(file, machine, **ONE_CELL)
    test = action(plan, f"{CELL}/test")
    assert test.inputs["tests"].members == ("tests/run.py",)  # type: ignore[union-attr]
    assert "project" not in test.inputs
    assert test.staged == ("tests",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test", "[test] sources: there is no 'test' beside the manifest"),
        ("../tests", "[test] sources: '../tests' leads out of the manifest's folder"),
    ],
)
def test_sources_that_are_not_there(recipe, machine, name, message):
    file = recipe(add=f'\n[test]\ncommand = ["x"]\nsources = ["src", "{name}"]\n')
    (problem,) = problems(file, machine)
    assert problem.message == message
    assert problem.place
    assert problem.place.line == len((file.folder / "gpuforge.toml").read_text().splitlines())


@pytest.mark.parametrize(
    ("linkage", "extras"),
    [('linkage = "pip"\nrequires = "extra"', ["cuda13", "plots"]), ('linkage = "bundle"', ["plots"])],
)
def test_a_wheel_is_installed_with_the_extras_of_a_user(recipe, machine, linkage, extras):
    file = recipe(("[cuda]\n", f"[cuda]\n{linkage}\n"), add='\n[test]\nextras = ["plots"]\n')
    plan = plan_of(file, machine, **ONE_CELL)
    for name in ("test", "test-requirements"):
        assert options(action(plan, f"{CELL}/{name}"))["extras"] == extras


def test_a_wheel_for_the_machines_cuda_finds_the_toolkits(recipe, machine):
    file = recipe(("[cuda]\n", '[cuda]\nlinkage = "system"\n'))
    test = action(plan_of(file, machine, **ONE_CELL), f"{CELL}/test")
    assert test.env["LD_LIBRARY_PATH"] == "${in:toolkit}/lib64:${in:toolkit}/lib"
    assert "cu13.0/toolkit" in test.needs


def test_one_wheel_for_every_python_is_tested_on_the_one_at_hand(recipe, machine):
    file = recipe(('python = ["3.11", "3.13"]', 'abi = "none"'), add=TEST)
    (here,) = machine.locations
    machine = Machine((here._replace(interpreters={"3": here.interpreters["3.13"]}),))
    plan = plan_of(file, machine, cuda=["13"])
    assert (
        action(plan, "py3-cu13.0-x86_64/test").title == "test the wheel of py3-cu13.0-x86_64 on Python 3.13"
    )
    fetch = action(plan, "py3/test-requirements")
    assert fetch.title == "fetch what the tests need on Python 3.13"


def test_wheels_that_were_built_first_are_found_by_fetch_and_test(recipe, machine, tmp_path):
    (dist := tmp_path / "first" / "dist").mkdir(parents=True)
    file = recipe(add=TEST.replace("requires", 'build = ["../first"]\nrequires'))
    found = []
    for content in ("one", "two"):
        (dist / "first-1.0-py3-none-any.whl").write_text(content)
        plan = plan_of(file, machine, **ONE_CELL)
        names = ("py3.11/test-requirements", f"{CELL}/test-requirements", f"{CELL}/test")
        found.append([action(plan, name) for name in names])
        assert [request_of(each)["built"] for each in found[-1]] == [["input"]] * 3
    assert all(one.inputs != two.inputs for one, two in zip(*found, strict=True))


def test_wheels_that_were_built_for_the_build_are_inputs_of_its_requirements_and_of_the_tests(
    recipe, machine, tmp_path
):
    first = '\n[build]\nbuild = ["../first"]\n'
    file = recipe(add=first + TEST.replace("requires", 'build = ["../two"]\nrequires'))
    for name in ("first", "two"):
        (dist := tmp_path / name / "dist").mkdir(parents=True)
        (dist / f"{name}-1.0-py3-none-any.whl").write_text(name)
    plan = plan_of(file, machine, **ONE_CELL)
    names = ("py3.11/requirements", "py3.11/test-requirements", f"{CELL}/test")
    assert [request_of(action(plan, name))["built"] for name in names] == [
        ["input"],
        ["input"] * 2,
        ["input"] * 2,
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("table", "tests"), [("test", True), ("build", True), ("build", False)])
def test_a_manifest_that_cannot_be_built_first_ends_the_build(recipe, capfd, table, *, tests):
    changed = recipe(add=f'\n[{table}]\nbuild = ["../none"]\n')
    options = [] if tests else ["--no-test"]
    assert run(["build", str(changed.folder), "--cuda", "13", *options]) == 1
    err = capfd.readouterr().err
    assert f"building ../none first, as [{table}] build says" in err
    assert "gpuforge.toml:" in err
    assert "../none could not be built" in err


def test_without_tests_there_is_a_note(recipe, machine):
    file = recipe(add=TEST)
    plan = plan_of(file, machine, test=False, **ONE_CELL)
    assert plan.tests == {}
    assert not [a for a in plan.actions if a.kind == "test" or "test-requirements" in a.id]
    assert plan.notes == (f"{file.place('test', 'command')}: the wheels are not tested, as --no-test says",)
    assert plan_of(recipe(), machine, test=False, **ONE_CELL).notes == (
        "the wheels are not tested, as --no-test says",
    )
    assert plan_of(recipe(add=TEST), machine, **ONE_CELL).notes == ()


def test_what_the_wheel_must_live_beside_is_fetched_and_audited_with_it(recipe, machine):
    add = '\n[audit]\nbeside = ["torch>=2.15", "jax[cuda12]"]\n'
    plan = plan_of(recipe(add=add), machine, python=["3.11"])
    fetched = {a.id: options(a)["beside"] for a in plan.actions if "/beside/" in a.id}
    assert fetched == {
        "cp311-cu12.4-x86_64/beside/0": "torch>=2.15",
        "cp311-cu12.4-x86_64/beside/1": "jax[cuda12]",
        f"{CELL}/beside/0": "torch>=2.15",
    }
    fetch = action(plan, f"{CELL}/beside/0")
    assert (fetch.kind, fetch.network, fetch.needs) == ("fetch", True, (f"{CELL}/wheel",))
    audit = action(plan, f"{CELL}/audit")
    assert audit.inputs["beside0"] == ActionInput(fetch.id, "wheels")
    assert not audit.network
    assert plan.notes == ()


def test_what_requirements_bring_is_looked_at_for_pips_packages_alone(recipe, machine):
    plan = plan_of(recipe(), machine, **ONE_CELL)
    look = action(plan, f"{CELL}/provided")
    assert (look.network, look.needs) == (True, (f"{CELL}/links",))
    audit = action(plan, f"{CELL}/audit")
    assert audit.inputs["provided"] == ActionInput(look.id, "provided.json")
    bundled = plan_of(recipe(("[cuda]\n", '[cuda]\nlinkage = "bundle"\n')), machine, cuda=["13"])
    assert not [a.id for a in bundled.actions if a.id.endswith(("/links", "/provided"))]


@pytest.mark.parametrize("linkage", ["pip", "bundle"])
def test_an_audit_does_not_wait_for_what_the_test_needs(recipe, machine, linkage):
    """A wheel whose test cannot be made ready is judged and reported all the same."""
    file = recipe(("[cuda]\n", f'[cuda]\nlinkage = "{linkage}"\n'), add=TEST)
    plan = plan_of(file, machine, **ONE_CELL)
    needs = {each.id: each.needs for each in plan.actions}
    todo, found = [f"{CELL}/audit"], set[str]()
    while todo:
        name = todo.pop()
        found.add(name)
        todo += needs[name]
    assert not [name for name in found if "test" in name]


def test_torch_without_ninja_is_named(recipe, machine):
    file = recipe(add='\n[build]\nrequires = ["torch>=2.11"]\n')
    (note,) = plan_of(file, machine, cuda=["13"]).notes
    assert note.startswith(str(file.place("build", "requires")))
    assert 'add "ninja" to [build] requires' in note
    both = recipe(add='\n[build]\nrequires = ["torch>=2.11", "ninja"]\n')
    assert plan_of(both, machine, cuda=["13"]).notes == ()


def test_an_sdist_beside_the_manifest_is_unpacked(recipe, machine, tmp_path):
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe/demo-1.0.tar.gz").write_bytes(b"an sdist")
    file = recipe(('name = "demo-pkg"', 'name = "demo-pkg"\nsource = { path = "demo-1.0.tar.gz" }'))
    (source,) = (each for each in plan_of(file, machine).actions if each.id == "source")
    assert (source.kind, source.network, source.passes) == ("prepare", False, ())
    assert source.title == "unpack the source demo-1.0.tar.gz"
