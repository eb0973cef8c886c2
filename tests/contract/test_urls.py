"""Signed URLs: only as signed, only until they end, only for what was shared, and in the recipient's name."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from contract.recipient import Table, data_url, download, fetch
from contract.server import Server
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location
from deltaic.storage.signing import UrlSigner

KEY = "table1/some-file.parquet"


@pytest.fixture
def url(table: Callable[[str], Table]) -> str:
    return data_url(table("table1").query().only("file")[0])


def changed(text: str, at: int) -> str:
    """Return the text with another letter or digit at this place."""
    return text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :]


def test_a_signed_url_needs_no_other_credentials(url: str) -> None:
    assert download(url).status == 200


def test_a_signed_url_opens_no_other_file(table: Callable[[str], Table]) -> None:
    first, second = (data_url(line) for line in table("table1").query().only("file"))
    assert download(first.replace(".parquet?", ".orc?")).status == 403
    borrowed = f"{urlsplit(second)._replace(query=urlsplit(first).query).geturl()}"
    assert download(borrowed).status == 403
    log = urlsplit(first)._replace(path="/deltaic-lake/table1/_delta_log/00000000000000000000.json").geturl()
    assert download(log).status == 403


@pytest.mark.parametrize("part", ["path", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Signature"])
def test_a_signed_url_with_one_changed_character_is_refused(url: str, part: str) -> None:
    address = urlsplit(url)
    if part == "path":
        end = len(address.path) - len(".parquet")
        edited = address._replace(path=changed(address.path, end - 20)).geturl()
    else:
        at = address.query.index(f"{part}=") + len(part) + 1
        value = parse_qs(address.query)[part][0]
        offset = {"X-Amz-Date": 8 + 1 + 5, "X-Amz-Expires": 0}.get(part, len(value) // 2)
        edited = address._replace(query=changed(address.query, at + offset)).geturl()
    assert edited != url
    assert download(edited).status in {400, 403}


def test_every_character_of_the_signature_counts(url: str) -> None:
    start = len(url) - 64
    for at in range(start, len(url), 9):
        assert download(changed(url, at)).status == 403


def test_a_url_without_its_signature_or_token_is_refused(url: str) -> None:
    address = urlsplit(url)
    assert download(address._replace(query="").geturl()).status in {400, 403}
    pairs = [pair for pair in address.query.split("&") if not pair.startswith("X-Amz-Security-Token")]
    assert download(address._replace(query="&".join(pairs)).geturl()).status in {400, 403}


def test_a_signed_url_can_only_read(url: str) -> None:
    address = urlsplit(url)
    for method in ("PUT", "DELETE", "POST"):
        reply = fetch(
            address.netloc, method, f"{address.path}?{address.query}", b"" if method != "DELETE" else None, {}
        )
        assert reply.status in {400, 403, 405}
    assert download(url).status == 200


def session(server: Server) -> Credentials:
    """Return a session of the signing role, as the server takes one for each recipient."""
    environment = server.environment
    response = server.client("sts").assume_role(
        RoleArn=environment["SIGNING_ROLE_ARN"], RoleSessionName="test", Tags=[{"Key": "recipient", "Value": "test"}]
    )["Credentials"]
    return Credentials(
        response["AccessKeyId"],
        response["SecretAccessKey"],
        response["SessionToken"],
        int(response["Expiration"].timestamp() * 1000),
    )


def signer(server: Server, life: timedelta, age: timedelta = timedelta(0)) -> UrlSigner:
    storage = StorageConfig(endpoint=server.environment["AWS_ENDPOINT_URL"], path_style=True)
    root = Location.parse(f"s3://{server.shelf.bucket}")
    return UrlSigner(session(server), storage, root, ttl=life, now=datetime.now(UTC) - age)


def test_a_signed_url_expires_at_its_announced_time(server: Server) -> None:
    server.shelf.s3.put_object(Bucket=server.shelf.bucket, Key=KEY, Body=b"rows")
    ends_soon = signer(server, timedelta(seconds=60), age=timedelta(seconds=20))
    assert ends_soon.expires_at_ms / 1000 > time.time()
    assert download(ends_soon.url(KEY)).body == b"rows"
    ended = signer(server, timedelta(seconds=60), age=timedelta(seconds=62))
    assert ended.expires_at_ms / 1000 < time.time()
    assert download(ended.url(KEY)).status == 403


def test_urls_of_each_recipient_have_a_separate_session(server: Server) -> None:
    tokens = {}
    for name in ("alice", "bob"):
        urls = [data_url(server.table("table2", name).query().only("file")[0]) for _ in range(3)]
        tokens[name] = {parse_qs(urlsplit(url).query)["X-Amz-Security-Token"][0] for url in urls}
        # A session lasts; between two of the requests its quarter of an hour may be over.
        assert len(tokens[name]) < len(urls)
    assert tokens["alice"].isdisjoint(tokens["bob"])


def test_the_announced_expiry_is_that_of_the_url(table: Callable[[str], Table]) -> None:
    for line in table("table1").query(maxFiles=5).only("file"):
        parameters = parse_qs(urlsplit(line["url"]).query)
        signed = datetime.strptime(parameters["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        end = signed + timedelta(seconds=int(parameters["X-Amz-Expires"][0]))
        assert line["expirationTimestamp"] == int(end.timestamp() * 1000)
        assert end - datetime.now(UTC) > timedelta(minutes=44)
