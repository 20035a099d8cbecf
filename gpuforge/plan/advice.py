"""What to try when a compiler's words show what is missing: a CUDA library, or a header beside the manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.object import Object
from gpuforge.plan.action import Advice
from gpuforge.toolkits import headers

# How g++, clang++ and nvcc's front end name a header that they do not find; {0} is what it is called in a pattern.
_NOT_FOUND = r"fatal error: '?(?:{0})'?(?:: No such file| file not found)|cannot open source file \"(?:{0})\""

_ANY = r"[^'\"\s:]+"
# Words that a build requirement is missing for, and the requirement.
_MODULES = (
    (r"Ninja is required to load C\+\+ extensions", '"ninja"'),
    (r"^(?:    )?ModuleNotFoundError: No module named", "the package of that module"),
)


def of_host_build(file: ManifestFile) -> tuple[Advice, ...]:
    """Return the advice for a project's own build."""
    left_out = (
        "files of an object's `sources` and `headers` are left out of the build unless in-host-build = true"
    )
    return (*_libraries(file), *of_hook(), Advice(_NOT_FOUND.format(_ANY), left_out))


def of_hook() -> tuple[Advice, ...]:
    """Return the advice for code of a project that runs in the build environment."""
    return tuple(
        Advice(
            pattern, f"add {requirement} to [build] requires: a build has no packages but its requirements"
        )
        for pattern, requirement in _MODULES
    )


def of_compile(file: ManifestFile, item: Object) -> tuple[Advice, ...]:
    """Return the advice for a source of an object that gpuforge compiles itself."""
    place = file.place("objects", file.manifest.objects.index(item))
    missing = f"add the missing header to `headers` of {item.name!r} ({place})"
    return (*_libraries(file), Advice(_NOT_FOUND.format(_ANY), missing))


def _libraries(file: ManifestFile) -> Iterator[Advice]:
    """Yield one for each CUDA library that the manifest does not ask for."""
    wanted = file.manifest.cuda.libraries
    place = file.place("cuda", "libraries") if wanted else file.place("cuda")
    for name, includes in headers.by_library().items():
        if name not in wanted:
            listed = ", ".join(f'"{each}"' for each in (*wanted, name))
            files = "|".join(
                f"{re.escape(each)}.*" if each.endswith("/") else re.escape(each) for each in includes
            )
            pattern = rf"{_NOT_FOUND.format(f'(?:{files})')}|^\s+CUDA::{name}\s*$|cannot find -l{name}\b"
            yield Advice(
                pattern, f"write libraries = [{listed}] below [cuda] ({place}): the toolkit came without it"
            )
