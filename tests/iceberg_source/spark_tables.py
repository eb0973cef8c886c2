"""Write Iceberg tables with Spark: for each table a list of steps, which are SQL or calls of Iceberg's Java API."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = str | Callable[[Any], Any]
"""SQL, in which `{t}` is the table and `{catalog}` its catalog, or a function that changes Iceberg's Java object."""

_V2: Final = "'format-version'='2'"
_V3: Final = "'format-version'='3'"
_MERGE_ON_READ: Final = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
_BY_PARTITION: Final = "'write.delete.granularity'='partition'"

_TYPES: Final = (
    "id int, big bigint, real float, num double, price decimal(12,3), wide decimal(38,10), day date, ts timestamp_ntz, "
    "tz timestamp, name string, data binary, flag boolean, inner struct<x: int, y: struct<z: string>>, "
    "list array<int>, lists array<struct<q: int, r: string>>, pairs map<string, double>"
)
_FULL: Final = (
    "(1, 1099511627776, 1.5, double('NaN'), 12.345, 0.0000000001, date'1969-12-31', "
    "timestamp_ntz'1960-01-02 03:04:05.678901', timestamp'1930-05-06 07:08:09.000001', 'a b%c', X'00ff', true, "
    "named_struct('x', 1, 'y', named_struct('z', 'deep')), array(1, null), array(named_struct('q', 1, 'r', 'x')), "
    "map('k', 1.5))"
)
_EXTREME: Final = (
    "(-7, -1, float('-Infinity'), -0.0D, -99999.999, -1, date'2196-02-29', timestamp_ntz'9999-12-31 23:59:59.999999', "
    "timestamp'2038-01-19 03:14:08', 'ü\u2028\U0001f600', X'', false, named_struct('x', null, 'y', null), array(), "
    "array(), map())"
)
_TYPE_ROWS: Final = (_FULL, f"({', '.join(['null'] * 16)})", _EXTREME)
_SOME: Final = "select id, cast(id % 7 as string) as name, id * 1.5D as amount from range({}, {})"


def _table(columns: str, *properties: str, partitioned: str = "") -> str:
    by = f" partitioned by ({partitioned})" if partitioned else ""
    return f"create table {{t}} ({columns}) using iceberg{by} tblproperties ({', '.join(properties)})"


def _typed(version: str, partitioned: str = "") -> list[Step]:
    rows: list[Step] = [f"insert into {{t}} values {row}" for row in _TYPE_ROWS]  # noqa: S608 -- constants
    return [_table(_TYPES, version, partitioned=partitioned), *rows]


def _deleted(*properties: str, partitioned: str = "") -> list[Step]:
    return [
        _table("id bigint, name string, amount double", *properties, partitioned=partitioned),
        f"insert into {{t}} {_SOME.format(0, 1000)}",
        "delete from {t} where id % 10 = 3",
        f"insert into {{t}} {_SOME.format(1000, 1200)}",
        "update {t} set amount = -1 where id between 50 and 70",
        "delete from {t} where id > 1150 or name = '2'",
        f"insert into {{t}} {_SOME.format(0, 10)}",
    ]


_TRANSFORMS: Final = {
    "identity_int": "id",
    "identity_big": "big",
    "identity_price": "price",
    "identity_day": "day",
    "identity_ts": "ts",
    "identity_tz": "tz",
    "identity_name": "name",
    "identity_flag": "flag",
    "identity_real": "real",
    "identity_data": "data",
    "identity_two": "name, day",
    "bucket_int": "bucket(4, id)",
    "bucket_name": "bucket(3, name)",
    "truncate_name": "truncate(2, name)",
    "truncate_big": "truncate(100, big)",
    "year_ts": "years(ts)",
    "month_day": "months(day)",
    "day_tz": "days(tz)",
    "hour_ts": "hours(ts)",
    "mixed": "name, bucket(2, big), days(tz)",
}


def write_table(spark: "SparkSession", name: str, steps: Sequence[Step]) -> None:
    """Run the steps that write a table."""
    for step in steps:
        if isinstance(step, str):
            spark.sql(step.replace("{t}", name).replace("{catalog}", name.partition(".")[0]))
            continue
        jvm: Any = spark._jvm
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
        step(table).commit()
        spark.catalog.refreshTable(name)


def _snapshot(table: Any, number: int) -> int:
    """Return the id of the snapshot with a sequence number."""
    return next(int(entry.snapshotId()) for entry in table.snapshots() if entry.sequenceNumber() == number)


_EVOLVED: Final[dict[str, list[Step]]] = {
    "copy_on_write": [*_deleted("VERSION")],
    "emptied": [*_typed("VERSION"), "delete from {t}"],
    "truncated": [*_typed("VERSION"), "truncate table {t}"],
    "dropped_partition_files": [
        _table("id bigint, name string, amount double", "VERSION", partitioned="name"),
        f"insert into {{t}} {_SOME.format(0, 100)}",
        "delete from {t} where name = '3'",
        f"insert into {{t}} {_SOME.format(100, 200)}",
        "delete from {t} where name in ('1', '5')",
    ],
    "dropped_files_with_deletes": [
        _table("id bigint, name string, amount double", "VERSION", _MERGE_ON_READ, partitioned="name"),
        f"insert into {{t}} {_SOME.format(0, 100)}",
        "delete from {t} where id % 10 = 3",
        "delete from {t} where name = '3'",
        f"insert into {{t}} {_SOME.format(100, 200)}",
    ],
    "overwritten": [
        _table("id bigint, name string, amount double", "VERSION", partitioned="name"),
        f"insert into {{t}} {_SOME.format(0, 100)}",
        f"insert overwrite {{t}} {_SOME.format(50, 60)}",
    ],
    "partition_added": [
        _table("id bigint, name string, amount double", "VERSION"),
        f"insert into {{t}} {_SOME.format(0, 20)}",
        lambda table: table.updateSpec().addField("name"),
        f"insert into {{t}} {_SOME.format(20, 40)}",
        "delete from {t} where name = '3'",
    ],
    "partition_removed": [
        _table("id bigint, name string, amount double", "VERSION", partitioned="name, bucket(2, id)"),
        f"insert into {{t}} {_SOME.format(0, 20)}",
        lambda table: table.updateSpec().removeField("id_bucket"),
        f"insert into {{t}} {_SOME.format(20, 40)}",
        lambda table: table.updateSpec().removeField("name"),
        f"insert into {{t}} {_SOME.format(40, 60)}",
    ],
    "partition_renamed": [
        _table("id bigint, name string, amount double", "VERSION", partitioned="name"),
        f"insert into {{t}} {_SOME.format(0, 20)}",
        "alter table {t} rename column name to label",
        "alter table {t} rename column amount to price",
        f"insert into {{t}} {_SOME.format(20, 40)}",
        "delete from {t} where label = '3'",
    ],
    "rolled_back": [
        _table("id bigint, name string, amount double", "VERSION"),
        *(f"insert into {{t}} {_SOME.format(number * 10, number * 10 + 10)}" for number in range(3)),
        lambda table: table.manageSnapshots().rollbackTo(_snapshot(table, 2)),
        f"insert into {{t}} {_SOME.format(50, 60)}",
    ],
    "branched": [
        _table("id bigint, name string, amount double", "VERSION"),
        f"insert into {{t}} {_SOME.format(0, 10)}",
        lambda table: table.manageSnapshots().createBranch("dev"),
        f"insert into {{t}}.branch_dev {_SOME.format(10, 20)}",
        f"insert into {{t}} {_SOME.format(20, 30)}",
        lambda table: table.manageSnapshots().createTag("tagged", _snapshot(table, 1)),
    ],
    "expired": [
        _table("id bigint, name string, amount double", "VERSION", _MERGE_ON_READ),
        *(f"insert into {{t}} {_SOME.format(number * 10, number * 10 + 10)}" for number in range(3)),
        "delete from {t} where id % 10 = 3",
        lambda table: table.expireSnapshots().expireSnapshotId(_snapshot(table, 1)),
        lambda table: table.expireSnapshots().expireSnapshotId(_snapshot(table, 2)),
        f"insert into {{t}} {_SOME.format(50, 60)}",
    ],
    "fast_forwarded": [
        _table("id bigint, name string, amount double", "VERSION"),
        f"insert into {{t}} {_SOME.format(0, 10)}",
        lambda table: table.manageSnapshots().createBranch("dev"),
        f"insert into {{t}}.branch_dev {_SOME.format(10, 20)}",
        "delete from {t}.branch_dev where id = 3",
        "call {catalog}.system.fast_forward('{t}', 'main', 'dev')",
        f"insert into {{t}} {_SOME.format(20, 30)}",
    ],
    "set_to_a_branch": [
        _table("id bigint, name string, amount double", "VERSION"),
        f"insert into {{t}} {_SOME.format(0, 10)}",
        lambda table: table.manageSnapshots().createBranch("dev"),
        f"insert into {{t}}.branch_dev {_SOME.format(10, 20)}",
        f"insert into {{t}} {_SOME.format(20, 30)}",
        lambda table: table.manageSnapshots().setCurrentSnapshot(_snapshot(table, 2)),
        f"insert into {{t}} {_SOME.format(30, 40)}",
    ],
    "cherry_picked": [
        _table("id bigint, name string, amount double", "VERSION"),
        f"insert into {{t}} {_SOME.format(0, 10)}",
        lambda table: table.manageSnapshots().createBranch("dev"),
        f"insert into {{t}}.branch_dev {_SOME.format(10, 20)}",
        f"insert into {{t}} {_SOME.format(20, 30)}",
        lambda table: table.manageSnapshots().cherrypick(_snapshot(table, 2)),
    ],
    "maintained": [
        _table("id bigint, name string, amount double", "VERSION", _MERGE_ON_READ, _BY_PARTITION, partitioned="name"),
        *(f"insert into {{t}} {_SOME.format(number * 50, number * 50 + 50)}" for number in range(3)),
        "delete from {t} where id % 10 = 3",
        "call {catalog}.system.rewrite_manifests('{t}')",
        (
            "merge into {t} using (select * from range(140, 160)) s on {t}.id = s.id when matched then update set "
            "amount = -2 when not matched then insert (id, name, amount) values (s.id, 'new', 1)"
        ),
        (
            "call {catalog}.system.rewrite_data_files(table => '{t}', where => 'name = \"3\"', options => "
            "map('rewrite-all', 'true'))"
        ),
        "delete from {t} where id % 10 = 4",
        "call {catalog}.system.rewrite_position_delete_files(table => '{t}', options => map('rewrite-all', 'true'))",
        f"insert into {{t}} {_SOME.format(150, 160)}",
    ],
    "partition_added_again": [
        _table("id bigint, name string, amount double", "VERSION", partitioned="name"),
        f"insert into {{t}} {_SOME.format(0, 10)}",
        lambda table: table.updateSpec().removeField("name"),
        f"insert into {{t}} {_SOME.format(10, 20)}",
        lambda table: table.updateSpec().addField("name"),
        f"insert into {{t}} {_SOME.format(20, 30)}",
        "delete from {t} where id in (5, 15, 25)",
    ],
    "object_storage": [
        _table(
            "id bigint, name string, amount double",
            "VERSION",
            "'write.object-storage.enabled'='true'",
            _MERGE_ON_READ,
            partitioned="name",
        ),
        f"insert into {{t}} {_SOME.format(0, 20)}",
        "delete from {t} where id = 3",
        lambda table: table.updateProperties().set("write.data.path", f"{table.location()}/else where/100%20=é"),
        f"insert into {{t}} {_SOME.format(20, 40)}",
        "delete from {t} where id = 30",
    ],
    "odd_values": [
        _table(
            "`it's` string, `a.b` int, `q\"x` bigint, `50%` decimal(38,10), `c/d` date",
            "VERSION",
            _MERGE_ON_READ,
            partitioned="`it's`, `50%`, `c/d`",
        ),
        (
            "insert into {t} values ('ü/ö', 1, 1, -0.0000000001, date'0001-01-01'), (' a ', 2, 2, null, null), "
            "('a=b%2F', 3, 3, 9999999999999999999999999999.9999999999, date'9999-12-31'), (null, 4, 4, 0, null), "
            "('\u2028\U0001f600', 5, 5, -9999999999999999999999999999.9999999999, date'1969-12-31'), "
            "('n', 6, 6, 1, null)"
        ),
        "delete from {t} where `a.b` in (1, 4)",
    ],
    "swapped_names": [
        _table("id int, a string, b string, c decimal(38,0)", "VERSION", partitioned="truncate(4, c)"),
        "insert into {t} values (1, 'a1', 'b1', -12345678901234567890123456789012345678), (2, null, null, null)",
        "alter table {t} rename column a to x",
        "alter table {t} rename column b to a",
        "alter table {t} rename column x to b",
        "insert into {t} values (3, 'b3', 'a3', 99999999999999999999999999999999999999)",
        "alter table {t} alter column id type bigint",
        "delete from {t} where id = 1",
    ],
    "nested": [
        _table(
            "id int, one struct<a: int, b: string>, many array<struct<c: int>>, named map<string, struct<d: int>>",
            "VERSION",
        ),
        "insert into {t} values (1, named_struct('a', 1, 'b', 'x'), array(named_struct('c', 1)), map())",
        "alter table {t} add column one.e date",
        "alter table {t} add column many.element.f string",
        "alter table {t} add column named.value.g double",
        "insert into {t} values (2, null, array(named_struct('c', 2, 'f', 'z')), map('', null))",
        "insert into {t} values (2, named_struct('a', 2, 'b', 'y', 'e', date'2020-01-01'), null, null)",
        "alter table {t} drop column one.b",
        "insert into {t} values (3, named_struct('a', 3, 'e', null), null, map())",
    ],
}
"""Tables that are written in both versions of the format, except those of the next list."""
_V3_ONLY: Final = frozenset(
    [
        "fast_forwarded",
        "set_to_a_branch",
        "cherry_picked",
        "partition_added_again",
        "object_storage",
        "odd_values",
        "swapped_names",
    ]
)


def _in_version(steps: Sequence[Step], version: str) -> list[Step]:
    return [step.replace("VERSION", version) if isinstance(step, str) else step for step in steps]


TABLES: Final[dict[str, list[Step]]] = {
    "types_v2": _typed(_V2),
    "types_v3": _typed(_V3),
    **{f"{name}_v{version[-2]}": _typed(version, by) for name, by in _TRANSFORMS.items() for version in (_V2, _V3)},
    "position_deletes": _deleted(_V2, _MERGE_ON_READ),
    "position_deletes_by_partition": _deleted(_V2, _MERGE_ON_READ, _BY_PARTITION),
    "position_deletes_partitioned": _deleted(_V2, _MERGE_ON_READ, _BY_PARTITION, partitioned="name"),
    "position_deletes_bucketed": _deleted(_V2, _MERGE_ON_READ, _BY_PARTITION, partitioned="bucket(4, id)"),
    "vectors": _deleted(_V3, _MERGE_ON_READ),
    "vectors_partitioned": _deleted(_V3, _MERGE_ON_READ, partitioned="name"),
    "vectors_bucketed": _deleted(_V3, _MERGE_ON_READ, partitioned="bucket(4, id)"),
    **{
        f"{name}_v{version[-2]}": _in_version(steps, version)
        for name, steps in _EVOLVED.items()
        for version in ((_V3,) if name in _V3_ONLY else (_V2, _V3))
    },
    "wide": [
        _table(", ".join(f"c{number} int" for number in range(150)), _V2),
        f"insert into {{t}} select {', '.join(['id'] * 150)} from range(3)",  # noqa: S608 -- constants
    ],
    "required": [
        _table("id int not null, name string not null, price decimal(38,38)", _V2),
        "insert into {t} values (1, 'a', 0.00000000000000000000000000000000000001), (2, '', null)",
    ],
    "upgraded": [*_deleted(_V2, _MERGE_ON_READ), "alter table {t} set tblproperties ('format-version'='3')",
                 "delete from {t} where id % 10 = 4"],
    "large_vector": [
        _table("id bigint", _V3, _MERGE_ON_READ),
        "insert into {t} select /*+ repartition(1) */ id from range(0, 200000, 1, 1)",
        "delete from {t} where id % 3 = 0 or id between 70000 and 140000",
    ],
    "large_deletes": [
        _table("id bigint", _V2, _MERGE_ON_READ),
        "insert into {t} select /*+ repartition(1) */ id from range(0, 200000, 1, 1)",
        "delete from {t} where id % 3 = 0 or id between 70000 and 140000",
    ],
    "upgraded_after_a_dropped_partition": [
        _table("id bigint, name string, amount double", "'format-version'='1'", partitioned="name, bucket(2, id)"),
        f"insert into {{t}} {_SOME.format(0, 10)}",
        lambda table: table.updateSpec().removeField("name"),
        f"insert into {{t}} {_SOME.format(10, 20)}",
        lambda table: table.updateSpec().addField("name"),
        f"insert into {{t}} {_SOME.format(20, 30)}",
        "alter table {t} set tblproperties ('format-version'='2')",
        f"insert into {{t}} {_SOME.format(30, 40)}",
        "delete from {t} where id in (5, 15, 25, 35)",
    ],
    "empty": [_table(_TYPES, _V2)],
    "empty_string": [
        _table("id int, name string", _V2, partitioned="name"),
        "insert into {t} values (1, ''), (2, 'x'), (3, null)",
    ],
    "evolved": [
        _table("id int, name string, real float, price decimal(5,2), inner struct<x: int, y: int>", _V2),
        "insert into {t} values (1, 'a', 1.5, 1.25, named_struct('x', 1, 'y', 2))",
        "alter table {t} add column more string",
        "insert into {t} values (2, 'b', 2.5, 2.25, named_struct('x', 3, 'y', 4), 'more')",
        "alter table {t} rename column name to label",
        "insert into {t} values (3, 'c', 3.5, 3.25, named_struct('x', 5, 'y', 6), 'third')",
        "alter table {t} alter column id type bigint",
        "alter table {t} alter column real type double",
        "alter table {t} alter column price type decimal(12,2)",
        "insert into {t} values (4000000000, 'd', 1e300, 1234567.89, null, null)",
        "alter table {t} drop column more",
        "alter table {t} add column more int",
        "alter table {t} rename column inner.x to z",
        "insert into {t} values (5, 'e', 1, 1, named_struct('z', 5, 'y', 6), 6)",
        "alter table {t} alter column more first",
        "insert into {t} values (7, 6, 'f', 1, 1, null)",
    ],
    "promoted": [
        _table("id int, real float, price decimal(5,2)", _V2),
        "insert into {t} values (1, 1.1, 1.25)",
        "alter table {t} alter column id type bigint",
        "alter table {t} alter column real type double",
        "alter table {t} alter column price type decimal(12,2)",
        "insert into {t} values (4000000000, 1e300, 1234567.89)",
    ],
    "odd_names": [
        _table("`a b` int, `ü` string, `x.y` int, `Z-1` struct<`p q`: int>", _V2, partitioned="`ü`"),
        "insert into {t} values (1, 'x', 2, named_struct('p q', 3))",
    ],
    "many_snapshots": [
        _table("id bigint, name string, amount double", _V2),
        *(f"insert into {{t}} {_SOME.format(number * 10, number * 10 + 10)}" for number in range(10)),
    ],
}  # fmt: skip
