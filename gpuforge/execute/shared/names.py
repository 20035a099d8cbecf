"""The names of objects in a shared store."""

ENTRIES, LEASES, USED, BUILDS, CLOCK = "entries", "leases", "used", "builds", "clock"


def record(key: str) -> str:
    """Return the name of an entry's record; the entry exists if the record does."""
    return f"{ENTRIES}/{key[:2]}/{key}/record.json"


def content(key: str, token: str) -> str:
    """Return the name of the bytes of one of an entry's outputs."""
    return f"{ENTRIES}/{key[:2]}/{key}/{token}.zst"


def used(key: str) -> str:
    """Return the name of an object whose time is when an entry was last used."""
    return f"{USED}/{key[:2]}/{key}"


def lease(key: str) -> str:
    """Return the folder of the leases of a key."""
    return f"{LEASES}/{key}"
