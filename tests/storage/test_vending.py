"""Directory access: session policies for one location, with any name."""

import json
from datetime import timedelta

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from deltaic.errors import InvalidParameter, UnsupportedOperation
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.sessions import SigningSessions
from deltaic.storage.signing import UrlSigner
from deltaic.storage.vending import TableCredentials, files_policy, requested_location, session_policy, vend
from storage.stores import Store
from storage.test_round_trip import fetch

LOCATIONS = TableLocations.parse("s3://lake/tables/table1", ["s3://other/clone"])


@pytest.mark.parametrize(
    ("requested", "uri"),
    [
        ("", "s3://lake/tables/table1"),
        ("s3://lake/tables/table1", "s3://lake/tables/table1"),
        ("s3a://lake/tables/table1/", "s3://lake/tables/table1"),
        ("s3n://lake//tables///table1/_delta_log", "s3://lake/tables/table1/_delta_log"),
        ("s3://lake/tables/x/../table1/./d=1", "s3://lake/tables/table1/d=1"),
        ("s3://other/clone/d=1", "s3://other/clone/d=1"),
    ],
)
def test_location_in_the_table_is_accepted(requested: str, uri: str) -> None:
    assert requested_location(LOCATIONS, requested).uri == uri


@pytest.mark.parametrize(
    "requested",
    [
        *("s3://lake/tables/table1x", "s3://lake/tables", "s3://lake", "s3://other", "s3://third/tables/table1"),
        *("s3://lake/tables/table1/../table2", "s3://lake/tables/table1/../../..", "s3://lake/../../x"),
        *("gs://lake/tables/table1", "file:///tables/table1", "tables/table1", "s3://", "%%%", "s3://lake/tables/t\n"),
    ],
)
def test_another_location_is_refused(requested: str) -> None:
    with pytest.raises(InvalidParameter, match="same as or under this table's configured storage location"):
        requested_location(LOCATIONS, requested)


def test_the_policy_is_for_one_folder() -> None:
    policy = json.loads(session_policy(Location("lake", "tables/table1")))
    read, listing, decrypt = policy["Statement"]
    assert read == {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/tables/table1/*"}
    assert listing["Resource"] == "arn:aws:s3:::lake"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "tables/table1/*"}}
    assert decrypt["Condition"] == {"StringLike": {"kms:ViaService": "s3.*"}}


def test_files_policy_excludes_logs_and_listings() -> None:
    locations = TableLocations.parse("s3://lake/t", ["s3://other/clone", "s3://whole"])
    read, deny, decrypt = json.loads(files_policy(locations, [Location("made", "2026-W48/x")]))["Statement"]
    resources = [f"arn:aws:s3:::{path}/*" for path in ("lake/t", "other/clone", "whole", "made/2026-W48/x")]
    assert read == {"Effect": "Allow", "Action": "s3:GetObject", "Resource": resources}
    logs = [f"arn:aws:s3:::{path}/_delta_log/*" for path in ("lake/t", "other/clone", "whole")]
    assert deny == {"Effect": "Deny", "Action": "s3:GetObject", "Resource": logs}
    assert decrypt["Condition"] == {"StringLike": {"kms:ViaService": "s3.*"}}
    with pytest.raises(UnsupportedOperation, match="too long"):
        files_policy(locations, [Location("made", "x" * 1000)] * 2)


def test_wildcards_in_names_are_escaped() -> None:
    policy = json.loads(session_policy(Location("lake", 't*/a?b/${aws:username}/"}]}'), "aws-cn"))
    read, listing, _ = policy["Statement"]
    literal = 't${*}/a${?}b/${$}{aws:username}/"}]}/*'
    assert read["Resource"] == f"arn:aws-cn:s3:::lake/{literal}"
    assert listing["Condition"]["StringLike"]["s3:prefix"] == literal


@pytest.mark.parametrize("prefix", ["a" * 900, "\u00e9" * 400], ids=["long", "long_when_escaped"])
def test_a_path_too_long_for_a_policy_is_refused_with_the_remedy(prefix: str) -> None:
    with pytest.raises(UnsupportedOperation, match=r"too long .* pre-signed URLs"):
        session_policy(Location("lake", prefix))
    assert len(session_policy(Location("lake", prefix[:100]))) < 2048


@pytest.fixture
def vended(live: SigningSessions, ministack: Store) -> TableCredentials:
    for key in ("vended/own/d=1/a b.parquet", "vended/own2/secret", "vended/secret"):
        ministack.put(key, b"data")
    locations = TableLocations.parse(f"s3://{ministack.bucket}/vended/own")
    return vend(live, "alice", ministack.storage, locations)


def test_session_reads_only_its_folder(vended: TableCredentials, ministack: Store) -> None:
    keys = vended.credentials
    client = boto3.client(
        "s3",
        endpoint_url=ministack.storage.endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        aws_session_token=keys.session_token,
        config=Config(s3={"addressing_style": "path"}),
    )
    bucket = ministack.bucket
    assert client.get_object(Bucket=bucket, Key="vended/own/d=1/a b.parquet")["Body"].read() == b"data"
    listing = client.list_objects_v2(Bucket=bucket, Prefix="vended/own/")
    assert [item["Key"] for item in listing["Contents"]] == ["vended/own/d=1/a b.parquet"]
    for refused in (
        lambda: client.get_object(Bucket=bucket, Key="vended/own2/secret"),
        lambda: client.get_object(Bucket=bucket, Key="vended/secret"),
        lambda: client.list_objects_v2(Bucket=bucket, Prefix="vended/own"),
        lambda: client.list_objects_v2(Bucket=bucket),
        lambda: client.put_object(Bucket=bucket, Key="vended/own/new", Body=b""),
        lambda: client.delete_object(Bucket=bucket, Key="vended/own/d=1/a b.parquet"),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            refused()


def test_a_url_signed_with_vended_keys_is_bound_to_the_folder(vended: TableCredentials, ministack: Store) -> None:
    signer = UrlSigner(
        vended.credentials, ministack.storage, Location(ministack.bucket, "vended"), ttl=timedelta(hours=1)
    )
    assert fetch(signer.url("own/d=1/a b.parquet")) == (200, b"data")
    assert fetch(signer.url("own2/secret"))[0] == 403


def test_complete_bucket_needs_no_condition() -> None:
    read, listing, _ = json.loads(session_policy(Location("lake", "")))["Statement"]
    assert read["Resource"] == "arn:aws:s3:::lake/*"
    assert "Condition" not in listing
