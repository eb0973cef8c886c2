"""What is said of a checkout that cannot be measured, and which of its figures bind this version."""

from pathlib import Path

import pytest
from bench import earlier
from bench.serving import Service


def test_a_checkout_without_an_environment_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no environment in .*: run `uv sync` there"):
        earlier.check(tmp_path)


def test_no_time_cpu_or_memory_may_be_five_percent_above_and_requests_are_only_told(tmp_path: Path) -> None:
    rival = earlier.rival(tmp_path, Service({}, tmp_path, "t"), tmp_path, gzip=True)
    assert rival.beside == " beside the version before, gzip"
    for name in ("fresh process: first byte", "warm process: CPU", "warm process: peak memory"):
        assert 1 / (rival.promised(name, 10_000) or 0) == pytest.approx(1.05)
    assert rival.promised("warm process: S3 requests", 10_000) is None
