"""Decides before Spark starts whether the places are there that a job reads from and writes to, and a table's columns.

Only what is certain is told: where the store does not answer, or does not let us look, Spark finds out.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
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
LEFT_OUT = "is not read: Spark leaves out files whose names begin with _ or . : name the files otherwise"
MOST_OF_A_FILE = 65_536
MOST_FILES = 10_000
COMPRESSED = (".bz2", ".deflate", ".gz", ".lz4", ".lzo", ".snappy", ".xz", ".zst", ".zstd")


class Places:
    """The places that a job names; each question is one request at most."""

    def __init__(self) -> None:
        self._bucket = cache(self._ask_for_bucket)

    def absent_bucket(self, location: str) -> str | None:
        """Return what to say of a location whose bucket there is not; None if there is one, or nobody knows."""
        found = _S3.fullmatch(location)
        return self._bucket(found[1]) if found else None

    def absent_source(self, path: str) -> str | None:
        """Return what to say of a file, folder or glob at which there is nothing; None as in `absent_bucket`."""
        match = _S3.fullmatch(path)
        if match is None:
            plain = re.sub("^file:(//)?", "", path)
            if ":" in plain:  # of a store that only Spark knows
                return None
            glob = _GLOB.search(plain)
            present = Path(plain[: glob.start()].rpartition("/")[0] if glob else plain).exists()
            hidden = _HIDDEN.search(plain) and not Path(plain).is_dir()
            return f"{path} {LEFT_OUT}" if present and hidden else None if present else f"there is nothing at {path}"
        if message := self._bucket(match[1]):
            return message
        if _HIDDEN.search(match[2]) and self._has_any(match[1], f"{match[2]}/") is False:
            return f"{path} {LEFT_OUT}"
        prefix = match[2][: glob.start()] if (glob := _GLOB.search(match[2])) else match[2]
        return f"there is nothing at {path}" if self._has_any(match[1], prefix) is False else None

    def beginning(self, path: str) -> tuple[str, bytes] | None:
        """Return a file, or the first one of names with `*`, and how it begins; None where that is not certain."""
        return None if path.rpartition("/")[2].strip("*") == "" else self._excerpt(path, f"0-{MOST_OF_A_FILE - 1}")

    def footer(self, path: str) -> tuple[str, bytes] | None:
        """Return a file, or the first one of a folder or of names with `*`, and its end; None as in `beginning`."""
        last = f"-{MOST_OF_A_FILE}"
        return self._excerpt(path, last) or self._excerpt(f"{path.rstrip('/')}/*", last)

    def _excerpt(self, path: str, part: str) -> tuple[str, bytes] | None:
        """Return the first file of a path and some of its bytes, as an HTTP Range header names them."""
        from botocore.exceptions import BotoCoreError, ClientError

        match = _S3.fullmatch(path)
        plain = match[2] if match else re.sub("^file:(//)?", "", path)
        folder, slash, names = plain.rpartition("/")
        if _GLOB.search(folder) or _GLOB.search(names.replace("*", "")) or "=" in folder:
            return None
        with suppress(OSError, BotoCoreError, ClientError, StopIteration):
            if match is None:
                present = (file for file in Path(folder or slash or ".").iterdir() if file.is_file())
                file = next(file for file in sorted(present) if _is_read(file.name, names))
                with file.open("rb") as content:
                    content.seek(max(0, file.stat().st_size - MOST_OF_A_FILE) if part.startswith("-") else 0)
                    return str(file), content.read(MOST_OF_A_FILE)
            prefix = f"{folder}{slash}{names.partition('*')[0]}"
            listed = self._s3.list_objects_v2(Bucket=match[1], Prefix=prefix, Delimiter="/").get("Contents", [])
            keys = (entry["Key"] for entry in listed if entry["Size"])
            key = next(key for key in keys if _is_read(key.rpartition("/")[2], names))
            found = self._s3.get_object(Bucket=match[1], Key=key, Range=f"bytes={part}")
            return f"s3://{match[1]}/{key}", found["Body"].read()
        return None

    def files(self, path: str) -> list[tuple[str, int, str]] | None:
        """Return key, size and ETag of all objects that a file, folder or glob may name, or more of them.

        Local files have the time of their last change as an ETag. Returns None if they are too many, or unknown.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        match = _S3.fullmatch(path)
        plain = match[2] if match else re.sub("^file:(//)?", "", path)
        glob = _GLOB.search(plain)
        begin = plain[: glob.start()] if glob else plain
        if match is None and ":" in plain:  # a store that only Spark knows
            return None
        with suppress(OSError, BotoCoreError, ClientError):
            files = _local(Path(f"{begin}*").parent if glob else Path(begin))
            if match:
                pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=match[1], Prefix=begin)
                files = ((one["Key"], one["Size"], one["ETag"]) for page in pages for one in page.get("Contents", ()))
            found = list(islice(files, MOST_FILES + 1))
            return sorted(found) if found and len(found) <= MOST_FILES else None
        return None

    def absent_table(self, location: str) -> str | None:
        """Return what to say of a location at which there is no Delta table; None as in `absent_bucket`."""
        lacks_log = self.absent_source(f"{location.rstrip('/')}/_delta_log/") is not None
        return self.absent_bucket(location) or (f"there is no Delta table at {location}" if lacks_log else None)

    def columns(self, location: str) -> dict[str, str] | None:
        """Return the columns of a table and of each type the first word; None if there is none, or nobody knows."""
        from deltaic.delta.schema_string import read_schema

        with suppress(DeltaicError, ValueError, KeyError):
            if (log := self._log(location)) is None:
                return None
            fields = read_schema(log.snapshot().metadata.schema_string)["fields"]
            kinds = {field["name"]: field["type"] for field in fields}
            return {name: kind["type"] if isinstance(kind, dict) else kind for name, kind in kinds.items()}
        return None

    def version(self, location: str) -> int | None:
        """Return the latest version of a table; None if there is none, or nobody knows."""
        with suppress(DeltaicError, ValueError, KeyError):
            return log.latest_version() if (log := self._log(location)) else None
        return None

    def _log(self, location: str) -> "DeltaLog | None":
        found = _S3.fullmatch(location)
        if found is None or not self._has_any(found[1], f"{found[2].rstrip('/')}/_delta_log/"):
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

    def _ask_for_bucket(self, bucket: str) -> str | None:
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
        own: list[str] = []
        with suppress(BotoCoreError, ClientError):
            own = [each["Name"] for each in self._s3.list_buckets()["Buckets"]]
        return f"there is no bucket '{bucket}'" + did_you_mean(bucket, own)


def _local(path: Path) -> Iterator[tuple[str, int, str]]:
    below = (Path(parent) / name for parent, _, names in os.walk(path, followlinks=True) for name in names)
    for file in [path] if path.is_file() else below:
        state = file.stat()
        yield str(file), state.st_size, str(state.st_mtime_ns)


def _is_read(name: str, pattern: str) -> bool:
    """Tell whether a file is one of a pattern's that Spark reads, and reads as it is."""
    return fnmatchcase(name, pattern) and name[:1] not in "._" and not name.lower().endswith(COMPRESSED)
