"""These tests refresh views by Spark as `pipeline`'s run the other jobs, on a worker of their own."""

from pipeline.conftest import collected

__all__ = ["collected"]
