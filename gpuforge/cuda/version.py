"""Parts of a version as written: the major and the minor of "13.0.2"."""


def major_of(version: str) -> int:
    """Return the major of a version that starts with a number: 13 of "13.0", 0 of ""."""
    return int(version.partition(".")[0] or 0)


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare it: (13, 0) of "13.0"; a part that is not a number is left out."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def is_of(version: str, requested: str) -> bool:
    """Return whether a version is the requested one, or of the requested major: "13.0" is of "13.0" and of "13"."""
    return requested in {version, version.partition(".")[0]}


def minor_of(version: str) -> str:
    """Return a version up to its minor: "13.0" of "13.0.88", "3.11" of "3.11.7"."""
    return ".".join(version.split(".")[:2])


def just_below(major: int, minor: int) -> str:
    """Return a version that is older than those of a minor and newer than others before it: "12.99999" for 13.0."""
    return f"{major}.{minor - 1}.99999" if minor else f"{major - 1}.99999"
