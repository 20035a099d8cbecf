"""The record of one entry of the store: the action that made it, when, and its files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

FORMAT = 1
_EXECUTABLE = "executable"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file or link of an output; `path` starts with the output's name."""

    path: str
    size: int  # bytes; of a link, the length of its target
    sha256: str  # empty for a link
    link: str = ""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A stored entry: the action, the time (UTC, ISO 8601), the seconds that it took, and its files."""

    action: str
    seconds: float
    finished: str
    outputs: tuple[str, ...]
    files: tuple[StoredFile, ...] = ()


def to_json(entry: StoreEntry) -> str:
    """Return the entry as JSON text."""
    return json.dumps(
        {
            "format": FORMAT,
            "action": entry.action,
            "seconds": round(entry.seconds, 3),
            "finished": entry.finished,
            "outputs": list(entry.outputs),
            "files": {
                f.path: [f.size, f.sha256, *([_EXECUTABLE] if f.executable else [])]
                for f in entry.files
                if not f.link
            },
            "links": {f.path: f.link for f in entry.files if f.link},
        },
        indent=1,
    )


def from_json(text: str) -> StoreEntry:
    """Return the entry that `to_json` wrote; raises ValueError for any other text."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            msg = f"format {data['format']} instead of {FORMAT}"
            raise ValueError(msg)
        files = [
            StoredFile(path, int(size), str(sha), executable=_EXECUTABLE in kind)
            for path, (size, sha, *kind) in data["files"].items()
        ]
        links = [StoredFile(path, len(target), "", target) for path, target in data["links"].items()]
        _check_names([*data["outputs"], *data["files"], *data["links"], *data["links"].values()])
        return StoreEntry(
            action=str(data["action"]),
            seconds=float(data["seconds"]),
            finished=str(data["finished"]),
            outputs=tuple(data["outputs"]),
            files=tuple(sorted(files + links, key=lambda file: file.path)),
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        msg = f"a part is missing or of the wrong kind ({error})"
        raise ValueError(msg) from error


def _check_names(names: list[str]) -> None:
    """Raise ValueError or TypeError for text that cannot be a file name."""
    if any(b"\0" in os.fsencode(name) for name in names):
        msg = "a name has a NUL character"
        raise ValueError(msg)
