"""Garbage collection after each module of tests for jobs."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collect garbage while the module's warning filter applies: pyspark does not close sockets of collected rows."""
    yield
    gc.collect()
