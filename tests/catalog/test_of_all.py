"""What all recipients hold is found by one scan: the same as by one recipient after another."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.keys import GRANTS
from deltaic.scheduled.expirations import list_expirations, scan_expirations

if TYPE_CHECKING:
    from catalog.conftest import Catalog


@pytest.fixture
def held(catalog: "Catalog") -> "Catalog":
    """Return a catalog in which two recipients hold some of everything, and a third has ended."""
    admin, now = catalog.admin, datetime.now(UTC)
    for share in ("one", "two"):
        admin.shares.create(share)
        admin.schemas.create(share, "s")
        admin.tables.create(share, "s", "t", "s3://lake/t")
        sql = "SELECT * FROM source"
        admin.views.create(share, "s", "v", f"s3://lake/{share}/v", source=f"{share}.s.t", sql=sql, properties=())
    for name in ("alice", "bob", "gone"):
        person = admin.recipients.create(name)
        admin.tokens.create(person, timedelta(days=3))
        admin.tokens.create(person)
        admin.invitations.create(person, "https://shares.test", timedelta(days=2))
        admin.clients.create(person)
        admin.federation.create(person, "https://login.test", audience="a", claim="sub", subject=name)
        admin.grants.create(name, "one")
        admin.grants.create(name, "two", ends_at=now + timedelta(days=4))
    admin.recipients.update("bob", ends_at=now + timedelta(days=5))
    admin.recipients.update("gone", ends_at=now - timedelta(days=5))
    return catalog


def test_a_scan_finds_what_the_lists_have(held: "Catalog") -> None:
    admin = held.admin
    people = list(admin.recipients.list())
    for kind in (admin.tokens, admin.invitations, admin.clients, admin.federation):
        each = [one for person in people for one in kind.list(person.id)]
        assert sorted(kind.list_all(), key=repr) == sorted(each, key=repr)
        assert len(each) >= len(people)
    grants = [one for person in people for one in admin.grants.of_recipient(person.name)]
    assert sorted(admin.grants.list_all(), key=repr) == sorted(grants, key=repr)
    assert {one.share for one in admin.grants.list_all(expiring=True)} == {"two"}
    views = [one for share in ("one", "two") for one in admin.views.list(share)]
    assert sorted(admin.views.list_all(), key=repr) == sorted(views, key=repr)


def test_what_ends_soon_is_the_same_by_scans_and_by_lists(held: "Catalog") -> None:
    now = datetime.now(UTC)
    found = scan_expirations(held.admin, now, now + timedelta(days=30))
    assert found == list_expirations(held.admin, now, now + timedelta(days=30))
    assert {(one.recipient, one.kind) for one in found} == {
        *((name, kind) for name in ("alice", "bob") for kind in ("token", "link", "grant")),
        ("bob", "recipient"),
    }


def test_a_scan_goes_on_behind_requests_that_found_nothing() -> None:
    key = {"pk": {"S": "recipient/1"}, "sk": {"S": "grant/a"}}
    answers: list[dict[str, Any]] = [
        {"Items": [], "LastEvaluatedKey": key},
        {"Items": [key], "LastEvaluatedKey": key},
        {"Items": [key]},
    ]
    asked: list[dict[str, Any]] = []

    class Client:
        """Answers as DynamoDB does that finds little."""

        def scan(self, **request: Any) -> dict[str, Any]:
            asked.append(request)
            return answers[len(asked) - 1]

    client: Any = Client()
    assert len([*Dynamo(lambda: client).scan("t", GRANTS)]) == 2
    assert [request.get("ExclusiveStartKey") for request in asked] == [None, key, key]
