"""Golden tables with features: deletion vectors, column mapping, newer types, row tracking and writer features."""

# ruff: noqa: S608 -- the statements are this module's own literals

import struct

from delta.tables import DeltaTable
from golden.definitions.plain import CDF, PEOPLE, people
from golden.workbench import Bench, golden

DV = {"enableDeletionVectors": "true"}
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@golden
def deletion_vectors(bench: Bench) -> None:
    """Deletion vectors in files (`u`): grown by a second delete, an update, a file deleted whole, a purge."""
    bench.create(f"{PEOPLE}, part INT", "PARTITIONED BY (part)", **DV)
    for part in (0, 1):
        bench.sql(
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ CAST(id AS INT), concat('n', id), id / 2, {part} "
            f"FROM range({part * 20}, {part * 20 + 20})"
        )
    bench.sql(
        "DELETE FROM {t} WHERE id IN (1, 5, 21)",
        "DELETE FROM {t} WHERE id BETWEEN 6 AND 9",
        "UPDATE {t} SET name = 'updated' WHERE id = 30",
        "DELETE FROM {t} WHERE part = 1",
        "REORG TABLE {t} APPLY (PURGE)",
    )


@golden
def deletion_vectors_change_feed(bench: Bench) -> None:
    """Deletion vectors and change data feed: no cdc files, changes are pairs of one path with different vectors."""
    bench.create(PEOPLE, **DV, **CDF)
    people(bench, 0, 10)
    bench.sql(
        "DELETE FROM {t} WHERE id IN (2, 4)",
        "UPDATE {t} SET name = 'updated' WHERE id = 5",
        "DELETE FROM {t} WHERE id = 6",
        "MERGE INTO {t} old USING (SELECT 7 AS id, 'm' AS name, 0D AS score UNION ALL SELECT 50, 'i', 1D) new "
        "ON old.id = new.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )


@golden
def deletion_vectors_inline(bench: Bench) -> None:
    """Deletion vectors inside the log (`i`): made by hand from Spark's own, which it always writes to files."""
    bench.create(PEOPLE, **DV)
    people(bench, 0, 12)
    bench.sql("DELETE FROM {t} WHERE id IN (0, 3, 11)")
    people(bench, 12, 2)
    bench.sql("DELETE FROM {t} WHERE id = 4")
    for version in (2, 4):
        actions = bench.commit(version)
        for action in actions:
            for file in (action.get("add"), action.get("remove")):
                if file and file.get("deletionVector", {}).get("storageType") == "u":
                    file["deletionVector"] = _inline(bench, file["deletionVector"])
        bench.rewrite(version, actions)
    for vector in [*bench.path.glob("deletion_vector_*"), *bench.path.glob(".deletion_vector_*")]:
        vector.unlink()


def _inline(bench: Bench, vector: dict[str, object]) -> dict[str, object]:
    """Read a vector's bytes and put them into the log (Delta protocol, "Deletion Vector Descriptor Schema")."""
    (file,) = [
        file
        for file in bench.path.glob("deletion_vector_*.bin")
        if file.stem.removeprefix("deletion_vector_").replace("-", "") == _uuid(str(vector["pathOrInlineDv"])[-20:])
    ]
    offset = int(str(vector["offset"]))
    content = file.read_bytes()
    (size,) = struct.unpack_from(">i", content, offset)
    data = content[offset + 4 : offset + 4 + size]
    remaining = {name: value for name, value in vector.items() if name != "offset"}
    return {**remaining, "storageType": "i", "pathOrInlineDv": _z85(data), "sizeInBytes": size}


def _z85(data: bytes) -> str:
    padded = data + b"\0" * (-len(data) % 4)
    text = []
    for (group,) in struct.iter_unpack(">I", padded):
        digits = [Z85[group // 85**digit_index % 85] for digit_index in range(4, -1, -1)]
        text += digits
    return "".join(text)


def _uuid(text: str) -> str:
    groups = [text[start : start + 5] for start in range(0, 20, 5)]
    values = [
        sum(Z85.index(digit) * 85 ** (4 - digit_index) for digit_index, digit in enumerate(group)) for group in groups
    ]
    return b"".join(struct.pack(">I", value) for value in values).hex()


@golden
def column_mapping_name(bench: Bench) -> None:
    """Column mapping by name, partitioned, with a renamed, a dropped and a re-added column, nested ones too."""
    bench.create(
        "id INT, name STRING, st STRUCT<a: INT, b: STRING>, part STRING",
        "PARTITIONED BY (part)",
        columnMapping__mode="name",
    )
    bench.sql(
        "INSERT INTO {t} VALUES (1, 'x', named_struct('a', 1, 'b', 'p'), 'a b'), (2, 'y', NULL, NULL)",
        "ALTER TABLE {t} RENAME COLUMN name TO `full name`",
        "ALTER TABLE {t} RENAME COLUMN st.a TO renamed",
        "INSERT INTO {t} VALUES (3, 'z', named_struct('renamed', 3, 'b', 'q'), 'c')",
        "ALTER TABLE {t} DROP COLUMN `full name`",
        "ALTER TABLE {t} ADD COLUMN name STRING",
        "INSERT INTO {t} VALUES (4, named_struct('renamed', 4, 'b', 'r'), 'c', 'again')",
        "DELETE FROM {t} WHERE id = 1",
    )


@golden
def column_mapping_id(bench: Bench) -> None:
    """Column mapping by id."""
    bench.create(PEOPLE, columnMapping__mode="id")
    people(bench, 0, 4)
    bench.sql("ALTER TABLE {t} RENAME COLUMN score TO points", "UPDATE {t} SET points = 0 WHERE id = 1")


@golden
def column_mapping_later(bench: Bench) -> None:
    """Column mapping switched on later: old names stay as physical names, then a rename."""
    bench.create(PEOPLE)
    people(bench, 0, 3)
    bench.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN name TO title",
    )
    people(bench, 3, 3)
    bench.sql("ALTER TABLE {t} ADD COLUMN extra INT", "INSERT INTO {t} VALUES (9, 't', 1.0D, 5)")


@golden
def column_mapping_change_feed(bench: Bench) -> None:
    """Column mapping with change data feed; the feed starts after the last rename."""
    bench.create(PEOPLE, columnMapping__mode="name", **CDF)
    people(bench, 0, 4)
    bench.sql("ALTER TABLE {t} RENAME COLUMN name TO title")
    bench.sql("UPDATE {t} SET title = 'u' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")


@golden
def everything(bench: Bench) -> None:
    """Deletion vectors, column mapping, change data feed, row tracking and in-commit timestamps in one table."""
    bench.create(
        PEOPLE,
        columnMapping__mode="name",
        enableRowTracking="true",
        enableInCommitTimestamps="true",
        **DV,
        **CDF,
    )
    people(bench, 0, 8)
    bench.sql("DELETE FROM {t} WHERE id = 2", "UPDATE {t} SET name = 'u' WHERE id = 5")
    bench.checkpoint()
    bench.sql("DELETE FROM {t} WHERE id = 6")


@golden
def timestamp_ntz(bench: Bench) -> None:
    """Timestamps without a zone, as data and as partition."""
    bench.create("id INT, t TIMESTAMP_NTZ, p TIMESTAMP_NTZ", "PARTITIONED BY (p)")
    bench.sql(
        "INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ'2026-01-01 10:20:30.123456', TIMESTAMP_NTZ'2026-01-01 00:00:00'), "
        "(2, TIMESTAMP_NTZ'1900-01-01 00:00:00', TIMESTAMP_NTZ'2026-01-01 10:20:30.123456'), (3, NULL, NULL)"
    )


@golden
def type_widening(bench: Bench) -> None:
    """Columns whose type was widened: old files hold the narrower type, also in partition, array and map."""
    bench.create(
        "id TINYINT, f FLOAT, i INT, dec DECIMAL(5, 2), arr ARRAY<SMALLINT>, m MAP<STRING, INT>, part SMALLINT",
        "PARTITIONED BY (part)",
        enableTypeWidening="true",
    )
    bench.sql("INSERT INTO {t} VALUES (1Y, 1.5, 10, 1.25, array(1S), map('k', 1), 7S)")
    bench.sql(
        "ALTER TABLE {t} ALTER COLUMN id TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN i TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN dec TYPE DECIMAL(12, 4)",
        "ALTER TABLE {t} ALTER COLUMN arr.element TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN m.value TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN part TYPE INT",
        "INSERT INTO {t} VALUES (100000, 1e300D, 0.1D, 12345678.1234, array(70000), map('k', 5000000000L), 70000)",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "INSERT INTO {t} (id) VALUES (5000000000)",
    )


@golden
def variant(bench: Bench) -> None:
    """Variants: no minimum and maximum, only null counts."""
    bench.create("id INT, v VARIANT")
    bench.sql(
        'INSERT INTO {t} SELECT 1, parse_json(\'{"a":1,"b":[true,null,"x"]}\')',
        "INSERT INTO {t} SELECT 2, parse_json('12.5') UNION ALL SELECT 3, NULL UNION ALL SELECT 4, parse_json('null')",
    )


@golden
def variant_shredded(bench: Bench) -> None:
    """Shredded variants: the Parquet file has `typed_value` groups."""
    bench.create("id INT, v VARIANT", enableVariantShredding="true", feature__variantShredding="supported")
    bench.sql(
        'INSERT INTO {t} SELECT /*+ COALESCE(1) */ CAST(id AS INT), parse_json(concat(\'{"a":\', id, \',"b":"x"}\')) '
        "FROM range(6)"
    )


@golden
def row_tracking(bench: Bench) -> None:
    """Row tracking: base row ids, default commit versions, and materialised ids after an update."""
    bench.create(PEOPLE, enableRowTracking="true")
    people(bench, 0, 4)
    people(bench, 4, 2)
    bench.sql("UPDATE {t} SET name = 'u' WHERE id = 1", "OPTIMIZE {t}")


@golden
def clustered(bench: Bench) -> None:
    """Liquid clustering: domain metadata, and files with a clustering provider after OPTIMIZE."""
    bench.create(PEOPLE, "CLUSTER BY (id)")
    people(bench, 0, 4)
    people(bench, 4, 4)
    bench.sql("OPTIMIZE {t}", "ALTER TABLE {t} CLUSTER BY (name)")
    people(bench, 8, 2)


@golden
def identity_generated(bench: Bench) -> None:
    """Identity and generated columns: every insert writes a new metaData with the high-water mark."""
    table = DeltaTable.create(bench.spark).location(str(bench.path))
    table = table.addColumn("value", "INT")
    table = table.addColumn("doubled", "INT", generatedAlwaysAs="CAST(value * 2 AS INT)")
    from delta.tables import IdentityGenerator

    table.addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator(start=10, step=5)).execute()
    bench.sql("INSERT INTO {t} (value) VALUES (1)", "INSERT INTO {t} (value) VALUES (2), (3)")


@golden
def in_commit_timestamps(bench: Bench) -> None:
    """In-commit timestamps from the start: `commitInfo` comes first and carries them."""
    bench.create(PEOPLE, enableInCommitTimestamps="true", **CDF)
    people(bench, 0, 2)
    people(bench, 2, 2)
    bench.sql("DELETE FROM {t} WHERE id = 0")


@golden
def in_commit_timestamps_later(bench: Bench) -> None:
    """In-commit timestamps switched on at version 3, whose metaData says so."""
    bench.create(PEOPLE)
    people(bench, 0, 2)
    people(bench, 2, 2)
    bench.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    people(bench, 4, 2)
    people(bench, 6, 2)


@golden
def vacuum_protocol_check(bench: Bench) -> None:
    """The reader feature vacuumProtocolCheck, which concerns nobody who reads."""
    bench.create(PEOPLE, feature__vacuumProtocolCheck="supported")
    people(bench, 0, 3)


@golden
def checkpoint_protection(bench: Bench) -> None:
    """The writer feature checkpointProtection, with a checkpoint."""
    bench.create(PEOPLE, feature__checkpointProtection="supported")
    people(bench, 0, 3)
    bench.checkpoint()
    people(bench, 3, 1)


@golden
def materialized_partitions(bench: Bench) -> None:
    """Partition columns that are in the data files too."""
    bench.create("id INT, part STRING", "PARTITIONED BY (part)", feature__materializePartitionColumns="supported")
    bench.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'b c'), (3, NULL)")


@golden
def iceberg_compat(bench: Bench) -> None:
    """Iceberg compatibility version 2: column mapping, partition column in the files."""
    bench.create(
        "id INT, part STRING",
        "PARTITIONED BY (part)",
        columnMapping__mode="name",
        enableIcebergCompatV2="true",
    )
    bench.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'b c')")
