"""A level of CPUs: its machine type, and the features that code for it may use.

Levels and their features: the x86-64 psABI, section 3.1.1, https://gitlab.com/x86-psABIs/x86-64-ABI
The names are those of the `flags` line of /proc/cpuinfo:
https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/arch/x86/include/asm/cpufeatures.h
"""

from typing import NamedTuple

# Machine (as in `uname -m`) -> its levels, the lowest first, each with the features that it adds to the one before.
LEVELS: "dict[str, dict[str, tuple[str, ...]]]" = {
    "x86_64": {
        "x86-64": (),
        "x86-64-v2": ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
        "x86-64-v3": ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
        "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
    },
}


class CpuLevel(NamedTuple):
    """The level that code for CPUs needs: "x86-64-v3", or "" for any CPU of the machine type."""

    name: str = ""

    @property
    def machine(self) -> str:
        """The machine type of the level: "x86_64"; "" for an unknown level."""
        return next((machine for machine, levels in LEVELS.items() if self.name in levels), "")

    @property
    def rank(self) -> int:
        """Its index among the levels of its machine, the lowest first; -1 for "" and unknown ones."""
        return list(LEVELS[self.machine]).index(self.name) if self.machine else -1

    @property
    def features(self) -> "tuple[str, ...]":
        """The features of a CPU of this level, with those of the levels below; empty for an unknown one."""
        levels = list(LEVELS.get(self.machine, {}).values())
        return tuple(name for level in levels[: self.rank + 1] for name in level)

    def of_image(self, kind: str) -> str:
        """Return its name in lists of images."""
        return self.name
