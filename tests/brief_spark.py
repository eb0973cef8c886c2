"""Spark settings for a separate process that handles a few rows, as in the tests' session."""

from collections.abc import Mapping
from pathlib import Path

from deltaic_pipeline.spark.session import JVM_BRIEF, TESTS


def write_spark_defaults(folder: Path, settings: Mapping[str, str]) -> None:
    """Write `spark-defaults.conf` for SPARK_CONF_DIR: the settings, and those that save time on tiny tables."""
    brief = {**TESTS, "spark.driver.defaultJavaOptions": " ".join(JVM_BRIEF), **settings}
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in brief.items()))
