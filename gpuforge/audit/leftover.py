"""Recognises what build tools leave behind: folders of intermediate files, which are no part of a package.

Nothing imports or links against them, so they are reported as such, and not judged.
"""

import re

# setuptools (build/lib.linux-x86_64-cpython-310, build/temp.…), scikit-build, CMake and Meson
_FOLDER = re.compile(
    r"(?:^|.*?/)(?:build/(?:(?:lib|temp|bdist)\.(?:linux|macosx|win|mingw)[^/]*|scripts-3\.\d+)"
    r"|_skbuild/[^/]+|CMakeFiles|meson-(?:private|logs|info))(?=/)"
)
_MARKS = ("build/", "_skbuild/", "CMakeFiles/", "meson-")  # a faster test than the pattern


def left_over_folder(member: str) -> str:
    """Return the left-over folder of a build that a member of a wheel lies in; "" for other members."""
    if not any(mark in member for mark in _MARKS):
        return ""
    found = _FOLDER.match(member)
    return found[0] if found else ""
