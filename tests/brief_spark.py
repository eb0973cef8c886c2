"""Spark settings for a separate process that handles a few rows, as in the tests' session."""

from collections.abc import Mapping
from pathlib import Path

from deltaic_pipeline.spark.session import JVM_BRIEF, TESTS


def write_spark_defaults(file: Path, settings: Mapping[str, str]) -> list[str]:
    """Write the settings, and those that save time on tiny tables; return spark-submit's arguments for this file.

    Not a folder for SPARK_CONF_DIR: Spark would add it to the class path, and no class archive would be valid.
    """
    brief = {**TESTS, "spark.driver.defaultJavaOptions": " ".join(JVM_BRIEF), **settings}
    file.write_text("".join(f"{name} {value}\n" for name, value in brief.items()))
    return ["--properties-file", str(file)]
