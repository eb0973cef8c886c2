"""Read the text of a dataset file from disk or S3, and resolve its relative paths."""

import re
from pathlib import Path

from deltaic.errors import NotFound
from deltaic_pipeline.failures import PipelineError

LARGEST_BYTES = 128_000

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
"""Matches the start of an absolute path or of a URL."""

_GLOB = re.compile(r"[\[\]{}*?\\]")
"""Matches characters that are special in globs."""


def text_of(file: str) -> str:
    """Read a dataset file at a path or `s3://bucket/key`; raises `NotFound`, or `PipelineError` if unreadable."""
    try:
        content = _read_object(file) if file.startswith("s3://") else _read_file(file)
        if len(content) <= LARGEST_BYTES:
            return content.decode()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}: check the path.") from None
    except (OSError, UnicodeDecodeError) as failure:
        raise PipelineError(f"{file} cannot be read: {failure}.") from None
    raise PipelineError(f"{file} is larger than {LARGEST_BYTES:,} bytes, the limit of dataset files: check the path.")


def resolve_path(file: str, path: str) -> str:
    """Resolve a path in a dataset file. Relative paths are relative to the file's folder, wherever the job runs."""
    if _ABSOLUTE.match(path):
        return path
    folder = file.rpartition("/")[0] if "://" in file else str(Path(file).absolute().parent)
    escaped = _GLOB.sub(r"\\\g<0>", folder)
    return f"{escaped}/{path}"


def _read_file(file: str) -> bytes:
    with Path(file).open("rb") as stream:
        return stream.read(LARGEST_BYTES + 1)


def _read_object(url: str) -> bytes:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        content: bytes = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read(LARGEST_BYTES + 1)
    except ClientError as refusal:
        raise PipelineError(f"{url} cannot be read: {refusal.response['Error']['Code']}.") from None
    except (BotoCoreError, ValueError) as failure:
        raise PipelineError(f"{url} cannot be read: {failure}.") from None
    return content
