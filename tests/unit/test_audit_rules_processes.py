"""Rules about what meets in one process: the cases beyond the plainest."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import CU12, CU13, elf, fatbin, lib, wheel
from rule_cases.processes import BOTH

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines

CUDART = "demo.libs/libcudart-0a1b2c3d.so.13.0.96"


def test_wheels_given_together_are_one_environment(tmp_path: Path) -> None:
    one = wheel(tmp_path, {"a/a.so": elf(needed=["libcudart.so.12"], runpath=CU12)}, requires=BOTH)
    two = wheel(
        tmp_path,
        {"b/b.so": elf(needed=["libcudart.so.13"], runpath=CU13)},
        name="other-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
        requires=BOTH,
    )
    assert "GF104" not in {f.code for path in (one, two) for f in audit([path]).findings}
    found = [f for f in audit([one, two]).findings if f.code == "GF104"]
    assert [(f.severity, f.wheel) for f in found] == [("warning", two.name)]


def test_of_what_two_wheels_bring_together_a_third_is_not_told(tmp_path: Path) -> None:
    paths = [
        wheel(
            tmp_path,
            {
                f"{name}/x.so": elf(
                    needed=[f"libgomp-0000000{name}.so.1", *sorted(cuda)],
                    runpath=f"$ORIGIN/../{name}.libs:{CU12}:{CU13}",
                ),
                f"{name}.libs/libgomp-0000000{name}.so.1": lib(f"libgomp-0000000{name}.so.1"),
            }
            if cuda
            else {f"{name}/x.so": elf()},
            name=f"{name}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
            requires=BOTH,
        )
        for name, cuda in (("a", {"libcudart.so.12"}), ("b", {"libcudart.so.13"}), ("c", set[str]()))
    ]
    found = {f.code: f.wheel for f in audit(paths).findings}
    assert (found["GF104"], found["GF105"]) == (paths[1].name, paths[1].name)


def test_a_library_without_a_version_in_its_soname_is_not_the_original_of_one_with(tmp_path: Path) -> None:
    files = {
        "demo/x.so": elf(needed=["libz.so"], runpath="$ORIGIN"), "demo/libz.so": lib("libz.so"),
        "demo/y.so": elf(needed=["libz-0a1b2c3d.so.1.2.11"], runpath="$ORIGIN/../demo.libs"),
        "demo.libs/libz-0a1b2c3d.so.1.2.11": lib("libz-0a1b2c3d.so.1.2.11"),
    }  # fmt: skip
    assert "GF108" not in [f.code for f in audit([wheel(tmp_path, files)]).findings]


@pytest.mark.parametrize(("through", "codes"), [(["libx-0a1b2c3d.so"], []), ([], ["GF108"])])
def test_what_links_with_a_grafted_library_of_its_name_is_no_copy_of_it(
    through: list[str], codes: list[str], tmp_path: Path
) -> None:
    path = "$ORIGIN:$ORIGIN/../demo.libs"
    files = {
        "demo/a.so": elf(needed=["libx.so", "libx-0a1b2c3d.so"], runpath=path),
        "demo/libx.so": elf(soname="libx.so", needed=through, runpath=path),
        "demo.libs/libx-0a1b2c3d.so": lib("libx-0a1b2c3d.so"),
    }
    found = audit([wheel(tmp_path, files)]).findings
    assert [f.code for f in found if f.severity == "error"] == codes


def test_a_grafted_cudart_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    cudart = lib("libcudart.so.13", sections={".nv_fatbin": fatbin("sm_80")})
    own = wheel(
        tmp_path,
        {
            "demo/ext.so": elf(needed=[Path(CUDART).name, "libtorch.so"], runpath="$ORIGIN/../demo.libs"),
            CUDART: cudart,
        },
        requires=["torch"],
    )
    runtime = wheel(
        tmp_path,
        {"nvidia/cu13/lib/libcudart.so.13": cudart},
        name="nvidia_cuda_runtime-13.0.96-py3-none-manylinux_2_17_x86_64.whl",
    )
    found = {f.code: f for f in audit([own, runtime]).findings if f.wheel == own.name}
    assert lines(found["GF102"])[0] == (
        f"{CUDART} (byte for byte nvidia/cu13/lib/libcudart.so.13 of {runtime.name}), loaded by demo/ext.so"
    )
    assert found["GF108"].severity == "warning"
