"""Names in braces that a manifest may use in some strings, such as `{toolkit}`; `{{toolkit}}` is the text itself."""

import re
from collections.abc import Iterator, Mapping

OF_BUILD = ("project", "overlay", "toolkit", "env")  # [build] config-settings, env and before
OF_TEST = ("project",)  # [test] command
OF_LABEL = ("cuda-short", "cuda-major")  # [wheel] label

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
# `${NAME}` is CMake's or a shell's, and stays as it is
_WRITTEN = re.compile(rf"\{{\{{({_NAME})\}}\}}|(?<!\$)\{{({_NAME})\}}")


def names(text: str) -> Iterator[str]:
    """Yield the name of each placeholder in a string, known or not."""
    return (match[2] for match in _WRITTEN.finditer(text) if match[2])


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder that has a value, and `{{name}}` by `{name}`; other braces stay as they are."""

    def replace(match: re.Match[str]) -> str:
        return f"{{{match[1]}}}" if match[1] else values.get(match[2], match[0])

    return _WRITTEN.sub(replace, text)


def fill_known(text: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder that has a value, and leave everything else to a later `fill`."""
    return _WRITTEN.sub(lambda match: match[0] if match[1] else values.get(match[2], match[0]), text)
