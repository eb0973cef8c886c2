"""Objects of a folder: which refusals of a store pass, which last, and that the provider sees the code."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import pytest
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.folder_objects import head_objects, list_page
from deltaic.storage.locations import Location
from served import served

KEYS = Credentials("a", "b")


def keys() -> Credentials:
    return KEYS


class _Refusing(BaseHTTPRequestHandler):
    """A store that refuses each request as the bucket says, `STATUS-CODE`; objects named `good` are there."""

    def do_GET(self) -> None:
        _, bucket, *names = urlsplit(self.path).path.split("/")
        status, code = bucket.split("-")
        text = f"<Error><Code>{code}</Code><Message>secret-detail</Message></Error>".encode()
        good = names[-1:] == ["good"]
        self.send_response(200 if good else int(status))
        self.send_header("Content-Length", "4" if good else str(len(text)))
        self.send_header("Last-Modified", "Tue, 03 Feb 2026 04:05:06 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(text)

    do_HEAD = do_GET  # noqa: N815 -- the base class's name


@pytest.fixture(scope="module")
def storage() -> Iterator[StorageConfig]:
    with served(_Refusing) as where:
        yield StorageConfig(endpoint=where, path_style=True)


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        ("403-AccessDenied", TableUnreadable),
        ("403-InvalidAccessKeyId", TableUnreadable),
        ("400-KMS.DisabledException", TableUnreadable),
        ("400-InvalidRequest", TableUnreadable),
        ("404-NoSuchBucket", TableUnreadable),
        ("400-ExpiredToken", Unavailable),
        ("503-SlowDown", TooManyRequests),
        ("500-InternalError", Unavailable),
    ],
)
def test_a_refused_listing_is_tried_again_only_where_that_may_help(
    storage: StorageConfig, refusal: str, raised: type[DeltaicError]
) -> None:
    with pytest.raises(raised) as caught:
        list_page(KEYS, storage, Location(refusal, "t"))
    assert refusal.replace("-", " ") in caught.value.detail
    assert "secret-detail" not in f"{caught.value.message}{caught.value.detail}"


@pytest.mark.parametrize("refusal", ["400-KMS.DisabledException", "400-InvalidRequest", "403-AccessDenied"])
def test_an_object_that_a_store_refuses_keeps_no_other_from_being_found(storage: StorageConfig, refusal: str) -> None:
    """S3 answers 400 without a body to HEAD of an object of SSE-C."""
    here = Location(refusal, "t")
    found = head_objects(keys, storage, here, ["bad", "good"])
    assert [each and each.name for each in found] == [None, "good"]
    with pytest.raises(TableUnreadable):
        head_objects(keys, storage, here, ["bad", "worse"])
