"""Read the text of a dataset file from disk or S3, and resolve the paths that it names."""

import re
from pathlib import Path

from deltaic.errors import NotFound
from deltaic_pipeline.failures import PipelineError

LARGEST_BYTES = 128_000

_WHOLE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
"""What a path begins with that leads from the root, or from that of a store."""

_GLOB = re.compile(r"[\[\]{}*?\\]")
"""What a folder's name may have and a glob takes for more."""


def text_of(file: str) -> str:
    """Return the text of a dataset file, a path or `s3://bucket/key`; raises `NotFound`, `PipelineError`."""
    try:
        content = _object(file) if file.startswith("s3://") else _file(file)
        if len(content) <= LARGEST_BYTES:
            return content.decode()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}.") from None
    except (OSError, UnicodeDecodeError) as failure:
        raise PipelineError(f"{file} cannot be read: {failure}.") from None
    raise PipelineError(f"{file} is larger than {LARGEST_BYTES:,} bytes, which no dataset file is.")


def beside(file: str, path: str) -> str:
    """Return a path as it is meant in a file: a relative one leads from the file's folder, wherever a job runs."""
    if _WHOLE.match(path):
        return path
    folder = file.rpartition("/")[0] if "://" in file else str(Path(file).absolute().parent)
    plain = _GLOB.sub(r"\\\g<0>", folder)
    return f"{plain}/{path}"


def _file(file: str) -> bytes:
    with Path(file).open("rb") as opened:
        return opened.read(LARGEST_BYTES + 1)


def _object(url: str) -> bytes:
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
