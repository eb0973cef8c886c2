"""Administration of schemas, each of which belongs to one share."""

from collections.abc import Iterator, Sequence
from typing import Any

from deltaic.catalog import keys
from deltaic.catalog.admin.entry_admin import EntryAdmin
from deltaic.catalog.admin.follow_admin import FollowAdmin
from deltaic.catalog.admin.records import DELETING, EVERY, Excerpt, Records
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.items import Schema, now
from deltaic.catalog.writes import ABSENT
from deltaic.errors import AlreadyExists, Conflict, NotFound
from deltaic.protocol import names


class SchemaAdmin:
    """Create, get, list, update and delete schemas. Each share stores the number of its schemas."""

    def __init__(self, records: Records, entry_admins: Sequence[FollowAdmin | EntryAdmin[Any]]) -> None:
        self._records = records
        self._entry_admins = entry_admins

    def create(self, share: str, name: str, *, comment: str = "") -> Schema:
        """Create a schema in a share; raises NotFound for the share, AlreadyExists, InvalidParameter."""
        names.check_name("schema", name)
        parent = self._records.share(share)
        schema = Schema(
            name=name,
            share=parent.name,
            share_id=parent.id,
            comment=names.check_comment(comment),
            created_at=now(),
        )
        same = {"id": parent.id, "state": ABSENT}
        try:
            self._records.transact([
                self._records.put_new(keys.schema(share, name), {**schema.attributes(), "tables": 0}),
                self._records.update(keys.catalog_entry("share", share), add={"schemas": 1}, expect=same),
            ])  # fmt: skip
        except ConditionFailed as failed:
            if failed.index == 1:
                raise NotFound(f"share '{share}' not found") from None
            raise AlreadyExists(f"schema '{parent.name}.{name}' exists already: choose another name") from None
        return schema

    def get(self, share: str, name: str) -> Schema:
        """Return a schema; raises NotFound."""
        return self._records.schema(share, name)

    def list(self, share: str, excerpt: Excerpt = EVERY) -> Iterator[Schema]:
        """Yield the schemas of a share that `excerpt` selects (by default all), sorted by name; raises NotFound."""
        self._records.share(share)
        return map(Schema.read, self._records.all(keys.of_share("schema", share), excerpt))

    def update(self, share: str, name: str, *, comment: str | None = None) -> Schema:
        """Change the comment of a schema; raises NotFound, InvalidParameter."""
        assign = {} if comment is None else {"comment": names.check_comment(comment)}
        missing = f"schema '{share}.{name}' not found"
        return Schema.read(self._records.change(keys.schema(share, name), missing, lambda _: assign))

    def delete(self, share: str, name: str, *, force: bool = False, resume: bool = False) -> Schema:
        """Delete a schema, including its entries if `force` is set; raises NotFound, or Conflict for entries.

        After a forced deletion has begun, no entry can be created in the schema. If the call is interrupted, repeat
        the call. With `resume`, only finishes a deletion that has begun, and deletes no new schema with this name.
        """
        key, parent = keys.schema(share, name), keys.catalog_entry("share", share)
        missing = f"schema '{share}.{name}' not found"
        schema = Schema.read(self._records.get_any(key, missing, resume=resume))
        same = {"share_id": schema.share_id, "created_at": schema.created_at}
        try:
            if force:
                self._records.transact([self._records.update(key, assign={"state": DELETING}, expect=same)])
                for admin in self._entry_admins:
                    admin.remove_all(share, name)
            self._records.transact([
                self._records.delete(key, {**same, "tables": 0}),
                self._records.update(parent, add={"schemas": -1}, expect={"id": schema.share_id}),
            ])  # fmt: skip
        except ConditionFailed as failed:
            count = (failed.item or {}).get("tables", 0)
            if failed.index == 0 and count:
                raise Conflict(
                    f"schema '{schema.share}.{schema.name}' has {count} table(s) or other entries: delete them first, "
                    "or use --force"
                ) from None
            raise NotFound(missing) from None  # deleted by another process at the same time
        return schema

    def remove_all(self, share: str) -> None:
        """Delete every schema, with its entries, of a share whose deletion has begun."""
        for item in tuple(self._records.all(keys.of_share("schema", share))):
            self.delete(share, item["name"], force=True)
