"""Golden tables after those that the clients' own acceptance tests read: same columns, same steps, same values."""

from golden.definitions.plain import CDF
from golden.workbench import Bench, golden


@golden
def timestamp_ntz_change_feed(bench: Bench) -> None:
    """Timestamps without a zone in a change data feed; a replaced row is a delete and an insert, and no update."""
    bench.create("id INT, time TIMESTAMP_NTZ", **CDF)
    bench.sql(
        "INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ'2021-07-01 08:43:28')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (2, TIMESTAMP_NTZ'2024-12-10 13:17:40'), "
        "(3, TIMESTAMP_NTZ'1000-01-01 00:00:00')",
        "INSERT INTO {t} REPLACE WHERE id = 2 VALUES (2, TIMESTAMP_NTZ'2024-12-10 13:17:40.123456')",
        "DELETE FROM {t} WHERE id = 1",
    )


@golden
def columns_added_change_feed(bench: Bench) -> None:
    """Columns are added twice, with change data feed: the files of the feed have one, two or four of them."""
    bench.create("c1 INT", **CDF)
    bench.sql(
        "INSERT INTO {t} VALUES (1), (2)",
        "ALTER TABLE {t} ADD COLUMN c2 INT",
        "INSERT INTO {t} VALUES (3, 4)",
        "UPDATE {t} SET c2 = 5 WHERE c1 = 1",
        "ALTER TABLE {t} ADD COLUMNS (c3 FLOAT, c4 FLOAT)",
        "INSERT INTO {t} VALUES (5, 6, 0.1F, 0.1F), (6, NULL, 0.2F, 0.2F), (7, 8, NULL, NULL)",
        "DELETE FROM {t} WHERE c1 = 2 OR c1 = 6",
        "UPDATE {t} SET c3 = 0F WHERE c1 = 3 OR c2 = 8",
        "UPDATE {t} SET c4 = NULL WHERE c1 < 7",
    )


@golden
def columns_added_partitioned_change_feed(bench: Bench) -> None:
    """Columns are added to a table partitioned by a float and a text, with nulls in both, and change data feed."""
    bench.create("p1 FLOAT, p2 STRING, c1 INT", "PARTITIONED BY (p1, p2)", **CDF)
    bench.sql(
        "INSERT INTO {t} VALUES (0.1F, 'a', 0), (0.1F, 'a', 1), (0.1F, 'a', 2), (0.1F, 'b', NULL), (NULL, 'a', 0)",
        "INSERT INTO {t} VALUES (NULL, NULL, 0), (NULL, NULL, NULL)",
        "ALTER TABLE {t} ADD COLUMNS (c2 INT, c3 INT)",
        "UPDATE {t} SET c2 = 10 WHERE c1 = 0",
        "INSERT INTO {t} VALUES (0.1F, 'b', 3, 30, 300), (0.2F, 'a', 2, 20, 200), (0.3F, 'a', 2, 20, 200)",
        "DELETE FROM {t} WHERE p2 IS NULL",
        "UPDATE {t} SET c1 = c2, c3 = -1 WHERE p1 IS NULL OR p2 = 'a'",
    )


@golden
def twelve_thousand_rows(bench: Bench) -> None:
    """More rows than any reader takes at once, in files of a hundred to some thousand, with change data feed."""
    bench.create("id BIGINT, name STRING, time TIMESTAMP, val DOUBLE", **CDF)
    for first, end in ((0, 100), (100, 1000), (1000, 5000), (5000, 12_000)):
        rows = bench.spark.range(first, end, numPartitions=1)
        bench.write(
            rows.selectExpr("id", "concat('str_', id)", "timestamp_seconds(id * 100000)", "id / 8").toDF(
                "id", "name", "time", "val"
            )
        )


@golden
def gzipped(bench: Bench) -> None:
    """Data files packed with gzip."""
    bench.create("a BOOLEAN, b INT, c STRING")
    rows = bench.spark.createDataFrame([(True, 1, "Hi")], "a BOOLEAN, b INT, c STRING")
    bench.write(rows.coalesce(1), compression="gzip")
