"""Scans over all recipients, which return the same items as one listing per recipient."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.keys import GRANTS
from deltaic.scheduled.expirations import list_expirations, scan_expirations

if TYPE_CHECKING:
    from catalog.conftest import Catalog


@pytest.fixture
def filled(catalog: "Catalog") -> "Catalog":
    """Return a catalog with two recipients that have keys of every kind, and an ended third one."""
    admin, now = catalog.admin, datetime.now(UTC)
    for share in ("one", "two"):
        admin.shares.create(share)
        admin.schemas.create(share, "s")
        admin.tables.create(share, "s", "t", "s3://lake/t")
        sql = "SELECT * FROM source"
        admin.views.create(share, "s", "v", f"s3://lake/{share}/v", source=f"{share}.s.t", sql=sql, properties=())
    for name in ("alice", "bob", "gone"):
        recipient = admin.recipients.create(name)
        admin.tokens.create(recipient, timedelta(days=3))
        admin.tokens.create(recipient)
        admin.invitations.create(recipient, "https://shares.test", timedelta(days=2))
        admin.clients.create(recipient)
        admin.federation.create(recipient, "https://login.test", audience="a", claim="sub", subject=name)
        admin.grants.create(name, "one")
        admin.grants.create(name, "two", ends_at=now + timedelta(days=4))
    admin.recipients.update("bob", ends_at=now + timedelta(days=5))
    admin.recipients.update("gone", ends_at=now - timedelta(days=5))
    return catalog


def test_scan_returns_the_same_as_all_listings(filled: "Catalog") -> None:
    admin = filled.admin
    recipients = list(admin.recipients.list())
    for kind in (admin.tokens, admin.invitations, admin.clients, admin.federation):
        items = [item for recipient in recipients for item in kind.list(recipient.id)]
        assert sorted(kind.list_all(), key=repr) == sorted(items, key=repr)
        assert len(items) >= len(recipients)
    grants = [item for recipient in recipients for item in admin.grants.of_recipient(recipient.name)]
    assert sorted(admin.grants.list_all(), key=repr) == sorted(grants, key=repr)
    assert {item.share for item in admin.grants.list_all(expiring=True)} == {"two"}
    views = [item for share in ("one", "two") for item in admin.views.list(share)]
    assert sorted(admin.views.list_all(), key=repr) == sorted(views, key=repr)


def test_endings_are_the_same_by_scan_and_by_listing(filled: "Catalog") -> None:
    now = datetime.now(UTC)
    result = scan_expirations(filled.admin, now, now + timedelta(days=30))
    assert result == list_expirations(filled.admin, now, now + timedelta(days=30))
    assert {(ending.recipient, ending.kind) for ending in result} == {
        *((name, kind) for name in ("alice", "bob") for kind in ("token", "link", "grant")),
        ("bob", "recipient"),
    }


def test_scan_continues_after_an_empty_page() -> None:
    key = {"pk": {"S": "recipient/1"}, "sk": {"S": "grant/a"}}
    answers: list[dict[str, Any]] = [
        {"Items": [], "LastEvaluatedKey": key},
        {"Items": [key], "LastEvaluatedKey": key},
        {"Items": [key]},
    ]
    requests: list[dict[str, Any]] = []

    class Client:
        """DynamoDB client whose scan finds few items."""

        def scan(self, **request: Any) -> dict[str, Any]:
            requests.append(request)
            return answers[len(requests) - 1]

    client: Any = Client()
    assert len([*Dynamo(lambda: client).scan("t", GRANTS)]) == 2
    assert [request.get("ExclusiveStartKey") for request in requests] == [None, key, key]
