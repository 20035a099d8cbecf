"""Downloads files over HTTP with the host's proxies and certificates, each checked against its sha256."""

import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits.progress import Progress, Say, quiet

TRIES = 3
TIMEOUT_S = 60  # seconds without an answer
CHUNK = 1 << 20  # bytes
# Variables with the path of a company's own certificates; OpenSSL itself reads SSL_CERT_FILE and SSL_CERT_DIR.
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")


class GoneError(MissingError):
    """The server responds, but does not have the file (any more)."""


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    start: int = 0,
    size: int | None = None,
    say: Say = quiet,
) -> None:
    """Write the content of `url` to `target`; with `size`, only that many bytes from byte `start` on.

    `say` gets a line about a long download every two seconds. A broken connection is tried again. Raises GoneError if
    the file is not there, MissingError if the server cannot be reached, ActionError if the content has another
    `sha256`.
    """
    for attempt in range(1, TRIES + 1):
        try:
            found = _fetch(url, target, start, size, Progress(say))
            break
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise GoneError.of(f"{url} is not there (HTTP {error.code})") from None
            problem = f"HTTP {error.code} {error.reason}"
            if error.code < 500:
                raise _unreachable(url, problem) from None
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        if attempt == TRIES:
            raise _unreachable(url, problem)
        time.sleep(attempt)
    if sha256 is not None and found != sha256:
        raise ActionError.of(
            f"{url} arrived broken: its sha256 is {found}, not {sha256}",
            hint="try again; if it happens again, a proxy or the mirror changes files",
        )


def _fetch(url: str, target: Path, start: int, size: int | None, progress: Progress) -> str:
    """Download once; return the sha256 of the bytes."""
    request = urllib.request.Request(url, headers={"User-Agent": "gpuforge"})  # noqa: S310  the caller's URL
    if size is not None:
        request.add_header("Range", f"bytes={start}-{start + size - 1}")
    digest = hashlib.sha256()
    bundle = next((os.environ[n] for n in _BUNDLES if Path(os.environ.get(n, "/none")).is_file()), None)
    context = _trusting(bundle)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer, target.open("wb") as file:  # noqa: S310  # fmt: skip
        skip = start if size is not None and answer.status != http.client.PARTIAL_CONTENT else 0
        whole = size if size is not None else answer.length
        for chunk in _chunks(answer, skip, size):
            digest.update(chunk)
            file.write(chunk)
            progress.report(file.tell(), whole)
    return digest.hexdigest()


def _chunks(answer: http.client.HTTPResponse, skip: int, size: int | None) -> Iterator[bytes]:
    """Yield the requested bytes; a server without ranges sends the whole file, whose first `skip` are dropped."""
    left = size
    while left is None or left > 0:
        chunk = answer.read(CHUNK)
        if not chunk:
            break
        over, skip = min(skip, len(chunk)), max(0, skip - len(chunk))
        chunk = chunk[over:] if left is None else chunk[over:][:left]
        left = None if left is None else left - len(chunk)
        yield chunk
    if left or (size is None and answer.length):
        raise http.client.IncompleteRead(b"")


@cache
def _trusting(bundle: str | None) -> ssl.SSLContext:
    """Return a context with the certificates of the system and of a file; making one takes longer than a download."""
    context = ssl.create_default_context()
    if bundle:
        context.load_verify_locations(bundle)
    return context


def _unreachable(url: str, problem: str) -> MissingError:
    return MissingError.of(
        f"cannot fetch {url}: {problem}",
        hint="check the network; behind a proxy set HTTPS_PROXY, with a company's own certificate set SSL_CERT_FILE",
    )
