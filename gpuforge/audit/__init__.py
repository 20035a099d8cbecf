"""Judge wheels: what may meet in one process, who provides what, which GPUs and machines it really runs on.

The audit is one pure call: paths of wheels in, a report out; nothing is printed, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.audit.read import inputs, wheel
from gpuforge.audit.read.input import ALONE, Beside

if TYPE_CHECKING:
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Acceptance
    from gpuforge.audit.judge import Report
    from gpuforge.audit.read.watch import Watch
    from gpuforge.cuda.provided import Provided
    from gpuforge.expectation import Expectation

__all__ = ["audit"]


def audit(
    paths: Sequence[Path],
    *,
    expectation: Expectation | None = None,
    against: Against | None = None,
    ignore: Iterable[Acceptance] = (),
    jobs: int = 1,
    brought: Provided | None = None,
    watch: Watch | None = None,
    hashes: bool = False,
    beside: Beside = ALONE,
) -> Report:
    """Audit wheels and other inputs (see `inputs`) together: one may provide what another needs.

    The wheels are compared with the `expectation`, if there is one, and what it accepts is accepted. `brought` is what
    a build found in the packages that the wheel requires, `against` what a user's own build brings into the process.
    `jobs` threads read members at the same time. An input that cannot be read becomes a problem of the report.
    `watch` is told which inputs are being read. With `hashes` the hashes in RECORD are compared with the files, too.
    Packages `beside` them are audited only for what they bring into one process with the wheels.
    """
    with (
        inputs.expand(paths, hashes=hashes, beside=beside) as given,
        wheel.reading(given.readable, jobs, watch) as outcomes,
    ):
        # All that judges is loaded while the threads read. First packaging: deeper in the chain of imports, its regular
        # expressions cost 1,800 system calls. Python 3.11 takes memory from the kernel for each call beyond a block of
        # its stack.
        import gpuforge.wheel.metadata  # noqa: F401, PLC0415
        from gpuforge.audit.judge import Question, judge  # noqa: PLC0415

        question = Question(expectation, against, brought, tuple(ignore), together=bool(beside))
        return judge(given, outcomes(), question)
