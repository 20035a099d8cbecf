"""Writes what a wheel is made of into its `.dist-info`: the build record, and a software bill of materials.

The bill has its grafted and required libraries. It is CycloneDX JSON in `sboms`: https://peps.python.org/pep-0770/ and
https://cyclonedx.org/docs/1.6/json/. auditwheel's bill, which has the packages of the Linux distribution that grafted
libraries came from, is merged into it. The record is `gpuforge.json`.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from gpuforge import digest
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.provided import METAPACKAGE, Floor, as_record
from gpuforge.cuda.version import major_of
from gpuforge.wheel import metadata, unpacked
from gpuforge.wheel.filename import LockedRelease

RECORD, SCHEMA = "gpuforge.json", 1
FOLDER = "sboms"
BILL = "gpuforge.cdx.json"
AUDITWHEEL = "auditwheel.cdx.json"


def write_bill(
    tree: Path, *, declared: Mapping[str, str | None], pins: Mapping[str, str], cuda: str, epoch: int | None
) -> Path:
    """Write the bill of an unpacked wheel and return its file; the same wheel gives the same bytes.

    `declared` are the distributions that the wheel requires for its libraries, with the version that each was linked
    with, if it is known. `pins` are those of the toolkit `cuda` ("13.0") with their versions; grafted CUDA libraries
    are assigned to them. `epoch` (seconds since 1970) is the bill's time. Bills of the project's own
    build, under other names, stay.
    """
    info = unpacked.dist_info(tree)
    text = metadata.of_file(info / "METADATA")
    name, version = metadata.required(text, "Name"), metadata.required(text, "Version")
    subject = _component(name, version, _pypi(name, version))
    parts = [*_grafted(tree, pins, cuda), *_of_auditwheel(info / FOLDER / AUDITWHEEL)]
    parts += [_declared(name, version, text) for name, version in declared.items()]
    bom = Bom()
    bom.metadata.component = subject
    bom.metadata.timestamp = datetime.fromtimestamp(max(epoch or 0, unpacked.EARLIEST), UTC)
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(subject, bom.components)
    listed = sorted(str(part.bom_ref) for part in parts)
    bom.serial_number = uuid.UUID(digest.of_data([str(subject.bom_ref), listed])[:32], version=4)
    (info / FOLDER).mkdir(exist_ok=True)
    (info / FOLDER / AUDITWHEEL).unlink(missing_ok=True)
    target = info / FOLDER / BILL
    content = json.loads(JsonV1Dot6(bom).output_as_string())
    target.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return target


def _component(
    name: str, version: str | None, purl: PackageURL | None, ref: str = "", **properties: str
) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=ref or (str(purl) if purl else name),
        properties=[Property(name=f"gpuforge:{key}", value=value) for key, value in properties.items()],
    )


def _pypi(name: str, version: str | None) -> PackageURL:
    return PackageURL("pypi", None, canonicalize_name(name), version)


def _grafted(tree: Path, pins: Mapping[str, str], cuda: str) -> Iterable[Component]:
    """Yield each library that repair put into the wheel, recognised by the hash in its name."""
    for path in unpacked.files(tree):
        plain = sonames.plain_name(path.name)
        if plain == path.name:
            continue
        member = path.relative_to(tree).as_posix()
        sha256 = digest.of_file(path)
        major = major_of(cuda)
        owners = [entry.package for entry in libraries.by_soname(plain) if entry.cuda == major]
        package = next((owner for owner in owners if owner in pins), owners[0] if owners else None)
        version = pins.get(package) if package else None
        part = _component(
            plain,
            version,
            _pypi(package, version) if package else None,
            member,
            provision="grafted",
            file=member,
        )
        part.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=sha256))
        yield part


def _of_auditwheel(file: Path) -> Iterable[Component]:
    """Yield the packages of Linux distributions that auditwheel found for the grafted libraries."""
    if not file.is_file():
        return
    bill = json.loads(file.read_text(encoding="utf-8"))
    subject = bill["metadata"]["component"]["bom-ref"]
    for row in bill["components"]:
        if row["bom-ref"] != subject:
            yield _component(
                row["name"],
                row["version"],
                PackageURL.from_string(row["purl"]),
                row["bom-ref"],
                provision="source",
            )


def _declared(distribution: str, linked: str | None, text: bytes) -> Component:
    own = [
        requirement
        for requirement in metadata.requirements(text)
        if canonicalize_name(requirement.name) == canonicalize_name(distribution)
        or (requirement.name == METAPACKAGE and any(distribution.endswith(e) for e in requirement.extras))
    ]
    facts = {"requires": " · ".join(sorted(map(str, own)))}
    if linked:
        facts["linked-with"] = linked
    purl = _pypi(distribution, None)
    return _component(distribution, None, purl, provision="declared", **facts)


def write_record(
    tree: Path, record: Mapping[str, Any], packages: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Write the record into an unpacked wheel, with the entries about packages, keys sorted."""
    content = {"schema": SCHEMA, **record, **packages}
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (unpacked.dist_info(tree) / RECORD).write_text(text, encoding="utf-8")


def record_of_packages(locked: Iterable[LockedRelease], floors: Iterable[Floor]) -> dict[str, Any]:
    """Return the record's entries about packages: the build requirements, and the oldest releases that fit."""
    return {
        "requirements": {
            each.project: {"version": str(each.version), "sha256": each.sha256} for each in locked
        },
        "floors": {floor.package: as_record(floor) for floor in floors},
    }
