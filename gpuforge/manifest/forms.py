"""The forms that values of a manifest can have, and their validators."""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from gpuforge.manifest.problem import quote
from gpuforge.manifest.sizes import size_in_bytes
from gpuforge.requirements import Release, requirement_by_name
from gpuforge.toolchain_names import GROUP, OWN


def wrong(
    message: str, hint: str = "", at: tuple[int | str, ...] = (), *, names_subject: bool = False
) -> PydanticCustomError:
    """Make the error that a validator raises; `at` leads from its value to the part that is wrong.

    With `names_subject`, the message itself names the table or key.
    """
    context = {"message": message, "hint": hint, "at": at, "names_subject": names_subject}
    return PydanticCustomError("form", "{message}", context)


class Form(NamedTuple):
    """Text that must match `pattern` (also given to editors by the JSON schema) and that `parse` accepts."""

    what: str
    hint: str
    pattern: str = r"\S"
    parse: Callable[[str], object] | None = None

    def validate(self, text: str) -> str:
        """Return `text` unchanged; raises PydanticCustomError when it does not have this form."""
        if not re.search(self.pattern, text) or text.endswith("\n") or not self._parses(text):
            message = f"{quote(text)} is not {self.what}" if text.strip() else "must not be empty"
            raise wrong(message, self.hint)
        return text

    def _parses(self, text: str) -> bool:
        if self.parse is None:
            return True
        try:
            self.parse(text)
        except ValueError:  # packaging's errors are ValueErrors
            return False
        return True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}


class Annotation(NamedTuple):
    """A step `before` or `after` pydantic's own validation of a type, and the type's part of the JSON schema."""

    schema: Callable[[dict[str, Any]], dict[str, Any]]
    before: Callable[[object], object] | None = None
    after: Callable[[Any], object] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.after:
            return core_schema.no_info_after_validator_function(self.after, handler(source))
        return core_schema.no_info_before_validator_function(
            self.before or (lambda value: value), handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self.schema(handler(schema))


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise wrong(f"{quote(value)} is listed twice", "remove one of them", (index,))
    return values


def compiler_name(text: str) -> str:
    """Return `text` unchanged; raises PydanticKnownError when no toolchain has this name."""
    if text in OWN:
        return text
    from importlib.metadata import entry_points  # noqa: PLC0415  few manifests name a plug-in

    if text in (others := sorted({entry.name for entry in entry_points(group=GROUP)})):
        return text
    expected = ", ".join(f"'{name}'" for name in (*OWN, *others))
    raise PydanticKnownError("literal_error", {"expected": expected})


# for arrays: no item may come twice; a single text may stand for an array of it, or the word "common" alone
Distinct = Annotation(lambda array: {**array, "uniqueItems": True}, after=_distinct)
OneOrMany = Annotation(
    lambda array: {"anyOf": [array["items"], array]},
    before=lambda value: (value,) if isinstance(value, str) else value,
)
CommonOrMany = Annotation(
    lambda array: {"anyOf": [{"const": "common"}, array]},
    before=lambda value: (value,) if value == "common" else value,
)
# for text: the name of a toolchain; that of a plug-in is any other text than gpuforge's own
CompilerName = Annotation(
    lambda text: {"anyOf": [{"enum": list(OWN)}, {**text, "minLength": 1}]}, after=compiler_name
)


def _without_secret(
    url: str,
    what: str = "git repository",
    instead: str = "git asks its credential helper (git config credential.helper), or use ssh",
) -> str:
    """Return a URL; refuse one that holds a token, which would be in logs, keys and records."""
    try:
        parts = urlsplit(url)
        secret = parts.password or parts.query or (parts.username if parts.scheme.startswith("http") else "")
    except ValueError:
        raise wrong(f"the URL of the {what} is invalid", "https://host/owner/name") from None
    if secret:
        raise wrong(
            f"the URL of the {what} at {parts.hostname} holds a user name, a password or a query",
            f"leave it out: {instead}",
        )
    return url


def _distribution(text: str) -> None:
    """Refuse a name in which the value of an axis is missing: the pattern, which editors also use, accepts it."""
    if "{" in text:
        raise ValueError(text)


def _glob(pattern: str) -> None:
    """Refuse a pattern that `Path.glob` refuses before Python 3.13: `**` as a part of a name, and "."."""
    parts = PurePosixPath(pattern).parts
    if not parts or any("**" in part and part != "**" for part in parts):
        raise ValueError(pattern)


_PEP_508 = "use letters, digits, and between them `-`, `_` and `.` (PEP 508)"
_DISTRIBUTION = r"^([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9])$"
_RELATIVE = r"^[^/\s\u0000][^\u0000]*$"
Text = Annotated[str, Form("text", "write some text")]

DistributionName = Annotated[str, Form("the name of a distribution", _PEP_508, _DISTRIBUTION)]
PackageName = Annotated[
    str,
    Form(
        "the name of a distribution",
        _PEP_508,
        r"^(([A-Za-z0-9]|\{[a-z][a-z0-9_-]*\})([A-Za-z0-9._-]|\{[a-z][a-z0-9_-]*\})*)?([A-Za-z0-9]|\{[a-z][a-z0-9_-]*\})$",
        _distribution,
    ),
]
ExtraName = Annotated[str, Form("the name of an extra", _PEP_508, _DISTRIBUTION)]
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
        "use letters and digits, and between them `-`, `_`, `+` and `.`",
        r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$",
    ),
]
PinnedRequirement = Annotated[
    str,
    Form(
        "one exact release",
        'write the name and version of one release, e.g. "cufinufft==2.5.1"',
        r"==",
        Release.of_pin,
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
IndexUrl = Annotated[
    str,
    Form(
        "the URL of a package index",
        'e.g. "https://download.pytorch.org/whl/cu{cuda-short}"',
        r"^(https?|file)://[^\s]+$",
    ),
    AfterValidator(
        lambda url: _without_secret(url, "package index", "pip reads them from ~/.netrc or the keyring")
    ),
]
GitRevision = Annotated[
    str,
    Form(
        "a git revision",
        "name a commit (full or short) or a tag; builds of a branch cannot be repeated",
        r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./+-]*$",
    ),
]
PythonVersion = Annotated[
    str, Form("a Python version", 'major.minor of CPython, e.g. "3.12" or "3.14t"', r"^3\.(0|[1-9][0-9]?)t?$")
]
PythonRequirement = Annotated[
    str,
    Form(
        "a requirement by name",
        'PEP 508 requirements look like "cmake<4" or "jax[cuda12]>=0.8"',
        r"\S",
        requirement_by_name,
    ),
]
VersionRange = Annotated[
    str,
    Form(
        "a range of versions", 'PEP 440 ranges look like ">=11,<15" or "==13.*"', r"^\s*[<>=!~]", SpecifierSet
    ),
]
AxisName = Annotated[
    str,
    Form(
        "the name of an axis",
        "use lower-case letters, digits and `_`, beginning with a letter",
        r"^[a-z][a-z0-9_]{0,31}$",
    ),
]
AxisValues = Annotated[
    tuple[
        Annotated[
            str,
            Form(
                "a value of an axis",
                "use letters and digits, and between them `.`, `_` and `+`",
                r"^[A-Za-z0-9]([A-Za-z0-9._+]{0,30}[A-Za-z0-9])?$",
            ),
        ],
        ...,
    ],
    Field(min_length=1),
    Distinct,
]
ToolkitVersion = Annotated[
    str,
    Form(
        "the version of a CUDA toolkit",
        'major.minor, e.g. "12.4"; the patch release is chosen',
        r"^[0-9]+\.[0-9]+$",
    ),
]
Driver = Annotated[
    str,
    Form("a version of the driver", 'such as "580" or "535.104.05"', r"^[0-9]{3,4}(\.[0-9]+){0,2}$"),
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
AbiVersion = Form("the version of an ABI", "up to 32 letters, digits, `.` and `_`", r"^[A-Za-z0-9._]{1,32}$")
RelativePath = Annotated[
    str, Form("a path relative to the manifest's folder", "write it without a leading `/`", _RELATIVE)
]
LibraryName = Annotated[
    str,
    Form(
        "the name of a library",
        'its file name without "lib" and ".so": "cufft" of libcufft.so.11',
        r"^(?!lib)(?!.*\.so)[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$",
    ),
]
OpenClExtension = Annotated[
    str,
    Form(
        "the name of an OpenCL extension",
        'as the device lists it, e.g. "cl_khr_fp64"',
        r"^cl_[A-Za-z0-9_]{1,60}$",
    ),
]
Pattern = Annotated[
    str,
    Form(
        "a pattern of files",
        "a relative path without a leading `/`; `*` stands for any name, and `**` between slashes for any folders",
        _RELATIVE,
        _glob,
    ),
]
PatternInWheel = Annotated[
    str,
    Form(
        "a pattern of files",
        "a relative path without a leading `/`; `*` stands for any name, `**` for any folders",
        _RELATIVE,
    ),
]
Variable = Annotated[
    str,
    Form(
        "the name of an environment variable",
        "use letters, digits and `_`, not beginning with a digit",
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
