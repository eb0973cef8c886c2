"""Access points of S3 in the place of a bucket: URLs by botocore's own, the policy by IAM's form of their ARN."""

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


def test_an_arn_stands_where_a_bucket_would() -> None:
    found = Location.parse(f"{LOCATION}/")
    assert (found.bucket, found.prefix, found.uri) == (ARN, "scans/2026", LOCATION)
    assert Location.parse(f"s3://{ARN}") == Location(ARN, "")
    assert Location.parse(f"s3://{ARN}").contains(found)
    assert found.holds(ObjectName(ARN, "scans/2026/a"))
    assert not Location.parse(f"s3://{ARN}-x/scans").contains(found)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://arn:aws:s3:eu-west-1:123456789012:bucket/x",
        "s3://arn:aws:s3:::lake/x",
        "s3://arn:aws:s3:eu-west-1:12:accesspoint/partner",
        f"s3://{ARN}:x/y",
    ],
)
def test_another_arn_is_no_location(uri: str) -> None:
    with pytest.raises(InvalidParameter):
        Location.parse(uri)


def test_a_url_is_the_one_that_botocore_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    client: Any = botocore.session.get_session().create_client(
        "s3", "eu-west-1", aws_access_key_id="A", aws_secret_access_key="S", config=Config(signature_version="s3v4")
    )
    asked = {"Bucket": ARN, "Key": "scans/2026/a b.pdf"}
    told = urlsplit(client.generate_presigned_url("get_object", Params=asked, ExpiresIn=600))
    query = {name: value for name, [value] in parse_qs(told.query).items()}
    now = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    storage = StorageConfig(region="eu-west-1")
    signer = UrlSigner(Credentials("A", "S"), storage, Location.parse(LOCATION), ttl=timedelta(seconds=600), now=now)
    made = urlsplit(signer.url("a b.pdf"))
    assert made.netloc == told.netloc == "partner-123456789012.s3-accesspoint.eu-west-1.amazonaws.com"
    assert made.path == told.path
    assert {name: value for name, [value] in parse_qs(made.query).items()} == query


def test_credentials_open_the_folder_by_way_of_the_access_point_alone() -> None:
    get, listing, _ = json.loads(session_policy(Location.parse(LOCATION)))["Statement"]
    # IAM User Guide, S3: objects of an access point are `<ARN>/object/<key>`.
    assert get == {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{ARN}/object/scans/2026/*"}
    assert (listing["Resource"], listing["Condition"]) == (ARN, {"StringLike": {"s3:prefix": "scans/2026/*"}})


def test_an_alias_has_no_policy_and_says_what_has_one() -> None:
    with pytest.raises(UnsupportedOperation, match="with the access point's ARN"):
        session_policy(Location.parse("s3://partner-abcdefghijklmnopqrstuvwxyz0123456-s3alias/scans"))
