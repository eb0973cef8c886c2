"""Define the contract's tables: the log of each, version by version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import deltalake
import pyarrow as pa
from contract.logs import Action, TableLog, column, mapped
from filled_server import Entry

VERSION_1: Final = 1_651_272_635_000
"""When the three rows of cdf_table_cdf_enabled were written: 2022-04-29T22:50:35Z."""
NULLABLE: Final = int(datetime(2022, 11, 13, 8, 10, 41, tzinfo=UTC).timestamp()) * 1000
"""When streaming_notnull_to_null was created."""

PEOPLE = pa.schema(
    [column("name", pa.string()), column("age", pa.int32()), column("birthday", pa.date32())],
)
NAMES = pa.schema([column("name", pa.string())])
REQUIRED_NAMES = pa.schema([column("name", pa.string(), nullable=False)])
CDF_ON = {"delta.enableChangeDataFeed": "true"}
DV_ON = {"delta.enableDeletionVectors": "true"}
DV_PROTOCOL: Final[Action] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}
MAPPED = pa.schema(
    [
        mapped("name", pa.string(), 1, "col-0f1d2c3b-name"),
        mapped("amount", pa.int64(), 2, "col-7a6b5c4d-amount"),
    ]
)


@dataclass(repr=False)
class Shelf:
    """Tables of one bucket, created on demand and cached by name."""

    s3: Any
    bucket: str
    options: Mapping[str, str]
    """How `deltalake` reaches the bucket."""
    logs: dict[str, TableLog] = field(default_factory=dict)
    written: dict[str, deltalake.DeltaTable] = field(default_factory=dict)
    """What `deltalake` wrote."""

    def log(self, name: str, schema: pa.Schema, **more: Any) -> TableLog:
        log_ = self.logs[name] = TableLog(self.s3, self.bucket, name, schema, **more)
        return log_

    def fill(self) -> None:
        """Write all tables."""
        for make in (
            _written_by_deltalake,
            _change_feed,
            _change_feed_with_partitions,
            _change_feed_losses,
            _streams,
            _broken,
            _column_mapping,
            _deletion_vectors,
            _protocol_evolution,
            _partition_values,
        ):
            make(self)

    def write(self, name: str, rows: Mapping[str, list[Any]], schema: pa.Schema, **more: Any) -> None:
        """Append rows with `deltalake`."""
        location = f"s3://{self.bucket}/{name}"
        table = pa.table(dict(rows), schema=schema)
        deltalake.write_deltalake(location, table, mode="append", storage_options=dict(self.options), **more)


def _written_by_deltalake(shelf: Shelf) -> None:
    events = pa.schema([("eventTime", pa.timestamp("us", "UTC")), ("date", pa.date32())])
    day = date(2021, 4, 28)
    moments = [datetime(2021, 4, 28, 6, 32, second, tzinfo=UTC) for second in (22, 2)]
    dated = "date"
    for name, partitions in (("table1", None), ("table2", [dated])):
        shelf.write(name, {"eventTime": [], "date": []}, events, partition_by=partitions)
        for time_ in moments:
            shelf.write(name, {"eventTime": [time_], "date": [day]}, events)
    shelf.write("table3", {"eventTime": [], "date": []}, events, partition_by=[dated])
    for time_ in moments:
        shelf.write("table3", {"eventTime": [time_], "date": [day]}, events)
    table = deltalake.DeltaTable(f"s3://{shelf.bucket}/table3", storage_options=dict(shelf.options))
    table.alter.add_columns([deltalake.Field("type", deltalake.schema.PrimitiveType("string"), nullable=True)])
    typed = events.append(pa.field("type", pa.string()))
    shelf.write("table3", {"eventTime": [moments[0]], "date": [date(2021, 4, 29)], "type": ["bar"]}, typed)
    for name in ("table1", "table2", "table3"):
        location = f"s3://{shelf.bucket}/{name}"
        shelf.written[name] = deltalake.DeltaTable(location, storage_options=dict(shelf.options))


def _row(name: str, age: int, birthday: date | None = None) -> dict[str, Any]:
    return {"name": name, "age": age, "birthday": birthday or date(2020, 1, age)}


def _changed(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "_change_type": kind}


def _change_feed(shelf: Shelf) -> None:
    log = shelf.log("cdf_table_cdf_enabled", PEOPLE, configuration=dict(CDF_ON))
    log.create(at=VERSION_1 - 1000)
    people = [_row("1", 1), _row("2", 2), _row("3", 3)]
    adds = [log.add([row]) for row in people]
    log.commit(*adds, at=VERSION_1)
    log.commit(log.remove(adds[1]), log.cdc([_changed("delete", people[1])]), at=VERSION_1 + 20_000)
    older = people[2] | {"age": 4}
    changes = [_changed("update_preimage", people[2]), _changed("update_postimage", older)]
    log.commit(log.remove(adds[2]), log.add([older]), log.cdc(changes), at=VERSION_1 + 25_000)
    log.commit(log.metadata(enableChangeDataFeed="false"), at=VERSION_1 + 29_000)
    log.commit(log.metadata(enableChangeDataFeed="true"), at=VERSION_1 + 39_000)


def _change_feed_with_partitions(shelf: Shelf) -> None:
    log = shelf.log("cdf_table_with_partition", PEOPLE, partitions=("birthday",), configuration=dict(CDF_ON))
    first, second, third = date(2020, 1, 1), date(2020, 2, 2), date(2020, 3, 3)
    log.create(at=1_651_614_979_000)
    adds = [
        log.add([_row("1", 1)], birthday=first),
        log.add([_row("2", 2)], birthday=first),
        log.add([_row("3", 3)], birthday=third),
    ]
    log.commit(*adds, at=1_651_614_980_000)
    log.commit(
        log.remove(adds[1]),
        log.add([_row("2", 2)], birthday=second),
        log.cdc([_changed("update_preimage", _row("2", 2))], birthday=first),
        log.cdc([_changed("update_postimage", _row("2", 2))], birthday=second),
        at=1_651_614_986_000,
    )
    log.commit(log.remove(adds[2]), at=1_651_614_994_000)


def _change_feed_losses(shelf: Shelf) -> None:
    log = shelf.log("cdf_table_missing_log", NAMES, configuration=dict(CDF_ON))
    log.create()
    adds = [log.add([{"name": str(number)}]) for number in range(3)]
    for added in adds:
        log.commit(added)
    log.checkpoint(3, adds)
    log.forget_commit(2)

    log = shelf.log("cdf_table_with_vacuum", NAMES, configuration=dict(CDF_ON))
    log.create()
    adds = [log.add([{"name": str(number)}]) for number in range(4)]
    log.commit(*adds)
    for number in range(2):
        row = {"name": str(number)}
        log.commit(log.remove(adds[number]), log.cdc([_changed("delete", row)]))
    for key in log.contents:
        log.forget(key)


def _streams(shelf: Shelf) -> None:
    log = shelf.log("streaming_table_with_optimize", NAMES)
    log.create(at=1_664_325_365_000)
    rows = [{"name": name} for name in "abc"]
    adds = [log.add([row]) for row in rows]
    for number, added in enumerate(adds):
        log.commit(added, at=1_664_325_366_000 + 1000 * number)
    file = log.add(rows, change=False)
    log.commit(*(log.remove(added, change=False) for added in adds), file)
    less = log.add(rows[:2])
    log.commit(log.remove(file), less)
    log.commit(log.remove(less), log.add(rows[:1]))

    log = shelf.log("streaming_table_metadata_protocol", NAMES)
    log.create()
    log.commit(log.add([{"name": "1"}]))
    log.commit(log.metadata(enableChangeDataFeed="true"))
    log.commit(log.metadata(enableChangeDataFeed="false"))
    log.commit(log.add([{"name": "2"}]))

    log = shelf.log("streaming_notnull_to_null", REQUIRED_NAMES, configuration=dict(CDF_ON))
    log.create(at=NULLABLE)
    log.commit(log.add([{"name": "1"}]), at=NULLABLE + 5000)
    log.commit(log.metadata(NAMES), at=NULLABLE + 7000)
    log.commit(log.add([{"name": None}]), at=NULLABLE + 9000)

    log = shelf.log("streaming_null_to_notnull", NAMES)
    log.create()
    added = log.add([{"name": "1"}, {"name": None}])
    log.commit(added)
    log.commit(log.remove(added), log.add([{"name": "1"}]))
    log.commit(log.metadata(REQUIRED_NAMES))
    log.commit(log.add([{"name": "2"}]))


def _broken(shelf: Shelf) -> None:
    log = shelf.log("table_reader_version_increased", NAMES, timed=False)
    log.create()
    log.commit(log.add([{"name": "1"}]))
    log.commit({"protocol": {"minReaderVersion": 2, "minWriterVersion": 2}}, log.add([{"name": "2"}]))

    log = shelf.log("table_with_no_metadata", NAMES, timed=False)
    log.commit(log.first_protocol())
    log.commit(log.add([{"name": "1"}]))

    for name, has_checkpoint in (("table_data_loss_with_checkpoint", True), ("table_data_loss_no_checkpoint", False)):
        log = shelf.log(name, NAMES, timed=False)
        log.create()
        adds = [log.add([{"name": str(number)}]) for number in range(2)]
        for added in adds:
            log.commit(added)
        if has_checkpoint:
            log.checkpoint(2, adds)
        log.forget_commit(1)

    log = shelf.log("unknown_reader_feature", NAMES, timed=False)
    features = ["timeTravelledFromTheFuture"]
    log.protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    log.create(log.add([{"name": "1"}]))


def _column_mapping(shelf: Shelf) -> None:
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    for mode, files in (("name", 1), ("id", 3)):
        mapping = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}
        log = shelf.log(
            f"table_with_cm_{mode}", MAPPED, partitions=("name",), timed=False, protocol=protocol, configuration=mapping
        )
        log.create()
        log.commit(*(log.add([{"amount": number}], name=f"n{number}") for number in range(files)))


def _deletion_vectors(shelf: Shelf) -> None:
    log = shelf.log(
        "deletion_vectors_with_dvs_dv_property_on",
        pa.schema([column("id", pa.int64())]),
        timed=False,
        protocol=DV_PROTOCOL,
        configuration=dict(DV_ON),
        description="five rows, of which three are deleted, and five more",
    )
    log.create()
    marked, unmarked = (
        log.add([{"id": number} for number in range(5)]),
        log.add([{"id": number} for number in range(5, 10)]),
    )
    log.commit(marked, unmarked)
    log.commit(log.remove(marked), log.deleted(marked, [0, 2, 4]))

    both = ["deletionVectors", "columnMapping"]
    log = shelf.log(
        "dv_and_cm_table",
        MAPPED,
        partitions=("name",),
        timed=False,
        protocol={"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": both, "writerFeatures": both},
        configuration={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2", **DV_ON},
    )
    log.create()
    marked = log.add([{"amount": number} for number in range(3)], name="x y")
    log.commit(marked)
    log.commit(log.remove(marked), log.deleted(marked, [1]))

    log = shelf.log(
        "deletion_vector_kinds",
        pa.schema([column("id", pa.int64())]),
        protocol={
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors", "inCommitTimestamp", "changeDataFeed"],
        },
        configuration=DV_ON | CDF_ON,
    )
    log.create()
    adds = [log.add([{"id": 10 * number + row} for row in range(4)]) for number in range(3)]
    log.commit(*adds)
    for number, (added, storage) in enumerate(zip(adds, "upi", strict=True)):
        deleted = [_changed("delete", {"id": 10 * number + 1})]
        log.commit(log.remove(added), log.deleted(added, [1], storage), log.cdc(deleted))


def _protocol_evolution(shelf: Shelf) -> None:
    log = shelf.log("protocol_evolution", NAMES, timed=False, configuration=dict(CDF_ON))
    log.create()
    log.commit(log.add([{"name": "1"}]))
    renamed = log.metadata()
    renamed["metaData"]["name"] = "renamed"
    log.commit({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, renamed)
    log.commit(log.add([{"name": "3"}]))
    log.commit(log.add([{"name": "4"}]))


NASTY: Final = ("foo bar", "100%", "a+b", "k=v", "it's", 'say "hi"', "\u00fcber/\u6771\u4eac", "x&y#z?", None)
"""Partition values that a path must survive."""


def _partition_values(shelf: Shelf) -> None:
    schema = pa.schema([column("c1", pa.int64()), column("c2", pa.string())])
    log = shelf.log("partition_values", schema, partitions=("c2",))
    log.create()
    log.commit(*(log.add([{"c1": number}], c2=value) for number, value in enumerate(NASTY)))


HISTORY: Final = {"history": True}
ENTRIES: Final = (
    Entry("share1", "default", "table1"),
    Entry("share1", "default", "table3"),
    Entry("share2", "default", "table2"),
    Entry("share7", "schema1", "table8", "table1"),
    Entry("share7", "schema2", "table9", "table1"),
    *(
        Entry("share8", "default", name, options=HISTORY)
        for name in (
            "cdf_table_cdf_enabled",
            "streaming_table_with_optimize",
            "streaming_table_metadata_protocol",
            "streaming_notnull_to_null",
            "streaming_null_to_notnull",
            "table_reader_version_increased",
            "table_with_no_metadata",
            "table_data_loss_with_checkpoint",
            "table_data_loss_no_checkpoint",
            "unknown_reader_feature",
            "cdf_table_missing_log",
            "cdf_table_with_vacuum",
            "protocol_evolution",
            "deletion_vector_kinds",
            "partition_values",
        )
    ),
    Entry("share8", "default", "cdf_table_with_partition", options={"history": True, "start_version": 1}),
    Entry(
        "share8",
        "default",
        "directory_only",
        location="table1",
        options={"access_modes": ("dir",), "auxiliary_locations": ("s3://elsewhere/more",)},
    ),
    *(
        Entry("share9", "default", name)
        for name in (
            "table_with_cm_name",
            "table_with_cm_id",
            "deletion_vectors_with_dvs_dv_property_on",
            "dv_and_cm_table",
        )
    ),
    Entry("secret_share", "default", "table1"),
)


def iso(milliseconds: int) -> str:
    """Return a time as in the protocol: `2022-04-29T22:50:35Z`, with a fraction if it has one."""
    time_ = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return time_.isoformat().replace("+00:00", "Z")


Make = Callable[[Shelf], None]
