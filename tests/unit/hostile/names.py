"""Names in every place that reaches an output, made to steer what reads it."""

import json
from pathlib import Path

from audit_samples import elf, fatbin, wheel

from hostile.archives import Zip
from hostile.attack import attack

STEERING = {
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[31mclean",
    "c1": "\x9b31m\x85\x90",
    "bidirectional": "\u202egpj.so\u2066\u2067\u200f\u061c",
    "invisible": "\u200b\u2060\ufeff\u00ad\u180e\u2028\u2029",
    "newline": "a\n::error file=x::owned\n##vso[task.setvariable variable=x]y\n::set-output name=a::b",
    "carriage": "a\r::error::owned\r\nerror: owned",
    "markdown": "</details><script>alert(1)</script>|`` ` ``|![x](http://evil/x)[y](javascript:z)@all #1\n# owned",
    "rich": "[bold red]owned[/bold red][link=http://evil]x[/link][/nothing]\\[",
    "surrogate": "a\udc80\ud800b",
    "tags": "\U000e0001\U000e0041",
    "private": "\ue000\uffff\U0010ffff\x00\x7f",
    "commands": "::error::owned",
    "vso": "##vso[task.complete result=Succeeded]",
    "gitlab": "section_start:0:owned[collapsed=true]\r\x1b[0K",
    "teamcity": "##teamcity[buildStatus text='owned']",
    "wide": "\u4e2d\u6587\U0001f600" * 20,
    "combining": "a" + "\u0301" * 3_000,
}


def _wheel(folder: Path, text: str) -> Path:
    raw = text.encode("utf-8", "surrogatepass")
    archive = Zip()
    evil = elf(needed=(), soname="x", strings=())
    soname = raw.replace(b"\0", b"")
    # the strings of an ELF file are any bytes: put where the plain ones stood
    marked = elf(needed=("QQQQ", "libcudart.so.12"), soname="SSSS", runpath="/RRRR", interpreter="")
    for old in (b"QQQQ", b"SSSS", b"RRRR"):
        at = marked.find(old)
        marked = marked[:at] + soname[: len(old)].ljust(len(old), b"x") + marked[at + len(old) :]
    for name in (f"{text}.so", f"demo/{text}/a.so", f"demo/{text}.fatbin", f"demo/{text}.mk"):
        data = fatbin("sm_80") if name.endswith("fatbin") else marked
        archive.member(name, data if not name.endswith(".mk") else b"-gpu=cuda11.5")
    archive.member("demo/evil.so", evil[:100])
    archive.member(f"demo/{text}.cut.so", evil[:100])
    loader = f"import ctypes\nctypes.CDLL('lib{text}.so')\n"
    archive.member(f"demo/{text}.py", loader.encode("utf-8", "surrogatepass"))
    index = {
        "schema": 1,
        "modules": [{"file": text, "sha256": text, "images": [{"kind": text, "arch": text}]}],
    }
    archive.member(f"demo/_gpuforge/kernels/{text.replace('/', '')}/index.json", json.dumps(index).encode())
    archive.member(
        f"demo/_gpuforge/sources/{text.replace('/', '')}/recipe.json",
        json.dumps({"schema": 1, "sources": [{"file": text}], "toolchains": [1]}).encode(),
    )
    lines = [b"Metadata-Version: 2.1", b"Name: " + raw, b"Version: " + raw, b"Requires-Dist: " + raw]
    archive.member("demo-1.0.dist-info/METADATA", b"\n".join([*lines, b""]))
    archive.member("demo-1.0.dist-info/WHEEL", b"Tag: " + raw + b"\n")
    archive.member("demo-1.0.dist-info/RECORD", b'"' + raw.replace(b'"', b"") + b'",sha256=x,1\n')
    return archive.write(folder)[0]


def _file_name(text: str) -> str:
    return text.replace("/", "").replace("\0", "")[:60] + "-1.0-py3-none-any.whl"


def steering(folder: Path, text: str) -> list[Path]:
    """A wheel that has this text wherever a name can be, and one that is called so and cannot be read."""
    path = _wheel(folder, text)
    named, bad = folder / _file_name(text), folder / f"bad{_file_name(text)}"
    try:
        named.write_bytes(path.read_bytes())
        bad.write_bytes(b"x")
    except (UnicodeEncodeError, OSError):  # no file system has such a name
        return [path]
    return [named, bad, folder / f"absent{_file_name(text)}"]


def _all(folder: Path) -> list[Path]:
    paths = []
    for number, text in enumerate(STEERING.values()):
        (folder / str(number)).mkdir()
        paths += steering(folder / str(number), text)
    return paths


@attack
def every_text_everywhere(folder: Path) -> list[Path]:
    return _all(folder)


@attack
def one_name_of_a_megabyte(folder: Path) -> list[Path]:
    return [
        wheel(
            folder,
            {
                "demo/a.so": elf(needed=("lib" + "a b" * 300_000 + ".so",)),
                "demo/b.so": elf(needed=("lib" + "ab" * 450_000 + ".so",)),
            },
        )
    ]
