"""Objects of a folder: transient and permanent errors of a store, with its code for the provider."""

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
    """Store that answers each request with the error in the bucket's name, except for objects named `good`."""

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
    with served(_Refusing) as endpoint:
        yield StorageConfig(endpoint=endpoint, path_style=True)


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
def test_refused_listing_is_transient_or_permanent_by_its_code(
    storage: StorageConfig, refusal: str, raised: type[DeltaicError]
) -> None:
    with pytest.raises(raised) as caught:
        list_page(KEYS, storage, Location(refusal, "t"))
    assert refusal.replace("-", " ") in caught.value.detail
    assert "secret-detail" not in f"{caught.value.message}{caught.value.detail}"


@pytest.mark.parametrize("refusal", ["400-KMS.DisabledException", "400-InvalidRequest", "403-AccessDenied"])
def test_refused_object_does_not_hide_other_objects(storage: StorageConfig, refusal: str) -> None:
    """S3 answers 400 without a body to HEAD of an object of SSE-C."""
    location = Location(refusal, "t")
    objects = head_objects(keys, storage, location, ["bad", "good"])
    assert [item and item.name for item in objects] == [None, "good"]
    with pytest.raises(TableUnreadable):
        head_objects(keys, storage, location, ["bad", "worse"])
