"""The shares of the catalog: the name is unique, the id is for ever, and schemas hold it in place."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.grant_admin import GrantAdmin
from deltaic.catalog.admin.records import (
    DELETING,
    EVERY,
    Checks,
    Excerpt,
    Records,
    checked,
    checked_id,
    merged_properties,
)
from deltaic.catalog.admin.schema_admin import SchemaAdmin
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.dynamo import Attributes
from deltaic.catalog.items import Share, now
from deltaic.errors import AlreadyExists, Conflict, NotFound
from deltaic.protocol import names


class ShareAdmin:
    """Creates, gets, lists, updates and deletes shares; with one go its grants and, by force, its schemas."""

    def __init__(self, records: Records, schemas: SchemaAdmin, grants: GrantAdmin) -> None:
        self._records = records
        self._schemas = schemas
        self._grants = grants

    def create(
        self,
        name: str,
        *,
        display_name: str = "",
        comment: str = "",
        properties: Mapping[str, str] | None = None,
        share_id: str | None = None,
    ) -> Share:
        """Make a share with an id of its own, or with the id that it had elsewhere (a UUID).

        Raises AlreadyExists, InvalidParameter.
        """
        share = Share(
            name=names.check_name("share", name),
            id=str(uuid4()) if share_id is None else checked_id(share_id),
            display_name=names.check_display_name(display_name),
            comment=names.check_comment(comment),
            properties=names.check_properties(properties or {}),
            created_at=now(),
        )
        try:
            self._records.transact(
                [self._records.put_new(keys.catalog_entry("share", name), {**share.attributes(), "schemas": 0})]
            )
        except ConditionFailed:
            raise AlreadyExists(f"there is a share '{name}' already: choose another name, or update it") from None
        return share

    def get(self, name: str) -> Share:
        """Return a share; raises NotFound."""
        return self._records.share(name)

    def list(self, excerpt: Excerpt = EVERY) -> Iterator[Share]:
        """Yield the shares, or an excerpt, in the order of their names."""
        return map(Share.read, self._records.all(keys.all_of("share"), excerpt, with_those_in_deletion=False))

    def update(
        self,
        name: str,
        *,
        display_name: str | None = None,
        comment: str | None = None,
        add_properties: Mapping[str, str] | None = None,
        remove_properties: tuple[str, ...] = (),
    ) -> Share:
        """Change what is given and keep the rest, the id above all; raises NotFound, InvalidParameter."""

        def change(item: Attributes) -> dict[str, Any]:
            assign = checked(_CHECKED, {"display_name": display_name, "comment": comment})
            return {**assign, "properties": merged_properties(item["properties"], add_properties, remove_properties)}

        return Share.read(self._records.change(keys.catalog_entry("share", name), f"share '{name}' not found", change))

    def delete(self, name: str, *, force: bool = False, resume: bool = False) -> Share:
        """Delete a share and its grants; one with schemas only by force, and them with it. Raises NotFound, Conflict.

        `begun`: only one whose deletion has begun, and no other that has its name by now.

        From the first step on nothing can be made in it and it cannot be granted. What was interrupted is finished by
        doing it again.
        """
        key = keys.catalog_entry("share", name)
        missing = f"share '{name}' not found"
        share = Share.read(self._records.existing(key, missing, resume=resume))
        same = {"id": share.id}
        empty = {**same, "schemas": 0}
        try:
            self._records.transact([
                self._records.update(key, assign={"state": DELETING}, expect=same if force else empty),
            ])  # fmt: skip
            # The grants first: for recipients the share is gone at once, not piece by piece.
            self._grants.remove_all(keys.of_share("grant", name))
            self._schemas.remove_all(name)
            counters = self._records.delete(keys.share_overlaps(name), present=False)
            self._records.transact([self._records.delete(key, empty), counters])
        except ConditionFailed as failed:
            left = (failed.item or {}).get("schemas", 0)
            if left and not force:
                raise Conflict(f"share '{share.name}' has {left} schema(s): delete them first, or force it") from None
            raise NotFound(missing) from None  # somebody else deleted it at the same moment
        return share


_CHECKED: Final[Checks] = {"display_name": names.check_display_name, "comment": names.check_comment}
