"""Run the Spark tests of this folder like those of `pipeline`, on one worker."""

from pipeline.conftest import collected

__all__ = ["collected"]
