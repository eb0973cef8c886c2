"""Where the jobs' tests find their bucket and catalog, and where one of them writes to."""

from dataclasses import dataclass
from pathlib import Path

BUCKET = "pipeline"
CATALOG, TOKENS = "pipeline-catalog", "pipeline-tokens"


@dataclass(frozen=True)
class Place:
    """A folder of one test in the bucket, and one on disk."""

    location: str
    """`s3://bucket/test`."""

    prefix: str
    folder: Path

    @property
    def spark_location(self) -> str:
        return self.location.replace("s3://", "s3a://", 1)
