"""Files that a job reads by itself (its dataset, drivers of databases), put where it finds them, named by content."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from deltaic_pipeline.failures import PipelineError

from deltaic_ops.jobs.service_errors import asking

if TYPE_CHECKING:
    from deltaic_datasets.file.dataset_model import Dataset
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A dataset file that was read and checked."""

    dataset: "Dataset"
    content: bytes
    variables: Collection[str] = ()
    """The names of those that it uses."""

    @classmethod
    def read(cls, file: str, given: Mapping[str, str] = MappingProxyType({})) -> Self:
        """Read and check a file that a cluster is to read; raises PipelineError with every mistake.

        `given` are the texts of its variables.
        """
        from deltaic_datasets.file.file_checks import dataset_of
        from deltaic_datasets.file.file_text import text_of

        text = text_of(file)
        dataset, document = dataset_of(text, file, given)
        for name, source in document.value["sources"].items():
            for number, path in enumerate(source.get("paths", ())):
                if "://" not in path:
                    place = document.place(("sources", name, "paths", number))
                    raise PipelineError(
                        f"{file}:{place.line}: {place.field}: a cluster has neither this machine's files nor this "
                        "file's folder: write s3://bucket/..."
                    )
        return cls(dataset, text.encode(), document.used)

    def put(self, client: "S3Client", bucket: str) -> str:
        """Put what was checked into the bucket and return its URL; a job keeps its file, whatever is put after it."""
        return _put(client, bucket, f"datasets/{self.dataset.name}", ".yaml", self.content)


def jar(client: "S3Client", bucket: str, file: str) -> str:
    """Put a database's driver into the bucket and return its URL; an s3:// URL stays what it is."""
    if file.startswith("s3://"):
        return file
    try:
        content = Path(file).read_bytes()
    except OSError as failure:
        raise PipelineError(f"{file} cannot be read: {failure.strerror}") from None
    return _put(client, bucket, f"drivers/{Path(file).stem}", ".jar", content)


def _put(client: "S3Client", bucket: str, name: str, suffix: str, content: bytes) -> str:
    key = f"{name}/{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
    with asking(f"the bucket {bucket}"):
        client.put_object(Bucket=bucket, Key=key, Body=content)
    return f"s3://{bucket}/{key}"
