"""What schemas follow: a folder or a database whose Delta tables are entered by themselves, and by which rule."""

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
"""What the source of a follow begins with that is a database of AWS Glue."""

MOST_REASONS: Final = 50
"""Tables of one look of which it is kept why they were not entered."""

_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x20/.\x7f]")
_DATABASE: Final = re.compile(r"glue:[^/:\x00-\x20\x7f]{1,255}")
_LONGEST_PATTERN: Final = 255


class Follow(Item, frozen=True, kw_only=True):
    """That a schema has a table for each Delta table of a source."""

    share: str
    schema_name: str
    share_id: str
    source: str
    """`s3://bucket/folder`, one level below which tables lie, or `glue:database`."""

    storage: str = ""
    """Name of the storage that holds them; empty: AWS S3, read as the function itself."""

    exclude: tuple[str, ...] = ()
    """Patterns of names (`*`, `?`, `[...]`) that are not shared."""

    history: bool = False
    """Whether tables are entered with their history."""

    created_at: datetime
    looked_at: datetime | None = None
    """When it was last looked at."""

    came: dict[str, int] = msgspec.field(default_factory=dict)
    """How many tables were there then, and what became of them."""

    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """Why tables of these names are not entered: of the first ones."""

    failure: str = ""
    """Why the source could not be looked at; empty: it could."""

    @property
    def title(self) -> str:
        """Its schema as one types it."""
        return f"{self.share}.{self.schema_name}"

    def excludes(self, name: str) -> bool:
        """Tell whether a table of this name is not shared."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)


def name_for(found: str) -> str:
    """Return the name under which a folder or a table of Glue is shared: lower-cased, `_` for what no name may hold."""
    return _NOT_IN_NAMES.sub("_", found).lower()


class FollowAdmin:
    """Enters, gets, lists and ends what schemas follow. A schema counts it, and a storage what lies there."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def put(  # noqa: PLR0913 -- what a follow holds
        self,
        share: str,
        schema: str,
        source: str,
        *,
        storage: str | None = None,
        exclude: Sequence[str] | None = None,
        history: bool | None = None,
    ) -> Follow:
        """Have a schema follow a source, or change what is given of how it does.

        Raises NotFound for the schema or the storage, InvalidParameter, also where it follows another source.
        """
        key = keys.share_entry("follow", share, schema)
        given = {"source": source, "storage": storage, "exclude": exclude, "history": history}
        wanted = checked(CHECKED, given)
        parent = self._records.schema(share, schema)
        made = Follow.read({
            "share": parent.share, "schema_name": parent.name, "share_id": parent.share_id, **wanted,
            "created_at": now(),
        })  # fmt: skip
        try:
            self._records.transact([
                self._records.put_new(key, made.attributes()),
                self._records.update(
                    keys.schema(share, schema), add={"tables": 1}, expect={"share_id": made.share_id, "state": ABSENT}
                ),
                *self._records.uses(made.storage, 1),
            ])  # fmt: skip
        except ConditionFailed as failed:
            if failed.index:
                what = f"schema '{share}.{schema}'" if failed.index == 1 else f"storage '{made.storage}'"
                raise NotFound(f"{what} not found") from None
            return self._changed(made, wanted)
        return made

    def _changed(self, wanted: Follow, given: Mapping[str, Any]) -> Follow:
        def change(item: Mapping[str, Any]) -> Mapping[str, Any]:
            before = Follow.read(item)
            if (before.source, before.storage) != (wanted.source, given.get("storage", before.storage)):
                raise InvalidParameter(
                    f"{before.title} follows {before.source} already: end that first "
                    f"(deltaic share follow {before.share} --schema {before.schema_name} --off), or name another schema"
                )
            return given

        key = keys.share_entry("follow", wanted.share, wanted.schema_name)
        return Follow.read(self._records.change(key, _missing(wanted.share, wanted.schema_name), change))

    def get(self, share: str, schema: str) -> Follow:
        """Return what a schema follows; raises NotFound."""
        return Follow.read(self._records.present(keys.share_entry("follow", share, schema), _missing(share, schema)))

    def list(self, share: str) -> Iterator[Follow]:
        """Yield what the schemas of a share follow; raises NotFound."""
        self._records.share(share)
        return (Follow.read(item) for item in self._records.all(keys.of_share("follow", share)))

    def record_check(
        self, follow: Follow, came: Mapping[str, int], reasons: Mapping[str, str], failure: str = ""
    ) -> None:
        """Record how a look went; of one that has ended nothing."""
        told = {"came": dict(came), "reasons": dict(reasons), "failure": failure or None, "looked_at": now()}
        key, same = keys.share_entry("follow", follow.share, follow.schema_name), {"created_at": follow.created_at}
        self._records.attempt([self._records.update(key, assign=told, expect=same)])

    def delete(self, share: str, schema: str) -> Follow:
        """Follow no more; tables that were entered stay. Raises NotFound."""
        missing = _missing(share, schema)
        while True:
            found = Follow.read(self._records.existing(keys.share_entry("follow", share, schema), missing))
            if self._remove(found):
                return found

    def remove_all(self, share: str, schema: str) -> None:
        """End what a schema follows in which nothing more can be made."""
        for item in self._records.several([keys.share_entry("follow", share, schema)]).values():
            self._remove(Follow.read(item))

    def _remove(self, found: Follow) -> bool:
        key = keys.share_entry("follow", found.share, found.schema_name)
        return self._records.attempt([
            self._records.delete(key, {"created_at": found.created_at}),
            self._records.update(keys.schema(found.share, found.schema_name), add={"tables": -1}),
            *self._records.uses(found.storage, -1),
        ])  # fmt: skip


def checked_source(source: str) -> str:
    """Return a folder or a database of Glue as it is stored; raises InvalidParameter."""
    if source.startswith(GLUE):
        if not _DATABASE.fullmatch(source):
            raise InvalidParameter(f"'{source}' names no database of AWS Glue: write glue:database")
        return source
    place = Location.parse(source)
    if place.prefix.rpartition("/")[2] == "_delta_log":
        raise InvalidParameter(f"'{source}' is the log of a table: name the folder in which tables lie")
    return place.uri


def checked_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return patterns of names once each, in small letters; raises InvalidParameter."""
    for pattern in patterns:
        if not 0 < len(pattern) <= _LONGEST_PATTERN:
            raise InvalidParameter(f"a pattern of names has 1 to {_LONGEST_PATTERN} characters, as in 'tmp_*'")
    return tuple(dict.fromkeys(pattern.lower() for pattern in patterns))


CHECKED: Final[Checks] = {
    "source": checked_source, "storage": names.key, "exclude": checked_patterns, "history": bool,
}  # fmt: skip


def _missing(share: str, schema: str) -> str:
    return f"schema '{share}.{schema}' follows nothing"
