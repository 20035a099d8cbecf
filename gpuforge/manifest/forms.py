"""The forms that text in a manifest can have (requirement, compute capability …), each with its own words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gpuforge.manifest.constraints import plain

VERSION_KEY = r"^[0-9]+(\.[0-9]+)?$"
"""What the key of a `[cuda.<version>]` table looks like: a major, or major.minor."""

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def wrong(message: str, hint: str = "", at: tuple[int | str, ...] = ()) -> PydanticCustomError:
    """Make the error that a validator raises; `at` leads from its value to the part that is wrong."""
    return PydanticCustomError("form", "{message}", {"message": message, "hint": hint, "at": at})


@dataclass(frozen=True, slots=True)
class Form:
    """Text that must match `pattern` (also given to editors by the JSON schema) and that `parse` accepts."""

    what: str
    hint: str
    pattern: str = r"\S"
    parse: Callable[[str], object] | None = None

    def validate(self, text: str) -> str:
        """Return `text` unchanged; raises PydanticCustomError when it does not have this form."""
        if not re.search(self.pattern, text) or text.endswith("\n") or not self._parses(text):
            raise wrong(
                f"{quote(text)} is not {self.what}" if text.strip() else "must not be empty", self.hint
            )
        return text

    def _parses(self, text: str) -> bool:
        if self.parse is None:
            return True
        try:
            self.parse(text)
        except (
            ValueError,
            RecursionError,
        ):  # packaging's errors are ValueErrors; markers are parsed recursively
            return False
        return True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}


class Distinct:
    """An annotation for arrays: no item may come twice."""

    @staticmethod
    def validate(values: tuple[str, ...]) -> tuple[str, ...]:
        """Return `values` unchanged; raises PydanticCustomError when one of them is repeated."""
        for index, value in enumerate(values):
            if value in values[:index]:
                raise wrong(f"{quote(value)} is listed twice", "remove one of them", (index,))
        return values

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls.validate, handler(source))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "uniqueItems": True}


class OneOrMany:
    """An annotation for arrays: a single item may stand for an array of one."""

    @staticmethod
    def wrap(value: object) -> object:
        """Return an array of a single piece of text; anything else as it is."""
        return (value,) if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(cls.wrap, handler(source))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        array = handler(schema)
        return {"anyOf": [array["items"], array]}


class CommonOrMany:
    """An annotation for the array of architectures: the word "common" alone may stand for an array of it."""

    @staticmethod
    def wrap(value: object) -> object:
        """Return an array of the word; anything else as it is."""
        return (value,) if value == "common" else value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(cls.wrap, handler(source))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"const": "common"}, handler(schema)]}


def quote(value: object) -> str:
    """Quote a value for a message, on one line and no longer than a line."""
    text = hex(value) if isinstance(value, int) and value.bit_length() > 1000 else str(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    return f'"{printable(text)}"'


def printable(text: str) -> str:
    """Return the text on one line, with escapes for control characters and others that steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def size_in_bytes(text: str) -> int:
    """Parse "100 MB" (10⁶ bytes each) or "95 MiB" (2²⁰ bytes each); raises ValueError for anything else."""
    if match := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([kKMG]i?)?B", text):
        unit = f"{match[2] or ''}B"
        if unit in _UNITS:
            return int(float(match[1]) * _UNITS[unit])
    raise ValueError(text)


def size_in_words(size: int) -> str:
    """Write bytes with the unit that leaves digits before the point: "12.7 MB", "8.3 kB", "812 B"."""
    for unit in ("GB", "MB", "kB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.1f} {unit}"
    return f"{size} B"


def _without_secret(url: str) -> str:
    """Return the URL of a repository; refuse one that holds a token, which would be in logs, keys and records."""
    try:
        parts = urlsplit(url)
        secret = parts.password or parts.query or (parts.username if parts.scheme.startswith("http") else "")
    except ValueError:
        raise wrong("the URL of a git repository cannot be read", "https://host/owner/name") from None
    if secret:
        raise wrong(
            f"the URL of the git repository at {parts.hostname} holds a user name, a password or a query",
            "leave it out: git asks its credential helper (git config credential.helper), or use ssh",
        )
    return url


def _pinned(text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]+==[^*,;=\s]+", text):
        raise ValueError(text)
    Requirement(text)


Text = Annotated[str, Form("text", "write something that is not blank")]

DistributionName = Annotated[
    str,
    Form(
        "the name of a distribution",
        "letters, digits, and between them `-`, `_` and `.` (PEP 508)",
        r"^([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9])$",
    ),
]
ExtraName = Annotated[
    str,
    Form(
        "the name of an extra",
        "letters, digits, and between them `-`, `_` and `.` (PEP 508)",
        r"^([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9])$",
    ),
]
ImportName = Annotated[
    str,
    Form(
        "the name of an import package",
        'identifiers joined by dots, as after `import`, e.g. "cufinufft"',
        r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
    ),
]
Name = Annotated[
    str,
    Form(
        "a name that gpuforge can use in file names",
        "letters and digits, and between them `-`, `_`, `+` and `.`",
        r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$",
    ),
]
PinnedRequirement = Annotated[
    str,
    Form(
        "one exact release",
        'write the name and version of one release, e.g. "cufinufft==2.5.1"',
        r"==",
        _pinned,
    ),
]
Sha256 = Annotated[
    str,
    Form(
        "a sha256",
        "64 lower-case hexadecimal digits; PyPI shows it under “view hashes” of each file",
        r"^[0-9a-f]{64}$",
    ),
]
GitUrl = Annotated[
    str,
    Form(
        "the URL of a git repository",
        'e.g. "https://github.com/flatironinstitute/finufft"',
        r"^((https?|ssh|git|file)://[^\s]+|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^\s:][^\s]*)$",
    ),
    AfterValidator(_without_secret),
]
GitRevision = Annotated[
    str,
    Form(
        "a git revision",
        "name a commit (full or short) or a tag; a branch moves, so builds of it cannot be repeated",
        r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./+-]*$",
    ),
]
PythonVersion = Annotated[
    str, Form("a Python version", 'major.minor of CPython, e.g. "3.12"', r"^3\.(0|[1-9][0-9]?)$")
]
PythonRequirement = Annotated[
    str,
    Form(
        "a requirement by name",
        'PEP 508 requirements look like "cmake<4" or "jax[cuda12]>=0.8"',
        r"\S",
        plain,
    ),
]
VersionRange = Annotated[
    str,
    Form(
        "a range of versions", 'PEP 440 ranges look like ">=11,<15" or "==13.*"', r"^\s*[<>=!~]", SpecifierSet
    ),
]
ToolkitVersion = Annotated[
    str,
    Form(
        "the version of a CUDA toolkit",
        'major.minor, e.g. "12.4"; the patch release is chosen',
        r"^[0-9]+\.[0-9]+$",
    ),
]
Architecture = Annotated[
    str,
    Form(
        "a compute capability",
        'digits without a dot, e.g. "80", "90a" (this architecture only), "100f" (its family) or "90+ptx"; or "common"',
        r"^(common|[1-9][0-9]{1,2}(a|f?(\+ptx)?))$",
    ),
]
VirtualArchitecture = Annotated[
    str,
    Form(
        "a compute capability whose PTX newer GPUs run",
        'digits without a dot, e.g. "90"; "90a" is for this architecture only',
        r"^[1-9][0-9]{1,2}f?$",
    ),
]
Library = Annotated[
    str,
    Form(
        "a toolkit library",
        'its short name without “lib” and version, e.g. "cufft"',
        r"^(?!lib)[a-z][A-Za-z0-9_]*$",
    ),
]
AbiVersion = Form(
    "the version of an ABI",
    "up to 32 letters, digits, `.` and `_`",
    r"^[A-Za-z0-9._]{1,32}$",
)
RelativePath = Annotated[
    str,
    Form(
        "a path relative to the manifest's folder",
        "write it without a leading `/`",
        r"^[^/\s\u0000][^\u0000]*$",
    ),
]
LibraryName = Annotated[
    str,
    Form(
        "the name of a library",
        'its file name without "lib" and ".so": "cufft" of libcufft.so.11',
        r"^(?!lib)(?!.*\.so)[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$",
    ),
]
Pattern = Annotated[
    str,
    Form(
        "a pattern of files",
        "a relative path without a leading `/`; `*` stands for any name, `**` for any folders",
        r"^[^/\s\u0000][^\u0000]*$",
    ),
]
Variable = Annotated[
    str,
    Form(
        "the name of an environment variable",
        "letters, digits and `_`, no digit first",
        r"^[A-Za-z_][A-Za-z0-9_]*$",
    ),
]
RuleCode = Annotated[
    str,
    Form(
        "the code of an audit rule", "`GF` and three digits, as the audit prints it: GF101", r"^GF[0-9]{3}$"
    ),
]
Size = Annotated[
    str,
    Form(
        "a size",
        'a number and B, kB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024), e.g. "100 MB"',
        r"^[0-9.]+ ?([kMG]|[KMG]i)?B$",
        size_in_bytes,
    ),
]
