"""A large catalog in DynamoDB, in the shapes that the administration writes, by batches and not by transactions."""

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
"""Items that one BatchWriteItem takes."""

_WRITERS: Final = 4
_EVERY_TENTH: Final = 10
_SHARES_EACH: Final = 3
_SCHEMAS_EACH: Final = 2
_FIRST: Final = now()

Entry = tuple[Key, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is; one recipient holds every share, and every recipient holds one share."""

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
    """Write entries into a table that has none of them; return how many."""
    left = iter(entries)

    def put(some: list[Entry]) -> int:
        waiting = {table: [{"PutRequest": {"Item": marshal_item({**key._asdict(), **item})}} for key, item in some]}
        while waiting:
            waiting = client.batch_write_item(RequestItems=waiting).get("UnprocessedItems", {})
        return len(some)

    with ThreadPoolExecutor(_WRITERS) as pool:
        return sum(pool.map(put, iter(lambda: list(islice(left, BATCH)), [])))


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
        for place in range(each):
            yield _table(number, place)
        if number % _EVERY_TENTH == 0:
            yield _volume(number)
    for number in range(size.recipients):
        person = _recipient(number)
        yield keys.catalog_entry("recipient", person.name), person.attributes()
        yield keys.recipient_id(person.id), {"recipient": person.name, "properties": person.properties}
        held = {(number * 7 + place * 13) % size.shares for place in range(_SHARES_EACH)} | {0}
        for share_number in sorted(held) if number else range(size.shares):
            yield from _grant(person, share_number)


def tokens(size: Size) -> Iterator[Entry]:
    """Yield the items of the Tokens table: two tokens each, and of every tenth a link, a client and a policy."""
    for number in range(size.recipients):
        person = _recipient(number)
        whose: dict[str, Any] = {"recipient_id": person.id, "recipient": person.name, "created_at": _FIRST}
        yield keys.token_list(person.id), {"revision": 2}
        for place in range(2):
            secret = f"dlt_{number:05}{place}"
            key, days = keys.token(secret), 1 + (number * 11 + place * 37) % 360
            token = Token(id=key.pk[6:18], expires_at=_FIRST + timedelta(days), **whose)
            yield key, to_item(token)
            forgotten = token.expires_at + timedelta(90)
            listed = {**to_item(token), "expires_at": token.expires_at, "expires": forgotten, "token_key": key.pk}
            yield keys.recipient_entry("token", person.id, token.id), listed
        if number % _EVERY_TENTH == 0:
            yield from _other_keys(number, person, whose)


def _other_keys(number: int, person: Recipient, whose: dict[str, Any]) -> Iterator[Entry]:
    ends_at, secret = _FIRST + timedelta(3), f"link-{number}"
    key = keys.invitation(person.id, secret)
    link = Invitation(id=key.sk[11:23], endpoint="https://x.test", token_seconds=60, expires_at=ends_at, **whose)
    yield key, {**link.attributes(), "expires": ends_at + timedelta(90)}
    client = OAuthClient(id=f"dlc_{number:024x}", **whose)
    yield keys.oauth_client(client.id), {**client.attributes(), "secret_hash": "0" * 64}
    yield keys.recipient_entry("client", person.id, str(0)), client.attributes()
    issuer, subject = "https://login.example.org", f"subject-{number}"
    policy = Policy(id=f"{number:012x}", issuer=issuer, audience="a", subject_claim="sub", subject=subject, **whose)
    places = {"issuer_key": keys.policy(issuer, subject).pk, "policy_key": keys.policy(issuer, subject).sk}
    yield keys.policy(issuer, subject), policy.attributes()
    yield keys.recipient_entry("policy", person.id, policy.id), {**policy.attributes(), **places}


def _table(number: int, place: int) -> Entry:
    share, schema, name = share_name(number), f"schema_{place % _SCHEMAS_EACH}", f"table_{place:05}"
    table = Table(
        name=name,
        schema_name=schema,
        share=share,
        id=_id(f"table-{number}", place),
        share_id=_id("share", number),
        location=f"s3://lake/{share}/{schema}/{name}",
        created_at=_FIRST,
    )
    return keys.asset("table", share, schema, name), table_item(table)


def _volume(number: int) -> Entry:
    share = share_name(number)
    where: dict[str, Any] = {
        "schema_name": "schema_0",
        "share": share,
        "share_id": _id("share", number),
        "created_at": _FIRST,
    }
    volume = Volume(name="scans", id=_id("volume", number), location=f"s3://lake/{share}/scans", **where)
    return keys.asset("volume", share, "schema_0", "scans"), volume.attributes()


def _recipient(number: int) -> Recipient:
    properties = {"country": "PL", "team": f"team-{number % 50}"}
    return Recipient(name=recipient_name(number), id=_id("recipient", number), properties=properties, created_at=_FIRST)


def _grant(person: Recipient, number: int) -> Iterator[Entry]:
    share = share_name(number)
    grant: Item = Grant(
        recipient=person.name,
        recipient_id=person.id,
        share=share,
        share_id=_id("share", number),
        created_at=_FIRST,
        ends_at=_FIRST + timedelta(20) if number == 1 else None,
    )
    yield keys.recipient_entry("grant", person.id, share), grant.attributes()
    yield keys.share_entry("grant", share, person.id), grant.attributes()


def _id(kind: str, number: int) -> str:
    return str(UUID(bytes=f"{kind}-{number}".encode()[-16:].rjust(16, b"-"), version=4))
