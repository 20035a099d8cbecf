"""What each finding says, whole: message, subjects and fix of every case of every rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import audit_samples
import pytest
from audit_cases import findings
from audit_samples import KERNEL, elf, fatbin, wheel
from document_samples import LISTING
from golden import FOLDER, hold_findings
from hostile import objects
from object_samples import archive
from promise_samples import BASE, PROMISES
from rule_cases import CASES
from rule_cases.processes import USERS_BUILD
from rule_cases.providers import RELEASE

from gpuforge.audit import against, audit
from gpuforge.audit.findings import Finding
from gpuforge.audit.read.input import Beside
from gpuforge.audit.rules import RULES
from gpuforge.audit.rules import files as rules_of_files
from gpuforge.cuda.provided import Provided
from gpuforge.expectation import Expectation
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation


@pytest.mark.parametrize("code", sorted({case.code for case in CASES.values()}))
def test_a_rule_speaks_where_it_must_and_nowhere_else(code: str, tmp_path: Path) -> None:
    said = []
    for number, (name, case) in enumerate(sorted(CASES.items())):
        if case.code == code:
            (folder := tmp_path / str(number)).mkdir()
            (found,) = findings(case, case.files, folder)
            said.append((name, found))
            assert findings(case, {**case.files, **case.but}, folder, fixed=True) == [], name
    hold_findings(code, said)


Files = dict[str, bytes | None]
EXT = "demo/ext.so"
# what the manifest promises, and what a wheel holds instead
BROKEN: dict[str, tuple[str, Files]] = {
    "GF401": (PROMISES, {EXT: elf(sections={".nv_fatbin": KERNEL + fatbin("sm_90", "compute_90:8.7")})}),
    "GF402": (PROMISES, {EXT: elf(sections={".nv_fatbin": fatbin("sm_80")})}),
    "GF409": (PROMISES, {EXT: elf(sections={".nv_fatbin": fatbin("sm_80", "compute_80:8.7", "compute_90:8.7")})}),
    "GF509": (PROMISES.partition("[[objects]]")[0].replace('["80"]\nptx = "90"', "[]"), {"demo/__init__.py": b""}),
    "GF601": (PROMISES, {"demo/libcore.so": elf(sections={".nv_fatbin": fatbin("sm_80")})}),
    "GF602": (PROMISES, {"demo/libcore.so": None}),
    "GF605": (
        PROMISES + """[[objects]]\nname = "fast"\nrole = "gpu"\nfiles = ["demo/fast*.so", "demo/ext.so"]\n""",
        {EXT: elf()},
    ),
    "GF604": (PROMISES.replace("lib*.so", "*.a"), {"demo/x.a": archive({"a.o": b"BC\xc0\xde" + bytes(64)})}),
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_what_a_rule_says_of_a_broken_promise(code: str, tmp_path: Path) -> None:
    text, files = BROKEN[code]
    (tmp_path / "gpuforge.toml").write_text(text)
    held = files if code == "GF509" else {**BASE, **files}
    name = (
        "demo-1.0-py3-none-any.whl" if code == "GF509" else "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    )
    path = wheel(tmp_path, {name: data for name, data in held.items() if data is not None}, name=name)
    report = audit([path], expectation=expectation(load(tmp_path / "gpuforge.toml")))
    hold_findings(code, [("a broken promise", found) for found in report.findings if found.code == code])


def _against(folder: Path) -> list[Finding]:
    return list(audit([wheel(folder, USERS_BUILD)], against=against.parse("nvhpc@24.9")).findings)


def _forgotten(folder: Path) -> list[Finding]:
    files = {EXT: elf(needed=["libcurand.so.10"], runpath="$ORIGIN/../nvidia/cu13/lib")}
    brought = Provided(releases=(RELEASE,))
    return list(audit([wheel(folder, files, requires=["nvidia-curand"])], brought=brought).findings)


def _undefined(folder: Path) -> list[Finding]:
    return list(audit([wheel(folder, {EXT: elf(undefined=["cuInit", "cublasCreate_v2"])})]).findings)


def _unstable(folder: Path) -> list[Finding]:
    files = {EXT: elf(undefined=["_ZN3c1010StringType3getEv", "_ZN2at6launchESt8functionIFvvEE"])}
    own = wheel(folder, files, requires=["torch>=2.3.0"])
    found = list(audit([own]).findings)
    return [*found, *audit([own], expectation=Expectation(spans=("torch",))).findings]


def _large(folder: Path) -> list[Finding]:
    return list(audit([wheel(folder, {EXT: elf(sections={".nv_fatbin": bytes(2_000_000)})})]).findings)


def _overwritten(folder: Path) -> list[Finding]:
    name = "{}-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    wheels = [wheel(folder, {EXT: elf(soname=n)}, name=name.format(n)) for n in ("demo", "demo_gpu")]
    return list(audit(wheels).findings)


def _unmet(folder: Path) -> list[Finding]:
    own = wheel(folder, {EXT: elf()}, requires=["torch==2.9.1"])
    return list(audit([own, audit_samples.torch(folder)]).findings)


def _in_library_path(folder: Path) -> list[Finding]:
    files = {EXT: elf(needed=["libcudart.so.12"], runpath="$ORIGIN/../nvidia/cuda_runtime/lib")}
    own = wheel(folder, files, requires=["nvidia-cuda-runtime-cu12"])
    (folder / "libcudart.so.12").write_bytes(elf())
    found = audit([own], beside=Beside(library_path=(folder,))).findings
    return [
        finding._replace(
            subjects=tuple(s._replace(facts=(("folder", "/cuda/lib64"),)) for s in finding.subjects)
        )
        for finding in found
    ]


def _too_large(folder: Path) -> list[Finding]:
    return list(audit(objects.needed_of_one_string(folder)).findings)


def _foreign_kernels(folder: Path) -> list[Finding]:
    sets = [{"name": name, "kind": "module", "abi": "k1"} for name in ("default-kernels", "more")]
    listing = {**LISTING, "sets": sets}
    host = wheel(folder, {"demo/_gpuforge/wheels.json": json.dumps(listing).encode()})
    found: list[Finding] = []
    for version in ("1.0", "0.9"):
        about = {
            "schema": 1,
            "version": version,
            "sets": [{"name": "default-kernels", "kind": "module", "abi": "k2"}],
        }
        files = {"demo_kernels_cu13/_gpuforge/wheel.json": json.dumps(about).encode()}
        name = f"demo_kernels_cu13-{version}-py3-none-manylinux2014_x86_64.whl"
        found += audit([host, wheel(folder, files, name=name)]).findings
    return found


MADE: dict[str, Callable[[Path], list[Finding]]] = {
    "GF110": _against, "GF307": _in_library_path,
    "GF214": _forgotten, "GF215": _undefined, "GF216": _unstable, "GF708": _large,
    "GF709": _overwritten, "GF710": _unmet, "GF711": _foreign_kernels,
    "GF714": _too_large,
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(MADE))
def test_what_a_rule_says_of_several_wheels_and_of_machines(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_of_files, "_LIMIT", 100)
    hold_findings(code, [("one", found) for found in MADE[code](tmp_path) if found.code == code])


def test_every_rule_has_its_words_in_a_golden_file() -> None:
    assert sorted(path.stem for path in FOLDER.glob("findings/*.txt")) == [rule.code for rule in RULES]
