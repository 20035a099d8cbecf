"""Turns the errors of a container engine into gpuforge's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import requests
from docker.errors import APIError, DockerException

from gpuforge.errors import ActionError, MissingError

_HINTS = (
    (
        "bind source path does not exist",
        "the engine sees other folders than this process: set GPUFORGE_CACHE_DIR and GPUFORGE_WORK to shared ones",
    ),
    ("no space left", "the disk of the engine is full: make room (docker system df)"),
    ("inimum memory limit", "allow more by --memory"),
    (
        "container-init binary not found",
        "install what Podman runs as its containers' init (Debian: apt-get install catatonit)",
    ),
    (
        "select device driver",
        "install the NVIDIA Container Toolkit and restart the engine, or leave --gpu out",
    ),
)
_CAUSES = (
    ("No such file", "there is no such socket"),
    ("Connection refused", "nothing listens there"),
    ("Permission denied", "you may not use it (be in the group docker, or be root)"),
    ("imed out", "no answer in time"),
)
# The messages of a container's init if it cannot start the program: Docker's (tini) and Podman's (catatonit).
_NOT_STARTED = re.compile(
    r"\[FATAL +tini \(\d+\)\] exec .* failed: (.+)|ERROR \(catatonit:\d+\): failed to exec pid1: (.+)"
)


class RefusedError(ActionError):
    """The engine reported an error; `answer` is its own text."""

    answer: str = ""

    @classmethod
    def to(cls, doing: str, answer: str) -> Self:
        """Make the error for an action that the engine refused."""
        hint = next((hint for sign, hint in _HINTS if sign in answer), "")
        error = cls.of(f"the container engine failed {doing}: {answer}", hint=hint)
        error.answer = answer
        return error

    @classmethod
    def saying(cls, answer: str) -> Self:
        """Make the error with the engine's own text as its message."""
        error = cls.of(answer)
        error.answer = answer
        return error


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn the errors of the SDK while `doing` something into RefusedError, or MissingError if no engine responds."""
    try:
        yield
    except APIError as error:
        raise RefusedError.to(doing, str(error.explanation or error)) from error
    except (DockerException, requests.RequestException) as error:
        raise MissingError.of(
            f"the container engine no longer answers ({doing}): {cause(error)}",
            hint="start it again and run the same command: finished work is kept",
        ) from error


def cause(error: Exception) -> str:
    """Return why no engine responds, in a few words."""
    text = str(error)
    known = next((why for sign, why in _CAUSES if sign in text), "")
    return known or (text.splitlines()[0] if text else type(error).__name__)


def not_started(output: str) -> str:
    """Return why a container's program could not be started, from the end of its output; "" if it was."""
    found = _NOT_STARTED.search(output)
    return (found[1] or found[2]) if found else ""
