"""Property tests do not depend on the speed of the machine."""

import pytest
from hypothesis import HealthCheck, settings


def test_this_run_has_no_deadline() -> None:
    assert settings().deadline is None


@pytest.mark.parametrize("profile", ["usual", "brief", "long"])
def test_no_profile_measures_time(profile: str) -> None:
    chosen = settings.get_profile(profile)
    assert chosen.deadline is None
    assert HealthCheck.too_slow in chosen.suppress_health_check
