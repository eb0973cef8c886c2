"""Check before Spark starts that a job's sources and targets exist, and read a table's columns.

Reports only certain errors: if the store does not respond or denies access, Spark will report the error.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from deltaic.errors import DeltaicError
from deltaic_terminal.nearest import did_you_mean

from deltaic_pipeline.spark.storage_access import S3Access

if TYPE_CHECKING:
    from deltaic.delta.log import DeltaLog
    from mypy_boto3_s3 import S3Client

_S3 = re.compile(r"s3[an]?://([^/]+)/?(.*)", re.DOTALL)
_GLOB = re.compile(r"[\[\]{}*?\\]")
_HIDDEN = re.compile(r"(^|/)[_.][^/.][^/]*$")
LEFT_OUT = "is not read: Spark skips files whose names start with an underscore or a period. Rename the file"
MOST_FILES = 10_000


class LocationChecks:
    """Checks of a job's locations in S3 or on the local disk."""

    def __init__(self) -> None:
        self._bucket = cache(self._check_bucket)

    def missing_bucket(self, location: str) -> str | None:
        """Return an error message if a location's bucket certainly does not exist, else None."""
        match = _S3.fullmatch(location)
        return self._bucket(match[1]) if match else None

    def missing_source(self, path: str) -> str | None:
        """Return an error message if certainly no file matches a path or glob, else None."""
        match = _S3.fullmatch(path)
        if match is None:
            bare_path = re.sub("^file:(//)?", "", path)
            if ":" in bare_path:  # a store that only Spark can read
                return None
            glob = _GLOB.search(bare_path)
            present = Path(bare_path[: glob.start()].rpartition("/")[0] if glob else bare_path).exists()
            hidden = _HIDDEN.search(bare_path) and not Path(bare_path).is_dir()
            return f"{path} {LEFT_OUT}" if present and hidden else None if present else f"there is nothing at {path}"
        if message := self._bucket(match[1]):
            return message
        if _HIDDEN.search(match[2]) and self._has_any(match[1], f"{match[2]}/") is False:
            return f"{path} {LEFT_OUT}"
        prefix = match[2][: glob.start()] if (glob := _GLOB.search(match[2])) else match[2]
        return f"there is nothing at {path}" if self._has_any(match[1], prefix) is False else None

    def files(self, path: str) -> list[tuple[str, int, str]] | None:
        """Return key, size and ETag of all objects that a path or glob can match, sorted by key.

        The list can have more objects than the glob matches. The ETag of a local file is its modification time. Returns
        None if there are no files or too many, or if the store does not respond.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        with suppress(OSError, BotoCoreError, ClientError):
            objects = list(islice(self.candidates(path), MOST_FILES + 1))
            return sorted(objects) if objects and len(objects) <= MOST_FILES else None
        return None

    def candidates(self, path: str) -> Iterator[tuple[str, int, str]]:
        """Yield the same as `files`, for any number of files; raises the errors of boto3, and `OSError`."""
        match = _S3.fullmatch(path)
        bare_path = match[2] if match else re.sub("^file:(//)?", "", path)
        glob = _GLOB.search(bare_path)
        begin = bare_path[: glob.start()] if glob else bare_path
        if match:
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=match[1], Prefix=begin):
                yield from ((item["Key"], item["Size"], item["ETag"]) for item in page.get("Contents", ()))
        elif ":" not in bare_path:  # otherwise a store that only Spark can read
            yield from _local(Path(f"{begin}*").parent if glob else Path(begin))

    def missing_table(self, location: str) -> str | None:
        """Return an error message if a location certainly has no Delta table, else None."""
        lacks_log = self.missing_source(f"{location.rstrip('/')}/_delta_log/") is not None
        return self.missing_bucket(location) or (f"there is no Delta table at {location}" if lacks_log else None)

    def columns(self, location: str) -> dict[str, str] | None:
        """Return a table's columns, each with the first word of its type; None if there is no readable table."""
        from deltaic.delta.schema_string import read_schema

        with suppress(DeltaicError, ValueError, KeyError):
            if (log := self._log(location)) is None:
                return None
            fields = read_schema(log.snapshot().metadata.schema_string)["fields"]
            kinds = {field["name"]: field["type"] for field in fields}
            return {name: kind["type"] if isinstance(kind, dict) else kind for name, kind in kinds.items()}
        return None

    def version(self, location: str) -> int | None:
        """Return a table's latest version; None if there is no readable table."""
        with suppress(DeltaicError, ValueError, KeyError):
            return log.latest_version() if (log := self._log(location)) else None
        return None

    def _log(self, location: str) -> "DeltaLog | None":
        match = _S3.fullmatch(location)
        if match is None or not self._has_any(match[1], f"{match[2].rstrip('/')}/_delta_log/"):
            return None
        from deltaic.delta.log import DeltaLog

        from deltaic_pipeline.table.s3_folder import S3Folder

        return DeltaLog(S3Folder(location, S3Access.from_environment()).store)

    def _has_any(self, bucket: str, prefix: str) -> bool | None:
        from botocore.exceptions import BotoCoreError, ClientError

        with suppress(BotoCoreError, ClientError):
            return bool(self._s3.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)["KeyCount"])
        return None

    @cached_property
    def _s3(self) -> "S3Client":
        import boto3
        from botocore.config import Config

        return boto3.client("s3", config=Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}))

    def _check_bucket(self, bucket: str) -> str | None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._s3.head_bucket(Bucket=bucket)
        except ClientError as refusal:
            if refusal.response["Error"]["Code"] not in {"404", "NoSuchBucket"}:
                return None
        except (BotoCoreError, ValueError):
            return None
        else:
            return None
        names: list[str] = []
        with suppress(BotoCoreError, ClientError):
            names = [bucket_entry["Name"] for bucket_entry in self._s3.list_buckets()["Buckets"]]
        return f"there is no bucket '{bucket}'" + did_you_mean(bucket, names)


def _local(path: Path) -> Iterator[tuple[str, int, str]]:
    files = (Path(parent) / name for parent, _, names in os.walk(path, followlinks=True) for name in names)
    for file in [path] if path.is_file() else files:
        stat = file.stat()
        yield str(file), stat.st_size, str(stat.st_mtime_ns)
