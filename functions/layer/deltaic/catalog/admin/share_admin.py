"""Administration of shares, which have unique names and ids that never change."""

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
    """Create, get, list, update and delete shares, with their grants."""

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
        """Create a share with a new id, or with `share_id`, for example its UUID in another catalog.

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
        attributes = {**share.attributes(), "schemas": 0}
        if not self._records.attempt([self._records.put_new(keys.catalog_entry("share", name), attributes)]):
            raise AlreadyExists(f"share '{name}' exists already: choose another name, or update it")
        return share

    def get(self, name: str) -> Share:
        """Return a share; raises NotFound."""
        return self._records.share(name)

    def list(self, excerpt: Excerpt = EVERY) -> Iterator[Share]:
        """Yield the shares that `excerpt` selects (by default all), sorted by name."""
        return map(Share.read, self._records.all(keys.all_of("share"), excerpt, include_deleting=False))

    def update(
        self,
        name: str,
        *,
        display_name: str | None = None,
        comment: str | None = None,
        add_properties: Mapping[str, str] | None = None,
        remove_properties: tuple[str, ...] = (),
    ) -> Share:
        """Change the given settings of a share, and keep the others; raises NotFound, InvalidParameter."""

        def change(item: Attributes) -> dict[str, Any]:
            assign = checked(_CHECKED, {"display_name": display_name, "comment": comment})
            return {**assign, "properties": merged_properties(item["properties"], add_properties, remove_properties)}

        return Share.read(self._records.change(keys.catalog_entry("share", name), f"share '{name}' not found", change))

    def delete(self, name: str, *, force: bool = False, resume: bool = False) -> Share:
        """Delete a share with its grants, and its schemas if `force` is set; raises NotFound, or Conflict for schemas.

        After the deletion has begun, no schema can be created in the share, and it cannot be granted. If the call is
        interrupted, repeat it. With `resume`, only deletes a share whose deletion has begun, not a new share with the
        same name.
        """
        key = keys.catalog_entry("share", name)
        missing = f"share '{name}' not found"
        share = Share.read(self._records.get_any(key, missing, resume=resume))
        same = {"id": share.id}
        empty = {**same, "schemas": 0}
        try:
            self._records.transact([
                self._records.update(key, assign={"state": DELETING}, expect=same if force else empty),
            ])  # fmt: skip
            # Grants first, so that recipients lose the share at once and not table by table.
            self._grants.remove_all(keys.of_share("grant", name))
            self._schemas.remove_all(name)
            counters = self._records.delete(keys.share_overlaps(name), present=False)
            self._records.transact([self._records.delete(key, empty), counters])
        except ConditionFailed as failed:
            count = (failed.item or {}).get("schemas", 0)
            if count and not force:
                raise Conflict(f"share '{share.name}' has {count} schema(s): delete them, or use --force") from None
            raise NotFound(missing) from None  # deleted by another process at the same time
        return share


_CHECKED: Final[Checks] = {"display_name": names.check_display_name, "comment": names.check_comment}
