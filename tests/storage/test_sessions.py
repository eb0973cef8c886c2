"""Sessions sign in a recipient's name, are renewed early, and can be cut off by a policy."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable, UnsupportedOperation
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.sessions import SigningSessions, session_name, tag_value
from deltaic.storage.table_urls import TableUrls
from hypothesis import given, settings
from hypothesis import strategies as st
from storage.answers import INCOMPLETE_ANSWERS, answering
from storage.stores import Store, document
from storage.test_round_trip import fetch

ROLE = "arn:aws:iam::000000000000:role/reader"
START = 1_770_000_000.0
AWS = StorageConfig()


class Clock:
    """Clock that tests move."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Sts:
    """STS and Secrets Manager with numbered keys that are valid for an hour, or a failure."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.requests: list[dict[str, Any]] = []
        self.fails: Exception | None = None
        self.secret = json.dumps({"accessKeyId": "static", "secretAccessKey": "keys"})

    def __call__(self, service: str) -> "Sts":
        assert service in {"sts", "secretsmanager"}
        return self

    def _answer(self, request: dict[str, Any]) -> int:
        self.requests.append(request)
        if self.fails:
            raise self.fails
        return len(self.requests)

    def assume_role(self, **request: Any) -> dict[str, Any]:
        number = self._answer(request)
        expiry = datetime.fromtimestamp(self.clock.now + request["DurationSeconds"], UTC)
        keys = {"AccessKeyId": f"key-{number}", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": expiry}
        return {"Credentials": keys}

    def get_secret_value(self, **request: Any) -> dict[str, Any]:
        self._answer(request)
        return {"SecretString": self.secret}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sts(clock: Clock) -> Sts:
    return Sts(clock)


@pytest.fixture
def sessions(clock: Clock, sts: Sts) -> SigningSessions:
    return SigningSessions(ROLE, clock=clock, client=sts)


def test_session_has_the_name_of_the_recipient(sessions: SigningSessions, sts: Sts) -> None:
    sessions.credentials("alice", AWS)
    assert sts.requests == [
        {
            "RoleArn": ROLE,
            "RoleSessionName": "alice",
            "DurationSeconds": 3600,
            "Tags": [{"Key": "recipient", "Value": "alice"}],
        }
    ]


def test_a_session_is_kept_per_recipient_and_role(sessions: SigningSessions) -> None:
    other = StorageConfig(role_arn="arn:aws:iam::000000000000:role/other")
    alice = sessions.credentials("alice", AWS)
    assert sessions.credentials("alice", AWS) is alice
    assert sessions.credentials("bob", AWS) != alice
    assert sessions.credentials("alice", other) != alice


def test_urls_are_valid_for_at_least_45_minutes(sessions: SigningSessions, clock: Clock, sts: Sts) -> None:
    for minute in range(0, 240, 5):
        clock.now = START + minute * 60
        expires_at_ms = sessions.credentials("alice", AWS).expires_at_ms
        assert expires_at_ms is not None
        assert expires_at_ms / 1000 - clock.now >= 45 * 60
    assert len(sts.requests) == 16


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret-detail"}}, "AssumeRole")


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        pytest.param(client_error("AccessDenied"), TableUnreadable, id="refused"),
        pytest.param(client_error("RegionDisabledException"), TableUnreadable, id="region-off"),
        pytest.param(client_error("DecryptionFailure"), TableUnreadable, id="secret-under-another-key"),
        pytest.param(client_error("InvalidRequestException"), TableUnreadable, id="secret-being-deleted"),
        pytest.param(client_error("ResourceNotFoundException"), TableUnreadable, id="no-secret"),
        pytest.param(client_error("Throttling"), TooManyRequests, id="throttled"),
        pytest.param(client_error("InternalFailure"), Unavailable, id="aws-fails"),
        pytest.param(EndpointConnectionError(endpoint_url="https://sts"), Unavailable, id="no-answer"),
    ],
)
@pytest.mark.parametrize("storage", [AWS, StorageConfig(secret="keys")], ids=["role", "secret"])
def test_errors_of_aws_are_translated(
    sessions: SigningSessions, sts: Sts, storage: StorageConfig, failure: Exception, raised: type[DeltaicError]
) -> None:
    sts.fails = failure
    with pytest.raises(raised) as caught:
        sessions.credentials("alice", storage)
    assert "secret-detail" not in caught.value.message


def test_session_is_used_during_a_short_failure_of_sts(sessions: SigningSessions, sts: Sts, clock: Clock) -> None:
    credentials = sessions.credentials("alice", AWS)
    sts.fails = client_error("InternalFailure")
    clock.now += 44 * 60
    assert sessions.credentials("alice", AWS) is credentials
    clock.now += 2 * 60
    with pytest.raises(Unavailable):
        sessions.credentials("alice", AWS)
    sts.fails = None
    assert sessions.credentials("alice", AWS) != credentials


def test_a_revoked_trust_ends_a_session_at_its_renewal(sessions: SigningSessions, sts: Sts, clock: Clock) -> None:
    sessions.credentials("alice", AWS)
    sts.fails = client_error("AccessDenied")
    clock.now += 20 * 60
    with pytest.raises(TableUnreadable):
        sessions.credentials("alice", AWS)


def test_parallel_requests_start_one_session(sessions: SigningSessions, sts: Sts) -> None:
    barrier = threading.Barrier(8)

    def request(_: int) -> Credentials:
        barrier.wait()
        return sessions.credentials("alice", AWS)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(request, range(8)))) == 1
    assert len(sts.requests) == 1


def test_many_recipients_do_not_fill_the_memory(sessions: SigningSessions, sts: Sts) -> None:
    for number in range(1200):
        sessions.credentials(f"recipient-{number}", AWS)
    assert len(sessions._entries) == len(sessions._locks) == 1000
    sessions.credentials("recipient-1199", AWS)
    assert len(sts.requests) == 1200


def test_static_keys_are_read_again_later(sessions: SigningSessions, sts: Sts, clock: Clock) -> None:
    storage = StorageConfig(endpoint="https://store.example.com", secret="deltaic/storage/minio")
    assert sessions.credentials("alice", storage) == Credentials("static", "keys")
    assert sessions.reader(storage)() is sessions.credentials("bob", storage)
    assert sts.requests == [{"SecretId": "deltaic/storage/minio"}]
    sts.secret = json.dumps({"accessKeyId": "rotated", "secretAccessKey": "keys"})
    clock.now += 301
    assert sessions.credentials("alice", storage).access_key_id == "rotated"


@pytest.mark.parametrize("secret", ["not json: hunter2", '{"accessKeyId":"hunter2"}', '"hunter2"', "[]"])
def test_invalid_secret_is_not_shown(sessions: SigningSessions, sts: Sts, secret: str) -> None:
    sts.secret = secret
    with pytest.raises(TableUnreadable, match="accessKeyId") as caught:
        sessions.credentials("alice", StorageConfig(secret="x"))
    assert "hunter2" not in caught.value.message
    assert caught.value.__cause__ is None


def test_session_is_never_used_for_another_store(sessions: SigningSessions, sts: Sts) -> None:
    foreign = StorageConfig(endpoint="https://store.example.com")
    for request in (
        lambda: sessions.credentials("alice", foreign),
        lambda: sessions.reader(foreign),
        lambda: sessions.scoped_down("alice", foreign, "{}"),
    ):
        with pytest.raises(TableUnreadable, match="no keys"):
            request()
    assert sts.requests == []


@pytest.mark.parametrize(
    ("endpoint", "is_aws"),
    [
        ("https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com", True),
        ("https://s3.cn-north-1.amazonaws.com.cn", True),
        ("https://amazonaws.com.example.com", False),
        ("https://notamazonaws.com", False),
        ("http://127.0.0.1:9000", False),
    ],
)
def test_session_is_used_for_endpoints_of_aws(sessions: SigningSessions, endpoint: str, is_aws: bool) -> None:
    storage = StorageConfig(endpoint=endpoint)
    if is_aws:
        assert sessions.credentials("alice", storage).access_key_id == "key-1"
    else:
        with pytest.raises(TableUnreadable, match="no keys"):
            sessions.credentials("alice", storage)


def test_a_storage_keeps_its_reader(sessions: SigningSessions) -> None:
    storage = StorageConfig(role_arn=ROLE)
    assert sessions.reader(storage) is sessions.reader(StorageConfig(role_arn=ROLE))
    assert sessions.reader(storage)().access_key_id == "key-1"


def test_static_keys_cannot_be_scoped_down(sessions: SigningSessions, clock: Clock, sts: Sts) -> None:
    with pytest.raises(UnsupportedOperation, match="role"):
        sessions.scoped_down("alice", StorageConfig(secret="x"), "{}")
    with pytest.raises(UnsupportedOperation, match="role"):
        SigningSessions(clock=clock, client=sts).scoped_down("alice", AWS, "{}")
    assert not sts.requests


def test_storage_with_keys_and_a_role_is_scoped_down_by_its_role(sessions: SigningSessions, sts: Sts) -> None:
    storage_role = "arn:aws:iam::000000000000:role/own"
    storage = StorageConfig(endpoint="https://store.example.com", secret="x", role_arn=storage_role)
    assert sessions.scoped_down("alice", storage, "{}").access_key_id == "key-1"
    [request] = sts.requests
    assert (request["RoleArn"], request["Policy"]) == (storage_role, "{}")


def test_too_long_policy_is_refused_with_the_remedy(sessions: SigningSessions, sts: Sts) -> None:
    sts.fails = client_error("PackedPolicyTooLarge")
    with pytest.raises(UnsupportedOperation, match=r"too long .* pre-signed URLs"):
        sessions.scoped_down("alice", AWS, "{}")


@settings(deadline=None)
@given(st.text(max_size=300), st.text(max_size=300))
def test_names_are_valid_for_sts_and_distinct(first: str, second: str) -> None:
    assert (session_name(first) == session_name(second)) is (first == second)
    assert (tag_value(first) == tag_value(second)) is (first == second)
    name, value = session_name(first), tag_value(first)
    assert 2 <= len(name) <= 64
    assert all(character.isascii() and (character.isalnum() or character in "_+=,.@-") for character in name)
    assert len(value) <= 256


def urls(live: SigningSessions, store: Store, recipient: str) -> TableUrls:
    credentials = live.credentials(recipient, store.storage)
    locations = TableLocations.parse(f"s3://{store.bucket}/session-table")
    return TableUrls(locations, store.storage, credentials, ttl=timedelta(hours=1))


def test_policy_statement_cuts_off_a_session(
    aws_session: boto3.Session, live: SigningSessions, ministack: Store, role: str
) -> None:
    ministack.put("session-table/d=1/a b.parquet", b"data")
    alice = urls(live, ministack, "alice").url("d=1/a%20b.parquet")
    bob = urls(live, ministack, "bob").url("d=1/a%20b.parquet")
    assert [fetch(alice), fetch(bob)] == [(200, b"data"), (200, b"data")]
    assert "X-Amz-Security-Token=" in alice

    deny = {
        "Effect": "Deny",
        "Action": "*",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:PrincipalTag/recipient": "alice"}},
    }
    iam = aws_session.client("iam", endpoint_url=ministack.storage.endpoint)
    iam.put_role_policy(RoleName=role.rpartition("/")[2], PolicyName="cut-off", PolicyDocument=document(deny))
    assert fetch(alice)[0] == 403
    assert fetch(bob) == (200, b"data")


def test_url_expires_with_its_session(live: SigningSessions, ministack: Store) -> None:
    credentials = live.credentials("carol", ministack.storage)
    expires_at_ms = urls(live, ministack, "carol").expires_at_ms
    assert credentials.expires_at_ms is not None
    assert credentials.expires_at_ms - 2000 <= expires_at_ms <= credentials.expires_at_ms


def test_a_role_that_may_not_be_assumed_is_named(live: SigningSessions, ministack: Store) -> None:
    absent = StorageConfig(
        endpoint=ministack.storage.endpoint, path_style=True, role_arn="arn:aws:iam::000000000000:role/absent"
    )
    with pytest.raises(TableUnreadable, match="role"):
        live.credentials("alice", absent)


SKEWED = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>SignatureDoesNotMatch</Code><Message>Signature expired: 20260101T000000Z is now earlier than "
    "20260101T003000Z (20260101T004500Z - 15 min.)</Message></Error></ErrorResponse>"
)


@pytest.mark.parametrize("answer", INCOMPLETE_ANSWERS)
def test_incomplete_answer_of_aws_is_transient(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with answering(answer) as endpoint:
        sessions = SigningSessions(ROLE, endpoint=endpoint)
        for storage in (AWS, StorageConfig(secret="keys")):
            with pytest.raises(Unavailable, match="incomplete response"):
                sessions.credentials("alice", storage)


def test_a_wrong_clock_is_not_a_wrong_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with answering(SKEWED.encode(), 403) as endpoint, pytest.raises(Unavailable, match="clock"):
        SigningSessions(ROLE, endpoint=endpoint).credentials("alice", AWS)
