"""`--archs`: a build for a quick try compiles for some of the manifest's architectures, and its wheels say so."""

import pytest
from plan_samples import plan_of, request_of

from gpuforge.actions.cell_actions import lower
from gpuforge.cli.planning import reason_text
from gpuforge.errors import UsageError
from gpuforge.manifest.load import load
from gpuforge.plan.cell import Choice, narrow, select
from gpuforge.plan.expectation import expectation
from gpuforge.plan.keys import keys
from gpuforge.runtime.arch import Arch


@pytest.mark.parametrize(
    ("archs", "of_12", "of_13"),
    [
        (["90"], (("90+ptx",), None), None),
        (["sm_80"], (("80",), None), (("80",), None)),
        (["9.0a", "90", "90"], (("90+ptx",), None), (("90a",), None)),
        (["80", "90"], (("80", "90+ptx"), None), (("80",), None)),
    ],
)
def test_a_toolkit_keeps_those_that_are_named_and_their_ptx(recipe, archs, of_12, of_13):
    file = narrow(recipe(), archs)
    found = {name: (v.archs, v.ptx) for name, v in file.manifest.cuda.versions.items()}
    assert found["12"] == of_12
    chosen = select(file, "x86_64")
    assert {cell.cuda for cell in chosen.cells} == ({"12", "13"} if of_13 else {"12"})
    if of_13:
        assert found["13"] == of_13
    else:
        assert {reason_text(item.reason) for item in chosen.left_out} == {
            "not selected by --archs 90: [cuda.13] has 80, 90a"
        }


def test_without_archs_nothing_is_narrowed(recipe):
    file = recipe()
    assert narrow(file, []) is file


@pytest.mark.parametrize(
    ("archs", "cuda", "message", "hint"),
    [
        (
            ["banana"],
            [],
            "--archs banana: not a GPU architecture",
            "write it as in --archs 90 or 80,90a",
        ),
        (
            ["80", "86"],
            [],
            "--archs 86: no chosen toolkit compiles for it",
            "[cuda.12] has 80, 90+ptx; [cuda.13] has 80, 90a",
        ),
        (
            ["90a", "86"],
            ["12"],
            "--archs 90a,86: no chosen toolkit compiles for them",
            "[cuda.12] has 80, 90+ptx",
        ),
        (
            ["90a"],
            ["12", "13"],
            "--archs 90a: [cuda.12] compiles for none of them",
            "it has 80, 90+ptx; choose others, or leave it out of --cuda",
        ),
    ],
)
def test_what_the_manifest_does_not_have_is_an_error_that_lists_what_it_has(
    recipe, archs, cuda, message, hint
):
    with pytest.raises(UsageError) as caught:
        select(narrow(recipe(), archs), "x86_64", Choice(cuda=cuda))
    (problem,) = caught.value.diagnostics
    assert (problem.message, problem.hint) == (message, hint)


def test_all_that_is_made_is_narrowed_and_has_another_key(recipe, machine):
    file = recipe()
    whole, narrowed = (plan_of(each, machine, python=["3.11"]) for each in (file, narrow(file, ["90"])))
    (cell,) = narrowed.cells
    actions = {action.id: action for action in narrowed.actions}
    (kernel, *_) = (a for a in narrowed.actions if a.kind == "compile")
    gencodes = [word for word in kernel.argv if word.startswith("-gencode")]
    assert gencodes == ["-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_90,code=compute_90"]
    assert actions[f"{cell.id}/host-build"].env["CUDAARCHS"] == "90-real;90-virtual"
    wheel = request_of(actions[f"{cell.id}/wheel"])
    assert wheel["narrowed"] == ["90"]
    record = wheel["record"]
    assert (record["archs"], record["ptx"]) == (["90"], ["90"])
    assert record["narrowed"] == {"archs": ["80", "90"], "ptx": ["90"]}
    expected = request_of(actions[f"{cell.id}/audit"])["expectation"]
    assert (expected["cubins"], expected["ptx"]) == (["sm_90"], ["compute_90"])
    before, after = keys(whole.actions), keys(narrowed.actions)
    made = [a.id for a in narrowed.actions if a.kind in {"compile", "build", "package", "audit", "test"}]
    shared = [name for name in made if before[name].digest == after[name].digest]
    assert all("/kernels/" not in name and "host-build" not in name for name in shared)
    assert not {f"{cell.id}/wheel", f"{cell.id}/audit", f"{cell.id}/test"} & set(shared)
    assert narrowed.notes == (
        "the wheels are for a quick try: compiled for sm_90 only, as --archs says; PyPI refuses their versions",
    )


def test_the_audit_compares_with_what_was_asked_for(recipe):
    file = load(recipe().path, for_building=False)
    promised = expectation(narrow(file, ["90"]), "12")
    assert (promised.cubins, promised.ptx) == ((Arch(9, 0),), (Arch(9, 0),))


def test_a_quick_try_is_no_variant(recipe, machine):
    file = recipe(add='\n[wheel]\nnaming = ["suffix", "variant"]\n')
    narrowed = narrow(file, ["80"])
    with pytest.raises(UsageError) as caught:
        plan_of(narrowed, machine, python=["3.11"])
    (problem,) = caught.value.diagnostics
    assert problem.message == (
        '--archs cannot be used with naming = ["variant"]: an index would offer the incomplete wheel to users'
    )
    assert problem.hint == "leave --archs out, or choose a cell of another naming with --cell"
    cells = select(narrowed, "x86_64", Choice(cell="cp311-cu13.0-x86_64-suffix")).cells
    assert [cell.naming for cell in lower(narrowed, cells, machine).cells] == ["suffix"]
