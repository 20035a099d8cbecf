"""METADATA, WHEEL, RECORD, file names and JSON that take long to parse, or that parsers fail at."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from audit_samples import elf, wheel
from document_samples import INDEX, LIBRARIES, MODULE, RECIPE

from hostile.attack import attack

_INFO = "demo-1.0.dist-info"


def _replaced(
    folder: Path, files: Mapping[str, bytes], *, name: str = "demo-1.0-py3-none-any.whl"
) -> list[Path]:
    """Write a wheel whose `.dist-info` has `files` in the place of its own."""
    held = {
        "demo/a.so": elf(),
        f"{_INFO}/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        f"{_INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{_INFO}/RECORD": b"demo/a.so,,\n",
        **{f"{_INFO}/{file}": data for file, data in files.items()},
    }
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in held.items():
            archive.writestr(member, data)
    return [path]


def _requires(folder: Path, *lines: str) -> list[Path]:
    head = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    return _replaced(
        folder, {"METADATA": (head + "".join(f"Requires-Dist: {line}\n" for line in lines)).encode()}
    )


@attack
def deep_parentheses(folder: Path) -> list[Path]:
    return _requires(folder, "x; " + "(" * 5_000 + "os_name == 'posix'" + ")" * 5_000)


@attack
def endless_markers(folder: Path) -> list[Path]:
    return _requires(folder, "x; " + " or ".join(f"extra == 'e{n}'" for n in range(3_000)))


@attack
def many_requirements(folder: Path) -> list[Path]:
    return _requires(folder, *(f"package{n}>=1,<2; extra == 'e{n}'" for n in range(60_000)))


@attack
def endless_clauses(folder: Path) -> list[Path]:
    return _requires(
        folder,
        "torch" + ",".join(f">={n}.{n}" for n in range(20_000)),
        "torch<" + ",<".join(f"{n}" for n in range(20_000)),
    )


@attack
def endless_extras(folder: Path) -> list[Path]:
    return _requires(folder, "cuda-toolkit[" + ",".join(f"e{n}" for n in range(50_000)) + "]")


@attack
def versions_of_many_digits(folder: Path) -> list[Path]:
    return _requires(
        folder,
        "torch==" + "9" * 5_000,
        "torch<" + "9" * 900,
        "torch==1." + ".".join("9" * 900 for _ in range(200)),
        "cuda-toolkit~=1!" + "1" * 4_299,
    )


@attack
def a_marker_of_versions(folder: Path) -> list[Path]:
    return _requires(
        folder,
        "x; python_version > '" + "9" * 4_400 + "'",
        "x; python_full_version in '3.11'",
        "x; 'a' ~= 'b'",
        "x; extra ~= 'x'",
        "x; platform_release >= 'x'",
    )


@attack
def an_endless_url(folder: Path) -> list[Path]:
    return _requires(folder, "x @ https://[" + "a" * 300_000, "x @ " + "(" * 300_000, "x" + "[" * 300_000)


@attack
def headers_without_end(folder: Path) -> list[Path]:
    return _replaced(
        folder, {"METADATA": b"".join(b"H%d: x\n" % n for n in range(100_000)) + b"Name: demo\n"}
    )


@attack
def one_header_of_a_megabyte(folder: Path) -> list[Path]:
    return _replaced(
        folder, {"METADATA": b"Name: " + b"a" * 1_000_000 + b"\nRequires-Dist: " + b"x" * 1_000_000 + b"\n"}
    )


@attack
def metadata_without_a_header(folder: Path) -> list[Path]:
    return _replaced(folder, {"METADATA": b"\r" * 2_000_000 + b"\xff\xfe\n" * 300_000})


@attack
def tags_times_tags(folder: Path) -> list[Path]:
    tag = "-".join(".".join(f"{part}{n}" for n in range(300)) for part in ("py", "abi", "linux"))
    return _replaced(folder, {"WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode()})


@attack
def tags_in_the_file_name(folder: Path) -> list[Path]:
    tag = "-".join([".".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")] * 3)
    return _replaced(folder, {}, name=f"demo-1.0-{tag}.whl")


@attack
def many_tags(folder: Path) -> list[Path]:
    return _replaced(
        folder, {"WHEEL": b"".join(b"Tag: cp3%d-none-manylinux_2_17_x86_64\n" % n for n in range(50_000))}
    )


@attack
def an_odd_version_in_the_file_name(folder: Path) -> list[Path]:
    return _replaced(folder, {}, name="demo-" + "1" * 200 + "-py3-none-any.whl")


@attack
def a_record_of_one_quoted_row(folder: Path) -> list[Path]:
    return _replaced(folder, {"RECORD": b'"' + b"a,\n" * 4_000_000})


@attack
def a_record_of_quotes(folder: Path) -> list[Path]:
    return _replaced(folder, {"RECORD": b'""' * 500_000 + b"\n" + b'"' * 999_999 + b"\n"})


@attack
def a_record_without_newlines(folder: Path) -> list[Path]:
    return _replaced(folder, {"RECORD": b"\r" * 50_000_000})


@attack
def endless_links(folder: Path) -> list[Path]:
    return _replaced(folder, {"symlinks.txt": b"".join(b"a%d,a%d,x\n" % (n, n + 1) for n in range(400_000))})


def _json(folder: Path, *texts: bytes, name: str = "kernels/k{}/index.json") -> list[Path]:
    files = {f"demo/_gpuforge/{name.format(n)}": text for n, text in enumerate(texts)}
    return [wheel(folder, {"demo/a.so": elf(), **files})]


@attack
def a_kernel_index_of_brackets(folder: Path) -> list[Path]:
    return _json(folder, b"[" * 1_000_000, b'{"a":' * 500_000, b"[" * 990 + b"]" * 990)


ODD: list[object] = [None, 1, "x", [], {}, [[]], [{}], {"a": 1}, True, 1.5, ["x"]]


@attack
def a_kernel_index_of_odd_types(folder: Path) -> list[Path]:
    entries: list[dict[str, object]] = []
    for value in ODD:
        entries += [
            {**MODULE, "file": "x.fatbin", field: value} for field in ("file", "sha256", "images", "name")
        ]
        images = [[{field: value}] for field in ("kind", "arch")]
        entries += [{**MODULE, "file": "x.fatbin", "sha256": SHA, "images": each} for each in images]
    keys = ("modules", "libraries")
    texts = [json.dumps({**LIBRARIES, key: value}) for key in keys for value in ODD]
    texts += [json.dumps({**INDEX, key: [entry]}) for key in keys for entry in entries]
    files = {f"demo/_gpuforge/kernels/k{n}/index.json": text.encode() for n, text in enumerate(texts)}
    files |= {f"demo/_gpuforge/kernels/k{n}/x.fatbin": b"" for n in range(len(texts))}
    return [wheel(folder, {"demo/a.so": elf(), **files})]


SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # of nothing


@attack
def recipes_of_odd_types(folder: Path) -> list[Path]:
    odd = [*ODD, [{"file": []}], [{"file": "\ud800"}], [{"name": []}], [{"name": {}}]]
    files = {}
    for n, value in enumerate(odd):
        for key in ("sources", "includes", "toolchains", "fallbacks", "cpu", "abi", "schema"):
            recipe = {**RECIPE, key: value}
            files[f"demo/_gpuforge/sources/s{n}{key}/recipe.json"] = json.dumps(recipe).encode()
    files["demo/_gpuforge/wheels.json"] = json.dumps({"sets": odd, "schema": odd, "wheels": odd}).encode()
    files["demo/_gpuforge/wheel.json"] = json.dumps(
        {"sets": odd, "for": odd, "name": odd, "schema": odd}
    ).encode()
    return [wheel(folder, {"demo/a.so": elf(), **files})]


@attack
def lists_of_kernels_wheels_of_odd_types(folder: Path) -> list[Path]:
    paths = []
    for n, value in enumerate([*ODD, "\ud800"]):
        sub = folder / str(n)
        sub.mkdir()
        keys = ("schema", "sets", "wheels", "name", "project", "version", "abi", "for", "kernels", "package")
        every = {key: [dict.fromkeys(keys, value), value] for key in keys}
        plain = dict.fromkeys(keys, value)
        for k, document in enumerate((every, plain)):
            files = {
                "demo/_gpuforge/wheels.json": json.dumps(document).encode(),
                "demo/_gpuforge/wheel.json": json.dumps(document).encode(),
            }
            paths.append(wheel(sub, {"demo/a.so": elf(), **files}, name=f"demo{n}x{k}-1.0-py3-none-any.whl"))
    return paths


@attack
def a_kernel_index_of_surrogates(folder: Path) -> list[Path]:
    images = [{"kind": "\ud83d", "arch": "\udc00"}]
    odd = {"file": "\ud800\udfff\udc00", "sha256": "\ud800", "images": images}
    plain = {"file": "x", "sha256": SHA, "images": images}
    files = {
        f"k{n}/index.json": json.dumps({"schema": 1, "modules": [each]})
        for n, each in enumerate((odd, plain))
    }
    members = {f"demo/_gpuforge/kernels/{name}": text.encode() for name, text in files.items()}
    return [wheel(folder, {**members, "demo/_gpuforge/kernels/k1/x": b""})]


@attack
def a_kernel_index_of_large_numbers(folder: Path) -> list[Path]:
    return _json(
        folder,
        b'{"schema": ' + b"9" * 5_000 + b"}",
        b'{"schema": 1e999999, "modules": [NaN, Infinity]}',
        b'{"schema": ' + b"9" * 1_000_000 + b"}",
    )


@attack
def a_kernel_index_of_modules(folder: Path) -> list[Path]:
    return _json(
        folder, json.dumps({"schema": 1, "modules": [{"file": f"f{n}"} for n in range(150_000)]}).encode()
    )


@attack
def many_kernel_indexes(folder: Path) -> list[Path]:
    return _json(folder, *([b"{}"] * 3_000))


@attack
def entry_points_of_spaces(folder: Path) -> list[Path]:
    """A line without a sign, whose spaces a parser of INI files goes through from each of them on."""
    return _replaced(folder, {"entry_points.txt": b"[console_scripts]\na" + b" " * 900_000 + b"b\n"})


@attack
def entry_points_behind_a_megabyte(folder: Path) -> list[Path]:
    text = b"#" * (1 << 20) + b"\n[console_scripts]\n../../x = demo:main\n"
    return _replaced(folder, {"entry_points.txt": text})
