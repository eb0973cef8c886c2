"""A catalog as lines of JSON, and back: what is shared with whom, and tokens by their hashes; no secret is in it.

The first line says what the file is and the last how many items it holds and their digest, so that no half of a file
can pass for a whole one. What passes by itself is left out: submitted queries, writers' leases, marks of checkpoints.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaic.catalog.attributes import marshal_item, unmarshal_item
from deltaic.catalog.aws_errors import refused
from deltaic.catalog.storages import SECRETS
from deltaic.errors import Conflict, InvalidParameter, Unavailable
from deltaic.partition_filters.properties import check_lists

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FORMAT = 1
KEPT = {"catalog": ("shares", "share/", "recipients", "recipient/", "storages"), "tokens": ("token/", "recipient/")}
"""The partitions of each table that are copied: in this order nobody gets in before what he may see is there."""

READINGS = 5
"""How often a catalog is read to find it twice the same."""

WRITERS = 8

Item = dict[str, Any]
Line = tuple[str, Item]
"""Which of the two tables, and an item of it."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The two tables of one stack."""

    client: "DynamoDBClient"
    catalog: str
    tokens: str

    def name(self, kind: str) -> str:
        """Return a table's name by its kind."""
        return {"catalog": self.catalog, "tokens": self.tokens}[kind]


@dataclass(frozen=True, slots=True)
class Backup:
    """What a file holds."""

    made: str
    """When, in UTC."""

    lines: Sequence[Line]

    def count(self, sort_key: str) -> int:
        """Return how many items of a kind it has (`share/`, `token/`, ...)."""
        return sum(item["sk"].startswith(sort_key) for _, item in self.lines)

    @property
    def keyed_storages(self) -> list[str]:
        """The storages whose access keys lie in Secrets Manager, and so not here."""
        return [item["name"] for _, item in self.lines if item["pk"] == "storages" and item.get("secret")]


def backup(tables: Tables) -> Backup:
    """Read a whole catalog as it stands at one moment; raises Unavailable when it does not stand still."""
    before = list(_read(tables))
    for _ in range(READINGS):
        after = list(_read(tables))
        if after == before:
            return Backup(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", after)
        before = after
    raise Unavailable("the catalog is being changed all the time: try again when nobody does")


def to_text(made: Backup) -> Iterator[str]:
    """Yield the lines of the file."""
    digest = hashlib.sha256()
    yield _line({"deltaicBackup": FORMAT, "made": made.made})
    for kind, item in made.lines:
        text = _line({"table": kind, "item": item})
        digest.update(text.encode())
        yield text
    yield _line({"items": len(made.lines), "sha256": digest.hexdigest()})


def from_text(lines: Sequence[str], name: str) -> Backup:
    """Read a file; raises InvalidParameter for one that is none, is cut short, was changed, or is of a later format."""
    read = [_parsed(line, number, name) for number, line in enumerate(lines, 1)]
    if not read or not {"deltaicBackup", "made"} <= set(read[0]):
        raise InvalidParameter(f"{name} is no backup: its first line does not say so")
    if read[0]["deltaicBackup"] != FORMAT:
        raise InvalidParameter(f"{name} has the format {read[0]['deltaicBackup']}, and this version reads {FORMAT}")
    digest = hashlib.sha256("".join(lines[1:-1]).encode()).hexdigest()
    if read[-1] != {"items": len(read) - 2, "sha256": digest}:
        raise InvalidParameter(f"{name} is cut short or was changed: take another copy")
    found: list[Any] = [(line.get("table"), line.get("item")) for line in read[1:-1]]
    if not all(_is_kept(kind, item) for kind, item in found):
        raise InvalidParameter(
            f"{name} holds what no backup has, or text that is no Unicode: it was not written by `deltaic backup`"
        )
    return Backup(str(read[0]["made"]), found)


def _is_kept(kind: Any, item: Any) -> bool:
    try:
        marshal_item(item)
        if str(item["pk"]).startswith("recipient"):
            check_lists(item.get("properties", {}))
        return bool(item["sk"]) and str(item["pk"]).startswith(KEPT[kind])
    except (InvalidParameter, KeyError, TypeError, AttributeError):
        return False


def restore(tables: Tables, made: Backup) -> int:
    """Write a backup into an empty stack and return how many items were not there; again after a failure it goes on.

    Raises Conflict when the stack holds anything that the backup has not: two catalogs are not mixed.
    """
    wanted = [(kind, _at_home(item, tables.catalog)) for kind, item in made.lines]
    there = {(kind, item["pk"], item["sk"]): item for kind, item in _read(tables)}
    missing = []
    for kind, item in wanted:
        found = there.pop((kind, item["pk"], item["sk"]), None)
        if found is not None and found != item:
            raise _occupied(tables)
        if found is None:
            missing.append((kind, item))
    if there:
        raise _occupied(tables)
    for kind in KEPT:
        some = [item for table, item in missing if table == kind]
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(partial(_put, tables, tables.name(kind)), some))
    return len(missing)


def _read(tables: Tables) -> Iterator[Line]:
    for kind, partitions in KEPT.items():
        items = []
        try:
            pages = tables.client.get_paginator("scan").paginate(TableName=tables.name(kind), ConsistentRead=True)
            for page in pages:
                items += [unmarshal_item(item) for item in page["Items"]]
        except Exception as error:
            raise refused(error) from error
        kept = [item for item in items if item["pk"].startswith(partitions)]
        yield from ((kind, item) for item in sorted(kept, key=lambda item: (item["pk"], item["sk"])))


def _at_home(item: Item, catalog: str) -> Item:
    """Return an item with the name that its secret has in this stack, whose functions may read no other's."""
    if item["pk"] != "storages" or not item.get("secret"):
        return item
    return {**item, "secret": f"{SECRETS}/{catalog}/{item['secret'].rpartition('/')[2]}"}


def _put(tables: Tables, table: str, item: Item) -> None:
    try:
        tables.client.put_item(TableName=table, Item=marshal_item(item), ConditionExpression="attribute_not_exists(pk)")
    except tables.client.exceptions.ConditionalCheckFailedException:
        raise _occupied(tables) from None
    except Exception as error:
        raise refused(error) from error


def _occupied(tables: Tables) -> Conflict:
    return Conflict(f"{tables.catalog} and {tables.tokens} hold something else already: restore into an empty stack")


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True) + "\n"


def _parsed(line: str, number: int, name: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not line.endswith("\n"):
        raise InvalidParameter(f"{name}:{number} is no line of a backup: it is cut short or was changed")
    return value
