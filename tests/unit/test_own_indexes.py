"""`[indexes]`: a package comes from its own index and no other, for builds, tests and what a wheel lives beside."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_samples import wheel
from toolkit_samples import Server, serving

from gpuforge.actions import wheelhouse
from gpuforge.actions.audit import FetchBeside
from gpuforge.actions.trial import FetchTestRequirements
from gpuforge.errors import ActionError, MissingError
from gpuforge.plan.action import Workdir

pytestmark = pytest.mark.thorough  # pip runs once or twice in each
PYTHON = Path(sys.executable)


def publish(index: Path, name: str, *requires: str) -> None:
    """Put a wheel on an index of PEP 503."""
    page = index / name.partition("-")[0]
    page.mkdir(parents=True, exist_ok=True)
    path = wheel(page, {}, name=f"{name}-py3-none-any.whl", requires=requires, purelib=True)
    with (page / "index.html").open("a") as links:
        links.write(f'<a href="{path.name}">{path.name}</a>\n')


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """PyPI with torch's newest patch and what torch needs, and torch's index with a build for CUDA 12."""
    pypi, own = tmp_path / "site" / "pypi", tmp_path / "site" / "cu126"
    for version in ("2.10.0", "2.11.0", "2.11.1"):
        publish(pypi, f"torch-{version}", "filelock")
    publish(pypi, "filelock-3.0")
    publish(pypi, "vision-1.0", "torch")
    for version in ("2.10.0+cu126", "2.11.0+cu126"):
        publish(own, f"torch-{version}", "filelock")
    publish(own, "filelock-9.0")
    with serving(tmp_path / "site") as found:
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"{found.url}/pypi")
        yield found


def fetched(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix("-py3-none-any.whl") for path in folder.glob("*.whl"))


def download(server: Server, folder: Path, *requirements: str, index: str = "cu126") -> list[str]:
    indexes = {"torch": f"{server.url}/{index}"}
    wheelhouse.download(
        PYTHON, requirements, folder, indexes=indexes, what="the build requirements", hint="narrow it"
    )
    return fetched(folder)


def test_a_package_comes_from_its_index_and_all_else_from_pips(server, tmp_path):
    assert download(server, tmp_path / "out", "torch==2.11.*", "vision") == [
        "filelock-3.0",
        "torch-2.11.0+cu126",  # although pip's index has 2.11.1
        "vision-1.0",
    ]
    assert download(server, tmp_path / "none", "filelock", 'torch; python_version < "3"') == ["filelock-3.0"]


def test_a_package_that_only_others_require_is_an_error(server, tmp_path):
    with pytest.raises(ActionError) as caught:
        download(server, tmp_path / "out", "vision")
    assert "torch-2.11.1-py3-none-any.whl came from pip's index, as only other packages" in str(caught.value)
    assert "add torch to the requirements" in str(caught.value)


def test_the_index_that_has_no_such_release_is_named(server, tmp_path):
    with pytest.raises(MissingError) as caught:
        download(server, tmp_path / "out", "torch==2.15.*")
    url = f"{server.url}/cu126"
    assert str(caught.value) == (
        f"the build requirements: {url}, the index of torch in [indexes], has no wheel of torch==2.15.* for this "
        f"Python\n  hint: {url}/torch/ lists its wheels: correct [indexes] torch or the requirement"
    )
    with pytest.raises(MissingError, match="for this Python, or cannot be reached"):
        download(server, tmp_path / "out", "torch", index="nowhere")


@pytest.mark.parametrize(
    ("oldest", "extra", "torch"),
    [(False, (), "2.11.0"), (True, (), "2.10.0"), (False, ("cuda12",), "2.10.0")],
)
def test_tests_install_it_from_there(server, tmp_path, oldest, extra, torch):
    requires = ('torch<2.11; extra == "cuda12"',) if extra else ("torch>=2.10,<2.12",)
    path = wheel(tmp_path, {}, name="demo-1.0-py3-none-any.whl", requires=requires, purelib=True)
    (tmp_path / "out").mkdir()
    indexes = {"torch": f"{server.url}/cu126"}
    FetchTestRequirements(
        python=PYTHON, wheel=path, requires=("vision",), indexes=indexes, oldest=oldest, extras=extra
    ).run(Workdir(tmp_path, tmp_path / "out"))
    found = fetched(tmp_path / "out" / "wheels")
    assert found == ["filelock-3.0", f"torch-{torch}+cu126", "vision-1.0"]


def test_what_a_wheel_lives_beside_comes_from_there(server, tmp_path):
    path = wheel(tmp_path, {}, name="demo-1.0-py3-none-any.whl", requires=["torch"], purelib=True)
    (tmp_path / "out").mkdir()
    FetchBeside(wheel=path, python=PYTHON, beside="vision", indexes={"torch": f"{server.url}/cu126"}).run(
        Workdir(tmp_path, tmp_path / "out")
    )
    assert fetched(tmp_path / "out" / "wheels") == ["filelock-3.0", "torch-2.11.0+cu126", "vision-1.0"]
