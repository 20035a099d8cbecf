"""Makes a toolkit's tree beside its destination and moves it there whole, with all files that compilers look for."""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuforge.cuda import sonames
from gpuforge.errors import ActionError, UsageError

# glibc 2.41 declares these four with an exception specification. CUDA 13 has this macro after its own declarations,
# which otherwise contradict glibc's ("exception specification is incompatible"); older headers get it here.
_SPECIFIER = "__NV_IEC_60559_FUNCS_EXCEPTION_SPECIFIER"
_SINCE_GLIBC_2_41 = re.compile(
    rb"^(extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ (?:double|float) +(?:sin|cos)pif?\((?:double|float) x\));",
    re.MULTILINE,
)
_DEFINE_SPECIFIER = f"""\
#include <features.h>
#if defined(__GLIBC_PREREQ)
#  if __GLIBC_PREREQ(2, 41)
#    define {_SPECIFIER} __THROW
#  endif
#endif
#if !defined({_SPECIFIER})
#  define {_SPECIFIER}
#endif

""".encode()
FIRST_TIME = 1577836800  # 2020-01-01T00:00:00Z
TARGETS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}  # the names of nvcc and FindCUDAToolkit


@contextmanager
def staged(destination: Path) -> Iterator[Path]:
    """Yield a scratch folder beside `destination`, whose `tree` becomes `destination` if the block succeeds.

    Nothing is left at or beside `destination` otherwise. Raises UsageError for a `destination` in use, ActionError if
    the disk is full.
    """
    if destination.is_dir() and any(destination.iterdir()):
        raise UsageError.of(f"{destination} is not empty", hint="name a folder that does not exist yet")
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(
        tempfile.mkdtemp(prefix=f".{destination.name}.", suffix=".partial", dir=destination.parent)
    )
    try:
        yield partial
        (partial / "tree").replace(destination)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(destination) from None
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def complete(tree: Path, machine: str) -> None:
    """Add the files that tools look for: unversioned library links, `lib64`, `targets/` for nvcc.profile.

    `lib/stubs` gets a stub of the driver, also if NVIDIA's packages have none. Headers older than CUDA 13 are changed
    to be compatible with glibc 2.41 and newer.
    """
    for program in _programs(tree):  # a wheel may have lost their bits
        program.chmod(program.stat().st_mode | 0o111)
    _link_libraries(tree / "lib")
    from gpuforge.toolkits import stub_library  # noqa: PLC0415  plans make no tree

    stub_library.write_driver_stub(tree, machine)
    _agree_with_glibc(tree / "include" / "crt" / "math_functions.h")
    if not (tree / "lib64").exists():
        (tree / "lib64").symlink_to("lib")
    nvvm = tree / "nvvm" / "lib64"  # where nvlink looks for libnvvm, for `nvcc -dlto`
    if (tree / "lib" / "libnvvm.so").exists() and not nvvm.exists():
        nvvm.symlink_to("../lib")
    target = tree / "targets" / TARGETS.get(machine, f"{machine}-linux")
    target.mkdir(parents=True, exist_ok=True)
    for name in ("include", "lib"):
        if not (target / name).exists():
            (target / name).symlink_to(f"../../{name}")
    settle_times(tree)


def settle_times(tree: Path) -> None:
    """Give every file a different time, the same in every copy of the tree.

    Under `#pragma once`, GCC takes headers with equal time, size and content for one (libcpp/files.cc), and CCCL has
    such headers: the included files would depend on which ones were unpacked within the same second.
    """
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    for number, path in enumerate(files):
        os.utime(path, (FIRST_TIME + number, FIRST_TIME + number))


def merge(source: Path, tree: Path) -> None:
    """Move the files below `source` to the same places below `tree`, where they replace existing ones."""
    for path in sorted(source.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        target = tree / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def disk_full(where: Path) -> ActionError:
    """Return the error for a full disk at `where`."""
    return ActionError.of(
        f"no space left in {where.parent.resolve()} for what is being fetched",
        hint="free some space (a CUDA toolkit with its libraries takes one to several GB), or choose another folder",
    )


def _link_libraries(folder: Path) -> None:
    """Make `libx.so` for each `libx.so.N`."""
    for library in sorted(folder.glob("lib*.so.*")):
        plain = folder / sonames.unversioned(library.name)
        if not plain.is_symlink() and not plain.exists():
            plain.symlink_to(library.name)


def _agree_with_glibc(header: Path) -> None:
    """Give declarations that newer glibcs have, too, the exception specification that they have there."""
    if not header.is_file():
        return
    content, count = _SINCE_GLIBC_2_41.subn(rf"\1 {_SPECIFIER};".encode(), header.read_bytes())
    if count:
        header.unlink()  # it may be a hard link to pip's cache
        header.write_bytes(_DEFINE_SPECIFIER + content)


def _programs(tree: Path) -> Iterator[Path]:
    for folder in (tree / "bin", tree / "nvvm" / "bin"):
        for file in sorted(folder.glob("*")):
            if file.is_file():
                with file.open("rb") as stream:
                    if stream.read(4)[:2] == b"#!" or stream.seek(0) or stream.read(4) == b"\x7fELF":
                        yield file
