"""The expectations of a dataset as Spark's own expressions: flags on rows, counts of them, and a verdict.

Expectations of single rows (`not_null`, `range`, `accepted_values`, `sql`) are flags beside the row, whose counts are
observed in the pass that writes. `reference` is a flag too, after a join, and `unique` with drop or quarantine after a
window; `row_count`, `freshness`, other `unique` and every limit (`at_most`) are known when the last row was seen. Where
a dataset has one of these, its rows are kept on the disks of whoever computes them while they are measured, and are
written from there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.spark_errors import raised, said_by_spark
from deltaic_pipeline.spark.sql_rules import refuse_queries
from deltaic_pipeline.table.merging import NUMBER, numbered
from deltaic_pipeline.table.row_limits import exceeds

from deltaic_datasets.file import dataset_model

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FLAG = "__expectation_"
"""What the flags are called that stand beside the rows' own columns."""

ROWS, KEPT, ASIDE = "rows", "kept", "aside"
BROKEN = "an expectation failed, and the run with it"
"""What Spark says when the first row is met that fails the run; how many there are is counted then."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one expectation came out."""

    name: str
    action: str
    failing: int
    """Rows; for `row_count` and `freshness` 1 if the run fails it."""

    said: str
    refused: bool = False
    at_most: str | None = None

    @property
    def told(self) -> str:
        """What was expected, and how it came out."""
        return f"{self.name} ({self.said})"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows of a run there are, and where they go."""

    rows: int
    kept: int
    quarantined: int

    @property
    def dropped(self) -> int:
        """Those that are left out and not put aside."""
        return self.rows - self.kept - self.quarantined


class Expectations:
    """The expectations of a dataset, over rows whose sources and steps are views of their session."""

    def __init__(self, expected: Sequence[dataset_model.AnyExpectation]) -> None:
        self._expected = expected

    @property
    def only_of_rows(self) -> bool:
        """Whether all are decided row by row, so that the pass that writes can measure them."""
        return all(
            _has_flag(one) and one.expect not in {"unique", "reference"} and _limit(one) is None
            for one in self._expected
        )

    @property
    def is_aside(self) -> str:
        """The condition under which a flagged row is put aside."""
        return _any(self._with("quarantine"))

    @property
    def puts_aside(self) -> bool:
        """Whether a row can be put aside."""
        return bool(self._with("quarantine"))

    def flagged(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows with a flag for each expectation that a row can fail: true where it does."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions

        for number, one in self._flags():
            try:
                if isinstance(one, dataset_model.Reference):
                    rows = _referenced(rows, one, number)
                else:
                    if isinstance(one, dataset_model.Condition):
                        refuse_queries(rows.sparkSession, one.condition)
                    rows = rows.withColumn(f"{FLAG}{number}", functions.expr(_failing(one)))
            except PySparkException as refusal:
                raise PipelineError(f"the expectation {one.title}: {said_by_spark(refusal)}") from refusal
        return rows

    def measures(self) -> list["Column"]:
        """Return the aggregates over flagged rows by which the verdicts are found, each with a name."""
        from pyspark.sql import functions

        aggregates = [functions.count(functions.lit(1)).alias(ROWS)]
        flags = (f"{FLAG}{number}" for number, _ in self._flags())
        aggregates += [functions.count_if(functions.col(flag)).alias(flag) for flag in flags]
        kept = f"NOT ({_any(self._with('drop', 'quarantine'))})"
        aggregates.append(functions.count_if(functions.expr(kept)).alias(KEPT))
        aggregates.append(functions.count_if(functions.expr(self.is_aside)).alias(ASIDE))
        for number, one in enumerate(self._expected):
            if isinstance(one, dataset_model.Freshness):
                latest = functions.max(functions.col(quoted(one.column)).cast("timestamp"))
                aggregates.append(functions.unix_micros(latest).alias(f"{FLAG}{number}"))
        return aggregates

    def repeated(self, flagged: "DataFrame") -> dict[str, int]:
        """Return how many rows share their values with another, for each `unique` that leaves none out."""
        from pyspark.sql import functions

        counts = {}
        for number, one in enumerate(self._expected):
            if isinstance(one, dataset_model.Unique) and not _has_flag(one):
                given = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in one.columns)
                which = numbered(flagged.where(given), one.columns)
                # The first of several is one more.
                total: Any = which.agg(functions.expr(f"count_if({NUMBER} >= 2) + count_if({NUMBER} = 2)")).first()
                counts[f"{FLAG}{number}"] = int(total[0])
        return counts

    def tell_apart(self, keys: Sequence[str], verdicts: Sequence[Verdict]) -> bool:
        """Tell whether these verdicts prove that no two rows that are kept have the same keys, unless one is null."""
        wanted = {key.lower() for key in keys}
        return any(
            isinstance(one, dataset_model.Unique)
            and {name.lower() for name in one.columns} <= wanted
            and (_has_flag(one) or not verdict.failing)
            for one, verdict in zip(self._expected, verdicts, strict=True)
        )

    def counts(self, measured: Mapping[str, Any]) -> Counts:
        """Return where the rows go, by what was measured."""
        return Counts(int(measured[ROWS]), int(measured[KEPT]), int(measured[ASIDE]))

    def verdicts(self, measured: Mapping[str, Any], now: datetime | None = None) -> list[Verdict]:
        """Return how each expectation came out, by what was measured."""
        rows, results = int(measured[ROWS]), []
        for number, one in enumerate(self._expected):
            value = measured.get(f"{FLAG}{number}")
            match one:
                case dataset_model.RowCount():
                    wrong = (one.min is not None and rows < one.min) or (one.max is not None and rows > one.max)
                    least, most = (f"{bound:,}" if bound is not None else "any" for bound in (one.min, one.max))
                    verdict = int(wrong), f"{rows:,} rows, expected {least} to {most}"
                case dataset_model.Freshness():
                    latest = None if value is None else datetime.fromtimestamp(int(value) / 1e6, UTC)
                    wrong = latest is None or latest < (now or datetime.now(UTC)) - dataset_model.duration(one.within)
                    told = f"{latest:%Y-%m-%dT%H:%M:%SZ}" if latest else "missing"
                    verdict = int(wrong), f"the latest {one.column} is {told}, expected within {one.within}"
                case _:
                    verdict = int(value or 0), f"{int(value or 0):,} of {rows:,} rows"
            results.append(_verdict(one, *verdict, rows))
        return results

    def kept(self, flagged: "DataFrame", *, breaking: bool = False) -> "DataFrame":
        """Return the rows to write, without flags; `breaking`: Spark stops at the first row that fails the run."""
        left_out = self._with("drop", "quarantine")
        fatal = [number for number in self._with("fail") if _limit(self._expected[number]) is None]
        rows = flagged
        if breaking and fatal:
            rows = rows.where(f"CASE WHEN {_any(fatal)} THEN {raised(BROKEN)} ELSE true END")
        if left_out:
            rows = rows.where(f"NOT ({_any(left_out)})")
        return rows.drop(*(f"{FLAG}{number}" for number, _ in self._flags()))

    def quarantined(self, flagged: "DataFrame", run_id: str, unread: "Sequence[DataFrame]" = ()) -> "DataFrame":
        """Return the rows for the side table: the row, why it is there, of which run, and since when.

        `unread` are those of files that did not become rows, with their reasons, text and file.
        """
        from pyspark.sql import functions

        flags = [(number, one) for number, one in self._flags() if one.action == "quarantine"]
        reasons = ", ".join(f"CASE WHEN {FLAG}{number} THEN {literal(one.title)} END" for number, one in flags)
        rows = flagged.where(self.is_aside)
        rows = rows.withColumn("_reasons", functions.expr(f"array_compact(array({reasons}))"))
        for misfits in unread:
            text = {
                name: functions.lit(None).cast("string") for name in misfits.columns[1:] if name not in rows.columns
            }
            rows = rows.withColumns(text).unionByName(misfits, allowMissingColumns=True)
        rows = rows.withColumn("_run", functions.lit(run_id)).withColumn(
            "_quarantined_at", functions.current_timestamp()
        )
        return rows.drop(*(f"{FLAG}{number}" for number, _ in self._flags()))

    def _with(self, *actions: str) -> list[int]:
        return [number for number, one in self._flags() if one.action in actions]

    def _flags(self) -> Iterator[tuple[int, dataset_model.AnyExpectation]]:
        return ((number, one) for number, one in enumerate(self._expected) if _has_flag(one))


def refuse_failed(verdicts: Sequence[Verdict]) -> None:
    """Raise `ExpectationFailed` that names every expectation for which nothing may be written."""
    failed = [verdict.told for verdict in verdicts if verdict.refused]
    if failed:
        raise ExpectationFailed(f"expectations failed, nothing was written: {'; '.join(failed)}.", verdicts)


def _has_flag(one: dataset_model.AnyExpectation) -> bool:
    leaves_out = one.action in {"drop", "quarantine"}
    return not isinstance(one, dataset_model.RowCount | dataset_model.Freshness) and (
        one.expect != "unique" or leaves_out
    )


def _limit(one: dataset_model.AnyExpectation) -> str | None:
    return one.at_most if isinstance(one, dataset_model.RowExpectation) else None


def _verdict(one: dataset_model.AnyExpectation, failing: int, said: str, rows: int) -> Verdict:
    limit = _limit(one)
    refused = failing > 0 and one.action == "fail" if limit is None else exceeds(limit, failing, rows)
    return Verdict(one.title, one.action, failing, f"{said}, at most {limit}" if limit else said, refused, limit)


def _any(flags: Sequence[int]) -> str:
    return " OR ".join(f"{FLAG}{number}" for number in flags) or "false"


def _failing(one: dataset_model.AnyExpectation) -> str:
    """Return the SQL that is true for a row that fails, and never null."""
    match one:
        case dataset_model.NotNull():
            return " OR ".join(f"{quoted(name)} IS NULL" for name in one.columns)
        case dataset_model.Range():
            bounds = [f"{quoted(one.column)} >= {_value(one.min)}"] if one.min is not None else []
            bounds += [f"{quoted(one.column)} <= {_value(one.max)}"] if one.max is not None else []
            return f"NOT coalesce({' AND '.join(bounds)}, true)"
        case dataset_model.AcceptedValues():
            return f"NOT coalesce({quoted(one.column)} IN ({', '.join(map(_value, one.values))}), true)"
        case dataset_model.Unique():
            names = ", ".join(quoted(name) for name in one.columns)
            given = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in one.columns)
            return f"{given} AND count(*) OVER (PARTITION BY {names}) > 1"
        case dataset_model.Condition():
            return f"NOT coalesce(({one.condition}), true)"
        case _:
            raise AssertionError(one.expect)


def _referenced(rows: "DataFrame", one: dataset_model.Reference, number: int) -> "DataFrame":
    """Flag the rows whose values nobody has; a row with a null among them refers to nothing, as in SQL."""
    from pyspark.sql import functions

    there = rows.sparkSession.table(one.to)
    names = [f"{FLAG}{number}_{position}" for position in range(len(one.columns))]
    missing = [name for name in one.to_columns or one.columns if name.lower() not in {c.lower() for c in there.columns}]
    if missing:
        raise PipelineError(f"the expectation {one.title} wants a column {missing[0]}, which {one.to} does not have.")
    pairs = zip(one.to_columns or one.columns, names, strict=True)
    known = there.select(*(functions.col(quoted(name)).alias(alias) for name, alias in pairs)).distinct()
    same = [functions.col(quoted(name)) == functions.col(alias) for name, alias in zip(one.columns, names, strict=True)]
    joined = rows.join(known, on=same, how="left")
    given = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in one.columns)
    return joined.withColumn(f"{FLAG}{number}", functions.expr(f"{given} AND {names[0]} IS NULL")).drop(*names)


def _value(value: dataset_model.Bound) -> str:
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return f"TIMESTAMP{literal(value.isoformat(sep=' '))}"
        case date():
            return f"DATE{literal(value.isoformat())}"
        case str():
            return literal(value)
        case _:
            return repr(value)
