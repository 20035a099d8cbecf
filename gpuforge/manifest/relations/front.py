"""`[wheel] front`: conditions for one distribution whose extras install the wheels of all CUDA majors."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from gpuforge.cuda.suffix import suffix_of
from gpuforge.manifest.problem import Problem, Raw, table
from gpuforge.manifest.quoting import quote


def front(data: Raw) -> Iterator[Problem]:
    """Yield keys that contradict a front package."""
    wheel, name = table(data, "wheel"), table(data, "package").get("name")
    chosen = wheel.get("front")
    if not isinstance(chosen, str):
        return
    if wheel.get("kernels") == "own":
        yield Problem(
            ("wheel", "front"),
            '[wheel] front installs a wheel for each CUDA major, but with kernels = "own" the package has one for all',
            "remove `front`: the extras of that wheel install the kernels wheels",
        )
        return
    naming = wheel.get("naming", ["suffix"])
    if isinstance(naming, list) and "suffix" not in naming:
        yield Problem(
            ("wheel", "front"),
            "[wheel] front installs the wheels that are named for a CUDA major, and [wheel] naming has none of them",
            'add "suffix" to `naming`, or remove `front`',
        )
    if suffix_of(chosen):
        yield Problem(
            ("wheel", "front"),
            f"[wheel] front: {quote(chosen)} is named for one CUDA major, but its extras are for all of them",
            "choose a name without a CUDA suffix",
        )
    same = isinstance(name, str) and canonicalize_name(name) == canonicalize_name(chosen)
    if same and isinstance(naming, list) and set(naming) - {"suffix"}:
        yield Problem(
            ("wheel", "front"),
            f"[wheel] front: {quote(chosen)} is also the name of the wheels that the other entries of `naming` make",
            "choose another name",
        )
