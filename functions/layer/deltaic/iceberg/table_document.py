"""The table as Iceberg's metadata (metadata.json) has it."""

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from deltaic.iceberg.file_index import FileIndex, ListedSnapshot
from deltaic.iceberg.manifests import FIRST_SNAPSHOT
from deltaic.iceberg.table_schema import field_ids
from deltaic.iceberg.table_version import MetadataContext

_NO_PARTITION_FIELD: Final = 999
_WITH_ROW_IDS: Final = 3


def table_document(
    context: MetadataContext, table_id: str, index: FileIndex, *, since: int | None = None
) -> dict[str, Any]:
    """Return the metadata, whose snapshots are the listed versions from `since` on; None for the newest alone.

    A snapshot's id is 10**12 + the version's number, and a tag `v<number>` names it. `table_id` is what the table keeps
    its identity by (a UUID; of another text one is made).
    """
    newest = index.snapshots[-1]
    listed = _in_order([*(one for one in index.snapshots[:-1] if since is not None and one.version >= since), newest])
    format_version = max(one.format_version for one in listed)
    schemas = [index.schemas[key] for key in dict.fromkeys(one.schema_id for one in listed)]
    specs = [index.specs[key] for key in dict.fromkeys(one.spec_id for one in listed)]
    partition_ids = [field["field-id"] for spec in specs for field in spec["fields"]]
    document = {
        "format-version": format_version,
        "table-uuid": _uuid(table_id),
        "location": context.location,
        "last-sequence-number": newest.version + 1,
        "last-updated-ms": newest.timestamp,
        "last-column-id": max((one for schema in schemas for one in field_ids(schema)), default=0),
        "schemas": schemas,
        "current-schema-id": newest.schema_id,
        "partition-specs": specs,
        "default-spec-id": newest.spec_id,
        "last-partition-id": max(partition_ids, default=_NO_PARTITION_FIELD),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {
            "schema.name-mapping.default": json.dumps(index.name_mapping),
            # Bounds are wider than what they bound: a client must not answer for the greatest value by them.
            "write.metadata.metrics.default": "counts",
        },
        "current-snapshot-id": _snapshot_id(newest),
        "snapshots": [_snapshot(context, one) for one in listed],
        "snapshot-log": [{"timestamp-ms": one.timestamp, "snapshot-id": _snapshot_id(one)} for one in listed],
        "metadata-log": [],
        "refs": {
            "main": {"type": "branch", "snapshot-id": _snapshot_id(newest)},
            **{f"v{one.version}": {"type": "tag", "snapshot-id": _snapshot_id(one)} for one in listed},
        },
    }
    if format_version >= _WITH_ROW_IDS:
        document["next-row-id"] = max(one.rows for one in listed)
    return document


def _in_order(listed: Sequence[ListedSnapshot]) -> list[ListedSnapshot]:
    """Return snapshots whose times grow, which Java's library insists on.

    The time of a commit that is cleaned up is that of its checkpoint, which may be later than the next commit.
    """
    found = [listed[-1]]
    for one in reversed(listed[:-1]):
        found.append(msgspec.structs.replace(one, timestamp=min(one.timestamp, found[-1].timestamp - 1)))
    return found[::-1]


def _snapshot_id(snapshot: ListedSnapshot) -> int:
    return FIRST_SNAPSHOT + snapshot.version


def _snapshot(context: MetadataContext, one: ListedSnapshot) -> dict[str, Any]:
    # Without a parent: a client that asks for what came since another one is refused, and not told that nothing did.
    snapshot = {
        "snapshot-id": _snapshot_id(one),
        "sequence-number": one.version + 1,
        "timestamp-ms": one.timestamp,
        "manifest-list": f"{context.location}/{one.manifest_list}",
        "schema-id": one.schema_id,
        "summary": {
            "operation": "overwrite",
            "total-data-files": str(one.files),
            "total-records": str(one.rows - one.deleted),
            "delta-version": str(one.version),
        },
    }
    if one.format_version >= _WITH_ROW_IDS:
        snapshot |= {"first-row-id": 0, "added-rows": one.rows}
    return snapshot


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, text))
