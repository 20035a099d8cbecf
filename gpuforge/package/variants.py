"""Makes variant wheels: a finished wheel with a label in its name and `variant.json`, and the index of a release.

The wheel by PEP 825, `providers` by PEP 850, both drafts: https://peps.python.org/pep-0825/ and
https://peps.python.org/pep-0850/. The properties are those of NVIDIA's provider:
https://github.com/wheelnext/nvidia-variant-provider.
"""

import json
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from gpuforge import disk
from gpuforge.cuda.suffix import variant_label
from gpuforge.errors import ActionError, MalformedError
from gpuforge.wheel import unpacked
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.filename import WheelName

SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
NAME = "variant.json"
NAMESPACE = "nvidia"
ABI_NAMESPACE = "abi_dependency"  # the installer itself is its provider: "2.11" of torch fits torch==2.11.*
# The plugin that reads the machine's properties for an installer. uv has its own copy under these names and fetches
# nothing. A version bound that excludes uv's copy makes uv skip the variant, so there is none.
PROVIDER = {
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    "requires": ["nvidia-variant-provider"],
}
_NAME = re.compile(r"(?P<wheel>.+)-(?P<label>[0-9a-z_.]+)\.whl")


def describe(cuda: str, gpus: Sequence[str], axes: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return the content of `variant.json` for the toolkit `cuda` and the `gpus` ("90_real") of the wheel.

    The driver must be as new as the toolkit: then everything in the wheel runs, PTX included. Without `gpus`, as for a
    wheel without GPU code, any GPU matches. `axes` are the releases that it was built for ("torch", "2.11").
    """
    properties = {"cuda_version_lower_bound": [cuda]} | ({"sm_arch": list(gpus)} if gpus else {})
    built_for = {canonicalize_name(name).replace("-", "_"): [value] for name, value in axes}
    return _content(
        {
            variant_label(cuda, axes): {NAMESPACE: properties}
            | ({ABI_NAMESPACE: built_for} if built_for else {})
        }
    )


def make(wheel: Path, output: Path, content: Mapping[str, Any], *, epoch: int | None) -> Path:
    """Make the variant of a finished wheel in the folder `output`; return its path."""
    name = WheelName.parse(wheel.name)
    (variant,) = content["variants"]
    with disk.errors_at(output):
        output.mkdir(parents=True, exist_ok=True)
        tree = Path(tempfile.mkdtemp(prefix=".variant-", dir=output))
    try:
        unpacked.unpack(wheel, tree)
        (unpacked.dist_info(tree) / NAME).write_text(_dumps(content), encoding="utf-8")
        target = output / f"{name.stem}-{variant}.whl"
        unpacked.write(tree, target, epoch=epoch)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return target


def index(folder: Path, releases: Iterable[str]) -> dict[str, str]:
    """Return the files `{name}-{version}-variants.json` for `releases` ("demo-1.0"), of all variant wheels in `folder`.

    The index tells an installer the properties of each label. Raises ActionError if two wheels of one release have one
    label for different properties.
    """
    requested = set(releases)
    variants: dict[str, dict[str, Any]] = defaultdict(dict)
    for path in sorted(folder.glob("*.whl")):
        release = release_of(path.name)
        if release not in requested:
            continue
        for found, properties in _read(path)["variants"].items():
            if variants[release].setdefault(found, properties) != properties:
                raise ActionError.of(
                    f"{path.name}: the label {found} stands for other properties in another wheel of {release}",
                    hint=f"the wheels in {folder} are of different manifests: remove those that you do not publish",
                )
    return {
        f"{release}-variants.json": _dumps(_content(dict(sorted(found.items()))))
        for release, found in sorted(variants.items())
    }


def release_of(file_name: str) -> str | None:
    """Return the release ("demo-1.0") of a variant wheel by its file name; None for any other file name."""
    match = _NAME.fullmatch(file_name)
    try:
        parse_wheel_filename(file_name)
    except InvalidWheelFilename:
        if match is None:
            return None
    else:
        return None
    try:
        name = WheelName.parse(match["wheel"] + ".whl")
    except ActionError:
        return None
    return f"{name.distribution}-{name.version}"


def _content(variants: Mapping[str, Any]) -> dict[str, Any]:
    providers: dict[str, Any] = {NAMESPACE: PROVIDER}
    if any(ABI_NAMESPACE in each for each in variants.values()):
        providers[ABI_NAMESPACE] = {"builtin": ABI_NAMESPACE}
    return {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": [*providers]},
        "providers": providers,
        "variants": dict(variants),
    }


def _read(wheel: Path) -> dict[str, Any]:
    try:
        with Archive(wheel) as archive:
            (member,) = (
                m for m in archive.members if re.fullmatch(rf"[^/]+\.dist-info/{re.escape(NAME)}", m.name)
            )
            content: dict[str, Any] = json.loads(archive.data(member))
            return content
    except (OSError, ValueError, MalformedError) as error:
        raise ActionError.of(
            f"{wheel.name} has no {NAME} that can be read: {error}", hint="remove it"
        ) from error


def _dumps(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
