"""Libraries that need one another in shapes that take long to walk."""

from pathlib import Path

from audit_samples import elf, wheel

from hostile.attack import attack

HERE = "$ORIGIN"


def _lib(n: int, needed: tuple[str, ...], **more: str) -> bytes:
    return elf(soname=f"libx{n}.so", needed=needed, runpath=HERE, **more)  # type: ignore[arg-type]


@attack
def a_chain_under_many_roots(folder: Path) -> list[Path]:
    chain = {f"demo/libx{n}.so": _lib(n, (f"libx{n + 1}.so",)) for n in range(3_000)}
    roots = {f"demo/r{n}.so": elf(needed=("libx0.so",), runpath=HERE) for n in range(3_000)}
    return [wheel(folder, chain | roots)]


@attack
def a_deep_chain(folder: Path) -> list[Path]:
    return [wheel(folder, {f"demo/libx{n}.so": _lib(n, (f"libx{n + 1}.so",)) for n in range(6_000)})]


@attack
def all_need_all(folder: Path) -> list[Path]:
    names = tuple(f"libx{n}.so" for n in range(1_000))
    return [wheel(folder, {f"demo/libx{n}.so": _lib(n, names) for n in range(1_000)})]


@attack
def two_sides(folder: Path) -> list[Path]:
    names = tuple(f"libx{n}.so" for n in range(700))
    left = {f"demo/r{n}.so": elf(needed=names, runpath=HERE) for n in range(700)}
    right = {f"demo/libx{n}.so": _lib(n, ()) for n in range(700)}
    return [wheel(folder, left | right)]


@attack
def circles(folder: Path) -> list[Path]:
    return [
        wheel(folder, {f"demo/libx{n}.so": _lib(n, (f"libx{(n + 1) % 2_000}.so",)) for n in range(2_000)})
    ]


@attack
def cuda_for_all(folder: Path) -> list[Path]:
    both = ("libcudart.so.12", "libcudart.so.11.0", "libcublas.so.12", "libcudnn.so.9")
    return [wheel(folder, {f"demo/{n}.so": elf(needed=both) for n in range(1_500)})]


@attack
def links_to_links(folder: Path) -> list[Path]:
    lines = "".join(f"demo/l{n}.so,l{n + 1}.so,False\n" for n in range(20_000))
    return [wheel(folder, {"demo/a.so": elf(), "demo-1.0.dist-info/symlinks.txt": lines.encode()})]


@attack
def many_wheels(folder: Path) -> list[Path]:
    one = wheel(folder, {"demo/a.so": elf()}).read_bytes()
    paths = [folder / f"demo{n}-1.0-py3-none-any.whl" for n in range(1_500)]
    for path in paths:
        path.write_bytes(one)
    return [folder]


@attack
def wheels_that_require_one_another(folder: Path) -> list[Path]:
    names = [f"demo{n}" for n in range(120)]
    return [
        wheel(
            folder,
            {f"{name}/lib{name}.so": elf(soname=f"lib{name}.so", needed=tuple(f"lib{n}.so" for n in names))},
            name=f"{name}-1.0-py3-none-any.whl",
            requires=names,
        )
        for name in names
    ]
