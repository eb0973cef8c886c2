"""Read the lines of log files on the local disk or in S3, gzipped or not, without Spark."""

import gzip
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.location_checks import LocationChecks

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_S3 = re.compile("s3[an]?://([^/]+)/?(.*)", re.DOTALL)
_CHUNK = 4 << 20
_OPEN_FILES = 32
"""Number of files that are opened together: S3 writes many small logs."""


def read_lines(paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield a file and some of its lines until all files are read.

    Raises `PipelineError` for a path without files, and for a file that cannot be read.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client("s3", config=Config(max_pool_connections=_OPEN_FILES))
    try:
        files = [file for path in paths for file in _files(path)]
        with ThreadPoolExecutor(_OPEN_FILES) as pool:
            for number in range(0, len(files), _OPEN_FILES):
                for file, stream in pool.map(partial(_open, client), files[number : number + _OPEN_FILES]):
                    with stream:
                        while lines := stream.readlines(_CHUNK):
                            yield file, lines
    except (BotoCoreError, ClientError, OSError, EOFError) as failure:
        raise PipelineError(f"the logs cannot be read: {failure}") from failure


def _files(path: str) -> list[str]:
    """Return the files that match a path or glob, and those directly in a folder that matches."""
    match = _S3.fullmatch(path)
    bucket = f"s3://{match[1]}/" if match else ""
    pattern = f"/{match[2]}" if match else str(Path(re.sub("^file:(//)?", "", path)).absolute())
    files = []
    for key, *_ in sorted(LocationChecks().candidates(path.rstrip("/"))):
        file = PurePosixPath("/", key) if match else Path(key).absolute()
        if file.name[:1] not in "_." and (file.match(pattern) or file.parent.match(pattern)):
            files.append(f"{bucket}{key}")
    if not files:
        raise PipelineError(f"there is no log at {path}. Check the path, or use --spark if it contains braces.")
    return files


def _open(client: "S3Client", file: str) -> tuple[str, TextIOWrapper]:
    """Open a file, in parallel with others; `read_lines` closes it."""
    match = _S3.fullmatch(file)
    stream: Any = client.get_object(Bucket=match[1], Key=match[2])["Body"] if match else file
    if file.lower().endswith(".gz"):
        stream = gzip.open(stream)  # noqa: SIM115
    elif not match:
        stream = Path(file).open("rb")  # noqa: SIM115
    return file, TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n")
