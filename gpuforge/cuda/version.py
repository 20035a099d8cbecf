"""Parts of a version as it is written: the major and the minor of "13.0.2"."""


def major_of(version: str) -> int:
    """Return the major of a version that starts with a number: 13 of "13.0", 0 of ""."""
    return int(version.partition(".")[0] or 0)


def minor_of(version: str) -> str:
    """Return a version up to its minor: "13.0" of "13.0.88", "3.11" of "3.11.7"."""
    return ".".join(version.split(".")[:2])
