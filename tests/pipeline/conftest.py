"""What every module of jobs' tests leaves is collected when it ends."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collect what a module's tests leave while their filter holds: pyspark closes no socket that rows came over."""
    yield
    gc.collect()
