"""Offers a run its compiler cache: a folder of this machine and, if there is one, the cache that machines share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from gpuforge.execute.compiled.back_ends import BackEnd
from gpuforge.execute.compiled.entries import Entries
from gpuforge.execute.compiled.place import CachePlace
from gpuforge.execute.compiled.service import serving
from gpuforge.execute.objects.connect import connect
from gpuforge.toolchains import sccache


@contextmanager
def offered(
    environ: Mapping[str, str], cache: Path, project: str, url: str | None, tell: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """Yield `environ` with the variables by which host builds use the cache of `project`.

    `project` is the name of its folder in `cache`/sccache. The cache that machines share is the back end that the user
    set up for sccache, else the shared store at `url`. Builds reach it by a socket. Its failure fails no build: `tell`
    gets the reason.
    """
    variables = sccache.configured(environ, cache / "sccache" / project)
    with ExitStack() as stack:
        place = _place(variables, url)
        if place is not None:
            try:
                folder = stack.enter_context(serving(Entries(place, project, tell), cache))
                variables[sccache.SHARED] = str(folder.absolute())
            except OSError as error:
                tell(
                    f"note: builds go on without the shared compiler cache: no socket in {cache}: {error.strerror}"
                )
        yield variables


def _place(environ: Mapping[str, str], url: str | None) -> Callable[[], CachePlace] | None:
    if environ.get(sccache.OFF):
        return None
    if name := sccache.back_end(environ):
        return partial(BackEnd, name, environ)
    return partial(connect, url) if url else None
