"""What a manifest that loads says: defaults, properties, and the three vocabularies that must agree."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import tomli
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from gpuforge.cli.schema import command
from gpuforge.cuda.choices import ABOUT_PROVIDER, Provider
from gpuforge.errors import UsageError
from gpuforge.manifest import schema
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.manifest.model import GitSource, PathSource, PypiSource
from gpuforge.manifest.schema import json_schema, reference
from gpuforge.manifest.sizes import size_in_bytes
from gpuforge.toolchain_names import OWN

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "gpuforge.toml.example"
GOLDEN = ROOT / "tests" / "golden" / "manifest"
SMALLEST = 'schema = 1\n[package]\nname = "my-pkg"\npython = ["3.12"]\n[cuda."13.0"]\narchs = ["80"]\n'
# conditions between keys, or not even TOML
BEYOND_A_SCHEMA = {
    "abi",
    "back_ends",
    "build_without_cuda",
    "c_header",
    "constraints",
    "duplicate_key",
    "free_threaded",
    "kernels_wheels",
    "linkage",
    "placeholders",
    "programs",
    "repeated_table",
    "without_cuda",
    "without_cuda_split",
}


def loaded(text: str, folder: Path) -> ManifestFile:
    (folder / "overlay").mkdir(exist_ok=True)
    (folder / "build-constraints.txt").touch()
    (folder / "gpuforge.toml").write_text(text)
    return load(folder)


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(json_schema())


def violations(data: Any) -> list[str]:
    return [error.message for error in validator().iter_errors(data)]


def test_the_smallest_manifest(tmp_path):
    file = loaded(SMALLEST, tmp_path)
    manifest = file.manifest
    assert manifest.package.source == PathSource(path=".")
    assert manifest.package.import_ == "my_pkg"
    assert manifest.cuda.linkage == "pip"
    assert manifest.cuda.versions["13.0"].toolkit == "13.0"
    assert manifest.cuda.versions["13.0"].provider is None
    assert manifest.wheel.naming == ("suffix",)
    assert manifest.wheel.size_limit_bytes is None
    assert (manifest.objects, manifest.toolchains, manifest.test.command) == ((), {}, ())
    assert violations(tomli.loads(SMALLEST)) == []


def test_the_example(tmp_path):
    manifest = loaded(EXAMPLE.read_text(), tmp_path).manifest
    assert isinstance(manifest.package.source, PypiSource)
    assert manifest.package.source.release == ("cufinufft", "2.5.1")
    assert "12.2" in manifest.toolchains["host"].versions
    assert "15.1" not in manifest.toolchains["host"].versions
    assert "13.0" in manifest.toolchains["device"].versions
    assert [item.role for item in manifest.objects] == [
        *("host-only", "fallback", "user-compiled", "user-compiled", "fallback")
    ]
    assert [item.kind for item in manifest.objects[1:]] == ["module", "library", "module", "library"]
    assert manifest.objects[2].in_host_build
    assert manifest.wheel.size_limit_bytes == 100_000_000
    assert violations(tomli.loads(EXAMPLE.read_text())) == []


def test_the_example_has_every_key():
    text = EXAMPLE.read_text()
    in_comments = {"path", "git", "rev", "abi", "packages"}  # they cannot stand beside the others
    written = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    for section in schema.sections():
        for key in schema.keys_of(section.model):
            if not key.startswith("<"):
                where = text if key in in_comments else written
                assert re.search(rf"(?:\[|\b){re.escape(key)}(?: =|[\].])", where), f"{section.header} {key}"


def test_the_examples_alternatives(tmp_path):
    text = EXAMPLE.read_text()
    (pypi,) = re.findall(r"^source = .*$", text, re.MULTILINE)
    alternatives = re.findall(r"^# (source = .*)$", text, re.MULTILINE)
    sources = [
        loaded(text.replace(pypi, source), tmp_path).manifest.package.source for source in alternatives
    ]
    assert {type(source) for source in sources} == {PathSource, GitSource}
    for abi in re.findall(r"^# (abi = \S+)", text, re.MULTILINE):
        one = re.sub(r"^python = .*$", f'python = ["3.15"]\n{abi}', text, flags=re.MULTILINE)
        assert loaded(one, tmp_path).manifest.package.abi in {"abi3", "abi3t", "none"}


def test_the_recipes_load():
    recipes = sorted(ROOT.glob("recipes/*/gpuforge.toml"))
    assert recipes
    for path in recipes:
        load(path)
        assert violations(tomli.loads(path.read_text())) == []


def test_a_manifest_cannot_be_changed(tmp_path):
    manifest = loaded(SMALLEST, tmp_path).manifest
    with pytest.raises(ValidationError):
        manifest.package.name = "other"


def test_every_field_is_documented_and_has_an_example():
    for section in schema.sections():
        for key, field in schema.keys_of(section.model).items():
            if not list(schema.tables_in(field.annotation)):
                assert field.description, f"{section.header} {key}"
                assert field.examples, f"{section.header} {key}"


def test_the_schema_is_one():
    Draft202012Validator.check_schema(json_schema())


def test_the_schema_refuses_what_load_refuses():
    for path in sorted(GOLDEN.glob("*.toml")):
        try:
            data = tomli.loads(path.read_bytes().decode())
        except ValueError:
            continue
        if path.stem not in BEYOND_A_SCHEMA:
            assert violations(data), path.stem


@pytest.mark.parametrize(
    ("keys", "accepted"),
    [
        ('role = "host-only"\nfiles = ["*.so"]', True),
        ('role = "host-only"\nfiles = ["*.so"]\nsources = ["*.cu"]', False),
        (
            'role = "fallback"\nsources = ["*.cu"]\ntoolchain = "d"\nkind = "library"\n'
            'abi = { version = "1", headers = ["*.h"] }',
            True,
        ),
        ('role = "fallback"\nsources = ["*.cu"]\ntoolchains = ["d"]', False),
        ('role = "user-compiled"\nsources = ["*.cu"]\ntoolchains = ["d"]\nheaders = ["*.h"]', True),
        ('role = "user-compiled"\nsources = ["*.cu"]\ntoolchains = ["d"]\nkind = "module"', True),
        ('role = "host-only"\nfiles = ["*.so"]\nkind = "module"', False),
    ],
)
def test_schema_and_load_agree_on_roles(keys, accepted, tmp_path):
    text = f'{SMALLEST}[toolchains.d]\ncompiler = "nvcc"\n[[objects]]\nname = "o"\n{keys}\n'
    assert (violations(tomli.loads(text)) == []) is accepted
    if accepted:
        loaded(text, tmp_path)
    else:
        with pytest.raises(UsageError):
            loaded(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("1 kB", 1000), ("1 KiB", 1024), ("1.5 MB", 1_500_000), ("2GiB", 2 << 30), ("100 MB", 10**8)],
)
def test_sizes(text, size):
    assert size_in_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "1", "MB", "-1 MB", "1 mB", "1 kiB", "1 KB", "1e3 MB", "1 MB ", "1  MB"]
)
def test_no_sizes(text):
    with pytest.raises(ValueError):  # noqa: PT011  the text itself is all there is to say
        size_in_bytes(text)


def test_the_reference_page_is_up_to_date():
    assert (ROOT / "docs" / "manifest.md").read_text() == reference(), (
        "run: gpuforge schema --format markdown > docs/manifest.md"
    )


def test_the_command_prints_both():
    result = CliRunner().invoke(command, [])
    assert json.loads(result.stdout) == json_schema()
    assert CliRunner().invoke(command, ["--format", "markdown"]).stdout == reference()


def test_a_manifest_alone_is_enough_to_audit_by(tmp_path):
    (tmp_path / "gpuforge.toml").write_bytes(EXAMPLE.read_bytes())
    with pytest.raises(UsageError, match='no folder "overlay" beside the manifest'):
        load(tmp_path)
    assert load(tmp_path, for_building=False).manifest.build.overlay == ("overlay",)


def test_the_reference_has_every_toolchain_and_every_provider_of_toolkits():
    """Their lists are generated from the tables that they are added to."""
    page = reference()
    assert tuple(ABOUT_PROVIDER) == get_args(Provider)
    for name in (*OWN, *ABOUT_PROVIDER):
        assert f"`{name}`" in page
