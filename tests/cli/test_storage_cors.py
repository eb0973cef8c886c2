"""`deltaic storage cors` shows and extends the CORS rules of a bucket."""

import json
from uuid import uuid4

import boto3
import httpx
import pytest
from cli.conftest import Deltaic
from deltaic_ops.local.bucket_cors import allows_origin, origin_of, rules_of
from deltaic_ops.local.embedded import EmbeddedAws

PAGE = "https://shares.example.com"
THEIRS = {"AllowedOrigins": ["https://theirs.example"], "AllowedMethods": ["PUT"], "AllowedHeaders": ["*"]}


@pytest.fixture
def bucket(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> str:
    name = f"cors-{uuid4().hex[:12]}"
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="o", Body=b"0123456789")
    return name


@pytest.fixture
def s3(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> object:
    return aws_session.client("s3", endpoint_url=embedded_aws.endpoint)


def test_an_origin_is_added_once_and_other_rules_are_kept(deltaic: Deltaic, bucket: str, s3: object) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [THEIRS]})  # type: ignore[attr-defined]
    output = deltaic.done(f"storage cors {bucket} --origin {PAGE}")
    assert "https://theirs.example" in output
    assert f"cannot read bucket {bucket}; next: deltaic storage cors {bucket} --origin {PAGE} --set" in output
    for origin in (PAGE, PAGE, "https://other.example.com/delta-sharing"):
        assert f"can read bucket {bucket}" in deltaic.done(f"storage cors {bucket} --origin {origin} --set")
    result = json.loads(deltaic.done(f"storage cors {bucket} --origin {PAGE} --json"))
    assert result["lets"] == {PAGE: True}
    theirs, ours = rules_of(s3, bucket)  # type: ignore[arg-type]
    assert {key: theirs[key] for key in THEIRS} == THEIRS
    assert ours["AllowedOrigins"] == [PAGE, "https://other.example.com"]
    assert ours["AllowedMethods"] == ["GET"]


def test_a_preflight_request_is_allowed_only_for_that_origin(
    deltaic: Deltaic, bucket: str, embedded_aws: EmbeddedAws
) -> None:
    page = "http://127.0.0.1:8000"
    deltaic.done(f"storage cors {bucket} --origin {page} --set")
    headers = {"access-control-request-method": "GET", "access-control-request-headers": "range"}
    address = f"{embedded_aws.endpoint}/{bucket}/o"
    answer = httpx.options(address, headers={**headers, "origin": page})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page)
    assert httpx.options(address, headers={**headers, "origin": "http://127.0.0.1:9000"}).status_code == 403


def test_an_invalid_bucket_or_origin_is_refused(deltaic: Deltaic, bucket: str) -> None:
    assert "NoSuchBucket" in deltaic(f"storage cors nowhere-{bucket} --origin {PAGE}").output
    assert deltaic(f"storage cors {bucket} --origin shares").exit_code != 0


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"AllowedOrigins": ["*"]}, True),
        ({"AllowedOrigins": ["https://*.example.com"]}, True),
        ({"AllowedHeaders": ["*"]}, True),
        ({"AllowedOrigins": ["https://example.com"]}, False),
        ({"AllowedMethods": ["PUT", "HEAD"]}, False),
        ({"AllowedHeaders": ["authorization"]}, False),
    ],
)
def test_cors_rules_are_checked_for_range_requests(changed: dict[str, list[str]], holds: bool) -> None:
    rule = {"AllowedOrigins": [PAGE], "AllowedMethods": ["GET"], "AllowedHeaders": ["Range"], **changed}
    assert allows_origin([rule], PAGE) is holds
    assert allows_origin([], PAGE) is False


def test_an_origin_has_the_form_that_browsers_send() -> None:
    assert origin_of("https://Shares.Example.com/delta-sharing") == PAGE
    assert origin_of("http://127.0.0.1:8000/delta-sharing/") == "http://127.0.0.1:8000"
