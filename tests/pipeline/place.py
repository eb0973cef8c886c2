"""Names of the bucket and the catalog for tests of jobs, and the locations of one test."""

from dataclasses import dataclass
from pathlib import Path

BUCKET = "pipeline"
CATALOG, TOKENS = "pipeline-catalog", "pipeline-tokens"


@dataclass(frozen=True)
class Place:
    """A test's folder in the bucket, and its folder on disk."""

    location: str
    """`s3://bucket/test`."""

    prefix: str
    folder: Path

    @property
    def spark_location(self) -> str:
        return self.location.replace("s3://", "s3a://", 1)
