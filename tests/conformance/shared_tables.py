"""Small tables and folders to which every conformance check applies."""

import io
import json
import struct
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.local.resources import connect

RECIPIENT = "conformance"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DELETED = (3, 5, 7)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table of a catalog."""

    share: str
    schema: str
    table: str
    folder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the table in the catalog. The reference server supports only `history`."""


_HISTORY: Mapping[str, Any] = {"history": True}
ENTRIES = (
    TableEntry("first", "plain", "visits", "visits", _HISTORY),
    TableEntry("first", "plain", "latest", "visits"),
    TableEntry("first", "plain", "numbers", "numbers", {"history": True, "iceberg": "signed"}),
    TableEntry("first", "special", "vectors", "vectors", _HISTORY),
    TableEntry("second", "folders", "both", "numbers", {"history": True, "access_modes": ("url", "dir")}),
    TableEntry("second", "folders", "folder_only", "visits", {"history": True, "access_modes": ("dir",)}),
)


def fill(environment: Mapping[str, str], bucket: str) -> None:
    """Write the tables to a bucket. The environment selects the AWS."""
    s3 = connect(environment)["s3"]
    options = {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
    options |= {name: value for name, value in environment.items() if name.startswith("AWS_")}
    _visits(f"s3://{bucket}/visits", options)
    _numbers(f"s3://{bucket}/numbers", options)
    _vectors(s3, bucket)


def register(admin: CatalogAdmin) -> str:
    """Share the tables with a recipient, and return its token."""
    for entry in ENTRIES:
        if entry.share not in {share.name for share in admin.shares.list()}:
            admin.shares.create(entry.share)
        if entry.schema not in {schema.name for schema in admin.schemas.list(entry.share)}:
            admin.schemas.create(entry.share, entry.schema)
        admin.tables.create(
            entry.share, entry.schema, entry.table, f"s3://deltaic-lake/{entry.folder}", **entry.options
        )
    share_folders(admin, "deltaic-lake")
    recipient = admin.recipients.create(RECIPIENT)
    for share in {entry.share for entry in ENTRIES}:
        admin.grants.create(RECIPIENT, share)
    return admin.tokens.create(recipient).secret


def share_folders(admin: CatalogAdmin, bucket: str) -> None:
    """Share volumes, skills and models. No check reads their folders."""
    schema = ("second", "folders")
    for number in (1, 2):
        admin.volumes.create(*schema, f"scans{number}", f"s3://{bucket}/scans{number}")
        facts = {"description": "Reads forms.", "license": "MIT", "metadata": {"number": str(number)}}
        admin.skills.create(*schema, f"read-forms-{number}", f"s3://{bucket}/skills/read-forms-{number}", facts=facts)
        admin.models.create(*schema, f"churn{number}")
        admin.models.add_version(*schema, "churn1", number, f"s3://{bucket}/churn/{number}")


def _visits(location: str, options: dict[str, str]) -> None:
    """Write a partitioned table with a change feed, nulls, an update and a deletion."""
    days = [date(2026, 3, 1), date(2026, 3, 2), None]
    for version, day in enumerate(days):
        rows = pa.table(
            {
                "day": pa.array([day] * 6, pa.date32()),
                "dose": pa.array([1, 2, 10, 4 + version, None, 6], pa.int32()),
                "site": pa.array(["Turku", "Gdansk", None, "Oslo", "Turku", "Lviv"]),
                "at": pa.array([datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(hours=n) for n in range(6)]),
            }
        )
        deltalake.write_deltalake(
            location,
            rows,
            mode="append",
            partition_by=["day"],
            configuration={"delta.enableChangeDataFeed": "true"} if version == 0 else None,
            storage_options=options,
        )
    table = deltalake.DeltaTable(location, storage_options=options)
    table.update(updates={"site": "'Malmo'"}, predicate="site = 'Oslo' AND day = '2026-03-01'")
    table.delete("dose = 1 AND day = '2026-03-02'")


def _numbers(location: str, options: dict[str, str]) -> None:
    """Write a table without partitions and change feed, in which ranges of files overlap."""
    for first in (0, 50, 200):
        rows = pa.table({"number": pa.array(range(first, first + 100)), "even": [n % 2 == 0 for n in range(100)]})
        deltalake.write_deltalake(location, rows, mode="append", storage_options=options)


def _vectors(s3: Any, bucket: str) -> None:
    """Write a table with two files and a deletion vector for the first one."""
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    columns = [{"name": "number", "type": "long", "nullable": True, "metadata": {}}]
    metadata = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, "vectors")),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": 1_772_323_200_000,
    }
    adds = []
    for number in range(2):
        content = io.BytesIO()
        pq.write_table(pa.table({"number": pa.array(range(10 * number, 10 * number + 10))}), content)
        path = f"part-{number}.parquet"
        s3.put_object(Bucket=bucket, Key=f"vectors/{path}", Body=content.getvalue())
        stats = {"numRecords": 10, "minValues": {"number": 10 * number}, "maxValues": {"number": 10 * number + 9}}
        stats |= {"nullCount": {"number": 0}}
        add = {"path": path, "partitionValues": {}, "size": len(content.getvalue()), "dataChange": True}
        adds.append({**add, "modificationTime": 1_772_323_200_000, "stats": json.dumps(stats)})
    name = uuid.uuid5(uuid.NAMESPACE_URL, "vector")
    bitmap = struct.pack("<IQIIIHHI", 1681511377, 1, 0, 12346, 1, 0, len(_DELETED) - 1, 16)
    bitmap += struct.pack(f"<{len(_DELETED)}H", *_DELETED)
    file = b"\x01" + struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    s3.put_object(Bucket=bucket, Key=f"vectors/deletion_vector_{name}.bin", Body=file)
    vector = {"storageType": "u", "pathOrInlineDv": _z85(name.bytes), "offset": 1}
    vector |= {"sizeInBytes": len(bitmap), "cardinality": len(_DELETED)}
    remove = {"path": adds[0]["path"], "deletionTimestamp": 1_772_323_300_000, "dataChange": True}
    commits = [
        [{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in adds)],
        [
            {"remove": {**remove, "partitionValues": {}, "size": adds[0]["size"]}},
            {"add": {**adds[0], "deletionVector": vector}},
        ],
    ]
    for version, actions in enumerate(commits):
        text = "".join(json.dumps(action) + "\n" for action in actions)
        s3.put_object(Bucket=bucket, Key=f"vectors/_delta_log/{version:020}.json", Body=text.encode())


def _z85(data: bytes) -> str:
    """Encode bytes as in the names of deletion vectors (Z85, ZeroMQ RFC 32)."""
    return "".join(
        _Z85[value // 85**power % 85] for (value,) in struct.iter_unpack(">I", data) for power in (4, 3, 2, 1, 0)
    )
