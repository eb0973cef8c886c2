"""Set the number of examples of a property test: its own number, scaled by the profile."""

from hypothesis import settings

USUAL = 100
"""Examples of Hypothesis's own profiles; `brief` and `long` (conftest) are a tenth and ten times of it."""


def tries(count: int) -> int:
    """Return how many examples a law that usually wants so many has under this run's `--hypothesis-profile`."""
    return max(1, count * settings().max_examples // USUAL)
