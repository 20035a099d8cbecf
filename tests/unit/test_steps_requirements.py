"""Build requirements: what is asked for, what is fetched, and what neither may do."""

import io
import json
import os
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from audit_samples import wheel
from index_samples import serving_wheels, whole

from gpuforge import private_mounts
from gpuforge.actions import value_file, wheelhouse
from gpuforge.actions.declared_sets import declared_sets
from gpuforge.actions.environment import NOTHING, AskBackend, requested
from gpuforge.actions.project_requirements import answered, is_met, required
from gpuforge.actions.trial import FetchTestRequirements
from gpuforge.actions.venv import protected
from gpuforge.errors import ActionError, MissingError
from gpuforge.plan.action import Workdir
from gpuforge.wheel.filename import LockedWheels

WHEELS = {"cmake-3.31.6-py3-none-any.whl": "00", "scikit_build_core-0.11-py3-none-any.whl": "11"}


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("cmake", True),
        ("CMake >=3.15, <4", True),
        ("cmake>=4", False),
        ("scikit-build.core", True),  # names are compared as normalized
        ("ninja", False),
        ("cmake[extra]", False),
        ("cmake; python_version > '3'", False),  # whether it holds is pip's to say
    ],
)
def test_what_a_backend_requires_is_met_by_name_and_version(requirement, met):
    assert is_met(requirement, LockedWheels((), WHEELS)) is met


def test_a_lock_that_was_written_is_read_again(tmp_path):
    for name in WHEELS:
        (tmp_path / name).write_bytes(b"")
    written = LockedWheels.of_folder(["cmake", "scikit-build-core"], tmp_path)
    value_file.write(written, tmp_path / "lock.json")
    assert value_file.read(LockedWheels, tmp_path / "lock.json") == written
    assert [(each.project, str(each.version)) for each in written.releases()] == [
        ("cmake", "3.31.6"),
        ("scikit-build-core", "0.11"),
    ]


BACKEND = """
import os, sys
def get_requires_for_build_wheel(settings=None):
    {}
"""


def answer(folder: Path, code: str, **fields: Any) -> list[str]:
    (folder / "backend.py").write_text(BACKEND.format(code))
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    places = {"source": folder, "env": folder, "python": folder, "lock": folder}
    step: AskBackend[Path] = AskBackend(**places, **{"config_settings": {}, **fields})
    return requested(step, Path(sys.executable), Workdir(folder, folder))


def test_a_backend_gets_its_settings_with_the_manifests_names_filled_in(tmp_path):
    settings = {"a": "{toolkit}/x", "b": ("{project}", "$HOME {{toolkit}}")}
    code = "return [''.join(c if c.isalnum() else '-' for c in str(settings)).strip('-')]"
    found = answer(tmp_path, code, config_settings=settings, toolkit=Path("/tk"))
    assert found[0].replace("-", " ").split()[:4] == ["a", "tk", "x", "b"]
    assert found[0].endswith("HOME-{toolkit}".replace("{", "-").replace("}", ""))


def test_what_a_backend_requires_is_sorted(tmp_path):
    assert answer(tmp_path, "return ['ninja', 'cmake >= 3\\n']") == ["cmake>=3", "ninja"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("return ['-r /etc/passwd']", "'-r' is an option of pip"),
        ("return ['--index-url=https://evil.example']", "is an option of pip"),
        ("return ['a @ file:///etc/passwd']", "is a direct reference"),
        ("return ['a===${HOME}']", "it has a $, a control character or a line break"),
        ("return ['a; python_version > \"3\\n-r x\"']", "it has a $, a control character or a line break"),
        ("return ['a; ' + '(' * 1500 + 'os_name == \"x\"' + ')' * 1500]", "it is nested too deeply"),
        ("return ['a' * 5000]", "text of at most 4000 characters is expected"),
        (
            "return ['a%d' % n for n in range(1001)]",
            "its build backend has something other than a list of at most 1000 requirements",
        ),
        ("return [1]", "is not a requirement: text"),
        ("return [['a']]", "failed to list its requirements: "),
        ("return 7", "failed to list its requirements: "),
        ("os._exit(0)", "failed to list its requirements: "),
        ("raise SystemExit(1)", "failed to list its requirements: "),
    ],
)
def test_what_is_no_requirement_by_name_is_refused(tmp_path, code, why):
    with pytest.raises(ActionError) as caught:
        answer(tmp_path, code)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ['["a @ file:///x"]', '{"a": 1}', '"cmake"', "7", "", "\xff", "[" * 100_000])
def test_an_answer_is_judged_again_before_it_is_fetched(tmp_path, text):
    """The project's code ran beside that file, and may have written it."""
    (tmp_path / "answer.json").write_text(text, encoding="latin-1")
    with pytest.raises(ActionError):
        answered(tmp_path / "answer.json")


def test_the_answer_that_asks_for_nothing_is_the_one_that_every_first_fetch_reads(tmp_path):
    """Where they are the same bytes, nothing is fetched or installed a second time."""
    assert answered(NOTHING.path) == []
    assert NOTHING.path.read_text() == json.dumps([]) + "\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '[build-system]\nrequires = ["a", "-r x"]\n',
            "its pyproject.toml has a requirement that is not a name with versions",
        ),
        ('[build-system]\nrequires = ["a @ https://evil.example/a.tar.gz"]\n', "is a direct reference"),
        ("a = " + "[" * 5000, "the project cannot be built: "),
        ("a = 1" + "0" * 5000, "the project cannot be built: "),
        ('[build-system]\nrequires = []\nbuild-backend = "x"\nbackend-path = [".."]\n', "inside source tree"),
    ],
)
def test_a_pyproject_is_read_and_its_requirements_are_names(tmp_path, text, why):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ActionError) as caught:
        required(tmp_path)
    assert why in str(caught.value)


def test_a_backend_that_requires_nothing_gets_an_empty_folder(tmp_path):
    wheelhouse.download(Path(sys.executable), [], tmp_path / "wheels", what="the build requirements", hint="")
    assert list((tmp_path / "wheels").iterdir()) == []


def test_a_project_without_a_pyproject_is_built_by_setuptools(tmp_path):
    assert required(tmp_path) == ["setuptools>=40.8.0"]


def wheel_with(folder: Path, *lines: str) -> Path:
    """Write a wheel with some lines in its METADATA."""
    return wheel(folder, {}, name="lib-1.0-py3-none-any.whl", headers=lines, purelib=True)


@pytest.mark.thorough
def test_pip_builds_nothing_that_a_wheel_names_by_a_url(tmp_path, monkeypatch):
    """`--only-binary` is for what lies in an index: a URL in the metadata of a wheel is fetched and built."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w').close()\n"
    project = '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'
    sdist = tmp_path / "evil-1.0.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name, text in (("evil.py", code), ("pyproject.toml", project), ("PKG-INFO", "")):
            member = tarfile.TarInfo(f"evil-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    wheel_with(tmp_path, f"Requires-Dist: evil @ {sdist.as_uri()}")
    with pytest.raises(ActionError) as caught:
        wheelhouse.download(
            Path(sys.executable), ["lib"], tmp_path / "out", [tmp_path], what="lib", hint="ask for less"
        )
    assert not ran.exists()
    assert "pip would have to build one of them, and a build runs foreign code" in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(("requested", "lacking"), [("other>=1", "other>=1"), ("lib", "other>=2")])
def test_what_has_only_a_source_distribution_is_not_built(tmp_path, monkeypatch, requested, lacking):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    wheel_with(tmp_path, "Requires-Dist: other>=2")
    (tmp_path / "other-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(MissingError) as caught:
        wheelhouse.download(
            Path(sys.executable),
            [requested],
            tmp_path / "out",
            [tmp_path],
            what="what it needs",
            hint="narrow it",
        )
    assert f"what it needs cannot be met: no package index has a wheel of {lacking} for this Python" in str(
        caught.value
    )
    assert "write a manifest for it" in str(caught.value)
    assert "to be built first; narrow it" in str(caught.value)


@pytest.mark.thorough
def test_the_python_that_a_requirement_needs_is_named(tmp_path, monkeypatch):
    """JAX 0.12 needs Python 3.12: on 3.11 pip only lists the releases that it passed over."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    (tmp_path / "simple" / "lib").mkdir(parents=True)
    links = (
        f'<a href="lib-{version}-py3-none-any.whl" data-requires-python="{needs}">lib</a>'
        for version, needs in (
            ("1.0", "&gt;=3.9"),
            ("2.0", "&gt;=3.90,&lt;4"),
            ("2.1", "&gt;=3.91"),
            ("3.0", "&gt;=3.92"),
        )
    )
    (tmp_path / "simple" / "lib" / "index.html").write_text("".join(links))
    with pytest.raises(ActionError) as caught:
        wheelhouse.download(
            Path(sys.executable), ["lib==2.*"], tmp_path / "out", what="what the tests need", hint="narrow it"
        )
    assert "what the tests need cannot be met on this Python: lib 2.1 needs Python >=3.91" in str(
        caught.value
    )
    assert "leave this Python out of `[package] python`" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "https://evil.example/a.tar.gz", "git+https://evil.example/a"]
)
def test_a_projects_wheel_has_nothing_fetched_from_where_it_says(tmp_path, url):
    path = wheel_with(tmp_path, f"Requires-Dist: evil @ {url}")
    (tmp_path / "out").mkdir()
    with pytest.raises(ActionError) as caught:
        FetchTestRequirements(python=Path(sys.executable), wheel=path).run(
            Workdir(tmp_path, tmp_path / "out")
        )
    assert "lib-1.0-py3-none-any.whl declares evil by a direct reference" in str(caught.value)


def test_an_extra_is_a_name_before_pip_gets_it(tmp_path):
    extras = ("cuda13", "CU13-local", "cuda13];os_name=='x'", "cu13/../../x", "cuda13 --index-url=x")
    path = wheel_with(
        tmp_path, *(f"Provides-Extra: {extra}" for extra in extras), 'Requires-Dist: a; extra == "cuda13"'
    )
    assert declared_sets(path, (), "13.0") == (("cuda13",), ())


@pytest.mark.parametrize("why", ["no mounts", "another path"])
def test_where_an_environment_cannot_be_made_read_only_it_is_copied(tmp_path, monkeypatch, why):
    monkeypatch.setattr(private_mounts, "enter_if_allowed", lambda: why != "no mounts")
    stored = tmp_path / "stored"
    python = Path("/other/python") if why == "another path" else Path(sys.executable)
    (stored / "bin").mkdir(parents=True)
    (stored / "bin/python").symlink_to(python)
    (stored / "pyvenv.cfg").write_text("home = /\n")
    found = protected(stored, Path(sys.executable), tmp_path / "work")
    assert found == tmp_path / "work/env/bin/python"
    assert found.readlink() == Path(sys.executable)
    assert (stored / "bin/python").readlink() == python


@pytest.mark.thorough
def test_a_wheel_that_the_store_has_is_not_downloaded_again(tmp_path, monkeypatch):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    (made := tmp_path / "index").mkdir()
    path = wheel(made, {"demo.py": b""}, name="demo-1.0-py3-none-any.whl", purelib=True)
    wheel(made, {"demo.py": b""}, name="demo-0.9-py3-none-any.whl", purelib=True)
    content = path.read_bytes()
    digest = sha256(content).hexdigest()
    (kept := tmp_path / "files" / digest[:2] / digest).parent.mkdir(parents=True)
    with serving_wheels(made, whole) as index:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("GPUFORGE_FILES", str(tmp_path / "files"))
        for number, (there, requests) in enumerate(((b"", 1), (content, 1), (b"damaged", 2))):
            if there:
                kept.write_bytes(there)
            wheels = tmp_path / f"wheels{number}"
            wheelhouse.download(Path(sys.executable), ["demo"], wheels, what="it", hint="")
            assert (wheels / path.name).read_bytes() == content
            assert len(index.ranges) == requests
            assert (kept.exists() and kept.samefile(wheels / path.name)) == (there == content)
        kept.write_bytes(content)
        both = tmp_path / "both"
        wheelhouse.download(Path(sys.executable), ["demo", "demo<1"], both, what="it", hint="")
        assert [each.name for each in both.iterdir()] == ["demo-0.9-py3-none-any.whl"]
