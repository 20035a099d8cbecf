"""The strategies that put the CUDA version into the name of a wheel."""

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge.cpython import CPython
from gpuforge.cuda.suffix import named_for
from gpuforge.cuda.version import major_of
from gpuforge.errors import ActionError, UsageError
from gpuforge.wheel import filename, metadata, unpacked
from gpuforge.wheel.filename import WheelName

STRATEGIES = ("suffix", "local", "plain")


def check_name(name: WheelName, distribution: str | None) -> None:
    """Raise ActionError unless the wheel is of this distribution."""
    if distribution and canonicalize_name(distribution) != canonicalize_name(name.distribution):
        raise ActionError.of(
            f"the build made {name}, but the manifest's [package] name is {distribution!r}",
            hint="give both the same name, in the manifest or in the project's metadata",
        )


def check_tags(name: WheelName, *, python: str | None, abi: str | None) -> None:
    """Raise ActionError unless the Python ("cp311") can use the wheel and the wheel has the ABI ("abi3").

    A wheel for more Pythons (`py3`, an older `abi3`, ABI `none`) is accepted.
    """
    target = CPython.of_tag(python or "")
    if target and not {(tag.interpreter, tag.abi) for tag in filename.usable(target, ["any"])}.intersection(
        (tag.interpreter, tag.abi) for tag in name.tags
    ):
        raise ActionError.of(
            f"the build made {name}, which {target.tag} cannot use",
            hint="the build ran with another Python than the cell's: check its log",
        )
    if abi and not {abi, "none"}.intersection(name.abi.split(".")):
        raise ActionError.of(
            f"the build made {name}, whose ABI is not {abi!r}",
            hint="set the same ABI in [package] abi of the manifest and in the project's build settings",
        )


def rename(
    tree: Path,
    name: WheelName,
    strategy: str,
    cuda: str,
    *,
    label: str = "",
    narrowed: Sequence[str] = (),
) -> WheelName:
    """Rename an unpacked wheel by a strategy for the CUDA version `cuda` ("13.0"); return its new name.

    The version of a wheel for a quick try, `narrowed` to some architectures ("90"), names them: `1.0+try.sm90`. PyPI
    refuses such a local version.

    `suffix`: another distribution, `name-cu13`; `local`: the same one, version `1.0+label` (default: "cu13"); `plain`:
    unchanged. METADATA and the folders with the name are changed, too. Raises UsageError
    for another strategy; a `variant` is made of the finished `plain` wheel (`variants.py`).
    """
    if strategy not in STRATEGIES:
        raise UsageError.of(
            f"a wheel cannot be renamed by the strategy {strategy!r}",
            hint=f"choose one of {', '.join(STRATEGIES)}",
        )
    major = major_of(cuda)
    labels = [local_label(label or f"cu{major}")] if strategy == "local" else []
    labels += ["try", *(f"sm{arch}" for arch in narrowed)] if narrowed else []
    if strategy == "plain" and not labels:
        return name
    file = unpacked.dist_info(tree) / "METADATA"
    text = metadata.of_file(file)
    new = name
    if strategy == "suffix":
        renamed = named_for(metadata.required(text, "Name"), major)
        text = metadata.with_name(text, renamed)
        new = new._replace(distribution=canonicalize_name(renamed).replace("-", "_"))
    if labels:
        version = _local(metadata.required(text, "Version"), labels)
        text = metadata.with_version(text, version)
        new = new._replace(version=version)
    file.write_bytes(text)
    for folder in sorted(tree.iterdir()):
        if folder.is_dir() and folder.suffix in {".dist-info", ".data"}:
            folder.rename(tree / f"{new.distribution}-{new.version}{folder.suffix}")
    return new


def local_label(text: str) -> str:
    """Return a text as the local part of a version, lower-cased and with dots as its only separators."""
    return re.sub(r"[^a-z0-9]+", ".", text.lower()).strip(".")


def write_tags(tree: Path, name: WheelName) -> None:
    """Write the tags of the file name into WHEEL."""
    file = unpacked.dist_info(tree) / "WHEEL"
    file.write_bytes(metadata.with_tags(metadata.of_file(file), name.tags))


def _local(version: str, labels: Sequence[str]) -> str:
    """Return a version with the labels that are not yet in its local part: "1.0+cu13.try.sm90"."""
    parsed = Version(version)
    present = [parsed.local] if parsed.local else []
    added = [label for label in labels if f".{label}." not in f".{parsed.local}."]
    return f"{parsed.public}+{'.'.join([*present, *added])}"
