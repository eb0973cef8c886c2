"""Followed sources: a folder or Glue database whose Delta tables a schema shares automatically."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from deltaic.catalog import keys
from deltaic.catalog.admin.records import Checks, Records, checked
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.items import Item, now
from deltaic.catalog.writes import ABSENT
from deltaic.errors import InvalidParameter, NotFound
from deltaic.protocol import names
from deltaic.storage.locations import Location

GLUE: Final = "glue:"
"""Prefix of a source that is a database of AWS Glue."""

MOST_REASONS: Final = 50
"""Most tables per check for which the reason that they are not shared is stored."""

_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x20/.\x7f]")
_DATABASE: Final = re.compile(r"glue:[^/:\x00-\x20\x7f]{1,255}")
_LONGEST_PATTERN: Final = 255


class Follow(Item, frozen=True, kw_only=True):
    """Followed source: its schema gets an entry for each Delta table."""

    share: str
    schema_name: str
    share_id: str
    source: str
    """`s3://bucket/folder`, whose subfolders are the tables, or `glue:database`."""

    storage: str = ""
    """Name of the storage that has the tables; empty: AWS S3, read with the function's role."""

    exclude: tuple[str, ...] = ()
    """Patterns of names (`*`, `?`, `[...]`) that are not shared."""

    history: bool = False
    """Whether tables are shared with their history."""

    created_at: datetime
    looked_at: datetime | None = None
    """Time of the last check."""

    came: dict[str, int] = msgspec.field(default_factory=dict)
    """Numbers of tables in the last check, by result."""

    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """By table name, why a table is not shared; the first MOST_REASONS tables only."""

    failure: str = ""
    """Why the source could not be checked; empty after success."""

    @property
    def title(self) -> str:
        """The full name of the schema."""
        return f"{self.share}.{self.schema_name}"

    def excludes(self, name: str) -> bool:
        """Return whether a pattern excludes a table of this name."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)


def name_for(source_name: str) -> str:
    """Return the shared name of a folder or Glue table, with `_` for forbidden characters."""
    return _NOT_IN_NAMES.sub("_", source_name).lower()


class FollowAdmin:
    """Create, get, list, update and delete followed sources. Schemas and storages count them."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def put(  # noqa: PLR0913 -- the attributes of a follow
        self,
        share: str,
        schema: str,
        source: str,
        *,
        storage: str | None = None,
        exclude: Sequence[str] | None = None,
        history: bool | None = None,
    ) -> Follow:
        """Make a schema follow a source, or change the given settings of its followed source.

        Raises NotFound for the schema or the storage, InvalidParameter, also if the schema follows another source.
        """
        key = keys.share_entry("follow", share, schema)
        settings = {"source": source, "storage": storage, "exclude": exclude, "history": history}
        assign = checked(CHECKED, settings)
        parent = self._records.schema(share, schema)
        follow = Follow.read({
            "share": parent.share, "schema_name": parent.name, "share_id": parent.share_id, **assign,
            "created_at": now(),
        })  # fmt: skip
        try:
            self._records.transact([
                self._records.put_new(key, follow.attributes()),
                self._records.update(
                    keys.schema(share, schema), add={"tables": 1}, expect={"share_id": follow.share_id, "state": ABSENT}
                ),
                *self._records.count_storage_use(follow.storage, 1),
            ])  # fmt: skip
        except ConditionFailed as failed:
            if failed.index:
                missing = f"schema '{share}.{schema}'" if failed.index == 1 else f"storage '{follow.storage}'"
                raise NotFound(f"{missing} not found") from None
            return self._update(follow, assign)
        return follow

    def _update(self, follow: Follow, assign: Mapping[str, Any]) -> Follow:
        def change(item: Mapping[str, Any]) -> Mapping[str, Any]:
            before = Follow.read(item)
            if (before.source, before.storage) != (follow.source, assign.get("storage", before.storage)):
                raise InvalidParameter(
                    f"{before.title} follows {before.source} already: end that first "
                    f"(deltaic share follow {before.share} --schema {before.schema_name} --off), or name another schema"
                )
            return assign

        key = keys.share_entry("follow", follow.share, follow.schema_name)
        return Follow.read(self._records.change(key, _missing(follow.share, follow.schema_name), change))

    def get(self, share: str, schema: str) -> Follow:
        """Return the source that a schema follows; raises NotFound."""
        return Follow.read(self._records.get(keys.share_entry("follow", share, schema), _missing(share, schema)))

    def list(self, share: str) -> Iterator[Follow]:
        """Yield the sources that schemas of a share follow; raises NotFound."""
        self._records.share(share)
        return (Follow.read(item) for item in self._records.all(keys.of_share("follow", share)))

    def record_check(
        self, follow: Follow, counts: Mapping[str, int], reasons: Mapping[str, str], failure: str = ""
    ) -> None:
        """Record the result of a check, unless the schema does not follow the source any more."""
        assign = {"came": dict(counts), "reasons": dict(reasons), "failure": failure or None, "looked_at": now()}
        key, same = keys.share_entry("follow", follow.share, follow.schema_name), {"created_at": follow.created_at}
        self._records.attempt([self._records.update(key, assign=assign, expect=same)])

    def delete(self, share: str, schema: str) -> Follow:
        """Stop following; the entries of tables stay. Raises NotFound."""
        missing = _missing(share, schema)
        while True:
            follow = Follow.read(self._records.get_any(keys.share_entry("follow", share, schema), missing))
            if self._remove(follow):
                return follow

    def remove_all(self, share: str, schema: str) -> None:
        """Stop following in a schema whose deletion has begun."""
        for item in self._records.find_many([keys.share_entry("follow", share, schema)]).values():
            self._remove(Follow.read(item))

    def _remove(self, follow: Follow) -> bool:
        key = keys.share_entry("follow", follow.share, follow.schema_name)
        return self._records.attempt([
            self._records.delete(key, {"created_at": follow.created_at}),
            self._records.update(keys.schema(follow.share, follow.schema_name), add={"tables": -1}),
            *self._records.count_storage_use(follow.storage, -1),
        ])  # fmt: skip


def checked_source(source: str) -> str:
    """Return a folder or a database of Glue as it is stored; raises InvalidParameter."""
    if source.startswith(GLUE):
        if not _DATABASE.fullmatch(source):
            raise InvalidParameter(f"'{source}' is not a database of AWS Glue: write glue:database")
        return source
    location = Location.parse(source)
    if location.prefix.rpartition("/")[2] == "_delta_log":
        raise InvalidParameter(f"'{source}' is the log of a table: name the folder that contains the tables")
    return location.uri


def checked_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return name patterns in lower case without duplicates; raises InvalidParameter."""
    for pattern in patterns:
        if not 0 < len(pattern) <= _LONGEST_PATTERN:
            raise InvalidParameter(
                f"pattern '{pattern}' is empty or too long: write 1 to {_LONGEST_PATTERN} characters"
            )
    return tuple(dict.fromkeys(pattern.lower() for pattern in patterns))


CHECKED: Final[Checks] = {
    "source": checked_source, "storage": names.key, "exclude": checked_patterns, "history": bool,
}  # fmt: skip


def _missing(share: str, schema: str) -> str:
    return f"schema '{share}.{schema}' does not follow a source"
