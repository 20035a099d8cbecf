"""Pages in a real browser, for the tests marked `browser`."""

import shutil
import subprocess

import pytest

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")


def dom(address: str) -> str:
    """Return a page as Chromium has it after its scripts; fails if its content policy refused something."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    done = subprocess.run(
        [*command, "--dump-dom", address], capture_output=True, text=True, check=True, timeout=120
    )
    assert "Content Security Policy" not in done.stderr
    return done.stdout
