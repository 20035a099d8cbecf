"""Environments: what a build finds in its copy of the one that was stored."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from audit_samples import wheel

from gpuforge import digest
from gpuforge.actions import venv
from gpuforge.errors import ActionError
from gpuforge.execute import workdir
from gpuforge.execute.runners.runner import InputPath

pytestmark = pytest.mark.xdist_group("stored")  # made once


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with one package and its script, read-only as in the store."""
    top = tmp_path_factory.mktemp("stored")
    files = {
        "tool.py": b"def main():\n    print('as published')\n",
        "tool-1.0.dist-info/entry_points.txt": b"[console_scripts]\ntool = tool:main\n",
    }
    wheels = wheel(top / "wheels", files, name="tool-1.0-py3-none-any.whl", purelib=True).parent
    folder = top / "stored"
    venv.install(venv.create(Path(sys.executable), folder), wheels)
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o555 if path.stat().st_mode & 0o100 else 0o444)
    return folder


@pytest.mark.thorough
def test_a_copy_runs_from_its_own_place_even_with_spaces(stored, tmp_path):
    folder = tmp_path / "a copy"
    workdir.stage(InputPath(stored), folder)
    python = venv.adopt(folder, Path(sys.executable))
    where = "import sys, tool; print(sys.prefix, tool.__file__)"
    found = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout
    minor = ".".join(map(str, sys.version_info[:2]))
    assert found.strip() == f"{folder} {folder}/lib/python{minor}/site-packages/tool.py"
    assert (
        subprocess.run([folder / "bin/tool"], check=True, capture_output=True, text=True).stdout
        == "as published\n"
    )


@pytest.mark.thorough
def test_an_environment_of_another_machine_gets_this_ones_interpreter(stored, tmp_path):
    folder, other = tmp_path / "copy", tmp_path / "other" / "python3"
    workdir.stage(InputPath(stored), folder)
    other.parent.mkdir()
    other.symlink_to(sys.executable)
    python = venv.adopt(folder, other)
    assert python.readlink() == other
    assert f"home = {other.parent}\n" in (folder / "pyvenv.cfg").read_text()
    assert venv.adopt(stored, Path(sys.executable)) == stored / "bin" / "python"  # nothing is written


@pytest.mark.thorough
def test_a_build_may_correct_a_module_of_its_environment(stored, tmp_path):
    folder = tmp_path / "copy"
    workdir.stage(InputPath(stored), folder)
    (module,) = folder.rglob("tool.py")
    assert module.stat().st_mode & 0o777 == 0o644
    assert (folder / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert list(module.parent.glob("__pycache__/tool.*.pyc"))
    module.write_text("def main():\n    print('corrected')\n")
    said = subprocess.run([folder / "bin/tool"], check=True, capture_output=True, text=True).stdout
    assert said == "corrected\n"


@pytest.mark.thorough
def test_files_that_the_store_has_are_linked_and_not_unpacked(tmp_path, monkeypatch):
    content = {"libtool.so": b"l", "damaged.so": b"d", "tool.py": b"p = 1", "other.so": b"o", "program": b"x"}
    where = {name: f"tool/{name}" for name in content} | {"program": "tool-1.0.data/scripts/program"}
    files = {where[name]: data for name, data in content.items()}
    path = wheel(tmp_path / "wheels", files, name="tool-1.0-py3-none-any.whl", purelib=True)
    stored = {}
    with zipfile.ZipFile(path) as archive:
        content["METADATA"] = archive.read(where.setdefault("METADATA", "tool-1.0.dist-info/METADATA"))
    for name in content.keys() - {"other.so"}:
        sha256 = digest.of_bytes(content[name])
        stored[name] = tmp_path / "files" / sha256[:2] / sha256
        stored[name].parent.mkdir(parents=True, exist_ok=True)
        stored[name].write_bytes(b"?" if name == "damaged.so" else content[name])
    monkeypatch.setenv("GPUFORGE_FILES", str(tmp_path / "files"))
    environment = tmp_path / "made/environment"
    python = venv.create(Path(sys.executable), environment)
    venv.install(python, path.parent)
    (package,) = environment.glob("lib/*/site-packages/tool")
    found = {name: package.parent / where[name] for name in content} | {
        "program": environment / "bin/program"
    }
    assert {name: each.read_bytes() for name, each in found.items()} == content
    linked = {name for name, each in stored.items() if each.samefile(found[name])}
    assert linked == {"libtool.so"}
    assert list(package.glob("__pycache__/tool.*.pyc"))
    listed = (package.parent / "tool-1.0.dist-info/RECORD").read_text()
    assert all(name in listed for name in where.values() if ".data/" not in name)
    assert [each.name for each in environment.parent.iterdir()] == ["environment"]
    venv.check(python)
    venv.install(python, path.parent)  # again: what is there is replaced
    assert stored["libtool.so"].samefile(found["libtool.so"])


@pytest.mark.thorough
def test_a_wheel_for_another_platform_is_told_with_what_does_not_fit(tmp_path, capsys):
    tag = f"cp{''.join(map(str, sys.version_info[:2]))}-none-manylinux_2_99_x86_64"
    path = wheel(tmp_path, {}, name=f"tool-1.0-{tag}.whl")
    python = venv.create(Path(sys.executable), tmp_path / "env")
    with pytest.raises(ActionError) as caught:
        venv.require(python, [str(path)], [])
    (problem,) = caught.value.diagnostics
    assert problem.message.startswith("it cannot be installed with the packages that it declares: ")
    assert problem.message.endswith("dependency is incompatible with the current platform")
    assert problem.hint.startswith("The wheel is compatible with Linux (`manylinux_2_99_x86_64`)")
    printed = capsys.readouterr().out.splitlines()
    assert printed
    assert all(line.startswith("uv:") for line in printed)  # only the step's own error is its result
