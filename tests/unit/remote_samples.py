"""An action for workers of a cluster."""

import sys
from dataclasses import replace

from gpuforge import digest
from gpuforge.execute.outcome import ActionReason, Change
from gpuforge.execute.work import Work
from gpuforge.plan.action import Action, P, Step
from gpuforge.plan.keys import Fact

REASON = ActionReason("changed", changes=(Change(Fact("file", "a.cu"), "1", None),))
WRITE = "import sys; print('hello'); open(sys.argv[1], 'w').write('made')"


class OnGpu(Step[P]):
    def needs_gpu(self) -> bool:
        return True


def action(code: str = WRITE, **more: object) -> Action:
    fields = {"outputs": ("out",), **more}
    return Action("cell/act", "build", "act", (sys.executable, "-c", code, "${out:out}"), **fields)  # type: ignore[arg-type]


def work(of: Action, **more: object) -> Work:
    return replace(Work(of, digest.of_data([of.id, of.argv]), {}, {}, REASON), **more)  # type: ignore[arg-type]
