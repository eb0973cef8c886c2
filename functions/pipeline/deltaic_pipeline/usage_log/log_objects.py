"""Read the lines of log files on the local disk or in S3, gzipped or not, without Spark."""

import gzip
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.location_checks import COMPRESSED, LocationChecks

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_BUCKET = re.compile("s3[an]?://([^/]+)/?")
_CHUNK = 4 << 20
_AHEAD = 32
"""Number of files that are opened before they are needed: S3 writes many small logs."""

_Opened = Future[tuple[str, Any, bytes]]


def read_lines(paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield a file and some of its lines until all files are read, which Spark would read too.

    Raises `PipelineError` for a path without files, and for a file that cannot be read.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    s3, opened = boto3.client("s3", config=Config(max_pool_connections=_AHEAD)), deque[_Opened]()
    try:
        with ThreadPoolExecutor(_AHEAD) as pool:
            for file in (file for path in paths for file in _files(path)):
                opened.append(pool.submit(_open, s3, file))
                if len(opened) == _AHEAD:
                    yield from _lines(*opened.popleft().result())
            while opened:
                yield from _lines(*opened.popleft().result())
    except (BotoCoreError, ClientError, OSError, EOFError) as failure:
        raise PipelineError(f"the logs cannot be read: {failure}") from failure


def _files(path: str) -> list[str]:
    """Return the files that match a path or glob, and those directly in a folder that matches."""
    bucket = match[0] if (match := _BUCKET.match(path)) else ""
    pattern = path.removeprefix(bucket).rstrip("/") if match else str(Path(re.sub("^file:(//)?", "", path)))
    files = []
    for key in sorted(key for key, size, _ in LocationChecks().candidates(path.rstrip("/")) if size):
        depth = key.count("/") - pattern.count("/")
        matches = fnmatchcase(key, pattern if depth == 0 else f"{pattern}/*".removeprefix("/"))
        if matches and depth in {0, 1} and key.rpartition("/")[2][:1] not in "_.":
            files.append(f"{bucket}{key}")
    if not files:
        raise PipelineError(f"there is no log at {path}. Check the path, or use --spark if it contains braces.")
    if other := [file for file in files if file.lower().endswith(COMPRESSED) and not file.lower().endswith(".gz")]:
        raise PipelineError(f"{other[0]} is compressed, and not with gzip. Use --spark to read it.")
    return files


def _open(s3: "S3Client", file: str) -> tuple[str, Any, bytes]:
    """Open a file and read its beginning."""
    zipped, match = file.lower().endswith(".gz"), _BUCKET.match(file)
    if match is None:
        stream: Any = gzip.open(file) if zipped else Path(file).open("rb")  # noqa: SIM115 -- `_lines` closes it
    else:
        body: Any = s3.get_object(Bucket=match[1], Key=file[match.end() :])["Body"]
        stream = gzip.GzipFile(fileobj=body) if zipped else body
    return file, stream, stream.read(_CHUNK)


def _lines(file: str, stream: Any, chunk: bytes) -> Iterator[tuple[str, list[str]]]:
    rest = b""
    with closing(stream):
        while chunk:
            complete, newline, end = chunk.rpartition(b"\n")
            if newline:
                yield file, (rest + complete).decode(errors="replace").split("\n")
            rest = end if newline else rest + chunk
            chunk = stream.read(_CHUNK)
    if rest:
        yield file, [rest.decode(errors="replace")]
