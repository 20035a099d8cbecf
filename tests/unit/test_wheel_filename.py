"""The file name of a wheel, its tags, and what the audit takes from any file name."""

import pytest
from packaging.tags import Tag

from gpuforge.cli.build_report import newer_platform
from gpuforge.errors import ActionError
from gpuforge.wheel import filename
from gpuforge.wheel.filename import LinuxTag, WheelName, serves


def test_a_file_name_is_taken_apart_and_written():
    name = "a_b-1!2.0+cu13-7_x-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    parsed = WheelName.parse(name)
    assert parsed[:5] == ("a_b", "1!2.0+cu13", "7_x", "cp39", "abi3")
    assert str(parsed) == name
    assert parsed.tags == filename.claims(name).tags
    assert [tag.platform for tag in parsed.tags] == ["manylinux2014_x86_64", "manylinux_2_17_x86_64"]


@pytest.mark.parametrize("name", ["a-1-py3-none-any.zip", "a-1-py3-none.whl", "a-x-py3-none-any.whl", ""])
def test_other_files_have_no_tags(name):
    assert filename.claims(name).tags == ()
    with pytest.raises(ActionError, match="not a wheel's file name"):
        WheelName.parse(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch-2.8.0+cu126-cp311-cp311-any.whl", ("torch", "2.8.0+cu126", (Tag("cp311", "cp311", "any"),))),
        (
            "My_Pkg-1.10-py2.py3-none-any.whl",
            ("my-pkg", "1.10", (Tag("py2", "none", "any"), Tag("py3", "none", "any"))),
        ),
        ("My_Pkg-1.10.whl", ("my-pkg", "1.10", ())),
        ("demo.whl", ("", "", ())),
        (f"demo-1.0-{'9' * 300}.whl", ("demo", "1.0", ())),
    ],
)
def test_claims_of_file_names(name, expected):
    assert filename.claims(name) == expected


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
def test_a_tag_is_taken_apart(tag, expected):
    assert LinuxTag.parse(tag) == expected


def test_a_tag_is_written_by_both_of_its_names():
    assert GLIBC_2_17.names == ("manylinux_2_17_x86_64", "manylinux2014_x86_64")
    assert LinuxTag.of_glibc("2.36", "aarch64").names == ("manylinux_2_36_aarch64",)


def test_which_tags_serve_a_machine_with_glibc():
    tags = ["any", "manylinux1_x86_64", "manylinux_2_17_aarch64", "musllinux_1_1_x86_64", "linux_x86_64"]
    assert [tag for tag in tags if serves(tag, "x86_64")] == ["any", "manylinux1_x86_64"]


@pytest.mark.parametrize("image", ["manylinux2014", "manylinux_2_17", "manylinux_2_17_x86_64"])
def test_a_wheel_for_newer_systems_than_the_image_promises_is_noted(image):
    wheel = "demo-1-py3-none-manylinux_2_28_x86_64.whl"
    assert newer_platform(wheel, ["bookworm", image]) == (
        f"needs glibc 2.28, newer than {image} of [wheel] image: it was built against this machine's libraries"
    )
    assert newer_platform("demo-1-py3-none-manylinux2014_x86_64.whl", [image]) == ""
    assert newer_platform(wheel, ["bookworm"]) == ""
