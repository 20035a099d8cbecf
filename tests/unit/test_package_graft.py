"""Search paths that lead to libraries, libraries named for repair, and what a wheel lacks that cannot be repaired."""

import posixpath
from pathlib import PurePosixPath

import pytest
from audit_samples import elf
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.errors import ActionError
from gpuforge.package import links, repair
from gpuforge.package.repair import runpath_for


def test_every_library_that_was_not_located_is_named_with_its_remedy(tmp_path):
    files = {
        "demo/_core.so": [
            "libcublas.so.13",
            "libgpu.so",
            "libflat.so",
            "libmpi.so.40",
            "libz_of_ours.so.1",
            "libtorch.so",
        ],
        **{f"demo/_{letter}.so": ["libmpi.so.40"] for letter in "abc"},
        "demo/lib/libgpu.so": [],
        "demo/libflat.so": [],
    }
    for name, needed in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(elf(needed=needed))
    names = [
        "libcublas.so.13",
        "libgpu.so",
        "libflat.so",
        "libz_of_ours.so.1",
        "libmpi.so.40",
        "libtorch.so",
        "libdeep.so.2",
    ]
    error = repair._not_located(names, tmp_path, {"libtorch.so": "torch==2.11"})
    assert [(each.message, each.hint) for each in error.diagnostics] == [
        (
            "libcublas.so.13 (needed by demo/_core.so) was not found in a CUDA toolkit",
            "name it in [cuda] libraries, or give repair the toolkit that has it: --toolkit PATH",
        ),
        (
            "libflat.so (needed by demo/_core.so) is in the wheel as demo/libflat.so, but no RUNPATH leads there",
            'give it one where it is linked: "$ORIGIN", in CMake as the property INSTALL_RPATH',
        ),
        (
            "libgpu.so (needed by demo/_core.so) is in the wheel as demo/lib/libgpu.so, but no RUNPATH leads there",
            'give it one where it is linked: "$ORIGIN/lib", in CMake as the property INSTALL_RPATH',
        ),
        (
            "libtorch.so (needed by demo/_core.so) was not found on the build machine",
            'torch==2.11 has it in the build environment: add "torch==2.11" to [wheel] provided-by',
        ),
        (
            "not found on the build machine: libdeep.so.2, libmpi.so.40, libz_of_ours.so.1; needed by demo/_a.so, "
            "demo/_b.so, demo/_c.so and 1 more",
            "install what is missing; or name the folder where the build made it ([wheel] bundle-from, "
            "LD_LIBRARY_PATH of repair) or the package that has it (provided-by); or leave it to the user's machine "
            "(exclude; repair --exclude libdeep,libmpi,libz_of_ours)",
        ),
    ]


CU13 = "nvidia/cu13/lib"
names = st.text("abcxyz_", min_size=1, max_size=5)
places = st.lists(names, min_size=1, max_size=6).map(lambda parts: PurePosixPath(*parts))


def resolve(entry: str, installed: PurePosixPath) -> str:
    """As the loader does, for a file installed below /site."""
    return posixpath.normpath(entry.replace("$ORIGIN", f"/site/{installed.parent}"))


@given(places, st.sampled_from(["", "demo-1.data/platlib", "demo-1.data/purelib"]))
def test_the_entry_leads_to_the_libraries_from_every_depth(place, root):
    (entry,), dropped = runpath_for(PurePosixPath(root, place), [], [CU13])
    assert resolve(entry, place) == f"/site/{CU13}"
    assert dropped == ()


@given(places, st.lists(st.sampled_from(["..", "lib", ".", "a"]), max_size=6))
def test_entries_are_kept_exactly_when_they_stay_in_site_packages(place, below):
    entry = "/".join(["$ORIGIN", *below])
    kept, dropped = runpath_for(place, [entry], [])
    target = resolve(entry, place)
    if target == "/site" or target.startswith("/site/"):
        assert [resolve(e, place) for e in kept] == [target]
        assert dropped == ()
    else:
        assert (kept, dropped) == ((), (entry,))


@given(places, st.lists(st.sampled_from(["$ORIGIN", "$ORIGIN/lib", "/opt/x", "lib", ""]), max_size=5))
def test_a_second_pass_changes_nothing(place, present):
    once, _ = runpath_for(place, present, [CU13])
    assert runpath_for(place, once, [CU13]) == (once, ())


def test_own_entries_come_first_and_folders_in_the_order_they_are_needed_without_repeats():
    present = ["/usr/local/cuda/lib64", "${ORIGIN}/", "$ORIGIN/../solver.libs", "$ORIGIN", "$ORIGINAL/lib"]
    folders = ["nvidia/cufft/lib", "nvidia/cuda_runtime/lib", "nvidia/cufft/lib"]
    assert runpath_for(PurePosixPath("solver/core.so"), present, folders) == (
        (
            "$ORIGIN",
            "$ORIGIN/../solver.libs",
            "$ORIGIN/../nvidia/cufft/lib",
            "$ORIGIN/../nvidia/cuda_runtime/lib",
        ),
        ("/usr/local/cuda/lib64", "$ORIGINAL/lib"),
    )


def test_a_file_outside_site_packages_cannot_reach_the_libraries():
    script = PurePosixPath("demo-1.data/scripts/tool")
    assert runpath_for(script, ["$ORIGIN/../lib", "/opt/x"], []) == (("$ORIGIN/../lib",), ("/opt/x",))
    with pytest.raises(ActionError) as caught:
        runpath_for(script, [], [CU13])
    assert str(caught.value) == (
        "demo-1.data/scripts/tool needs libraries from nvidia/cu13/lib, but is installed outside site-packages, "
        "from where no fixed path leads there\n"
        "  hint: install the program into the package and start it from a Python entry point"
    )


def test_libraries_are_named_by_their_sonames(tmp_path):
    files = {
        "a/libdep.so": elf(soname="libdep.so.1"),
        "b/libdep.so": elf(soname="libdep.so.1", needed=["libm.so.6"]),  # the first one counts
        "a/libplain.so": elf(),
        "a/libtext.so": b"INPUT(libdep.so.1)",
    }
    for name, content in files.items():
        (tmp_path / "kept" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kept" / name).write_bytes(content)
    folder = links.by_soname(tmp_path / "kept", tmp_path / "named")
    named = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert named == {"libdep.so.1": files["a/libdep.so"], "libplain.so": files["a/libplain.so"]}
