"""SQL with which Trino writes Iceberg tables; `{t}` is the table."""

from typing import Final

_TYPES: Final = """
    id integer, big bigint, real real, num double, price decimal(12,3), wide decimal(38,10), day date, ts timestamp(6),
    tz timestamp(6) with time zone, name varchar, data varbinary, flag boolean,
    "inner" row(x integer, y row(z varchar)), list array(integer), lists array(row(q integer, r varchar)),
    pairs map(varchar, double)
"""
_COLUMNS: Final = 16
_FULL: Final = """
    (1, 1099511627776, CAST(nan() AS real), nan(), 12.345, 0.0000000001, DATE '1969-12-31',
    TIMESTAMP '1960-01-02 03:04:05.678901',
    TIMESTAMP '1930-05-06 07:08:09.000001 Asia/Kathmandu', 'a b%c/d', X'00ff', true, ROW(1, ROW('deep')),
    ARRAY[1, NULL], ARRAY[ROW(1, 'x'), NULL], MAP(ARRAY['k', ''], ARRAY[1.5, nan()]))
"""
_EXTREME: Final = """
    (-7, -1, -infinity(), -0e0, -99999.999, -1, DATE '2196-02-29', TIMESTAMP '9999-12-31 23:59:59.999999',
    TIMESTAMP '2038-01-19 03:14:08 UTC', 'ü\u2028\U0001f600', X'', false, ROW(NULL, NULL), ARRAY[], ARRAY[], MAP())
"""
_EMPTY: Final = f"({', '.join(['NULL'] * (_COLUMNS - 7))}, '', {', '.join(['NULL'] * 6)})"
_ROWS: Final = tuple(f"INSERT INTO {{t}} VALUES {row}" for row in (_FULL, f"{_EXTREME}, {_EMPTY}"))  # noqa: S608
_SIMPLE: Final = "id bigint, name varchar, amount double"


def _table(columns: str = _SIMPLE, *, partitioning: str = "", **properties: str) -> str:
    if partitioning:
        by = ", ".join(f"'{field}'" for field in partitioning.split("; "))
        properties["partitioning"] = f"ARRAY[{by}]"
    options = ", ".join(f"{name} = {value}" for name, value in properties.items())
    return f"CREATE TABLE {{t}} ({columns})" + (f" WITH ({options})" if options else "")


def _insert(first: int, end: int) -> str:
    return (
        f"INSERT INTO {{t}} SELECT id, CAST(id % 7 AS varchar), id * 1.5e0 FROM UNNEST(sequence({first}, {end - 1})) "  # noqa: S608
        "AS numbers (id)"
    )


def _typed(*, partitioning: str = "", **properties: str) -> list[str]:
    return [_table(_TYPES, partitioning=partitioning, **properties), *_ROWS]


def _changed(*, partitioning: str = "", **properties: str) -> list[str]:
    return [
        _table(partitioning=partitioning, **properties),
        _insert(0, 1000),
        "DELETE FROM {t} WHERE id % 10 = 3",
        _insert(1000, 1200),
        "UPDATE {t} SET amount = -1 WHERE id BETWEEN 50 AND 70",
        """MERGE INTO {t} USING (SELECT * FROM UNNEST(sequence(1190, 1210))) AS s (id) ON {t}.id = s.id
           WHEN MATCHED AND s.id > 1195 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged'
           WHEN NOT MATCHED THEN INSERT VALUES (s.id, NULL, nan())""",
        "DELETE FROM {t} WHERE name = '2'",
        "ALTER TABLE {t} EXECUTE optimize(file_size_threshold => '1MB') WHERE name = '1'"
        if partitioning == "name"
        else "ALTER TABLE {t} EXECUTE optimize",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} EXECUTE optimize_manifests",
        _insert(0, 10),
    ]


TABLES: Final[dict[str, list[str]]] = {
    "types": _typed(),
    "types_by_values": _typed(partitioning="id; big; price; day; name; flag"),
    "types_by_others": _typed(partitioning="ts; tz; data; wide"),
    "types_by_transforms": _typed(partitioning="bucket(id, 4); truncate(name, 2); day(ts); hour(tz); month(day)"),
    "changed": _changed(),
    "changed_by_name": _changed(partitioning="name"),
    "changed_by_bucket": _changed(partitioning="bucket(id, 3)"),
    "sorted": [
        _table(sorted_by="ARRAY['amount DESC NULLS FIRST', 'id']", parquet_bloom_filter_columns="ARRAY['name']"),
        _insert(0, 1000),
        "DELETE FROM {t} WHERE id % 10 = 3",
        "ANALYZE {t}",
    ],
    "evolved": [
        _table('id integer, name varchar, real real, price decimal(5,2), "inner" row(x integer, y integer)'),
        "INSERT INTO {t} VALUES (1, 'a', REAL '1.5', 1.25, ROW(1, 2))",
        "ALTER TABLE {t} ADD COLUMN more varchar",
        'ALTER TABLE {t} ADD COLUMN "inner".w date',
        "INSERT INTO {t} VALUES (2, 'b', REAL '2.5', 2.25, ROW(3, 4, DATE '2020-01-01'), 'more')",
        "ALTER TABLE {t} ALTER COLUMN id SET DATA TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN real SET DATA TYPE double",
        "ALTER TABLE {t} ALTER COLUMN price SET DATA TYPE decimal(12,2)",
        "INSERT INTO {t} VALUES (4000000000, 'd', 1e300, 1234567.89, NULL, NULL)",
        "ALTER TABLE {t} RENAME COLUMN name TO label",
        "ALTER TABLE {t} DROP COLUMN more",
        "ALTER TABLE {t} ADD COLUMN more integer",
        'ALTER TABLE {t} RENAME COLUMN "inner".x TO z',
        'ALTER TABLE {t} DROP COLUMN "inner".y',
        "INSERT INTO {t} VALUES (5, 'e', 1e0, 1, ROW(5, NULL), 6)",
        "DELETE FROM {t} WHERE id = 2",
    ],
    "partitions": [
        _table(partitioning="name"),
        _insert(0, 20),
        "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['name', 'bucket(id, 2)']",
        _insert(20, 40),
        "DELETE FROM {t} WHERE name = '3'",
        "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['truncate(name, 1)']",
        _insert(40, 60),
        "DELETE FROM {t} WHERE id IN (5, 25, 45)",
        "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY[]",
        _insert(60, 70),
        "ALTER TABLE {t} EXECUTE optimize",
    ],
    "names": [  # the client reads changes only if the last column has its name in the files
        _table('"a b" integer, "ü" varchar, "x.y" integer, "z-1" row("p q" integer), id integer', partitioning='"ü"'),
        "INSERT INTO {t} VALUES (1, 'x', 2, ROW(3), 1), (NULL, 'ü/=%2F ', 2, NULL, 2), (NULL, NULL, 3, ROW(NULL), 3)",
        'DELETE FROM {t} WHERE "x.y" = 3',
    ],
    "emptied": [
        *_typed(),
        "DELETE FROM {t}",
        _ROWS[0],
        "TRUNCATE TABLE {t}",
        _ROWS[1],
    ],
    "replaced": [
        "CREATE TABLE {t} AS SELECT 1 AS id, 'x' AS name",
        "INSERT INTO {t} VALUES (2, 'y')",
        "CREATE OR REPLACE TABLE {t} AS SELECT 'x' AS name, BIGINT '7' AS other",
        "INSERT INTO {t} VALUES ('z', 8)",
    ],
    "rolled_back": [
        _table(),
        *(_insert(number * 10, number * 10 + 10) for number in range(3)),
        "ALTER TABLE {t} EXECUTE rollback_to_snapshot({second})",
        _insert(50, 60),
    ],
    "expired": [
        _table(partitioning="name", object_store_layout_enabled="true"),
        _insert(0, 10),
        "DELETE FROM {t} WHERE id IN (3, 4)",
        "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')",
        "ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')",
        _insert(10, 20),
    ],
    "upgraded": [
        _table(partitioning="name", format_version="1"),
        _insert(0, 10),
        "ALTER TABLE {t} SET PROPERTIES format_version = 2",
        _insert(10, 20),
        "DELETE FROM {t} WHERE id = 15",
    ],
    "empty": [_table(_TYPES)],
}
"""Tables whose every version can be read. `{second}` is the id of the second snapshot."""
REFUSED: Final[dict[str, tuple[str, list[str]]]] = {
    "orc": ("files in the format ORC", [_table(format="'ORC'"), _insert(0, 10)]),
    "avro": ("files in the format AVRO", [_table(format="'AVRO'"), _insert(0, 10)]),
    "orc_later": (
        "files in the format ORC",
        [_table(), _insert(0, 10), "ALTER TABLE {t} SET PROPERTIES format = 'ORC'", _insert(10, 20)],
    ),
    "times": ("the column at has the Iceberg type time", [_table("at time(6)")]),
    "v1": ("version 1 of the Iceberg format", [_table(format_version="1")]),
}
"""Tables whose latest version is refused, with a part of the message."""
