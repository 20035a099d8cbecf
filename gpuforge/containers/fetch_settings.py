"""The files that this machine's settings for a fetch name, mounted in a container at their own paths."""

import configparser
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SYSTEM = (
    Path("/etc/pip.conf"),
    Path("/etc/xdg/pip/pip.conf"),
    Path("/etc/ssl/certs/ca-certificates.crt"),
)
# The variables, and pip's options, whose values may be files that a fetch reads.
_VARIABLES = frozenset(
    {"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NETRC"}
    | {"PIP_CONFIG_FILE"}
)
_OPTIONS = frozenset({"cert", "client-cert", "constraint", "extra-index-url", "find-links", "index-url"})
_OF_THE_USER = (".pip/pip.conf", ".config/pip/pip.conf", ".netrc", ".gitconfig")


def files(environ: Mapping[str, str], home: Path) -> list[tuple[Path, Path]]:
    """Return files and folders of this machine that a fetch may read, each with its path in the container.

    These are existing CA bundles, pip's configuration, its folders of wheels, and .netrc. They keep their paths; those
    of the user's home are in `home`.
    """
    users = {Path(environ["HOME"], name): home / name for name in _OF_THE_USER} if environ.get("HOME") else {}
    own = list(users)
    if environ.get("XDG_CONFIG_HOME"):
        own.append(Path(environ["XDG_CONFIG_HOME"], "pip", "pip.conf"))
    named = [word for name, value in environ.items() if _names_files(name) for word in value.split()]
    found = [path for word in named if (path := _path(word))]
    for config in [*_SYSTEM, *own, *found]:
        if config.suffix in {".conf", ".ini"} and config.is_file():
            found += _named_in(config)
    there = dict.fromkeys(path for path in [*_SYSTEM, *own, *found] if path.exists() and path.parent != path)
    return [(path, users.get(path, path)) for path in there]


def _names_files(variable: str) -> bool:
    option = variable.removeprefix("PIP_").lower().replace("_", "-")
    return variable in _VARIABLES or (variable.startswith("PIP_") and option in _OPTIONS)


def _path(word: str) -> Path | None:
    """Return the path in a word: absolute, or a `file:` URL of a package index with the files beside it."""
    if not word.startswith("file:"):
        return Path(word) if word.startswith("/") else None
    folder = Path(unquote(urlsplit(word).path))
    return folder.parent if folder.name == "simple" else folder


def _named_in(config: Path) -> Iterator[Path]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(config)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return  # pip itself reports it
    for section in parser.sections():
        for option, value in parser.items(section):
            if option not in _OPTIONS:
                continue
            yield from (path for word in value.split() if (path := _path(word)))
