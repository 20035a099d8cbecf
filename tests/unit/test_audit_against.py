"""`audit --against`: what a user's own build would load a second time, and the nearest things that are one image."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_samples import STATIC_CUDART, elf, wheel
from rule_cases.processes import HASHED, USERS_BUILD

from gpuforge.audit import against, audit
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.report.sentences import lines
from gpuforge.cli.main import run
from gpuforge.errors import UsageError


def findings_of(
    tmp_path: Path, files: dict[str, bytes], what: against.Against, **keys: object
) -> list[Finding]:
    path = wheel(tmp_path, files, **keys)  # type: ignore[arg-type]
    return [f for f in audit([path], against=what).findings if f.code == "GF110"]


def test_a_hashed_runtime_and_the_compilers_own_are_two_images(tmp_path: Path) -> None:
    (finding,) = findings_of(tmp_path, USERS_BUILD, against.parse("nvhpc@24.9"))
    assert finding == Finding(
        "GF110",
        "error",
        finding.wheel,
        files=(f"demo.libs/{HASHED}",),
        subjects=(
            Subject(
                file=f"demo.libs/{HASHED}",
                detail="loaded through {through:3}; {against} brings",
                facts=facts_of(through=("libhost.so",), against="nvhpc 24.9"),
                names=("libnvomp.so",),
            ),
        ),
        what="Code that users build with nvhpc 24.9 brings second copies of libraries that this wheel loads.",
        why="Both copies run in one process, each with its own state.",
        fix="Use only g++ to compile the libraries that users link against, and leave these libraries out of "
        "the wheel: auditwheel repair --exclude NAME",
        project="demo",
    )


@pytest.mark.parametrize("other", ["g++", "intel", "llvm@18"])
def test_another_compiler_brings_other_runtimes(tmp_path: Path, other: str) -> None:
    what = against.parse(other)
    path = wheel(tmp_path, USERS_BUILD)
    report = audit([path], against=what)
    assert not [f for f in report.findings if f.code == "GF110"]
    (proof,) = [p for p in report.wheels[0].proofs if p.topic == "against"]
    assert proof.text == (
        f"{what.label}: the wheel loads no second copy of the {len(what.libraries)} libraries "
        f"that releases of {other.partition('@')[0]} have"
    )


def test_without_the_question_there_is_no_answer(tmp_path: Path) -> None:
    report = audit([wheel(tmp_path, USERS_BUILD)])
    assert not [f for f in report.findings if f.code == "GF110"]
    assert not [p for p in report.wheels[0].proofs if p.topic == "against"]


@pytest.mark.parametrize(
    ("ours", "theirs", "second"),
    [
        ("libgomp.so.1", "libgomp.so.1", False),  # one SONAME is one image
        ("libgomp-a34b3233.so.1.0.0", "libgomp.so.1", True),
        ("libgomp-a34b3233.so.1.0.0", "libgomp.so", True),
        ("libcudart.so.12", "libcudart.so.13", True),
        ("libcudart.so.13", "libcudart.so.13.0.96", False),
        ("libcudart.so.13", "libcudart.so", False),  # a name for linkers says nothing of the version
        ("libcudart-0a1b2c3d.so.13", "libcudart.so.13", True),
        ("libcudart_static_x.so", "libcudart.so.13", False),  # another library
        ("libgomp.so.1", "libgompx.so.1", False),
    ],
)
def test_what_the_linker_loads_beside_another(ours: str, theirs: str, second: bool) -> None:
    assert against.Against("x", frozenset([theirs])).second_copies(ours) == ((theirs,) if second else ())


def test_a_runtime_linked_in_meets_the_toolkits_own(tmp_path: Path) -> None:
    (tmp_path / "cuda" / "lib64").mkdir(parents=True)
    (tmp_path / "cuda" / "lib64" / "libcudart.so.13").touch()
    what = against.parse(f"toolkit:{tmp_path / 'cuda'}")
    (finding,) = findings_of(tmp_path, {"demo/a.so": elf(sections={".rodata": STATIC_CUDART})}, what)
    assert lines(finding) == (
        f"demo/a.so: a CUDA runtime is linked in; the toolkit {tmp_path}/cuda brings libcudart.so.13",
    )
    assert not findings_of(tmp_path, {"demo/a.so": elf(sections={".rodata": b"/cudart.shm"})}, what)


def test_a_toolkit_of_another_major_than_the_required_packages(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.12").touch()
    extension = elf(needed=["libcudart.so.13"], runpath="$ORIGIN/../nvidia/cu13/lib")
    keys = {"requires": ["nvidia-cuda-runtime"]}
    (finding,) = findings_of(tmp_path, {"demo/a.so": extension}, against.parse(str(tmp_path / "lib")), **keys)
    assert lines(finding) == (
        "libcudart.so.13 (nvidia-cuda-runtime), NEEDED by demo/a.so; "
        f"the folder {tmp_path}/lib brings libcudart.so.12",
    )
    (tmp_path / "lib" / "libcudart.so.12").rename(tmp_path / "lib" / "libcudart.so.13")
    assert not findings_of(tmp_path, {"demo/a.so": extension}, against.parse(str(tmp_path / "lib")), **keys)


def test_a_compiler_is_known_by_what_lies_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "hpc_sdk" / "Linux_x86_64" / "24.9" / "compilers"
    for name in ("bin/nvc++", "lib/libnvomp.so", "lib/libnvc.so", "lib/readme.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    (tmp_path / "nvc++").symlink_to(home / "bin" / "nvc++")
    what = against.parse(str(tmp_path / "nvc++"))
    assert what == against.Against(
        f"the compiler {tmp_path}/nvc++", frozenset({"libnvomp.so", "libnvc.so"}), "24.9"
    )


@pytest.mark.parametrize("name", ["g++", "x86_64-linux-gnu-g++-12", "gcc-13", "c++"])
def test_gccs_own_folder_belongs_to_gcc(tmp_path: Path, name: str) -> None:
    for file in (
        f"bin/{name}",
        "bin/ls",
        "bin/nvcc",
        "bin/clang-14",
        "lib/gcc/x86_64-linux-gnu/12/libgomp.so",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert against.parse(str(tmp_path / "bin" / name)).libraries == {"libgomp.so"}
    for other in ("ls", "nvcc", "clang-14"):  # beside it, and its libraries lie elsewhere
        with pytest.raises(UsageError, match="no library beside it"):
            against.parse(str(tmp_path / "bin" / other))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nope", "'nope' is not a compiler that gpuforge knows"),
        ("nvhpc@new", "'new' is not a version such as 24.9"),
        ("toolkit:/nowhere", "no CUDA library in its lib64 or lib"),
        ("/nowhere", "there is no such file or folder"),
    ],
)
def test_what_cannot_be_compared_with_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        against.parse(text)
    assert run(["audit", str(wheel(tmp_path, USERS_BUILD)), "--against", text]) == 2


def test_an_empty_folder_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no shared library in it"):
        against.parse(str(tmp_path))
