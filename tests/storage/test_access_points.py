"""S3 access points instead of buckets: URLs as from botocore, and policies with their ARN."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest
from botocore.config import Config
from deltaic.errors import InvalidParameter, UnsupportedOperation
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, ObjectName
from deltaic.storage.signing import UrlSigner
from deltaic.storage.vending import session_policy

ARN = "arn:aws:s3:eu-west-1:123456789012:accesspoint/partner"
LOCATION = f"s3://{ARN}/scans/2026"


def test_arn_of_an_access_point_replaces_the_bucket() -> None:
    location = Location.parse(f"{LOCATION}/")
    assert (location.bucket, location.prefix, location.uri) == (ARN, "scans/2026", LOCATION)
    assert Location.parse(f"s3://{ARN}") == Location(ARN, "")
    assert Location.parse(f"s3://{ARN}").contains(location)
    assert location.holds(ObjectName(ARN, "scans/2026/a"))
    assert not Location.parse(f"s3://{ARN}-x/scans").contains(location)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://arn:aws:s3:eu-west-1:123456789012:bucket/x",
        "s3://arn:aws:s3:::lake/x",
        "s3://arn:aws:s3:eu-west-1:12:accesspoint/partner",
        f"s3://{ARN}:x/y",
    ],
)
def test_other_arns_are_refused(uri: str) -> None:
    with pytest.raises(InvalidParameter):
        Location.parse(uri)


def test_url_equals_that_of_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    client: Any = botocore.session.get_session().create_client(
        "s3", "eu-west-1", aws_access_key_id="A", aws_secret_access_key="S", config=Config(signature_version="s3v4")
    )
    params = {"Bucket": ARN, "Key": "scans/2026/a b.pdf"}
    expected = urlsplit(client.generate_presigned_url("get_object", Params=params, ExpiresIn=600))
    query = {name: value for name, [value] in parse_qs(expected.query).items()}
    now = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    storage = StorageConfig(region="eu-west-1")
    signer = UrlSigner(Credentials("A", "S"), storage, Location.parse(LOCATION), ttl=timedelta(seconds=600), now=now)
    actual = urlsplit(signer.url("a b.pdf"))
    assert actual.netloc == expected.netloc == "partner-123456789012.s3-accesspoint.eu-west-1.amazonaws.com"
    assert actual.path == expected.path
    assert {name: value for name, [value] in parse_qs(actual.query).items()} == query


def test_policy_allows_only_the_access_point() -> None:
    get, listing, _ = json.loads(session_policy(Location.parse(LOCATION)))["Statement"]
    # IAM User Guide, S3: objects of an access point are `<ARN>/object/<key>`.
    assert get == {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{ARN}/object/scans/2026/*"}
    assert (listing["Resource"], listing["Condition"]) == (ARN, {"StringLike": {"s3:prefix": "scans/2026/*"}})


def test_alias_is_refused_with_the_remedy() -> None:
    with pytest.raises(UnsupportedOperation, match="the ARN of the access point"):
        session_policy(Location.parse("s3://partner-abcdefghijklmnopqrstuvwxyz0123456-s3alias/scans"))
