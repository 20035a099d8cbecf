"""The architectures that users expect of a wheel without a manifest: `--expect 80,90a,120+ptx`."""

from gpuforge.cuda.targets import Target
from gpuforge.errors import UsageError
from gpuforge.expectation import Expectation
from gpuforge.runtime.arch import Arch


def expecting(text: str) -> Expectation:
    """Read the expected architectures of a wheel without a manifest: "80,90a,120+ptx".

    An architecture with "+ptx" is expected as PTX too; "ptx:90" as PTX alone. Raises UsageError for anything else.
    """
    cubins: list[Arch] = []
    ptx: list[Arch] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        try:
            target = Target.parse(word)
        except ValueError:
            raise UsageError.of(
                f"no architecture: {word!r}",
                hint="write them as in '80,90a,120+ptx', and PTX alone as 'ptx:90'",
            ) from None
        cubins += [target.arch] if target.real else []
        ptx += [target.arch] if target.ptx else []
    if not cubins and not ptx:
        raise UsageError.of("no architecture is expected", hint="write them as in '80,90a,120+ptx'")
    return Expectation(cubins=tuple(cubins), ptx=tuple(ptx), linkage="")
