"""Platform tags of Linux in their parts."""

from __future__ import annotations

import pytest

from gpuforge.cli.build_report import newer_platform
from gpuforge.wheel.filename import LinuxTag, serves

GLIBC_2_17 = LinuxTag("glibc", (2, 17), "x86_64")


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("manylinux_2_28_aarch64", LinuxTag("glibc", (2, 28), "aarch64")),
        ("manylinux2014_x86_64", GLIBC_2_17),
        ("manylinux_2_17_x86_64", GLIBC_2_17),
        ("musllinux_1_2_x86_64", LinuxTag("musl", (1, 2), "x86_64")),
        ("linux_armv7l", LinuxTag("", (0, 0), "armv7l")),
        ("manylinux_2_28", LinuxTag("glibc", (2, 28), "")),
        ("manylinux2013_x86_64", LinuxTag("", (0, 0), "x86_64")),
        ("manylinux_2_1000_x86_64", LinuxTag("", (0, 0), "x86_64")),
        ("win_amd64", None),
        ("macosx_11_0_x86_64", None),
        ("any", None),
    ],
)
def test_a_tag_is_taken_apart(tag: str, expected: LinuxTag | None) -> None:
    assert LinuxTag.parse(tag) == expected


def test_a_tag_is_written_by_both_of_its_names() -> None:
    assert GLIBC_2_17.names == ("manylinux_2_17_x86_64", "manylinux2014_x86_64")
    assert LinuxTag.of_glibc("2.36", "aarch64").names == ("manylinux_2_36_aarch64",)


def test_which_tags_serve_a_machine_with_glibc() -> None:
    tags = ["any", "manylinux1_x86_64", "manylinux_2_17_aarch64", "musllinux_1_1_x86_64", "linux_x86_64"]
    assert [tag for tag in tags if serves(tag, "x86_64")] == ["any", "manylinux1_x86_64"]


@pytest.mark.parametrize("image", ["manylinux2014", "manylinux_2_17", "manylinux_2_17_x86_64"])
def test_a_wheel_for_newer_systems_than_the_image_promises_is_noted(image: str) -> None:
    wheel = "demo-1-py3-none-manylinux_2_28_x86_64.whl"
    assert newer_platform(wheel, ["bookworm", image]) == (
        f"needs glibc 2.28, newer than {image} of [wheel] image: it was built against this machine's libraries"
    )
    assert newer_platform("demo-1-py3-none-manylinux2014_x86_64.whl", [image]) == ""
    assert newer_platform(wheel, ["bookworm"]) == ""
