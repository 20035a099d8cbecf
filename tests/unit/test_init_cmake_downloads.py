"""What `gpuforge init` says that CMake files would download."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.project import cmake
from gpuforge.project.files import Files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("file(DOWNLOAD https://example.org/a.cmake a.cmake)", ["https://example.org/a.cmake"]),
        ("FetchContent_Declare(a URL https://example.org/a.zip)", ["https://example.org/a.zip"]),
        ('CPMAddPackage("gh:example/a#v1")', ["gh:example/a#v1"]),
        ("CPMFindPackage(NAME a GITHUB_REPOSITORY example/a GIT_TAG v1)", ["example/a"]),
        (
            "rapids_cpm_find(a 1 CPM_ARGS GIT_REPOSITORY https://example.org/a.git GIT_TAG v1)",
            ["https://example.org/a.git"],
        ),
        ('cmake_parse_arguments(A "" "NAME;GIT_REPOSITORY" "" ${ARGN})', []),
        ('cmake_parse_arguments(A "" GIT_REPOSITORY "" ${ARGN})', []),
        ("set_target_properties(a PROPERTIES HOMEPAGE https://example.org/a)", []),
    ],
)
def test_downloads(tmp_path: Path, text: str, expected: list[str]) -> None:
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    found = cmake.Source(Files(tmp_path)).read()
    assert [each.text for each in found.downloads] == expected
