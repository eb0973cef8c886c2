"""Administration of followed sources: folders or Glue databases whose Delta tables are shared automatically."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final
from unicodedata import normalize

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
"""Prefix of a source that is an AWS Glue database."""

MOST_REASONS: Final = 50
"""Maximum number of tables per check for which the reason why they are not shared is stored."""

SAME_NAME: Final = "another table of the source has the same name"
"""Start of the reason why a table is not added if another table of the source would get the same name."""

_NOT_IN_NAMES: Final = re.compile(r"\W")
_DATABASE: Final = re.compile(r"glue:[^/:\x00-\x20\x7f]{1,255}")
_LONGEST_PATTERN: Final = 255


class Follow(Item, frozen=True, kw_only=True):
    """A source that a schema follows: checks add an entry to the schema for each Delta table of the source."""

    share: str
    schema_name: str
    share_id: str
    source: str
    """`s3://bucket/folder`, whose subfolders are tables, or `glue:database`."""

    storage: str = ""
    """Name of the storage that contains the tables; empty: AWS S3, read with the function's role."""

    exclude: tuple[str, ...] = ()
    """Patterns (`*`, `?`, `[...]`) of the names of tables that are not shared."""

    history: bool = False
    """Whether tables are shared with their history."""

    created_at: datetime
    looked_at: datetime | None = None
    """Time of the last check."""

    counts: dict[str, int] = msgspec.field(default_factory=dict, name="came")
    """Number of tables with each status in the last check."""

    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """Reasons why tables of the source are not shared, by table name, for at most 50 tables."""

    failure: str = ""
    """Why the last check failed; empty if it succeeded."""

    @property
    def title(self) -> str:
        """Full name of the schema that follows the source."""
        return f"{self.share}.{self.schema_name}"

    def excludes(self, table_name: str, folder: str) -> bool:
        """Return whether a pattern in `exclude` matches the table's name or that of its folder."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude for name in (table_name, folder.lower()))


def name_for(source_name: str) -> str:
    """Return the name under which a folder or Glue table is shared: letters in lower case, digits and `_`."""
    return _NOT_IN_NAMES.sub("_", normalize("NFC", source_name).lower())


class FollowAdmin:
    """Create, get, list, update and delete followed sources. The entry counts of schemas and storages include them."""

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
        """Make a schema follow a source, or change the given settings if it follows the source already.

        Raises NotFound for the schema or the storage, and InvalidParameter, also if the schema follows another source.
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
                    f"{before.title} follows {before.source} already: stop that first "
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
        """Store the result of a check, unless the schema has stopped following the source."""
        assign = {"came": dict(counts), "reasons": dict(reasons), "failure": failure or None, "looked_at": now()}
        key, same = keys.share_entry("follow", follow.share, follow.schema_name), {"created_at": follow.created_at}
        self._records.attempt([self._records.update(key, assign=assign, expect=same)])

    def delete(self, share: str, schema: str) -> Follow:
        """Stop following a source, but keep the table entries that were added from it; raises NotFound."""
        missing = _missing(share, schema)
        while True:
            follow = Follow.read(self._records.get_any(keys.share_entry("follow", share, schema), missing))
            if self._remove(follow):
                return follow

    def remove_all(self, share: str, schema: str) -> None:
        """Make a schema whose deletion has begun stop following its source."""
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
    """Validate a source, and return it in the form in which it is stored; raises InvalidParameter."""
    if source.startswith(GLUE):
        if not _DATABASE.fullmatch(source):
            raise InvalidParameter(f"'{source}' is not a database of AWS Glue: write glue:database")
        return source
    location = Location.parse(source)
    if location.prefix.rpartition("/")[2] == "_delta_log":
        raise InvalidParameter(f"'{source}' is the _delta_log folder of a table: name the folder with the tables")
    return location.uri


def checked_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return exclude patterns in lower case without duplicates; raises InvalidParameter."""
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
