"""Upload a job's dataset file and JDBC drivers to S3, each with a hash of its content in its name."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from deltaic_pipeline.failures import PipelineError

from deltaic_ops.jobs.service_errors import translate_errors

if TYPE_CHECKING:
    from deltaic_datasets.file.dataset_model import Dataset
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A dataset file that was checked and has no errors."""

    dataset: "Dataset"
    content: bytes
    variables: Collection[str] = ()
    """Names of the variables whose placeholders occur in the file."""

    @classmethod
    def read(cls, file: str, set_values: Mapping[str, str] = MappingProxyType({})) -> Self:
        """Read and check a dataset file for a job on a cluster; raises PipelineError with all errors in the file.

        `set_values` maps the names of the file's variables to their values as strings, from --set.
        """
        from deltaic_datasets.file.file_checks import dataset_of
        from deltaic_datasets.file.file_text import text_of

        text = text_of(file)
        dataset, document = dataset_of(text, file, set_values)
        for name, source in document.value["sources"].items():
            for number, path in enumerate(source.get("paths", ())):
                if "://" not in path:
                    position = document.position(("sources", name, "paths", number))
                    origin = f"{file}:{position.line}: {position.field}"
                    message = "a job on a cluster cannot read files on this machine"
                    raise PipelineError(f"{origin}: {message}: write s3://bucket/...")
        return cls(dataset, text.encode(), document.used)

    def put(self, client: "S3Client", bucket: str) -> str:
        """Upload the file and return its S3 URL, which contains a hash of the content."""
        return _put(client, bucket, f"datasets/{self.dataset.name}", ".yaml", self.content)


def jar(client: "S3Client", bucket: str, file: str) -> str:
    """Upload the jar of a JDBC driver and return its S3 URL; an s3:// URL is returned unchanged."""
    if file.startswith("s3://"):
        return file
    try:
        content = Path(file).read_bytes()
    except OSError as failure:
        raise PipelineError(f"{file} cannot be read: {failure.strerror}") from None
    return _put(client, bucket, f"drivers/{Path(file).stem}", ".jar", content)


def _put(client: "S3Client", bucket: str, name: str, suffix: str, content: bytes) -> str:
    key = f"{name}/{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
    with translate_errors(f"the bucket {bucket}"):
        client.put_object(Bucket=bucket, Key=key, Body=content)
    return f"s3://{bucket}/{key}"
