"""How many examples a test draws: the number that it names, and a tenth of it in `make quick`."""

from hypothesis import HealthCheck, settings

_USUAL = 100  # Hypothesis' own number of examples, which the profile `quick` lowers
_LEAST = 5


def drawn(examples: int) -> int:
    """Return how many of so many examples are drawn."""
    share = settings.default.max_examples / _USUAL if settings.default else 1
    return max(_LEAST, round(examples * share))


def draws(examples: int, *suppressed: HealthCheck) -> settings:
    """Return the settings of a test with so many examples; a number in `@settings` would hold in every profile."""
    return settings(max_examples=drawn(examples), suppress_health_check=suppressed)
