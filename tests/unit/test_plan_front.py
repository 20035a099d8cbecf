"""The front package: planned once, made from the wheels' metadata, refused where its extras would lead nowhere."""

from pathlib import Path

import pytest
from audit_samples import wheel
from plan_samples import plan_of

from gpuforge.actions.front import PackageFront, brought
from gpuforge.audit import audit
from gpuforge.errors import ActionError
from gpuforge.package.contents import FrontExtra
from gpuforge.plan.action import ActionInput, Workdir
from gpuforge.wheel import metadata

FRONT = '\n[wheel]\nfront = "demo-cuda"\n'
BY_EXTRA = ("[cuda]\n", '[cuda]\nrequires = "extra"\n')
BROUGHT = (FrontExtra("cuda12", "demo-cu12"), FrontExtra("cuda13", "demo-cu13", "cuda13"))


def test_it_is_made_once_from_one_wheel_of_each_cuda_version(recipe, machine):
    plan = plan_of(recipe(add=FRONT), machine)
    (made,) = (action for action in plan.actions if action.id == "front/wheel")
    assert [made.inputs[name] for name in ("of0", "of1")] == [
        ActionInput("cp311-cu12.4-x86_64/wheel", "declared"),
        ActionInput("cp311-cu13.0-x86_64/wheel", "declared"),
    ]
    assert made.cells == tuple(cell.id for cell in plan.cells)
    assert plan.front
    assert [end.action for end in plan.front] == ["front/wheel", "front/audit"]
    assert plan_of(recipe(), machine).front is None


def test_its_extras_are_those_of_the_manifest_whatever_is_chosen(recipe, machine):
    assert brought(recipe(add=FRONT).manifest) == (
        FrontExtra("cuda12", "demo-pkg-cu12"),
        FrontExtra("cuda13", "demo-pkg-cu13"),
    )
    file = recipe(BY_EXTRA, add=FRONT)
    assert [(each.extra, each.with_extra) for each in brought(file.manifest)] == [
        (name, name) for name in ("cuda12", "cuda12-local", "cuda13", "cuda13-local")
    ]
    (made,) = (a for a in plan_of(file, machine, cuda=["13"]).actions if a.id == "front/wheel")
    assert "cuda12-local" in str(made.step)


def declared(folder: Path, name: str, version: str = "1.0", extra: str = "") -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    extras = [extra] if extra else []
    return wheel(folder, {}, name=f"{stem}-py3-none-any.whl", python=">=3.11", extras=extras).parent


def made_of(tmp_path: Path, *of: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    PackageFront(of=of, distribution="demo-cuda", brought=BROUGHT).run(Workdir(work, tmp_path))
    (found,) = (tmp_path / "wheel").iterdir()
    return found


def test_it_has_no_files_and_an_extra_for_each_major(tmp_path):
    of = [declared(tmp_path / "12", "demo-cu12"), declared(tmp_path / "13", "demo-cu13", extra="cuda13")]
    found = made_of(tmp_path, *of)
    assert found.name == "demo_cuda-1.0-py3-none-any.whl"
    text = metadata.of_wheel(found)
    assert metadata.fields(text, "Requires-Dist") == [
        'demo-cu12==1.0; extra == "cuda12"',
        'demo-cu13[cuda13]==1.0; extra == "cuda13"',
    ]
    assert metadata.fields(text, "Provides-Extra") == ["cuda12", "cuda13"]
    assert metadata.field(text, "Requires-Python") == ">=3.11"
    assert [finding.code for finding in audit([found]).findings] == []


@pytest.mark.parametrize(
    ("version", "extra", "why"),
    [
        ("1.1", "cuda13", "the front package requires one version of all wheels, and they have several"),
        ("1.0", "cuda-13", "the front package installs demo-cu13[cuda13], and that wheel has no such extra"),
    ],
)
def test_it_is_refused_where_an_extra_would_lead_nowhere(version, extra, why, tmp_path):
    of = [declared(tmp_path / "12", "demo-cu12"), declared(tmp_path / "13", "demo-cu13", version, extra)]
    with pytest.raises(ActionError) as caught:
        made_of(tmp_path, *of)
    assert why in str(caught.value)
    assert not (tmp_path / "wheel").exists()
