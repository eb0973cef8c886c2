"""List the objects of a folder in S3 page by page, and request their metadata in parallel."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from deltaic.aws_codes import DENIED, THROTTLED
from deltaic.errors import TableRefused, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_credentials import Credentials, make_client
from deltaic.storage.connections import connection, on_loop
from deltaic.storage.endpoints import StorageConfig, origin
from deltaic.storage.locations import Location, ObjectName
from deltaic.storage.object_store_errors import REFUSALS, TRANSIENT_ERRORS, map_error
from deltaic.storage.objects import AT_ONCE

_ABSENT: Final = frozenset({"NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed", "InvalidBucketName"})


class FolderObject(msgspec.Struct, frozen=True):
    """Object in a folder; `name` is its key relative to the location."""

    name: str
    size: int
    modified_ms: int
    """Time of the last modification in milliseconds since the epoch."""
    etag: str
    """ETag as the store sends it, with quotes."""


class ObjectPage(msgspec.Struct, frozen=True):
    """Page of a folder listing."""

    objects: Sequence[FolderObject]
    folders: Sequence[str]
    """Names of direct subfolders, each with its final slash."""
    next: str
    """Token of the store for the next page; empty on the last page."""


def list_page(  # noqa: PLR0913 -- the parameters of ListObjectsV2
    credentials: Credentials,
    storage: StorageConfig,
    location: Location,
    *,
    prefix: str = "",
    delimiter: str = "",
    after: str = "",
    limit: int = 1000,
) -> ObjectPage:
    """Return at most `limit` objects whose names start with `prefix`, in byte order, from the page token `after` on.

    Raises TableUnreadable for a missing bucket, TableRefused without permission, TooManyRequests and Unavailable.
    """
    request = {
        "Bucket": location.bucket,
        "Prefix": f"{location.key_prefix}{prefix}",
        "MaxKeys": limit,
        **({"Delimiter": delimiter} if delimiter else {}),
        **({"ContinuationToken": after} if after else {}),
    }
    try:
        in_host = not origin(storage, location.bucket, public=False).path.endswith(f"/{location.bucket}/")
        answer = _client(storage, in_host, credentials).list_objects_v2(**request)
    except Exception as error:
        raise _translate_error(error, location) from error
    start = len(location.key_prefix)
    objects = [
        FolderObject(item["Key"][start:], item["Size"], int(item["LastModified"].timestamp() * 1000), item["ETag"])
        for item in answer.get("Contents", [])
    ]
    folders = [folder["Prefix"][start:] for folder in answer.get("CommonPrefixes", [])]
    return ObjectPage(objects, folders, answer.get("NextContinuationToken", "") if answer["IsTruncated"] else "")


def head_objects(
    credentials: Callable[[], Credentials], storage: StorageConfig, location: Location, names: Iterable[str]
) -> list[FolderObject | None]:
    """Return the metadata of the objects with these names, in order; None for a missing or unreadable object.

    Connections are cached by the `credentials` function, so pass the same function for the same credentials. Raises
    TableUnreadable if the server may read none of the objects, TooManyRequests and Unavailable.
    """
    return on_loop(_head_all(connection(location.bucket, storage, credentials), storage, location, names))


async def _head_all(
    store: Any, storage: StorageConfig, location: Location, names: Iterable[str]
) -> list[FolderObject | None]:
    import obstore

    gate, refused = asyncio.Semaphore(AT_ONCE), list[TableUnreadable]()

    async def head(name: str) -> FolderObject | None:
        key = f"{location.key_prefix}{name}"
        async with gate:
            try:
                metadata = await obstore.head_async(store, key)
            except Exception as error:
                raised = map_error(error, ObjectName(location.bucket, key), storage.region, name, has_body=False)
                if isinstance(raised, FileNotFoundError):
                    return None
                if isinstance(raised, TableUnreadable):
                    refused.append(raised)
                    return None
                raise raised from error
        modified = int(metadata["last_modified"].timestamp() * 1000)
        return FolderObject(name, metadata["size"], modified, metadata.get("e_tag") or "")

    objects = await asyncio.gather(*map(head, names))
    if refused and not any(objects):
        raise refused[0]
    return objects


@lru_cache(maxsize=16)
def _client(storage: StorageConfig, in_host: bool, credentials: Credentials) -> Any:
    """Return a botocore client for S3, which `aws_client` does not support; `in_host`: the host name has the bucket."""
    from botocore.config import Config

    endpoint_option: Any = {"ignore_configured_endpoint_urls": True}  # the type stubs lack this option
    config = Config(
        connect_timeout=3.0,
        read_timeout=10.0,
        retries={"total_max_attempts": 2, "mode": "standard"},
        s3={"addressing_style": "virtual" if in_host else "path"},
        **endpoint_option,
    )
    return make_client(
        "s3",
        storage.region,
        config,
        endpoint_url=storage.endpoint or None,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
        aws_session_token=credentials.session_token or None,
    )


def _translate_error(error: Exception, location: Location) -> Exception:
    from botocore.exceptions import BotoCoreError, ClientError

    detail = location.uri
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        detail = f"{location.uri}: {status} {code}"
        if code in THROTTLED:
            return TooManyRequests("the storage of this folder is throttling requests; try again", detail)
        if code in _ABSENT:
            return TableUnreadable(
                "the bucket of this folder does not exist: ask its provider to correct the location, or the region of "
                "the storage",
                detail,
            )
        if code in DENIED:
            return TableRefused(
                "the server may not list this folder: ask its provider to allow it",
                f"{detail}: add the bucket to the stack's parameter DataBuckets, or allow the role or keys of the "
                "storage to list it",
            )
        if code not in TRANSIENT_ERRORS and status in REFUSALS:
            return TableUnreadable(
                "the storage rejects listing this folder: ask its provider to read the server's log", detail
            )
    if isinstance(error, ClientError | BotoCoreError):
        return Unavailable("the storage of this folder failed to process a request; try again", detail)
    return error
