"""Merge rows into a table by key: update and insert rows, or keep old states with their validity periods."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.casting import cast, comparable, null
from deltaic_pipeline.spark.quoting import column, quoted
from deltaic_pipeline.spark.spark_errors import HIDDEN, raise_sql
from deltaic_pipeline.table.file_sizing import SMALL, estimated_size

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

DELETES = "__deletes"
"""Additional column; true in rows that delete the table's row with the same key (marked rows)."""

LATE = "a changed row is not newer than the current state of its key: deliver states in the order of their time"

MATCH = "__key_"
"""Prefix of additional columns: copies of the keys, by which `merge_states` matches rows."""

NUMBER, EXISTING = f"{MATCH}number", f"{MATCH}existing"
"""Columns: number of a row among rows with its key, and the same number of the table's matching row (null: none)."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Columns with the period in which a state (version of a key's row) is valid: slowly changing dimension, type 2."""

    at: str | None = None
    """Column of the new rows with the time from which they are valid; None: the time of this run."""

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    """Column that is null in the current state, and else the `valid_from` of the next state."""

    current: str = "is_current"

    @property
    def columns(self) -> tuple[str, str, str]:
        """Names of the table's validity columns."""
        return self.valid_from, self.valid_to, self.current


def merge(spark: "SparkSession", rows: "DataFrame", keys: Sequence[str], location: str, *, evolve: bool) -> None:
    """Insert rows with new keys and update changed rows, without rewriting unchanged rows.

    So the change feed, and every recipient's incremental read, has real changes only: nulls are equal, NaN equals NaN,
    and 0.0 equals -0.0. A row of `rows` (from `conform`) in which `DELETES` is true deletes the row with its key.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, location)
    is_changed = rows_differ(rows.schema, table.toDF().schema, keys)
    merging = table.alias("old").merge(rows.alias("new"), _same_key(keys))
    if evolve:
        merging = merging.withSchemaEvolution()
    if evolve and DELETES not in rows.columns:
        merging.whenMatchedUpdateAll(condition=is_changed).whenNotMatchedInsertAll().execute()
        return
    # By name: the rows lack columns that Delta generates.
    values: dict[str, str | Column] = {quoted(name): f"new.{quoted(name)}" for name in _data_columns(rows)}
    if DELETES in rows.columns:
        merging = merging.whenMatchedDelete(condition=f"new.{DELETES}")
    merging = merging.whenMatchedUpdate(condition=is_changed, set=values)
    merging.whenNotMatchedInsert(condition=f"NOT {_deletes(rows)}", values=values).execute()


def with_validity(rows: "DataFrame", validity: Validity) -> "DataFrame":
    """Add the columns of the validity period to the rows."""
    from pyspark.sql import functions

    used = [name for name in rows.columns if name.lower() in {column.lower() for column in validity.columns}]
    if used:
        raise PipelineError(f"the rows have a column {used[0]}, which `write` adds. Give one of them another name.")
    if validity.at is not None and validity.at.lower() not in {name.lower() for name in rows.columns}:
        raise PipelineError(f"the rows have no column {validity.at} (write.at), but only {', '.join(rows.columns)}.")
    since = functions.col(quoted(validity.at)) if validity.at else functions.lit(datetime.now(UTC))
    return rows.withColumns({
        validity.valid_from: since.cast("timestamp"),
        validity.valid_to: functions.lit(None).cast("timestamp"),
        validity.current: functions.lit(True),  # noqa: FBT003 -- a value
    })  # fmt: skip


def merge_states(  # noqa: PLR0913 -- the parts of a merge
    spark: "SparkSession", rows: "DataFrame", keys: Sequence[str], validity: Validity, location: str, *, evolve: bool
) -> None:
    """Close the current state of each key whose row changed, and add the new state, in one commit.

    `rows` are from `with_validity` and `conform`; a row in which `DELETES` is true only closes its key's current state.
    A changed row that is not newer than the current state is an error. A row that equals the current state changes
    nothing, so the same input can be delivered twice.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, location)
    _refuse_late(rows, table.toDF(), keys, validity)
    ignored = (*keys, *validity.columns, *([validity.at] if validity.at else []))
    is_changed = rows_differ(rows.schema, table.toDF().schema, ignored)
    since, current = quoted(validity.valid_from), quoted(validity.current)
    follows = f"CASE WHEN new.{since} > old.{since} THEN true ELSE {raise_sql(LATE)} END"
    deletes = _deletes(rows)
    current_states = table.toDF().where(current).alias("old")
    following = rows.alias("new").join(current_states, on=column(_same_key(keys)), how="inner")
    is_new_state = f"CASE WHEN {deletes} THEN NOT ({follows}) WHEN {is_changed} THEN {follows} ELSE false END"
    following = following.where(is_new_state).select("new.*")
    # MERGE does one operation for each row. So a row that ends a state is staged twice: with its keys, to end the
    # state, and with null keys, to be inserted.
    matches = [quoted(f"{MATCH}{number}") for number in range(len(keys))]
    staged = rows.selectExpr("*", *(f"{quoted(key)} AS {name}" for key, name in zip(keys, matches, strict=True)))
    unmatched = [f"nullif({quoted(key)}, {quoted(key)}) AS {name}" for key, name in zip(keys, matches, strict=True)]
    staged = staged.unionByName(following.selectExpr("*", *unmatched))
    same = " AND ".join(f"old.{quoted(key)} = new.{name}" for key, name in zip(keys, matches, strict=True))
    merging = table.alias("old").merge(staged.alias("new"), f"old.{current} AND {same}")
    if evolve:
        merging = merging.withSchemaEvolution()
    end_values: dict[str, str | Column] = {quoted(validity.valid_to): f"new.{since}", current: "false"}
    insert_values: dict[str, str | Column] = {quoted(name): f"new.{quoted(name)}" for name in _data_columns(rows)}
    merging = merging.whenMatchedUpdate(condition=f"{deletes} OR {is_changed}", set=end_values)
    merging.whenNotMatchedInsert(condition=f"NOT {deletes}", values=insert_values).execute()


def _refuse_late(rows: "DataFrame", table: "DataFrame", keys: Sequence[str], validity: Validity) -> None:
    """Raise `PipelineError` for a state that begins before the deletion of its key's previous state."""
    from pyspark.sql import functions

    if DELETES not in rows.columns:
        return
    names, same = [quoted(key) for key in keys], column(_same_key(keys))
    new_states = rows.where(f"NOT {DELETES}").alias("new")
    new_states = new_states.join(table.where(quoted(validity.current)).alias("old"), on=same, how="left_anti")
    last = table.groupBy(*names).agg(functions.max(quoted(validity.valid_to)).alias(f"{MATCH}ended")).alias("old")
    late_states = new_states.join(last, on=same, how="inner").where(
        f"new.{quoted(validity.valid_from)} < old.{MATCH}ended"
    )
    if not late_states.isEmpty():
        raise PipelineError(LATE)


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Rows to merge, with counts: new rows, changed rows, and rows that delete their key."""

    rows: "DataFrame"
    count: int
    deletes: int


def missing_rows(table: "DataFrame", rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    """Return the table's rows whose key is missing in `rows`."""
    return table.alias("old").join(rows.alias("new"), on=column(_same_key(keys)), how="left_anti")


@contextmanager
def find_changes(
    rows: "DataFrame", table: "DataFrame", keys: Sequence[str], ignored: Iterable[str] = ()
) -> "Iterator[KeyedChanges]":
    """Yield those `rows` that change the table (insert, update or delete), persisted on disk for the block.

    `rows` are from `conform`. A row in which `DELETES` is true changes the table only if the table has its key. Columns
    in `ignored` are not compared. Raises `PipelineError` like `check_keys`, and for a duplicate key in the table.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions

    _require_columns(keys, rows)
    is_changed = rows_differ(rows.schema, table.schema, [*keys, *ignored])
    if estimated_size(rows) <= SMALL:
        # Otherwise Spark would sort the whole table for a few rows.
        same = functions.broadcast(rows.selectExpr(*map(quoted, keys)).alias("new"))
        table = table.alias("old").join(same, on=column(_same_key(keys)), how="left_semi")
    joined = (
        number_rows(rows, keys, "*")
        .alias("new")
        .join(_numbered_table(table, keys), on=column(_same_key(keys)), how="left")
    )
    absent, deletes = f"old.{EXISTING} IS NULL", _deletes(rows)
    is_change = f"CASE WHEN {deletes} THEN NOT {absent} ELSE {absent} OR {is_changed} END"
    joined = joined.where(f"{_is_ambiguous(keys, 'new.')} OR {EXISTING} = 2 OR {is_change}")
    persisted = joined.select("new.*", EXISTING).persist(StorageLevel.DISK_ONLY)
    try:
        count = functions.count_if(functions.expr(_deletes(rows, prefix=""))).alias("deletes")
        duplicate = functions.expr(_first_key(keys, f"{EXISTING} = 2")).alias("duplicate")
        totals: Any = persisted.agg(
            functions.count("*").alias("rows"), count, _first_ambiguous(keys), duplicate
        ).first()
        if totals["key"] is not None:
            raise ambiguous_key("to merge", keys, tuple(totals["key"]))
        _refuse_duplicate_key(totals["duplicate"], keys)
        yield KeyedChanges(persisted.drop(NUMBER, EXISTING), totals["rows"], totals["deletes"])
    finally:
        persisted.unpersist()


def _numbered_table(table: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    return number_rows(table, keys, "*").withColumnRenamed(NUMBER, EXISTING).alias("old")


def _refuse_duplicate_key(key: Any, keys: Sequence[str]) -> None:
    if key is not None:
        remedy = "delete all but one from the table, because a merge needs one row for each key"
        raise ambiguous_key("of the table", keys, tuple(key), remedy)


def check_keys(rows: "DataFrame", keys: Sequence[str], *, unique: bool = False) -> None:
    """Raise `PipelineError` if rows lack a key column, or a key is null or, unless `unique`, in several rows."""
    _require_columns(keys, rows)
    columns = list(map(quoted, keys))
    numbered = rows.selectExpr(*columns, f"1 AS {NUMBER}") if unique else number_rows(rows, keys, *columns)
    # An aggregate is parallel; `first` alone would read one partition after the other.
    result: Any = numbered.where(_is_ambiguous(keys)).agg(_first_ambiguous(keys)).first()
    if result["key"] is not None:
        raise ambiguous_key("to merge", keys, tuple(result["key"]))


def _require_columns(keys: Sequence[str], rows: "DataFrame") -> None:
    missing = [key for key in keys if key.lower() not in {name.lower() for name in rows.columns}]
    if missing:
        raise PipelineError(f"the key column {missing[0]} is not among the rows' columns: {', '.join(rows.columns)}.")


def number_rows(rows: "DataFrame", keys: Sequence[str], *columns: str) -> "DataFrame":
    """Return columns of rows, and each row's number, from 1, among the rows with its key."""
    names = ", ".join(map(quoted, keys))
    return rows.selectExpr(*columns, f"row_number() OVER (PARTITION BY {names} ORDER BY {names}) AS {NUMBER}")


def _is_ambiguous(keys: Sequence[str], prefix: str = "") -> str:
    return " OR ".join([f"{prefix}{NUMBER} = 2", *(f"{prefix}{quoted(key)} IS NULL" for key in keys)])


def _first_ambiguous(keys: Sequence[str]) -> "Column":
    return column(_first_key(keys, _is_ambiguous(keys))).alias("key")


def _first_key(keys: Sequence[str], condition: str, prefix: str = "") -> str:
    return f"first(CASE WHEN {condition} THEN struct({', '.join(f'{prefix}{quoted(key)}' for key in keys)}) END, true)"


def ambiguous_key(
    rows: str, keys: Sequence[str], values: Sequence[Any], remedy: str = "reduce them to one in the SQL"
) -> PipelineError:
    """Return the error for a null or duplicate key; the key's values are in a note that --show-values prints."""
    key_text = ", ".join(
        f"{key} = {None if value is None else HIDDEN}" for key, value in zip(keys, values, strict=True)
    )
    if None in values:
        refusal = PipelineError(f"a row {rows} has no key ({key_text}): filter out such rows in the SQL.")
    else:
        refusal = PipelineError(f"several rows {rows} have the same key ({key_text}): {remedy}.")
    refusal.add_note(", ".join(f"{key} = {value!r}" for key, value in zip(keys, values, strict=True)))
    return refusal


def count_key_changes(
    rows: "DataFrame", table: "DataFrame", keys: Sequence[str], ignored: Iterable[str] = ()
) -> dict[str, int]:
    """Count the new, changed, deleted and unchanged keys of rows that have the table's types."""
    check_keys(rows, keys)
    is_changed = rows_differ(rows.schema, table.schema, [*keys, *ignored])
    joined = rows.alias("new").join(_numbered_table(table, keys), on=column(_same_key(keys)), how="left")
    absent, deletes = f"old.{EXISTING} IS NULL", _deletes(rows)
    row: Any = joined.selectExpr(
        f"count_if({absent} AND NOT {deletes}) AS new",
        f"count_if(NOT {absent} AND {is_changed} AND NOT {deletes}) AS changed",
        f"count_if(NOT {absent} AND {deletes}) AS deleted",
        f"count_if(if({deletes}, {absent}, NOT {absent} AND NOT ({is_changed}))) AS unchanged",
        f"{_first_key(keys, f'{EXISTING} = 2', 'new.')} AS duplicate",
    ).first()
    counts = row.asDict()
    _refuse_duplicate_key(counts.pop("duplicate"), keys)
    return counts if DELETES in rows.columns else {name: counts[name] for name in counts if name != "deleted"}


def _deletes(rows: "DataFrame", prefix: str = "new.") -> str:
    return f"{prefix}{DELETES}" if DELETES in rows.columns else "false"


def _data_columns(rows: "DataFrame") -> list[str]:
    return [name for name in rows.columns if name != DELETES]


def _same_key(keys: Sequence[str]) -> str:
    return " AND ".join(f"old.{quoted(key)} = new.{quoted(key)}" for key in keys)


def rows_differ(rows: "StructType", table: "StructType", ignored: Iterable[str]) -> str:
    """Return a SQL condition that is true if a new row (`new`) differs from the table's row (`old`)."""
    skipped = {DELETES, *(name.lower() for name in ignored)}
    table_types = {field.name.lower(): field.dataType for field in table.fields}
    same = []
    for field in rows.fields:
        name, kind = field.name.lower(), field.dataType
        if name not in skipped:
            old = cast(f"old.{quoted(field.name)}", table_types[name], kind) if name in table_types else null(kind)
            same.append(f"{comparable(old, kind)} <=> {comparable(f'new.{quoted(field.name)}', kind)}")
    return f"NOT ({' AND '.join(same)})" if same else "false"
