"""Write a large catalog into DynamoDB in batches, with the same items as the admin classes write."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

from deltaic.catalog import keys
from deltaic.catalog.admin.table_admin import to_item as table_item
from deltaic.catalog.asset_items import Volume
from deltaic.catalog.attributes import marshal_item
from deltaic.catalog.credentials.tokens import to_item
from deltaic.catalog.items import (
    Grant,
    Invitation,
    Item,
    OAuthClient,
    Policy,
    Recipient,
    Schema,
    Share,
    Table,
    Token,
    now,
)
from deltaic.catalog.keys import Key

BATCH: Final = 25
"""Limit of BatchWriteItem."""

_WRITERS: Final = 4
_EVERY_TENTH: Final = 10
_SHARES_EACH: Final = 3
_SCHEMAS_EACH: Final = 2
_FIRST: Final = now()

Entry = tuple[Key, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the catalog. One recipient has grants on every share, and one share is granted to every recipient."""

    shares: int = 1000
    recipients: int = 5000
    tables: int = 50_000


def share_name(number: int) -> str:
    """Return the name of a share."""
    return f"share_{number:05}"


def recipient_name(number: int) -> str:
    """Return the name of a recipient."""
    return f"recipient_{number:05}"


def write(client: Any, table: str, entries: Iterable[Entry]) -> int:
    """Write entries into an empty table; return their number."""
    remaining = iter(entries)

    def put(batch: list[Entry]) -> int:
        unprocessed = {
            table: [{"PutRequest": {"Item": marshal_item({**key._asdict(), **item})}} for key, item in batch]
        }
        while unprocessed:
            unprocessed = client.batch_write_item(RequestItems=unprocessed).get("UnprocessedItems", {})
        return len(batch)

    with ThreadPoolExecutor(_WRITERS) as pool:
        return sum(pool.map(put, iter(lambda: list(islice(remaining, BATCH)), [])))


def catalog(size: Size) -> Iterator[Entry]:
    """Yield the items of the Catalog table."""
    each = size.tables // size.shares
    for number in range(size.shares):
        name, share_id = share_name(number), _id("share", number)
        share = Share(name=name, id=share_id, comment=f"What was sold in region {number}", created_at=_FIRST)
        yield keys.catalog_entry("share", name), {**share.attributes(), "schemas": _SCHEMAS_EACH}
        for part in range(_SCHEMAS_EACH):
            schema = Schema(name=f"schema_{part}", share=name, share_id=share_id, created_at=_FIRST)
            yield keys.schema(name, schema.name), {**schema.attributes(), "tables": each // _SCHEMAS_EACH}
        for index in range(each):
            yield _table(number, index)
        if number % _EVERY_TENTH == 0:
            yield _volume(number)
    for number in range(size.recipients):
        recipient = _recipient(number)
        yield keys.catalog_entry("recipient", recipient.name), recipient.attributes()
        yield keys.recipient_id(recipient.id), {"recipient": recipient.name, "properties": recipient.properties}
        granted_shares = {(number * 7 + index * 13) % size.shares for index in range(_SHARES_EACH)} | {0}
        for share_number in sorted(granted_shares) if number else range(size.shares):
            yield from _grant(recipient, share_number)


def tokens(size: Size) -> Iterator[Entry]:
    """Yield the items of the Tokens table: two tokens per recipient; every tenth has a link, client and policy."""
    for number in range(size.recipients):
        recipient = _recipient(number)
        owner: dict[str, Any] = {"recipient_id": recipient.id, "recipient": recipient.name, "created_at": _FIRST}
        yield keys.token_list(recipient.id), {"revision": 2}
        for index in range(2):
            secret = f"dlt_{number:05}{index}"
            key, days = keys.token(secret), 1 + (number * 11 + index * 37) % 360
            token = Token(id=key.pk[6:18], expires_at=_FIRST + timedelta(days), **owner)
            yield key, to_item(token)
            deleted_at = token.expires_at + timedelta(90)
            list_item = {**to_item(token), "expires_at": token.expires_at, "expires": deleted_at, "token_key": key.pk}
            yield keys.recipient_entry("token", recipient.id, token.id), list_item
        if number % _EVERY_TENTH == 0:
            yield from _other_keys(number, recipient, owner)


def _other_keys(number: int, recipient: Recipient, owner: dict[str, Any]) -> Iterator[Entry]:
    ends_at, secret = _FIRST + timedelta(3), f"link-{number}"
    key = keys.invitation(recipient.id, secret)
    link = Invitation(id=key.sk[11:23], endpoint="https://x.test", token_seconds=60, expires_at=ends_at, **owner)
    yield key, {**link.attributes(), "expires": ends_at + timedelta(90)}
    client = OAuthClient(id=f"dlc_{number:024x}", **owner)
    yield keys.oauth_client(client.id), {**client.attributes(), "secret_hash": "0" * 64}
    yield keys.recipient_entry("client", recipient.id, str(0)), client.attributes()
    issuer, subject = "https://login.example.org", f"subject-{number}"
    policy = Policy(id=f"{number:012x}", issuer=issuer, audience="a", subject_claim="sub", subject=subject, **owner)
    item_keys = {"issuer_key": keys.policy(issuer, subject).pk, "policy_key": keys.policy(issuer, subject).sk}
    yield keys.policy(issuer, subject), policy.attributes()
    yield keys.recipient_entry("policy", recipient.id, policy.id), {**policy.attributes(), **item_keys}


def _table(number: int, index: int) -> Entry:
    share, schema, name = share_name(number), f"schema_{index % _SCHEMAS_EACH}", f"table_{index:05}"
    table = Table(
        name=name,
        schema_name=schema,
        share=share,
        id=_id(f"table-{number}", index),
        share_id=_id("share", number),
        location=f"s3://lake/{share}/{schema}/{name}",
        created_at=_FIRST,
    )
    return keys.asset("table", share, schema, name), table_item(table)


def _volume(number: int) -> Entry:
    share = share_name(number)
    parents: dict[str, Any] = {
        "schema_name": "schema_0",
        "share": share,
        "share_id": _id("share", number),
        "created_at": _FIRST,
    }
    volume = Volume(name="scans", id=_id("volume", number), location=f"s3://lake/{share}/scans", **parents)
    return keys.asset("volume", share, "schema_0", "scans"), volume.attributes()


def _recipient(number: int) -> Recipient:
    properties = {"country": "PL", "team": f"team-{number % 50}"}
    return Recipient(name=recipient_name(number), id=_id("recipient", number), properties=properties, created_at=_FIRST)


def _grant(recipient: Recipient, number: int) -> Iterator[Entry]:
    share = share_name(number)
    grant: Item = Grant(
        recipient=recipient.name,
        recipient_id=recipient.id,
        share=share,
        share_id=_id("share", number),
        created_at=_FIRST,
        ends_at=_FIRST + timedelta(20) if number == 1 else None,
    )
    yield keys.recipient_entry("grant", recipient.id, share), grant.attributes()
    yield keys.share_entry("grant", share, recipient.id), grant.attributes()


def _id(kind: str, number: int) -> str:
    return str(UUID(bytes=f"{kind}-{number}".encode()[-16:].rjust(16, b"-"), version=4))
