"""Fixtures for tests that refresh views with Spark, on a separate worker."""

from pipeline.conftest import collected

__all__ = ["collected"]
