"""Times as they are written down and shown."""

from datetime import UTC, datetime


def now() -> str:
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def local_time(stamp: str) -> str:
    """Return a time that `now` wrote, as people here read it: `2026-11-21 14:03`."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")


def short_seconds(seconds: float) -> str:
    """Return a running time for people: `0.4 s`, `12.3 s`, `3 min 20 s`, `1 h 02 min`."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"
