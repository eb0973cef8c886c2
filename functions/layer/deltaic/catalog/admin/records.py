"""What the administration of every kind of entry rests on: nobody's change is lost, nothing is written half."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.buckets import Buckets
from deltaic.catalog.dynamo import Attributes, Dynamo, pauses
from deltaic.catalog.items import Recipient, Schema, Share
from deltaic.catalog.keys import Key
from deltaic.catalog.writes import ABSENT, Write, Writes, check, delete, put_new, update
from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic.protocol import names

_RACES: Final = 50
_LONGEST_PAUSE_SECONDS: Final = 2.56
"""Longer than a read of what decides and a write take on a busy machine, so that many writers spread."""
_KEEP_CHANGING: Final = "others keep changing this part of the catalog: try again in a moment"
DELETING: Final = "deleting"
"""The `state` of an entry whose deletion has begun: nothing can be made below it any more."""


class Excerpt(NamedTuple):
    """Which entries of a listing are wanted; by default all."""

    after: str | None = None
    """Those that come strictly after this name."""
    prefix: str = ""
    """Those whose names begin so, in any case."""
    limit: int | None = None
    """So many at most; no more are read than it takes to find them."""

    def of(self, stretch: keys.KeyRange) -> keys.KeyRange:
        """Return what of a whole listing, such as `keys.all_of("share")`, is wanted."""
        first = f"{stretch.low}{keys.segment(self.prefix)}"
        low = first if self.after is None else max(first, f"{stretch.low}{keys.segment(self.after)}\0")
        return keys.KeyRange(stretch.pk, low, f"{first}{_HIGHEST}" if self.prefix else stretch.high)


EVERY: Final = Excerpt()

_HIGHEST: Final = "\U0010ffff"

Change = Callable[[Attributes], Mapping[str, Any]]
"""From the attributes as they stand to those that change; None removes one."""


Checks = Mapping[str, Callable[[Any], Any]]
"""By the names of an entry's attributes, what returns a value as it is stored, or raises InvalidParameter."""


class Records:
    """The entries of one catalog table, and the parents that several kinds of entry look up."""

    def __init__(self, table: str, dynamo: Dynamo, buckets: Buckets) -> None:
        self.table = table
        """The name of the DynamoDB table."""
        self.buckets = buckets
        self._dynamo = dynamo
        # Every write spells out the table.
        self.put_new, self.check = partial(put_new, table), partial(check, table)
        self.update, self.delete = partial(update, table), partial(delete, table)

    def share(self, name: str) -> Share:
        """Return a share; raises NotFound."""
        return Share.read(self.present(keys.catalog_entry("share", name), f"share '{name}' not found"))

    def schema(self, share: str, name: str) -> Schema:
        """Return a schema; raises NotFound."""
        return Schema.read(self.present(keys.schema(share, name), f"schema '{share}.{name}' not found"))

    def recipient(self, name: str) -> Recipient:
        """Return a recipient; raises NotFound."""
        return Recipient.read(self.present(keys.catalog_entry("recipient", name), f"recipient '{name}' not found"))

    def existing(self, key: Key, missing: str, *, resume: bool = False) -> Attributes:
        """Return an entry, one whose deletion has begun included, or only such a one if `begun`.

        Raises NotFound with the message `missing`.
        """
        item = self._dynamo.get(self.table, key)
        if item is None or (resume and "state" not in item):
            raise NotFound(missing)
        return item

    def present(self, key: Key, missing: str) -> Attributes:
        """Return an entry whose deletion has not begun; raises NotFound, which begins with the message `missing`."""
        item = self.existing(key, missing)
        if "state" in item:
            raise NotFound(f"{missing}: its deletion was resume and not finished, so delete it again")
        return item

    def all(
        self, stretch: keys.KeyRange, excerpt: Excerpt = EVERY, *, with_those_in_deletion: bool = True
    ) -> Iterator[Attributes]:
        """Yield the entries of a whole listing, or an excerpt, in the order of their keys."""
        found = self._dynamo.query(self.table, excerpt.of(stretch), at_once=excerpt.limit)
        return islice((item for item in found if with_those_in_deletion or "state" not in item), excerpt.limit)

    def everywhere(self, prefix: keys.KeyPrefix) -> Iterator[Attributes]:
        """Yield the entries of a kind in no order; the whole table is read for that (`Dynamo.scan`)."""
        return self._dynamo.scan(self.table, prefix)

    def several(self, wanted: Iterable[Key]) -> dict[Key, Attributes]:
        """Return those of the entries that exist."""
        return self._dynamo.batch_get(self.table, list(wanted))

    def uses(self, storage: str, count: int) -> Writes:
        """Return what counts so many more users of a storage; nothing where it is AWS S3, which has no name."""
        return [self.update(keys.catalog_entry("storage", storage), add={"tables": count})] if storage else []

    def moves(self, left: str, entered: str) -> Writes:
        """Return what counts a user in another storage than before; nothing where it stays."""
        return [] if left == entered else [*self.uses(entered, 1), *self.uses(left, -1)]

    def transact(self, writes: Iterable[Write]) -> None:
        """Make all the writes or none; raises ConditionFailed for the first condition that did not hold."""
        self._dynamo.transact(writes)

    def attempt(self, writes: Iterable[Write]) -> bool:
        """Make all the writes; return False if a condition did not hold."""
        try:
            self.transact(writes)
        except ConditionFailed:
            return False
        return True

    def transact_checked(self, writes: Sequence[Write], check: Callable[[], Writes]) -> None:
        """Make all the writes or none, if a check of other entries allows it.

        `check` returns writes that fail once what it read has changed; then it is repeated. Raises what `check` raises,
        ConditionFailed for a condition of `writes`, and Conflict.
        """
        for pause in pauses(_RACES, _LONGEST_PAUSE_SECONDS):
            try:
                return self.transact([*writes, *check()])
            except ConditionFailed as failed:
                if failed.index < len(writes):
                    raise
            time.sleep(pause)
        raise Conflict(_KEEP_CHANGING)

    def change(
        self,
        key: Key,
        missing: str,
        change: Change,
        also: Callable[[Attributes, Mapping[str, Any]], Writes] = lambda _before, _after: [],
        check: Callable[[Attributes, Mapping[str, Any]], Writes] = lambda _before, _after: [],
    ) -> Attributes:
        """Change an entry, and what `also` says in the same transaction, unless it was changed in between: then again.

        A condition of `also` that does not hold is raised as ConditionFailed, counted from 1. `check` is as in
        `transact_checked`.
        """
        for pause in pauses(_RACES, _LONGEST_PAUSE_SECONDS):
            item = self.present(key, missing)
            assign = change(item)
            revision = item.get("revision", ABSENT)
            expect = {"revision": revision, "state": ABSENT, "created_at": item["created_at"]}
            writes = [self.update(key, assign=assign, add={"revision": 1}, expect=expect), *also(item, assign)]
            try:
                self.transact([*writes, *check(item, assign)])
            except ConditionFailed as failed:
                if 0 < failed.index < len(writes):
                    raise
            else:
                return {name: value for name, value in {**item, **assign}.items() if value is not None}
            time.sleep(pause)
        raise Conflict(_KEEP_CHANGING)


def merged_properties(
    before: Mapping[str, str], add: Mapping[str, str] | None, remove: tuple[str, ...]
) -> dict[str, str]:
    """Return properties with some removed and then some added.

    Raises InvalidParameter beyond the protocol's limits, and for one to be removed that is not there: whoever takes
    back what somebody may see must not believe that it is done.
    """
    missing = [name for name in remove if name not in before]
    if missing:
        raise InvalidParameter(f"there is no property '{missing[0]}' (there are: {', '.join(before) or 'none'})")
    kept = {name: value for name, value in before.items() if name not in remove}
    return names.check_properties({**kept, **(add or {})})


def checked_id(identifier: str) -> str:
    """Return a UUID in its canonical spelling; raises InvalidParameter."""
    try:
        return str(UUID(identifier))
    except ValueError:
        raise InvalidParameter(f"'{identifier}' is not a UUID: leave it out to get a new one") from None


def checked(checks: Checks, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are given as they are stored, in the order of the checks; None is not given."""
    return {name: check(values[name]) for name, check in checks.items() if values.get(name) is not None}
