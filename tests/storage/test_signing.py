"""Signed URLs are the same as those of botocore and of a simple, slow implementation."""

import hashlib
import hmac
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import botocore.credentials
import botocore.session
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from deltaic.errors import Unavailable
from deltaic.settings import settings as process_settings
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig, origin
from deltaic.storage.locations import Location, ObjectName, encode_key
from deltaic.storage.signing import UrlSigner, signed_request
from hypothesis import given, settings
from laws import tries
from msgspec.structs import replace
from storage.keys import NASTY_KEYS, keys

TOKEN = "IQoJb3JpZ2luX2VjEPr//" + "+/=aZ9" * 150
STATIC = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SESSION = Credentials("ASIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", TOKEN)
TTL = timedelta(seconds=3600)
NOON = datetime(2026, 2, 3, 12, 0, 0, 700_000, tzinfo=UTC)

STORAGES = {
    "us-east-1": StorageConfig(),
    "eu-central-1": StorageConfig(region="eu-central-1"),
    "path-style": StorageConfig(region="ap-south-1", path_style=True),
    "china": StorageConfig(region="cn-north-1"),
    "gov": StorageConfig(region="us-gov-west-1"),
    "iso": StorageConfig(region="us-iso-east-1"),
    "isob": StorageConfig(region="us-isob-east-1"),
    "eusc": StorageConfig(region="eusc-de-east-1"),
    "ip-and-port": StorageConfig(endpoint="http://127.0.0.1:4566"),
    "name-and-port": StorageConfig(endpoint="http://localhost:4566"),
    "name-and-port-path-style": StorageConfig(endpoint="http://localhost:4566", path_style=True),
    "default-port": StorageConfig(region="eu-west-1", endpoint="https://s3.example.com:443", path_style=True),
    "folder": StorageConfig(region="eu-west-1", endpoint="https://gateway.example.com/s3/", path_style=True),
    "folder-virtual": StorageConfig(region="eu-west-1", endpoint="https://gateway.example.com/s3/"),
    "upper-case-host": StorageConfig(region="auto", endpoint="https://Store.Example.com:8443"),
    "public-endpoint": StorageConfig(endpoint="http://10.0.0.1:8333", public_endpoint="https://s3.example.com"),
}

_SESSION: Any = botocore.session.get_session()
_CLIENTS: dict[tuple[StorageConfig, Credentials, str], Any] = {}


def botocore_url(credentials: Credentials, storage: StorageConfig, bucket: str, key: str) -> str:
    key_of_client = storage, credentials, process_settings().ip_address_type
    client = _CLIENTS.get(key_of_client)
    if client is None:
        s3: Any = {
            "use_dualstack_endpoint": process_settings().ip_address_type == "dualstack",
            "addressing_style": "path" if storage.path_style else "virtual",
            "us_east_1_regional_endpoint": "regional",
        }
        client = _CLIENTS[key_of_client] = _SESSION.create_client(
            "s3",
            region_name=storage.region,
            endpoint_url=storage.public_endpoint or storage.endpoint or None,
            aws_access_key_id=credentials.access_key_id,
            aws_secret_access_key=credentials.secret_access_key,
            aws_session_token=credentials.session_token or None,
            config=Config(signature_version="s3v4", s3=s3),
        )
    url: str = client.generate_presigned_url(
        "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=int(TTL.total_seconds())
    )
    return url


def signing_time(url: str) -> datetime:
    stamp = parse_qs(urlsplit(url).query)["X-Amz-Date"][0]
    return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def simple_url(credentials: Credentials, storage: StorageConfig, bucket: str, key: str, now: datetime) -> str:
    """Sign step by step, as in AWS's documentation."""
    target = origin(storage, bucket)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{storage.region}/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(int(TTL.total_seconds())),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        query["X-Amz-Security-Token"] = credentials.session_token
    path = target.path + quote(key, safe="/-_.~")
    canonical_query = "&".join(f"{name}={quote(query[name], safe='-_.~')}" for name in sorted(query))
    canonical = "\n".join(["GET", path, canonical_query, f"host:{target.host}", "", "host", "UNSIGNED-PAYLOAD"])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    secret = ("AWS4" + credentials.secret_access_key).encode()
    for part in scope.split("/"):
        secret = hmac.new(secret, part.encode(), "sha256").digest()
    signature = hmac.new(secret, to_sign.encode(), "sha256").hexdigest()
    sent = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in query.items())
    return f"{target.scheme}://{target.authority}{path}?{sent}&X-Amz-Signature={signature}"


@pytest.mark.parametrize("credentials", [STATIC, SESSION], ids=["keys", "session"])
@pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("bucket", ["my-bucket", "my.dotted.bucket", "Old_Bucket"])
def test_every_nasty_key_is_signed_as_botocore_signs_it(
    credentials: Credentials, storage: StorageConfig, bucket: str
) -> None:
    # For a dotted bucket, botocore returns the host `my.dotted.bucket.127.0.0.1`, which does not resolve.
    botocore_storage = replace(storage, path_style=True) if "127.0.0.1" in storage.endpoint else storage
    for key in NASTY_KEYS:
        expected = botocore_url(credentials, botocore_storage, bucket, key)
        signer = UrlSigner(credentials, storage, Location(bucket, ""), ttl=TTL, now=signing_time(expected))
        assert signer.url(key) == expected


@pytest.fixture
def dual_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sign URLs for IPv4 and IPv6."""
    with monkeypatch.context() as patched:
        patched.setenv("IP_ADDRESS_TYPE", "dualstack")
        process_settings.cache_clear()
        yield
    process_settings.cache_clear()


@pytest.mark.usefixtures("dual_stack")
@pytest.mark.parametrize("storage", ["us-east-1", "eu-central-1", "path-style", "china", "folder", "public-endpoint"])
def test_dual_stack_hosts_equal_those_of_botocore(storage: str) -> None:
    expected = botocore_url(SESSION, STORAGES[storage], "my-bucket", "a b")
    signer = UrlSigner(SESSION, STORAGES[storage], Location("my-bucket", ""), ttl=TTL, now=signing_time(expected))
    assert signer.url("a b") == expected
    assert ("dualstack" in expected) == (not STORAGES[storage].endpoint)
    assert "dualstack" not in origin(STORAGES[storage], "my-bucket", public=False).host
    point = "arn:aws:s3:eu-west-1:123456789012:accesspoint/point"
    assert origin(STORAGES[storage], point).host == (
        "point-123456789012.s3-accesspoint.dualstack.eu-west-1.amazonaws.com"
    )


@settings(max_examples=tries(60), deadline=None)
@given(keys=keys)
def test_any_key_is_signed_as_botocore_signs_it(keys: list[str]) -> None:
    for credentials, storage in ((STATIC, STORAGES["eu-central-1"]), (SESSION, STORAGES["name-and-port-path-style"])):
        for key in keys:
            expected = botocore_url(credentials, storage, "bucket", key)
            signer = UrlSigner(credentials, storage, Location("bucket", ""), ttl=TTL, now=signing_time(expected))
            assert signer.url(key) == expected


@settings(max_examples=tries(200), deadline=None)
@given(keys=keys)
def test_any_key_is_signed_as_the_simple_algorithm_signs_it(keys: list[str]) -> None:
    signer = UrlSigner(SESSION, STORAGES["folder"], Location("bucket", ""), ttl=TTL, now=NOON)
    assert [signer.url(key) for key in keys] == [
        simple_url(SESSION, STORAGES["folder"], "bucket", key, NOON) for key in keys
    ]


def test_hosts_of_all_regions_equal_those_of_botocore() -> None:
    partitions = _SESSION.get_data("partitions")["partitions"]
    hosts = {
        region: f"s3.{region}.{partition['outputs']['dnsSuffix']}"
        for partition in partitions
        for region in partition["regions"]
        if not region.endswith("-global")
    }
    assert len(hosts) > 30
    assert {region: origin(StorageConfig(region=region, path_style=True), "bucket").host for region in hosts} == hosts


@pytest.mark.parametrize("prefix", ["", "warehouse/a b%/t=1"], ids=["bucket", "folder"])
def test_lines_have_the_same_urls(prefix: str) -> None:
    signer = UrlSigner(SESSION, StorageConfig(), Location("bucket", prefix), ttl=TTL, now=NOON)
    paths = [encode_key(key).encode() for key in NASTY_KEYS]
    tails = [f'","n":{n}}}\n'.encode() for n in range(len(paths))]
    expected = b"".join(b'{"url":"' + signer.url(key).encode() + tails[n] for n, key in enumerate(NASTY_KEYS))
    assert signer.lines(b'{"url":"', paths, tails) == expected
    columns = ([tail[:1] for tail in tails], b"", [tail[1:] for tail in tails])
    assert signer.lines(b'{"url":"', paths, *columns) == expected
    bucket_signer = UrlSigner(SESSION, StorageConfig(), Location("bucket", ""), ttl=TTL, now=NOON)
    key = f"{prefix}/x y.parquet" if prefix else "x y.parquet"
    assert signer.url("x y.parquet") == bucket_signer.url(key)


def expiry_in(url: str) -> int:
    query = parse_qs(urlsplit(url).query)
    return (int(signing_time(url).timestamp()) + int(query["X-Amz-Expires"][0])) * 1000


def milliseconds(start: datetime, **later: int) -> int:
    return int((start + timedelta(**later)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("ttl", "expires_at_ms", "life"),
    [
        pytest.param(timedelta(hours=1), None, 3600, id="no-known-end"),
        pytest.param(timedelta(hours=1), milliseconds(NOON, hours=2), 3600, id="credentials-outlive"),
        pytest.param(timedelta(hours=1), milliseconds(NOON, minutes=50), 3000, id="credentials-end-first"),
        pytest.param(timedelta(days=30), None, 604_800, id="longest-life"),
        pytest.param(timedelta(minutes=1), None, 60, id="shortest-setting"),
    ],
)
def test_expiry_equals_that_of_the_url(ttl: timedelta, expires_at_ms: int | None, life: int) -> None:
    credentials = Credentials("AKID", "secret", "token", expires_at_ms)
    signer = UrlSigner(credentials, StorageConfig(), Location("bucket", ""), ttl=ttl, now=NOON)
    url = signer.url("key")
    assert signer.expires_at_ms == expiry_in(url)
    assert signer.expires_at_ms == milliseconds(NOON.replace(microsecond=0), seconds=life)
    assert expires_at_ms is None or signer.expires_at_ms <= expires_at_ms


def test_expired_credentials_sign_nothing() -> None:
    credentials = Credentials("AKID", "secret", "token", milliseconds(NOON, seconds=-1))
    with pytest.raises(Unavailable, match="expired"):
        UrlSigner(credentials, StorageConfig(), Location("bucket", ""), ttl=TTL, now=NOON)


def test_a_new_day_has_a_new_key() -> None:
    sign: Callable[[datetime], str] = lambda now: UrlSigner(  # noqa: E731 -- a short expression, used twice below
        STATIC, StorageConfig(), Location("bucket", ""), ttl=TTL, now=now
    ).url("key")
    tomorrow = NOON + timedelta(days=1)
    assert sign(tomorrow) == simple_url(STATIC, StorageConfig(), "bucket", "key", tomorrow)
    assert sign(NOON) == simple_url(STATIC, StorageConfig(), "bucket", "key", NOON)


def test_repr_never_shows_credentials() -> None:
    assert "wJalr" not in repr(SESSION)
    assert "IQoJ" not in repr(SESSION)


@pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_request_is_signed_as_botocore_signs_it(storage: StorageConfig, method: str) -> None:
    for key in NASTY_KEYS:
        check_request(storage, method, key)


def check_request(storage: StorageConfig, method: str, key: str) -> None:
    headers = {"x-amz-checksum-mode": "  ENABLED   or  not "}
    target = origin(storage, "lake")
    sent = AWSRequest(method, f"{target.scheme}://{target.host}{target.path}{encode_key(key)}", headers=headers)
    sent.context["client_config"] = Config(s3={"payload_signing_enabled": True})
    botocore_credentials = botocore.credentials.Credentials(
        SESSION.access_key_id, SESSION.secret_access_key, SESSION.session_token
    )
    S3SigV4Auth(botocore_credentials, "s3", storage.region).add_auth(sent)
    now = datetime.strptime(sent.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    signed = signed_request(SESSION, storage, ObjectName("lake", key), method, headers, now)
    assert signed.headers["authorization"] == sent.headers["Authorization"]
    assert {name.lower() for name in sent.headers} == signed.headers.keys() | headers.keys()
    assert signed.uri == UrlSigner(SESSION, storage, Location("lake", ""), ttl=TTL).url(key).partition("?")[0]
