"""A stub of the driver for tests without one: modules that link with the driver can be loaded, and find no device."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from gpuforge.binary.elf import linked_file
from gpuforge.errors import MalformedError
from gpuforge.toolkits import stub_library


def provide(site: Path, folder: Path) -> Path:
    """Write the stub into `folder`, with the driver's functions that the libraries below `site` use; return `folder`.

    That these functions exist was checked when the build linked with the toolkit's stub.
    """
    names: set[str] = set()
    for path in sorted(site.rglob("*.so*")):
        try:
            found = linked_file.read(path) if path.is_file() else None
        except (MalformedError, OSError):
            continue
        if found and stub_library.SONAME in found.needed:
            names |= {name for name in found.undefined if re.fullmatch(r"cu[A-Z]\w*", name)}
    folder.mkdir()
    library = folder / stub_library.SONAME
    stub_library.write(
        library, stub_library.SONAME, sorted(names), platform.machine(), stub_library.NO_DEVICE
    )
    print(f"the driver is a stub with {len(names)} functions", flush=True)
    return folder
