"""The key of a compiled kernel: everything that affects its bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Part of every key. Raise it when the runtime compiles the same request differently than before.
COMPILED_AS = 1


@dataclass(frozen=True)
class CacheKey:
    """A request for one kernel. Two requests that differ in any field never share an entry.

    `content` is the sha256 of the source and `headers` the (name, sha256) of everything it includes; `toolchain` is the
    compiler with its whole version ("nvrtc 13.0.88"), `arch` its target ("sm_90a"). `driver` is the driver's version if
    the driver compiles or finishes the code, else "". `file` is the source's name if the compiler gets one, which the
    code may have from `__FILE__`. `label` is only for people and not part of the key.
    """

    content: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    toolchain: str
    arch: str
    driver: str = ""
    file: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        for field in ("content", "toolchain", "arch"):
            if not getattr(self, field):
                raise ValueError(
                    f"a cache key needs its {field}: without it, other code would be found under it"
                )

    @classmethod
    def of(
        cls,
        source: bytes,
        *,
        toolchain: str,
        arch: str,
        headers: Mapping[str, bytes] | None = None,
        options: Iterable[str] = (),
        driver: str = "",
        file: str = "",
        label: str = "",
    ) -> CacheKey:
        """Return the key of `source`, hashing it and its headers. The order of `options` matters."""
        included = tuple(sorted((name, sha256(data)) for name, data in (headers or {}).items()))
        return cls(sha256(source), included, tuple(options), toolchain, arch, driver, file, label)

    @property
    def digest(self) -> str:
        """The key's name in the cache: a sha256 in hexadecimal."""
        fields = {**self.fields(), "compiled_as": COMPILED_AS}
        del fields["label"]
        return sha256(json.dumps(fields, sort_keys=True).encode())

    def fields(self) -> dict[str, Any]:
        """Return all fields, for the header of an entry."""
        return asdict(self)


def sha256(data: bytes) -> str:
    """Return the sha256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
