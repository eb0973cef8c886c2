"""Iceberg's table metadata document, metadata.json."""

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from deltaic.iceberg.file_index import FileIndex, ListedSnapshot
from deltaic.iceberg.manifests import FIRST_SNAPSHOT
from deltaic.iceberg.table_schema import field_ids
from deltaic.iceberg.table_version import MetadataContext

_Json = dict[str, Any]
_NO_PARTITION_FIELD: Final = 999
_WITH_ROW_IDS: Final = 3


def table_document(context: MetadataContext, table_id: str, index: FileIndex, *, since: int | None = None) -> _Json:
    """Return the metadata document with the listed versions from `since` on; None lists only the newest version.

    A snapshot has the id 10**12 + version and a tag `v<version>`. `table_id` is a UUID, or a string to hash to a UUID.
    """
    newest = index.snapshots[-1]
    earlier = [snapshot for snapshot in index.snapshots[:-1] if since is not None and snapshot.version >= since]
    listed = _with_ascending_times([*earlier, newest])
    format_version = max(snapshot.format_version for snapshot in listed)
    schemas = [index.schemas[key] for key in dict.fromkeys(snapshot.schema_id for snapshot in listed)]
    specs = [index.specs[key] for key in dict.fromkeys(snapshot.spec_id for snapshot in listed)]
    partition_ids = [field["field-id"] for spec in specs for field in spec["fields"]]
    document = {
        "format-version": format_version,
        "table-uuid": _uuid(table_id),
        "location": context.location,
        "last-sequence-number": newest.version + 1,
        "last-updated-ms": newest.timestamp,
        "last-column-id": max((field_id for schema in schemas for field_id in field_ids(schema)), default=0),
        "schemas": schemas,
        "current-schema-id": newest.schema_id,
        "partition-specs": specs,
        "default-spec-id": newest.spec_id,
        "last-partition-id": max(partition_ids, default=_NO_PARTITION_FIELD),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {
            "schema.name-mapping.default": json.dumps(index.name_mapping),
            # Bounds can be wider than the values: clients must not use them to compute a minimum or maximum.
            "write.metadata.metrics.default": "counts",
        },
        "current-snapshot-id": _snapshot_id(newest),
        "snapshots": [_snapshot(context, snapshot) for snapshot in listed],
        "snapshot-log": [{"timestamp-ms": item.timestamp, "snapshot-id": _snapshot_id(item)} for item in listed],
        "metadata-log": [],
        "refs": {
            "main": {"type": "branch", "snapshot-id": _snapshot_id(newest)},
            **{f"v{snapshot.version}": {"type": "tag", "snapshot-id": _snapshot_id(snapshot)} for snapshot in listed},
        },
    }
    if format_version >= _WITH_ROW_IDS:
        document["next-row-id"] = max(snapshot.rows for snapshot in listed)
    return document


def _with_ascending_times(snapshots: Sequence[ListedSnapshot]) -> list[ListedSnapshot]:
    """Return snapshots with strictly ascending timestamps, which Iceberg's Java library requires.

    A commit whose file was deleted has the time of its checkpoint, which can be later than that of the next commit.
    """
    ordered = [snapshots[-1]]
    for snapshot in reversed(snapshots[:-1]):
        ordered.append(msgspec.structs.replace(snapshot, timestamp=min(snapshot.timestamp, ordered[-1].timestamp - 1)))
    return ordered[::-1]


def _snapshot_id(snapshot: ListedSnapshot) -> int:
    return FIRST_SNAPSHOT + snapshot.version


def _snapshot(context: MetadataContext, snapshot: ListedSnapshot) -> _Json:
    # Snapshots have no parent: then clients reject incremental reads, instead of returning no changes.
    document = {
        "snapshot-id": _snapshot_id(snapshot),
        "sequence-number": snapshot.version + 1,
        "timestamp-ms": snapshot.timestamp,
        "manifest-list": f"{context.location}/{snapshot.manifest_list}",
        "schema-id": snapshot.schema_id,
        "summary": {
            "operation": "overwrite",
            "total-data-files": str(snapshot.files),
            "total-records": str(snapshot.rows - snapshot.deleted),
            "delta-version": str(snapshot.version),
        },
    }
    if snapshot.format_version >= _WITH_ROW_IDS:
        document |= {"first-row-id": 0, "added-rows": snapshot.rows}
    return document


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, text))
