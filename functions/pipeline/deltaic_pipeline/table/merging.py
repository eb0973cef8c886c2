"""Merges rows by key into a table: update what changed and insert what is new, or keep every state with its time."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.casting import cast, comparable, null
from deltaic_pipeline.spark.quoting import column, quoted
from deltaic_pipeline.spark.spark_errors import HIDDEN, raised
from deltaic_pipeline.table.file_sizing import SMALL, estimated_size

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

DELETES = "__deletes"
"""What the column is called, beside the rows' own, that is true where a row deletes its key."""

LATE = "a changed row holds since no later than the current state of its key: states come in their order"

MATCH = "__key_"
"""What the keys are called that a merge of states is matched by, beside the rows' own columns."""

NUMBER, THERE = f"{MATCH}number", f"{MATCH}there"
"""Which one of its key a row is, and which one of its key the table's row is: null where it has none."""


@dataclass(frozen=True, slots=True)
class Validity:
    """The columns that say when a state of a key held (slowly changing dimension, type 2)."""

    at: str | None = None
    """The rows' column that says since when they hold; None: since this run."""

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    """Null while the state holds; else the `valid_from` of the next one."""

    current: str = "is_current"

    @property
    def columns(self) -> tuple[str, str, str]:
        """What the table has beside the rows' columns."""
        return self.valid_from, self.valid_to, self.current


def merge(spark: "SparkSession", rows: "DataFrame", keys: Sequence[str], location: str, *, evolve: bool) -> None:
    """Insert new keys and update known ones; a row that says what the table already says is left alone.

    So the change feed, and with it every recipient's incremental read, holds the real changes only: null is like null,
    NaN like NaN, and 0.0 like -0.0. `rows` are `conformed`; those that are marked delete their key.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, location)
    changed = differ(rows.schema, table.toDF().schema, keys)
    merging = table.alias("old").merge(rows.alias("new"), _same(keys))
    if evolve:
        merging = merging.withSchemaEvolution()
    if evolve and DELETES not in rows.columns:
        merging.whenMatchedUpdateAll(condition=changed).whenNotMatchedInsertAll().execute()
        return
    # By their names: columns that Delta generates are none of the rows'.
    values: dict[str, str | Column] = {quoted(name): f"new.{quoted(name)}" for name in _own(rows)}
    if DELETES in rows.columns:
        merging = merging.whenMatchedDelete(condition=f"new.{DELETES}")
    merging = merging.whenMatchedUpdate(condition=changed, set=values)
    merging.whenNotMatchedInsert(condition=f"NOT {_deletes(rows)}", values=values).execute()


def states(rows: "DataFrame", validity: Validity) -> "DataFrame":
    """Return the rows with the columns that say since when they hold."""
    from pyspark.sql import functions

    taken = [name for name in rows.columns if name.lower() in {column.lower() for column in validity.columns}]
    if taken:
        raise PipelineError(f"the rows have a column {taken[0]} already: name another in write, or leave it out.")
    if validity.at is not None and validity.at.lower() not in {name.lower() for name in rows.columns}:
        raise PipelineError(f"the column {validity.at} (write.at) is not among the rows': {', '.join(rows.columns)}.")
    since = functions.col(quoted(validity.at)) if validity.at else functions.lit(datetime.now(UTC))
    return rows.withColumns({
        validity.valid_from: since.cast("timestamp"),
        validity.valid_to: functions.lit(None).cast("timestamp"),
        validity.current: functions.lit(True),  # noqa: FBT003 -- a value
    })  # fmt: skip


def keep_states(  # noqa: PLR0913 -- what a merge is made of
    spark: "SparkSession",
    rows: "DataFrame",
    keys: Sequence[str],
    validity: Validity,
    location: str,
    *,
    evolve: bool,
) -> None:
    """End the current state of keys whose row changed, and add the new state; all in one commit.

    `rows` are `states`, and `conformed`; those that are marked end the current state, and add none. A changed row that
    does not hold since later than the current state is an error: it has no place in the sequence. A row with the
    current state's values changes nothing, so days may be delivered twice.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, location)
    _refuse_late(rows, table.toDF(), keys, validity)
    own = (*keys, *validity.columns, *([validity.at] if validity.at else []))
    changed = differ(rows.schema, table.toDF().schema, own)
    since, current = quoted(validity.valid_from), quoted(validity.current)
    follows = f"CASE WHEN new.{since} > old.{since} THEN true ELSE {raised(LATE)} END"
    deletes = _deletes(rows)
    current_states = table.toDF().where(current).alias("old")
    following = rows.alias("new").join(current_states, on=column(_same(keys)), how="inner")
    added = f"CASE WHEN {deletes} THEN NOT ({follows}) WHEN {changed} THEN {follows} ELSE false END"
    following = following.where(added).select("new.*")
    # Once with its keys, to end the state or to find nobody, and if there is a state to end once more without, to be
    # inserted: MERGE does one thing for each row.
    matches = [quoted(f"{MATCH}{number}") for number in range(len(keys))]
    staged = rows.selectExpr("*", *(f"{quoted(key)} AS {name}" for key, name in zip(keys, matches, strict=True)))
    nobody = [f"nullif({quoted(key)}, {quoted(key)}) AS {name}" for key, name in zip(keys, matches, strict=True)]
    staged = staged.unionByName(following.selectExpr("*", *nobody))
    same = " AND ".join(f"old.{quoted(key)} = new.{name}" for key, name in zip(keys, matches, strict=True))
    merging = table.alias("old").merge(staged.alias("new"), f"old.{current} AND {same}")
    if evolve:
        merging = merging.withSchemaEvolution()
    ended: dict[str, str | Column] = {quoted(validity.valid_to): f"new.{since}", current: "false"}
    inserted: dict[str, str | Column] = {quoted(name): f"new.{quoted(name)}" for name in _own(rows)}
    merging = merging.whenMatchedUpdate(condition=f"{deletes} OR {changed}", set=ended)
    merging.whenNotMatchedInsert(condition=f"NOT {deletes}", values=inserted).execute()


def _refuse_late(rows: "DataFrame", table: "DataFrame", keys: Sequence[str], validity: Validity) -> None:
    """Raise `PipelineError` for a state that begins before the last one of its key was ended by a deletion."""
    from pyspark.sql import functions

    if DELETES not in rows.columns:
        return
    names, same = [quoted(key) for key in keys], column(_same(keys))
    begun = rows.where(f"NOT {DELETES}").alias("new")
    begun = begun.join(table.where(quoted(validity.current)).alias("old"), on=same, how="left_anti")
    last = table.groupBy(*names).agg(functions.max(quoted(validity.valid_to)).alias(f"{MATCH}ended")).alias("old")
    found = begun.join(last, on=same, how="inner").where(f"new.{quoted(validity.valid_from)} < old.{MATCH}ended")
    if not found.isEmpty():
        raise PipelineError(LATE)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that say something new of a table."""

    rows: "DataFrame"
    count: int
    deletes: int


def lacked(table: "DataFrame", rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    """Return the rows of a table whose key no row has."""
    return table.alias("old").join(rows.alias("new"), on=column(_same(keys)), how="left_anti")


@contextmanager
def changes_of(
    rows: "DataFrame", table: "DataFrame", keys: Sequence[str], ignored: Iterable[str] = ()
) -> "Iterator[Changes]":
    """Keep for the block, on disk, the rows that say something new of a table.

    `rows` are `conformed`; a marked one says something new where the table has its key. Of columns that are ignored
    nothing is compared. Raises `PipelineError` as `refuse_undecided` does: rows are sorted by key once, for both; and
    for a key that the table has twice.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions

    _require(keys, rows)
    changed = differ(rows.schema, table.schema, [*keys, *ignored])
    if estimated_size(rows) <= SMALL:
        # Else all of the table would be sorted for a few rows.
        same = functions.broadcast(rows.selectExpr(*map(quoted, keys)).alias("new"))
        table = table.alias("old").join(same, on=column(_same(keys)), how="left_semi")
    joined = numbered(rows, keys, "*").alias("new").join(_there(table, keys), on=column(_same(keys)), how="left")
    absent, deletes = f"old.{THERE} IS NULL", _deletes(rows)
    says = f"CASE WHEN {deletes} THEN NOT {absent} ELSE {absent} OR {changed} END"
    joined = joined.where(f"{_undecided(keys, 'new.')} OR {THERE} = 2 OR {says}")
    kept = joined.select("new.*", THERE).persist(StorageLevel.DISK_ONLY)
    try:
        count = functions.count_if(functions.expr(_deletes(rows, of=""))).alias("deletes")
        twice = functions.expr(_first_key(keys, f"{THERE} = 2")).alias("twice")
        found: Any = kept.agg(functions.count("*").alias("rows"), count, _first_undecided(keys), twice).first()
        if found["key"] is not None:
            raise undecided("to merge", keys, tuple(found["key"]))
        _refuse_twice(found["twice"], keys)
        yield Changes(kept.drop(NUMBER, THERE), found["rows"], found["deletes"])
    finally:
        kept.unpersist()


def _there(table: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    return numbered(table, keys, "*").withColumnRenamed(NUMBER, THERE).alias("old")


def _refuse_twice(key: Any, keys: Sequence[str]) -> None:
    if key is not None:
        remedy = "delete all but one from the table, because a merge needs one row for each key"
        raise undecided("of the table", keys, tuple(key), remedy)


def refuse_undecided(rows: "DataFrame", keys: Sequence[str], *, apart: bool = False) -> None:
    """Raise `PipelineError` when a key is missing, null or given twice: nothing would say which row to keep.

    `apart`: it is known that none is given twice.
    """
    _require(keys, rows)
    own = list(map(quoted, keys))
    which = rows.selectExpr(*own, f"1 AS {NUMBER}") if apart else numbered(rows, keys, *own)
    # An aggregate: `first` by itself would look at one part of the keys after the other.
    found: Any = which.where(_undecided(keys)).agg(_first_undecided(keys)).first()
    if found["key"] is not None:
        raise undecided("to merge", keys, tuple(found["key"]))


def _require(keys: Sequence[str], rows: "DataFrame") -> None:
    missing = [key for key in keys if key.lower() not in {name.lower() for name in rows.columns}]
    if missing:
        raise PipelineError(f"the key column {missing[0]} is not among the rows' columns: {', '.join(rows.columns)}.")


def numbered(rows: "DataFrame", keys: Sequence[str], *columns: str) -> "DataFrame":
    """Return columns of rows with the number of each among those of its key: sorting is half the work of counting."""
    listed = ", ".join(map(quoted, keys))
    return rows.selectExpr(*columns, f"row_number() OVER (PARTITION BY {listed} ORDER BY {listed}) AS {NUMBER}")


def _undecided(keys: Sequence[str], of: str = "") -> str:
    return " OR ".join([f"{of}{NUMBER} = 2", *(f"{of}{quoted(key)} IS NULL" for key in keys)])


def _first_undecided(keys: Sequence[str]) -> "Column":
    return column(_first_key(keys, _undecided(keys))).alias("key")


def _first_key(keys: Sequence[str], condition: str, of: str = "") -> str:
    return f"first(CASE WHEN {condition} THEN struct({', '.join(f'{of}{quoted(key)}' for key in keys)}) END, true)"


def undecided(
    rows: str, keys: Sequence[str], values: Sequence[Any], remedy: str = "reduce them to one in the SQL"
) -> PipelineError:
    """Return what is said of a key that names no row, or several; its values are a note, for who asks for them."""
    named = ", ".join(f"{key} = {None if value is None else HIDDEN}" for key, value in zip(keys, values, strict=True))
    if None in values:
        refusal = PipelineError(f"a row {rows} has no key ({named}): leave such rows out in the SQL.")
    else:
        refusal = PipelineError(f"several rows {rows} have the same key ({named}): {remedy}.")
    refusal.add_note(", ".join(f"{key} = {value!r}" for key, value in zip(keys, values, strict=True)))
    return refusal


def keyed(rows: "DataFrame", table: "DataFrame", keys: Sequence[str], ignored: Iterable[str] = ()) -> dict[str, int]:
    """Count the keys of rows, which are `conformed`, that are new to a table, changed, deleted, and as there."""
    refuse_undecided(rows, keys)
    changed = differ(rows.schema, table.schema, [*keys, *ignored])
    joined = rows.alias("new").join(_there(table, keys), on=column(_same(keys)), how="left")
    absent, deletes = f"old.{THERE} IS NULL", _deletes(rows)
    counted: Any = joined.selectExpr(
        f"count_if({absent} AND NOT {deletes}) AS new",
        f"count_if(NOT {absent} AND {changed} AND NOT {deletes}) AS changed",
        f"count_if(NOT {absent} AND {deletes}) AS deleted",
        f"count_if(if({deletes}, {absent}, NOT {absent} AND NOT ({changed}))) AS unchanged",
        f"{_first_key(keys, f'{THERE} = 2', 'new.')} AS twice",
    ).first()
    found = counted.asDict()
    _refuse_twice(found.pop("twice"), keys)
    return found if DELETES in rows.columns else {name: found[name] for name in found if name != "deleted"}


def _deletes(rows: "DataFrame", of: str = "new.") -> str:
    return f"{of}{DELETES}" if DELETES in rows.columns else "false"


def _own(rows: "DataFrame") -> list[str]:
    return [name for name in rows.columns if name != DELETES]


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"old.{quoted(key)} = new.{quoted(key)}" for key in keys)


def differ(rows: "StructType", table: "StructType", ignored: Iterable[str]) -> str:
    """Return the condition under which a row (`new`) says something else than the table's (`old`)."""
    left_out = {DELETES, *(name.lower() for name in ignored)}
    known = {field.name.lower(): field.dataType for field in table.fields}
    same = []
    for field in rows.fields:
        name, kind = field.name.lower(), field.dataType
        if name not in left_out:
            old = cast(f"old.{quoted(field.name)}", known[name], kind) if name in known else null(kind)
            same.append(f"{comparable(old, kind)} <=> {comparable(f'new.{quoted(field.name)}', kind)}")
    return f"NOT ({' AND '.join(same)})" if same else "false"
