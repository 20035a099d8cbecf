"""What a fetch in a container sees of this machine's settings: the files that they name, mounted at their own paths."""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SYSTEM = (Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt"))
_FOLDERS = {
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
}  # of which a container gets single files only
_OF_THE_USER = (".pip/pip.conf", ".config/pip/pip.conf", ".netrc", ".gitconfig")


def files(environ: Mapping[str, str]) -> list[Path]:
    """Return files and folders of this machine that the variables in `environ` and pip's configuration name.

    CA bundles, pip's configuration files (and the folders of wheels that those name) and .netrc; only what is there.
    """
    home = environ.get("HOME")
    configs = [*_SYSTEM, *(Path(home, name) for name in _OF_THE_USER if home)]
    values = [value for name, value in environ.items() if name not in _FOLDERS]
    named = [word for value in values for word in value.split()]
    found = [path for word in named if (path := _path(word))]
    for config in [*configs, *found]:
        if config.suffix in {".conf", ".ini"} and config.is_file():
            found += _named_in(config)
    return list(dict.fromkeys(path for path in [*configs, *found] if path.exists() and path.parent != path))


def _path(word: str) -> Path | None:
    """Return the path that a word is: absolute, or a `file:` URL, of a package index with the files beside it."""
    if not word.startswith("file:"):
        return Path(word) if word.startswith("/") else None
    folder = Path(unquote(urlsplit(word).path))
    return folder.parent if folder.name == "simple" else folder


def _named_in(config: Path) -> Iterator[Path]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(config)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return  # pip itself will say so
    for section in parser.sections():
        for _, value in parser.items(section):
            yield from (path for word in value.split() if (path := _path(word)))
