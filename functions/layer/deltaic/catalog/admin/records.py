"""Read entries of the Catalog table, and change them in transactions that overwrite no concurrent change."""

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
"""Maximum pause before a retry: longer than a read and a write take, so that concurrent writers do not collide."""
_KEEP_CHANGING: Final = "other processes keep changing this part of the catalog: try again later"
DELETING: Final = "deleting"
"""Value of the attribute `state` of an entry whose deletion has begun: nothing can be added to the entry any more."""


class Excerpt(NamedTuple):
    """Part of a listing: names after `after`; by default, the whole listing."""

    after: str | None = None
    """Skip names up to and including this one."""
    limit: int | None = None

    def narrow(self, key_range: keys.KeyRange) -> keys.KeyRange:
        """Return the part of a key range that this excerpt selects; the range must be that of a whole listing."""
        after = "" if self.after is None else f"{keys.segment(self.after)}\0"
        return keys.KeyRange(key_range.pk, f"{key_range.low}{after}", key_range.high)


EVERY: Final = Excerpt()

Change = Callable[[Attributes], Mapping[str, Any]]
"""Function that gets an entry's attributes, and returns new values of some; the value None removes an attribute."""


Checks = Mapping[str, Callable[[Any], Any]]
"""For each attribute name, a function that converts a value to its stored form, or raises InvalidParameter."""


class Records:
    """Read and write the entries of one Catalog table; all admin classes use it."""

    def __init__(self, table: str, dynamo: Dynamo, buckets: Buckets) -> None:
        self.table = table
        self.buckets = buckets
        self._dynamo = dynamo
        self.put_new, self.check = partial(put_new, table), partial(check, table)
        self.update, self.delete = partial(update, table), partial(delete, table)

    def share(self, name: str) -> Share:
        """Return a share; raises NotFound."""
        return Share.read(self.get(keys.catalog_entry("share", name), f"share '{name}' not found"))

    def schema(self, share: str, name: str) -> Schema:
        """Return a schema; raises NotFound."""
        return Schema.read(self.get(keys.schema(share, name), f"schema '{share}.{name}' not found"))

    def recipient(self, name: str) -> Recipient:
        """Return a recipient; raises NotFound."""
        return Recipient.read(self.get(keys.catalog_entry("recipient", name), f"recipient '{name}' not found"))

    def get_any(self, key: Key, missing: str, *, resume: bool = False) -> Attributes:
        """Return an entry, even if its deletion has begun; with `resume`, only if its deletion has begun.

        Raises NotFound with the message `missing`.
        """
        item = self._dynamo.get(self.table, key)
        if item is None or (resume and "state" not in item):
            raise NotFound(missing)
        return item

    def get(self, key: Key, missing: str) -> Attributes:
        """Return an entry whose deletion has not begun; raises NotFound with the message `missing`."""
        item = self.get_any(key, missing)
        if "state" in item:
            raise NotFound(f"{missing}: its deletion did not finish, so delete it again")
        return item

    def all(
        self, key_range: keys.KeyRange, excerpt: Excerpt = EVERY, *, include_deleting: bool = True
    ) -> Iterator[Attributes]:
        """Yield the entries in a key range that `excerpt` selects (by default all), sorted by key."""
        items = self._dynamo.query(self.table, excerpt.narrow(key_range), page_size=excerpt.limit)
        return islice((item for item in items if include_deleting or "state" not in item), excerpt.limit)

    def scan(self, prefix: keys.KeyPrefix) -> Iterator[Attributes]:
        """Yield the entries whose keys have the given prefixes, in no order; reads the whole table (`Dynamo.scan`)."""
        return self._dynamo.scan(self.table, prefix)

    def find_many(self, entry_keys: Iterable[Key]) -> dict[Key, Attributes]:
        """Return the entries with the given keys, in a dict by key; omits keys without an entry."""
        return self._dynamo.batch_get(self.table, list(entry_keys))

    def count_storage_use(self, storage: str, change: int) -> Writes:
        """Return the write that adds `change` to the entry count of a storage; no write if `storage` is empty."""
        return [self.update(keys.catalog_entry("storage", storage), add={"tables": change})] if storage else []

    def count_storage_move(self, before: str, after: str) -> Writes:
        """Return the writes that move one entry from the count of storage `before` to that of `after`."""
        return [] if before == after else [*self.count_storage_use(after, 1), *self.count_storage_use(before, -1)]

    def transact(self, writes: Iterable[Write]) -> None:
        """Write everything or nothing; raises ConditionFailed for the first condition that fails."""
        self._dynamo.transact(writes)

    def attempt(self, writes: Iterable[Write]) -> bool:
        """Write everything or nothing; return False if a condition fails."""
        try:
            self.transact(writes)
        except ConditionFailed:
            return False
        return True

    def transact_checked(self, writes: Sequence[Write], check: Callable[[], Writes]) -> None:
        """Write everything or nothing, if a check of other entries succeeds.

        `check` returns writes that fail if the entries that `check` read have changed since. Then the check and the
        writes are repeated. Raises the errors of `check`, ConditionFailed for a condition of `writes`, and Conflict
        after too many repetitions.
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
        """Change an entry in one transaction with the writes of `also`; repeats it after a concurrent change.

        Raises ConditionFailed for a condition of `also`, with the position of the failed write in `also`, from 1.
        `check` returns further writes; if a condition of these fails, the change is repeated with the new values.
        """
        for pause in pauses(_RACES, _LONGEST_PAUSE_SECONDS):
            item = self.get(key, missing)
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
    """Return the properties `before` without those in `remove`, and with those in `add` added or changed.

    Raises InvalidParameter for properties that exceed the protocol's limits, and for a property in `remove` that does
    not exist: a typing error must not let the operator believe that access was removed.
    """
    missing = [name for name in remove if name not in before]
    if missing:
        existing = ", ".join(before) or "none"
        raise InvalidParameter(f"property '{missing[0]}' does not exist: choose one of the existing ones ({existing})")
    remaining = {name: value for name, value in before.items() if name not in remove}
    return names.check_properties({**remaining, **(add or {})})


def checked_id(identifier: str) -> str:
    """Return a UUID in canonical form; raises InvalidParameter."""
    try:
        return str(UUID(identifier))
    except ValueError:
        raise InvalidParameter(f"'{identifier}' is not a UUID: write a UUID, or omit it to get a new one") from None


def checked(checks: Checks, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values to their stored form with `checks`, in the order of `checks`, and omit None."""
    return {name: check(values[name]) for name, check in checks.items() if values.get(name) is not None}
