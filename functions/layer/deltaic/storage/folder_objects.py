"""The objects below a location, whatever they are: listed page by page, and looked at one by one in parallel."""

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
from deltaic.storage.object_store_errors import PASSING, REFUSALS, failure
from deltaic.storage.objects import AT_ONCE

_GONE: Final = frozenset({"NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed", "InvalidBucketName"})


class FolderObject(msgspec.Struct, frozen=True):
    """One object, by its key below the location."""

    name: str
    size: int
    modified_ms: int
    """Milliseconds since the epoch."""
    etag: str
    """As the store tells it, with its quotes."""


class ObjectPage(msgspec.Struct, frozen=True):
    """A page of a listing."""

    objects: Sequence[FolderObject]
    folders: Sequence[str]
    """Of one level: what stands before a further slash, with it."""
    next: str
    """The store's own token of the next page; empty on the last one."""


def list_page(  # noqa: PLR0913 -- where, and what of it
    credentials: Credentials,
    storage: StorageConfig,
    location: Location,
    *,
    prefix: str = "",
    delimiter: str = "",
    after: str = "",
    limit: int = 1000,
) -> ObjectPage:
    """Return at most `limit` objects whose names begin with `prefix`, in byte order, from the token `after` on.

    Raises TableUnreadable for a bucket that is not there, TableRefused, TooManyRequests and Unavailable.
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
        raise _translated(error, location) from error
    cut = len(location.key_prefix)
    objects = [
        FolderObject(each["Key"][cut:], each["Size"], int(each["LastModified"].timestamp() * 1000), each["ETag"])
        for each in answer.get("Contents", [])
    ]
    folders = [each["Prefix"][cut:] for each in answer.get("CommonPrefixes", [])]
    return ObjectPage(objects, folders, answer.get("NextContinuationToken", "") if answer["IsTruncated"] else "")


def head_objects(
    credentials: Callable[[], Credentials], storage: StorageConfig, location: Location, names: Iterable[str]
) -> list[FolderObject | None]:
    """Return the objects of these names as they are now, in their order; None for one that is gone, or not to be read.

    `credentials` must be the same function for the same credentials, by which connections are kept. Raises
    TableUnreadable where none may be read, TooManyRequests and Unavailable.
    """
    return on_loop(_head_all(connection(location.bucket, storage, credentials), storage, location, names))


async def _head_all(
    store: Any, storage: StorageConfig, location: Location, names: Iterable[str]
) -> list[FolderObject | None]:
    import obstore

    gate, refused = asyncio.Semaphore(AT_ONCE), list[TableUnreadable]()

    async def one(name: str) -> FolderObject | None:
        key = f"{location.key_prefix}{name}"
        async with gate:
            try:
                found = await obstore.head_async(store, key)
            except Exception as error:
                raised = failure(error, ObjectName(location.bucket, key), storage.region, name, has_body=False)
                if isinstance(raised, FileNotFoundError):
                    return None
                if isinstance(raised, TableUnreadable):
                    refused.append(raised)
                    return None
                raise raised from error
        modified = int(found["last_modified"].timestamp() * 1000)
        return FolderObject(name, found["size"], modified, found.get("e_tag") or "")

    found = await asyncio.gather(*map(one, names))
    if refused and not any(found):
        raise refused[0]
    return found


@lru_cache(maxsize=16)
def _client(storage: StorageConfig, in_host: bool, credentials: Credentials) -> Any:
    """Return botocore's client: it knows every form of a listing, and of a bucket's name."""
    from botocore.config import Config

    not_elsewhere: Any = {"ignore_configured_endpoint_urls": True}  # of the environment; unknown to the stubs
    config = Config(
        connect_timeout=3.0,
        read_timeout=10.0,
        retries={"total_max_attempts": 2, "mode": "standard"},
        s3={"addressing_style": "virtual" if in_host else "path"},
        **not_elsewhere,
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


def _translated(error: Exception, location: Location) -> Exception:
    from botocore.exceptions import BotoCoreError, ClientError

    detail = location.uri
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        detail = f"{location.uri}: {status} {code}"
        if code in THROTTLED:
            return TooManyRequests("the storage of this folder is throttling requests; try again", detail)
        if code in _GONE:
            return TableUnreadable(
                "the bucket of this folder is not there: its provider must correct the location, or the storage's "
                "region",
                detail,
            )
        if code in DENIED:
            return TableRefused(
                "the server may not list this folder: its provider must give the server access to it",
                f"{detail}: the bucket is missing in the stack's parameter DataBuckets, or the role or the keys "
                "of its storage may not list it",
            )
        if code not in PASSING and status in REFUSALS:
            return TableUnreadable(
                "the storage refuses to list this folder: its provider finds the reason in the server's log", detail
            )
    if isinstance(error, ClientError | BotoCoreError):
        return Unavailable("the storage of this folder failed to answer; try again", detail)
    return error
