"""A link creates one profile, however often it is opened; its page reveals nothing else."""

import ast
import base64
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import count
from pathlib import Path

import delta_sharing
import httpx
import pyarrow as pa
import pytest
from contract.logs import TableLog, column
from deltaic.catalog.credentials.invitations import Invitations, IssuedInvitation
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.pages.html import COPY_BUTTONS
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import Entry, FilledServer, dynamo_of

CONTACT = "Data team <data@shares.example>"
NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    entries = [Entry("sales", "eu", "orders"), Entry("sales", "eu", "returns"), Entry("hidden", "s", "secret_table")]
    folder = tmp_path_factory.mktemp("activation")
    with FilledServer.running(folder, entries, parameters={"Contact": CONTACT, "LogLevel": "INFO"}) as running:
        log = TableLog(running.client("s3"), DATA_BUCKET, "orders", pa.schema([column("id", pa.int64())]))
        log.create()
        yield running


def invited(
    server: FilledServer, name: str = "", share: str = "sales", overlap: timedelta | None = None
) -> IssuedInvitation:
    """Invite a new recipient that has a share."""
    recipient = server.admin.recipients.create(name or f"recipient{next(NUMBERS)}")
    if share:
        server.admin.grants.create(recipient.name, share)
    return server.admin.invitations.create(recipient, server.endpoint, overlap=overlap)


def profile_in(page: str) -> dict[str, object]:
    data = re.findall(r'href="data:application/json;base64,([^"]+)"', page)
    assert len(data) == 1
    profile: dict[str, object] = json.loads(base64.b64decode(data[0]))
    return profile


def states(server: FilledServer, invitation: IssuedInvitation) -> list[str]:
    return [invitation_.state() for invitation_ in server.admin.invitations.list(invitation.invitation.recipient_id)]


def tokens(server: FilledServer, invitation: IssuedInvitation) -> int:
    return len(server.admin.tokens.list(invitation.invitation.recipient_id))


def test_opening_a_link_shows_its_purpose_and_does_not_use_it(server: FilledServer) -> None:
    invitation = invited(server)
    for _ in range(3):
        page = httpx.get(invitation.link)
        assert page.status_code == 200
        text = unescape(page.text)
        assert invitation.invitation.recipient in text
        assert CONTACT in text
        assert "eu.orders" in text
        assert "eu.returns" in text
        assert "secret_table" not in text
        assert "dlt_" not in text
    assert (states(server, invitation), tokens(server, invitation)) == (["open"], 0)


def test_a_link_creates_one_profile_and_the_published_client_reads_with_it(
    server: FilledServer, tmp_path: Path
) -> None:
    invitation = invited(server)
    page = httpx.post(invitation.link)
    assert page.status_code == 200
    profile = profile_in(page.text)
    assert profile.keys() == {
        "shareCredentialsVersion", "endpoint", "icebergEndpoint", "bearerToken", "expirationTime",
    }  # fmt: skip
    assert profile["icebergEndpoint"] == f"{server.endpoint}/iceberg"
    assert (profile["shareCredentialsVersion"], profile["endpoint"]) == (1, server.endpoint)
    assert str(profile["bearerToken"]) not in page.text
    file = tmp_path / f"{invitation.invitation.recipient}.share"
    file.write_text(json.dumps(profile))
    assert f'download="{file.name}"' in page.text
    frame = delta_sharing.load_as_pandas(f"{file}#sales.eu.orders")
    assert list(frame.columns) == ["id"]
    assert states(server, invitation) == ["used"]
    [token] = server.admin.tokens.list(invitation.invitation.recipient_id)
    assert server.admin.invitations.list(invitation.invitation.recipient_id)[0].token_id == token.id


def read_with(server: FilledServer, page: str) -> None:
    """Use the profile of a page once."""
    headers = {"Authorization": f"Bearer {profile_in(page)['bearerToken']}"}
    assert httpx.get(f"{server.endpoint}/shares", headers=headers).status_code == 200


def test_repeated_clicks_get_the_same_profile_until_its_first_use(server: FilledServer) -> None:
    invitation = invited(server)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: httpx.post(invitation.link, timeout=60), range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    [profile] = {json.dumps(profile_in(answer.text)) for answer in answers}
    assert tokens(server, invitation) == 1
    assert httpx.get(invitation.link).status_code == 200
    repeated = httpx.post(invitation.link)
    assert json.dumps(profile_in(repeated.text)) == profile
    read_with(server, repeated.text)
    assert {httpx.request(method, invitation.link).status_code for method in ("GET", "POST")} == {410}


def test_an_invalid_link_names_the_contact_and_no_reason(server: FilledServer) -> None:
    used, cancelled, expired, deleted = (invited(server) for _ in range(4))
    read_with(server, httpx.post(used.link).text)
    admin = server.admin
    admin.invitations.cancel(admin.recipients.get(cancelled.invitation.recipient), cancelled.invitation.id)
    admin.recipients.delete(deleted.invitation.recipient)
    table, dynamo = server.environment["TOKENS_TABLE"], dynamo_of(server.environment)
    names = server.environment["CATALOG_TABLE"], table
    past = Invitations(table, dynamo, TokenAdmin(*names, dynamo), clock=lambda: time.time() - 7200)
    expired = past.create(admin.recipients.get(expired.invitation.recipient), server.endpoint, timedelta(hours=1))
    unknown = f"{server.endpoint}/activate/{'0' * 32}{'A' * 43}"
    odd = [f"{server.endpoint}/activate/{text}" for text in ("x", "%00", "..%2f..", "a" * 2000, "%F0%9F%A6%98", "%ff")]
    pages = set()
    for link in (used.link, cancelled.link, expired.link, deleted.link, used.link[:-1] + "~", unknown, *odd):
        for method in ("GET", "POST"):
            answer = httpx.request(method, link)
            assert answer.status_code == 410, link
            pages.add((answer.text, answer.headers["content-security-policy"], answer.headers["content-type"]))
    [(page, _, _)] = pages
    assert CONTACT in unescape(page)


def test_links_of_expired_or_cut_off_recipients_are_invalid(server: FilledServer) -> None:
    ended, cut_off = invited(server), invited(server)
    recipients = server.admin.recipients
    recipients.update(ended.invitation.recipient, ends_at=datetime.now(UTC) - timedelta(minutes=1))
    server.admin.cut_off(cut_off.invitation.recipient)
    unknown = httpx.get(f"{server.endpoint}/activate/{'0' * 32}{'A' * 43}")
    for invitation in (ended, cut_off):
        for method in ("GET", "POST"):
            answer = httpx.request(method, invitation.link)
            assert (answer.status_code, answer.text) == (410, unknown.text)
        assert tokens(server, invitation) == 0


def test_a_link_works_only_from_the_recipients_networks(server: FilledServer) -> None:
    invitation = invited(server)
    recipients = server.admin.recipients
    recipients.update(invitation.invitation.recipient, add_addresses=["203.0.113.0/24"])
    for method in ("GET", "POST"):
        answer = httpx.request(
            method, invitation.link, headers={"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.7"}
        )
        assert answer.status_code == 403
        assert CONTACT in unescape(answer.text)
        assert "203.0.113" not in answer.text
        assert "eu.orders" not in answer.text
    assert (states(server, invitation), tokens(server, invitation)) == (["open"], 0)
    recipients.update(invitation.invitation.recipient, add_addresses=["127.0.0.0/8"])
    assert httpx.post(invitation.link).status_code == 200


def test_a_third_token_is_refused_and_the_link_stays_valid(server: FilledServer) -> None:
    invitation = invited(server)
    recipient = server.admin.recipients.get(invitation.invitation.recipient)
    first, _ = server.admin.tokens.create(recipient), server.admin.tokens.create(recipient)
    assert httpx.post(invitation.link).status_code == 409
    assert states(server, invitation) == ["open"]
    server.admin.tokens.revoke(recipient, first.token.id)
    assert httpx.post(invitation.link).status_code == 200


def test_a_rotating_link_revokes_other_tokens_when_it_is_used(server: FilledServer) -> None:
    invitation = invited(server, overlap=timedelta(0))
    recipient = server.admin.recipients.get(invitation.invitation.recipient)
    old = server.admin.tokens.create(recipient)
    assert server.admin.tokens.get(recipient, old.token.id).state() == "live"
    assert httpx.post(invitation.link).status_code == 200
    assert server.admin.tokens.get(recipient, old.token.id).state() == "revoked"


def test_page_shows_sender_comment_and_warning_and_says_when_a_share_is_empty(server: FilledServer) -> None:
    server.admin.shares.create("may", comment="Opens in <May>")
    page = httpx.get(invited(server, share="may").link).text
    assert f"{CONTACT} shares data with you." in unescape(page)
    assert "Opens in &lt;May&gt;" in page
    assert "This share has no tables yet." in page
    assert page.index("Save the file at once") < page.index("<button>")
    assert "Nothing is shared with you yet" in httpx.get(invited(server, share="").link).text


def test_names_are_escaped_in_the_page_and_in_every_snippet(server: FilledServer) -> None:
    name = "o'hara<script>alert(1)\"$(id)`\\"
    share, table = "<img\u00a0src=x>", "t'\"`$(id)"
    server.admin.shares.create(share)
    server.admin.schemas.create(share, "s")
    server.admin.tables.create(share, "s", table, f"s3://{DATA_BUCKET}/odd")
    invitation = invited(server, name, share)
    before, done = httpx.get(invitation.link).text, httpx.post(invitation.link).text
    for page in (before, done):
        assert not re.search(r"<script|<img|<svg| on\w+=", page.replace(COPY_BUTTONS, ""))
        assert share in unescape(page)
    assert name in unescape(before)
    code = {
        client: unescape(text)
        for client, text in re.findall(r"<summary>(.*?)</summary>\n<pre tabindex=0>(.*?)</pre>", done, re.DOTALL)
    }
    line = next(line for line in code["Python with pandas"].splitlines() if line.startswith("data"))
    assert ast.literal_eval(line.partition("(")[2][:-1]).endswith(f"#{share}.s.{table}")
    assert "'t''\"`$(id)'" in code["DuckDB"]
    file = re.findall(r'download="([^"]+)"', done)[0]
    assert re.fullmatch(r"[\w.-]+\.share", unescape(file))


def test_the_page_loads_no_resources_and_is_not_cached(server: FilledServer) -> None:
    invitation, explore_page = invited(server), f"{server.endpoint}/explore"
    unknown = f"{server.endpoint}/activate/{'0' * 32}{'A' * 43}"
    for answer in (httpx.get(invitation.link), httpx.post(invitation.link), httpx.get(unknown)):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in answer.headers
        addresses = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
        assert all(
            address == explore_page or address.startswith("data:application/json;base64,") for address in addresses
        )


def test_other_methods_and_headers_reveal_nothing(server: FilledServer) -> None:
    invitation = invited(server)
    for method in ("PUT", "DELETE", "PATCH"):
        assert httpx.request(method, invitation.link).status_code == 404
    answer = httpx.get(invitation.link, headers={"Host": "evil.localhost", "X-Forwarded-Host": "evil.example"})
    assert "evil.example" not in answer.text
    assert server.endpoint in httpx.post(invitation.link, headers={"Host": "evil.localhost"}).text
    assert httpx.get(f"{server.endpoint}/shares").status_code == 401


def test_the_log_has_recipient_and_time_and_no_secret(server: FilledServer) -> None:
    invitation = invited(server)
    for method in ("GET", "POST", "POST"):
        httpx.request(method, invitation.link)
    httpx.get(invitation.link[:-1] + "~")
    log = (server.folder / "state" / "gateway.log").read_text()
    assert log.count(f'"invitationId":"{invitation.invitation.id}"') == 3
    assert server.admin.invitations.list(invitation.invitation.recipient_id)[0].token_id in log
    assert invitation.secret[:-1] not in log
    assert invitation.secret[32:-1] not in log
    stored = str(list(dynamo_of(server.environment).client.scan(TableName=server.environment["TOKENS_TABLE"])["Items"]))
    assert invitation.secret not in stored
    assert invitation.secret[32:] not in stored
    assert invitation.secret not in repr(invitation)
