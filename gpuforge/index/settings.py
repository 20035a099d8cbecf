"""pip's settings for package indexes, from its environment variables and its configuration files."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

import requests

DEFAULT_INDEX = "https://pypi.org/simple/"


def index_url() -> str:
    """Return pip's package index."""
    return pip_setting("index-url") or DEFAULT_INDEX


def public(url: str) -> str:
    """Return a URL without the name and password in it, for messages and logs."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def session() -> requests.Session:
    """Return an HTTP session with pip's CA bundle, if pip has its own."""
    made = requests.Session()
    bundle = pip_setting("cert")
    if bundle:
        made.verify = bundle
    return made


def pip_setting(name: str) -> str:
    """Return one of pip's settings, from its environment variables or its configuration files; else ""."""
    found = _settings(frozenset(os.environ.items()))
    places = (":env:", "download", "install", "global")
    return next((found[key] for place in places if found.get(key := f"{place}.{name}")), "")


@lru_cache(maxsize=1)  # running pip takes half a second
def _settings(environ: frozenset[tuple[str, str]]) -> Mapping[str, str]:
    """Return all of pip's settings in an environment, by the section and the name of each."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    answer = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)
    found: dict[str, str] = {}
    for line in answer.stdout.splitlines():
        key, _, value = line.partition("=")
        found[key] = next(iter(shlex.split(value)), "")
    return found
