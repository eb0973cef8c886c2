"""Golden tables that any reader may open: types, partition values, names, writes of every mode, the change feed."""

# ruff: noqa: S608 -- the statements are this module's own literals

from golden.workbench import Bench, golden

PEOPLE = "id INT, name STRING, score DOUBLE"
CDF = {"enableChangeDataFeed": "true"}


def people(bench: Bench, first: int, count: int) -> None:
    """Append `count` rows from `first` on, in one file."""
    bench.sql(
        f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ CAST(id AS INT), concat('name-', id), id / 4 "
        f"FROM range({first}, {first + count})"
    )


@golden
def plain(bench: Bench) -> None:
    """Three appends, a rewriting delete and a rewriting update; with version checksums (`N.crc`) in the log."""
    with bench.conf(writeChecksumFile__enabled="true"):
        bench.create(PEOPLE)
        people(bench, 0, 5)
        people(bench, 5, 5)
        bench.sql("DELETE FROM {t} WHERE id = 3", "UPDATE {t} SET name = 'changed' WHERE id >= 8")
        people(bench, 10, 2)


@golden
def empty(bench: Bench) -> None:
    """Created and never written."""
    bench.create(PEOPLE)


@golden
def all_types(bench: Bench) -> None:
    """Every type of Spark that Parquet has, nested too, with extreme values, NaN, infinities, -0.0 and nulls."""
    bench.create(
        "id INT, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i64 BIGINT, f FLOAT, d DOUBLE, dec DECIMAL(38, 18), "
        "small DECIMAL(5, 2), s STRING, bin BINARY, day DATE, ts TIMESTAMP, arr ARRAY<INT>, m MAP<STRING, DOUBLE>, "
        "st STRUCT<a: INT, deep: STRUCT<x: STRING, y: ARRAY<STRUCT<z: DATE>>>>"
    )
    bench.sql(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES "
        "(1, true, 127Y, 32767S, 9223372036854775807L, CAST('NaN' AS FLOAT), CAST('Infinity' AS DOUBLE), "
        "CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)), 999.99BD, repeat('long ', 20), X'00ff', "
        "DATE'9999-12-31', TIMESTAMP'2026-03-01T23:59:59.999999Z', array(1, null, 3), map('k', 1.5D, 'null', null), "
        "named_struct('a', 1, 'deep', named_struct('x', 'y', 'y', array(named_struct('z', DATE'2026-01-01'))))), "
        "(2, false, -128Y, -32768S, -9223372036854775808L, CAST('-0.0' AS FLOAT), CAST('-Infinity' AS DOUBLE), "
        "CAST('-1.5' AS DECIMAL(38, 18)), -0.01BD, 'quote\" back\\\\slash \\u2028 \\n line', X'', DATE'1582-10-15', "
        "TIMESTAMP'1970-01-01T00:00:00Z', array(), map(), named_struct('a', null, 'deep', null))",
        "INSERT INTO {t} (id) VALUES (3)",
        "INSERT INTO {t} (id, d, s, ts) VALUES (4, CAST('-0.0' AS DOUBLE), '\\U0001F9A0 \\u6F22', "
        "TIMESTAMP'2026-03-01T00:00:00.000001+05:30'), (5, 0.0D, '', TIMESTAMP'1883-11-18T12:00:00Z')",
    )


@golden
def partitioned_types(bench: Bench) -> None:
    """Partitioned by every type at once; values that URIs, Hive and SQL find hard; nulls in every partition column."""
    columns = (
        "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i INT, i64 BIGINT, f FLOAT, d DOUBLE, dec DECIMAL(10, 3), s STRING, "
        "bin BINARY, day DATE, ts TIMESTAMP"
    )
    named = ", ".join(column.split()[0] for column in columns.replace("(10, 3)", "").split(", "))
    bench.create(f"id INT, {columns}", f"PARTITIONED BY ({named})")
    texts = ["a b", "50%", "%41", "a+b", "a=b", "it''s", '"q"', "a/b", "a:b?c#d&e;f", "\u00fcn\u00ef \u6f22 \U0001f9a0"]

    def rows(first: int, end: int) -> str:
        return ", ".join(
            f"({n}, {n % 2 == 0}, {n}Y, -{n}S, {n}, {n}000000000L, CAST({n} + 0.5 AS FLOAT), {n}.25D, {n}.125BD, "
            f"'{texts[n]}', X'4{n}', DATE'2026-01-0{1 + n % 9}', TIMESTAMP'2026-01-01T0{n}:00:00.00000{n}Z')"
            for n in range(first, end)
        )

    bench.sql(
        f"INSERT INTO {{t}} VALUES {rows(0, 3)}",
        f"INSERT INTO {{t}} VALUES {rows(3, 10)}",
        "INSERT INTO {t} (id) VALUES (100)",
        "INSERT INTO {t} (id, f, d, s) VALUES (101, CAST('NaN' AS FLOAT), CAST('-Infinity' AS DOUBLE), '')",
        "DELETE FROM {t} WHERE s = 'a b'",
    )


@golden
def odd_columns(bench: Bench) -> None:
    """Column names with case, dots, quotes and other alphabets, as data and as partition."""
    bench.create(
        '`Id` INT, `a.b` STRING, `it\'s "x"%` INT, `\u540d\u524d` STRING',
        "PARTITIONED BY (`\u540d\u524d`)",
        columnMapping__mode="name",
    )
    bench.sql("INSERT INTO {t} VALUES (1, 'x', 10, 'p q'), (2, 'y', 20, NULL)")


@golden
def char_varchar(bench: Bench) -> None:
    """CHAR and VARCHAR columns: strings with a length in the field's metadata."""
    bench.create("id INT, c CHAR(4), v VARCHAR(10)")
    bench.sql("INSERT INTO {t} VALUES (1, 'ab', 'cd'), (2, NULL, '')")


@golden
def converted(bench: Bench) -> None:
    """Parquet files converted in place: a checkpoint at version 0."""
    rows = bench.spark.range(6).selectExpr("id", "id % 2 AS half")
    rows.coalesce(1).write.partitionBy("half").parquet(str(bench.path))
    bench.spark.sql(f"CONVERT TO DELTA parquet.`{bench.path}` PARTITIONED BY (half BIGINT)")
    bench.sql("INSERT INTO {t} VALUES (6, 0)")


@golden
def evolved(bench: Bench) -> None:
    """Columns are added, also inside a struct, and the comment and nullability change: old files lack columns."""
    bench.create("id INT NOT NULL, st STRUCT<a: INT>")
    bench.sql(
        "INSERT INTO {t} VALUES (1, named_struct('a', 1))",
        "ALTER TABLE {t} ADD COLUMNS (more STRING COMMENT 'later', st.b STRING)",
        "INSERT INTO {t} VALUES (2, named_struct('a', 2, 'b', 'x'), 'm')",
        "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
        "INSERT INTO {t} VALUES (NULL, NULL, NULL)",
    )


@golden
def overwritten(bench: Bench) -> None:
    """Overwritten whole, by partition (`replaceWhere`) and with another schema and partitioning."""
    rows = bench.spark.range(8).selectExpr("CAST(id AS INT) AS id", "CAST(id % 2 AS INT) AS part").coalesce(1)
    rows.write.format("delta").partitionBy("part").save(str(bench.path))
    bench.write(rows.where("id < 4"), "overwrite")
    bench.write(rows.where("id IN (1, 3)").selectExpr("id * 10 AS id", "part"), "overwrite", replaceWhere="part = 1")
    bench.write(
        rows.selectExpr("id", "'x' AS text").limit(3),
        "overwrite",
        overwriteSchema="true",
        partitionOverwriteMode="static",
    )


@golden
def restored_optimized(bench: Bench) -> None:
    """Small files compacted by OPTIMIZE (no change of data), z-ordered, then restored to an earlier version."""
    bench.create(PEOPLE)
    for first in (0, 2, 4):
        people(bench, first, 2)
    bench.sql("OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 0", "RESTORE TABLE {t} TO VERSION AS OF 2")
    bench.sql("OPTIMIZE {t} ZORDER BY (id)")


@golden
def vacuumed(bench: Bench) -> None:
    """VACUUM took the files of old versions: those versions have a log and no data."""
    bench.create(PEOPLE)
    people(bench, 0, 4)
    bench.sql("UPDATE {t} SET name = 'new'")
    with bench.conf(retentionDurationCheck__enabled="false", vacuum__logging__enabled="true"):
        bench.sql("VACUUM {t} RETAIN 0 HOURS")
    people(bench, 4, 1)


@golden
def idempotent(bench: Bench) -> None:
    """Writes with `txn` actions; the repeated one makes no version."""
    rows = bench.spark.range(3).coalesce(1)
    for version in ("1", "1", "2"):
        bench.write(rows, txnAppId="loader", txnVersion=version)
    bench.checkpoint()
    bench.write(rows, txnAppId="other", txnVersion="7")


@golden
def constraints(bench: Bench) -> None:
    """NOT NULL and CHECK: writer version 3, no lists of features."""
    bench.create("id INT NOT NULL, score DOUBLE")
    bench.sql("ALTER TABLE {t} ADD CONSTRAINT positive CHECK (score > 0)", "INSERT INTO {t} VALUES (1, 0.5)")


@golden
def append_only(bench: Bench) -> None:
    """Append only by property."""
    bench.create(PEOPLE, appendOnly="true")
    people(bench, 0, 2)
    people(bench, 2, 2)


@golden
def defaults(bench: Bench) -> None:
    """Column defaults: writer feature allowColumnDefaults."""
    bench.create("id INT, note STRING DEFAULT 'none'", feature__allowColumnDefaults="supported")
    bench.sql("INSERT INTO {t} (id) VALUES (1)", "INSERT INTO {t} VALUES (2, 'some')")


@golden
def change_feed(bench: Bench) -> None:
    """Change data feed from the start: insert, update, delete, merge, and an OPTIMIZE that is no change."""
    bench.create(f"{PEOPLE}, part INT", "PARTITIONED BY (part)", **CDF)
    bench.sql(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ CAST(id AS INT), concat('n', id), id / 2, CAST(id % 2 AS INT) "
        "FROM range(8)",
        "UPDATE {t} SET name = 'updated' WHERE id IN (1, 2)",
        "DELETE FROM {t} WHERE id = 3",
        "MERGE INTO {t} old USING (SELECT * FROM VALUES (4, 'merged', 9.5D, 0), (20, 'new', 1.0D, 0), (5, '', 0D, 1) "
        "AS v(id, name, score, part)) new ON old.id = new.id "
        "WHEN MATCHED AND new.name = '' THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM {t} WHERE part = 1",
        "OPTIMIZE {t}",
        "INSERT INTO {t} VALUES (30, 'last', 0D, 5)",
    )


@golden
def change_feed_later(bench: Bench) -> None:
    """Change data feed switched on at version 2, off at 5 and on again at 7: ranges across that are refused."""
    bench.create(PEOPLE)
    people(bench, 0, 3)
    bench.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    people(bench, 3, 2)
    bench.sql("UPDATE {t} SET score = 0 WHERE id = 1")
    bench.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    people(bench, 5, 1)
    bench.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    bench.sql("DELETE FROM {t} WHERE id = 0")


@golden
def clone(bench: Bench) -> None:
    """A shallow clone: absolute paths into `source`, then own files beside them. Its checkpoint is left out."""
    source = bench.root / bench.name / "source"
    bench.spark.sql(f"CREATE TABLE delta.`{source}` (id INT, part STRING) USING delta PARTITIONED BY (part)")
    bench.spark.sql(f"INSERT INTO delta.`{source}` VALUES (1, 'a b'), (2, '50%'), (3, '\u00fc')")
    bench.spark.sql(f"CREATE TABLE delta.`{bench.path}` SHALLOW CLONE delta.`{source}`")
    _without_checkpoint(bench)
    bench.sql("INSERT INTO {t} VALUES (4, 'own')", "DELETE FROM {t} WHERE id = 1")


@golden
def clone_deletion_vectors(bench: Bench) -> None:
    """A shallow clone of a table with deletion vectors: vectors as absolute paths (`p`), then own ones (`u`)."""
    source = bench.root / bench.name / "source"
    bench.spark.sql(
        f"CREATE TABLE delta.`{source}` USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
        "AS SELECT /*+ COALESCE(1) */ CAST(id AS INT) AS id FROM range(10)"
    )
    bench.spark.sql(f"DELETE FROM delta.`{source}` WHERE id IN (2, 3)")
    bench.spark.sql(f"CREATE TABLE delta.`{bench.path}` SHALLOW CLONE delta.`{source}`")
    _without_checkpoint(bench)
    bench.sql("INSERT INTO {t} VALUES (10), (11)", "DELETE FROM {t} WHERE id = 10", "DELETE FROM {t} WHERE id = 7")


def _without_checkpoint(bench: Bench) -> None:
    """Delete the checkpoint: the absolute paths inside it could not be relocated."""
    for file in [*bench.log.glob("*.checkpoint*"), *bench.log.glob("*_last_checkpoint*"), *bench.log.glob(".*.crc")]:
        file.unlink(missing_ok=True)
    bench.forget()
