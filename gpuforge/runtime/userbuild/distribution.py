"""Finds how to install a toolchain on this machine's distribution."""

from __future__ import annotations

from pathlib import Path

from ..recipe import UserToolchain

_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
_LIKE = {"rhel": "fedora", "centos": "fedora", "sles": "suse", "opensuse": "suse", "ubuntu": "debian"}


def how_to_install(toolchain: UserToolchain) -> str:
    """Return the command for this distribution's family, or where to get the compiler."""
    for name in families():
        if name in toolchain.install:
            return toolchain.install[name]
    return toolchain.install.get("", f"install {toolchain.program}")


def families(release: str | None = None) -> list[str]:
    """Return the distribution and those that it resembles, the nearest first, from the text of os-release.

    Format: https://www.freedesktop.org/software/systemd/man/latest/os-release.html
    """
    values = dict(line.partition("=")[::2] for line in (_text() if release is None else release).splitlines())
    words = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', " ").replace("'", " ").split()
    return list(dict.fromkeys(name for word in words for name in (word, _LIKE.get(word, word))))


def _text() -> str:
    for file in _RELEASE:
        try:
            return file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return ""
