"""Judges wheels: libraries that may meet in one process, their providers, and the GPUs and machines that they run on.

The audit is one pure call from the paths of wheels to a report: it prints and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.audit.elf_patterns import names_of, patterns, unstable
from gpuforge.audit.read import inputs, wheel
from gpuforge.audit.read.input import ALONE, Beside, Input

if TYPE_CHECKING:
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Baseline
    from gpuforge.audit.judge import Ignore, Report
    from gpuforge.audit.read.wheel import Watch
    from gpuforge.cuda.provided import Provided
    from gpuforge.expectation import Expectation

__all__ = ["audit"]


def audit(
    paths: Sequence[Path | Input],
    *,
    expectation: Expectation | None = None,
    against: Against | None = None,
    ignore: Iterable[Ignore | Baseline] = (),
    jobs: int = 1,
    brought: Provided | None = None,
    watch: Watch | None = None,
    hashes: bool = False,
    beside: Beside = ALONE,
    one_process: bool = False,
    like: Report | None = None,
) -> Report:
    """Audit wheels and other inputs (see `inputs`) together: one may provide a library that another needs.

    `expectation` is compared with the wheels, and has the findings that are accepted. `brought` has the facts that a
    build found in the packages that the wheel requires, `against` the libraries that a user's own build brings into the
    process. `jobs` threads read members. An input that cannot be read becomes a problem of the report. `watch` gets the
    inputs that are being read. With `hashes` the hashes in RECORD are compared with the files, too. Packages `beside`
    the wheels are audited only for the libraries that they bring into one process with them. With `one_process` all of
    them are promised to be used together, so that conflicts between them are errors. `like` is the report about wheels
    that they are compared with.
    """
    with inputs.expand(paths, hashes=hashes, beside=beside, watch=watch) as given, ExitStack() as stack:
        several = given.readable if len(given.readable) > 1 else []
        projects = {one.claims.project for one in several}
        at_hand = frozenset(package for package in unstable() if projects & names_of(package))
        outcomes = stack.enter_context(wheel.reading(given.readable, patterns(at_hand), jobs, watch))
        # The rules are loaded while the threads read. packaging comes first: deeper in the chain of imports, its
        # regular expressions cost 1,800 system calls, as Python 3.11 takes memory from the kernel for each call beyond
        # a block of its stack.
        import gpuforge.wheel.metadata  # noqa: F401, PLC0415
        from gpuforge.audit.judge import Question, judge  # noqa: PLC0415

        question = Question(
            *(expectation, against, brought, tuple(ignore)),
            together=bool(beside),
            one_process=one_process,
            like=like,
        )
        return judge(given, outcomes(), question)
