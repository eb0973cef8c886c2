"""Evaluate the expectations of a dataset with Spark expressions: flag rows, count them and compute verdicts.

Expectations about single rows (`not_null`, `range`, `accepted_values`, `sql`) add a flag column to the rows, and flags
are counted in the pass that writes the rows. `reference` needs a join for its flag, `unique` with drop or quarantine a
window function. `row_count`, `freshness`, other `unique` and every limit (`at_most`) need all rows first: Spark keeps
the rows on the executors' disks, counts them, and then writes them from there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.spark_errors import raise_sql, safe_message
from deltaic_pipeline.spark.sql_rules import refuse_queries
from deltaic_pipeline.table.merging import NUMBER, number_rows
from deltaic_pipeline.table.row_limits import exceeds

from deltaic_datasets.file import dataset_model

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FLAG = "__expectation_"
"""Prefix of the names of flag columns."""

ROWS, PASSING, QUARANTINED = "rows", "kept", "aside"
FAILED_RUN = "an expectation failed, and the run with it"
"""Message of the Spark error that the first failing row raises. All failing rows are counted afterwards."""


@dataclass(frozen=True, slots=True)
class ExpectationVerdict:
    """Result of one expectation for the rows of a run."""

    name: str
    action: str
    failing: int
    """Number of failing rows; for `row_count` and `freshness`, 1 if all rows together fail the expectation."""

    message: str
    refused: bool = False
    at_most: str | None = None

    @property
    def text(self) -> str:
        """Name of the expectation and its result, for messages."""
        return f"{self.name} ({self.message})"


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Numbers of rows of a run that are read, written and quarantined."""

    rows: int
    passing: int
    quarantined: int

    @property
    def dropped(self) -> int:
        """Number of rows that are neither written nor quarantined."""
        return self.rows - self.passing - self.quarantined


class Expectations:
    """Expectations of a dataset and their evaluation. Sources and steps must be views in the rows' Spark session."""

    def __init__(self, expectations: Sequence[dataset_model.AnyExpectation]) -> None:
        self._expectations = expectations

    @property
    def fits_one_pass(self) -> bool:
        """True if all expectations can be evaluated in the same pass that writes the rows."""
        return all(
            _has_flag(rule) and rule.expect not in {"unique", "reference"} and _limit(rule) is None
            for rule in self._expectations
        )

    @property
    def quarantine_condition(self) -> str:
        """SQL condition that selects the flagged rows to quarantine."""
        return _any_flag(self._numbers_with("quarantine"))

    @property
    def quarantines(self) -> bool:
        """True if an expectation can quarantine rows."""
        return bool(self._numbers_with("quarantine"))

    def add_flags(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows with a flag column for each expectation about rows: true if the row fails it."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions

        for number, rule in self._flags():
            try:
                if isinstance(rule, dataset_model.Reference):
                    rows = _flag_reference(rows, rule, number)
                else:
                    if isinstance(rule, dataset_model.Condition):
                        refuse_queries(rows.sparkSession, rule.condition)
                    rows = rows.withColumn(f"{FLAG}{number}", functions.expr(_failure_condition(rule)))
            except PySparkException as error:
                raise PipelineError(f"the expectation {rule.title}: {safe_message(error)}") from error
        return rows

    def aggregates(self) -> list["Column"]:
        """Return the named aggregates of flagged rows from which `verdicts` and `counts` are computed."""
        from pyspark.sql import functions

        aggregates = [functions.count(functions.lit(1)).alias(ROWS)]
        flags = (f"{FLAG}{number}" for number, _ in self._flags())
        aggregates += [functions.count_if(functions.col(flag)).alias(flag) for flag in flags]
        passing = f"NOT ({_any_flag(self._numbers_with('drop', 'quarantine'))})"
        aggregates.append(functions.count_if(functions.expr(passing)).alias(PASSING))
        aggregates.append(functions.count_if(functions.expr(self.quarantine_condition)).alias(QUARANTINED))
        for number, rule in enumerate(self._expectations):
            if isinstance(rule, dataset_model.FreshnessExpectation):
                latest = functions.max(functions.col(quoted(rule.column)).cast("timestamp"))
                aggregates.append(functions.unix_micros(latest).alias(f"{FLAG}{number}"))
        return aggregates

    def count_duplicates(self, flagged: "DataFrame") -> dict[str, int]:
        """Return the number of rows with the same values as another row, for each `unique` with fail or warn."""
        from pyspark.sql import functions

        counts = {}
        for number, rule in enumerate(self._expectations):
            if isinstance(rule, dataset_model.Unique) and not _has_flag(rule):
                no_nulls = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in rule.columns)
                numbered_rows = number_rows(flagged.where(no_nulls), rule.columns)
                # Numbers start at 1, so this adds the first row of each group of duplicates.
                count = functions.expr(f"count_if({NUMBER} >= 2) + count_if({NUMBER} = 2)")
                total: Any = numbered_rows.agg(count).first()
                counts[f"{FLAG}{number}"] = int(total[0])
        return counts

    def proves_unique_keys(self, keys: Sequence[str], verdicts: Sequence[ExpectationVerdict]) -> bool:
        """Return whether the verdicts prove that the rows to write have distinct keys, apart from null keys."""
        key_names = {key.lower() for key in keys}
        return any(
            isinstance(rule, dataset_model.Unique)
            and {name.lower() for name in rule.columns} <= key_names
            and (_has_flag(rule) or not verdict.failing)
            for rule, verdict in zip(self._expectations, verdicts, strict=True)
        )

    def counts(self, values: Mapping[str, Any]) -> RowCounts:
        """Return the numbers of all, passing and quarantined rows from the aggregates' values."""
        return RowCounts(int(values[ROWS]), int(values[PASSING]), int(values[QUARANTINED]))

    def verdicts(self, values: Mapping[str, Any], now: datetime | None = None) -> list[ExpectationVerdict]:
        """Compute the verdict of each expectation from the values of the aggregates, by name."""
        rows, results = int(values[ROWS]), []
        for number, rule in enumerate(self._expectations):
            value = values.get(f"{FLAG}{number}")
            match rule:
                case dataset_model.RowCount():
                    wrong = (rule.min is not None and rows < rule.min) or (rule.max is not None and rows > rule.max)
                    lower, upper = (f"{bound:,}" if bound is not None else "any" for bound in (rule.min, rule.max))
                    verdict = int(wrong), f"{rows:,} rows, expected {lower} to {upper}"
                case dataset_model.FreshnessExpectation():
                    latest = None if value is None else datetime.fromtimestamp(int(value) / 1e6, UTC)
                    wrong = latest is None or latest < (now or datetime.now(UTC)) - dataset_model.duration(rule.within)
                    time = f"{latest:%Y-%m-%dT%H:%M:%SZ}" if latest else "missing"
                    text = f"the latest {rule.column} is {time}, expected within {rule.within}"
                    verdict = int(wrong), text
                case _:
                    verdict = int(value or 0), f"{int(value or 0):,} of {rows:,} rows"
            results.append(_make_verdict(rule, *verdict, rows))
        return results

    def passing_rows(self, flagged: "DataFrame", *, stop_at_failure: bool = False) -> "DataFrame":
        """Return the rows to write, without flags. With `stop_at_failure`, Spark fails at the first failing row."""
        left_out = self._numbers_with("drop", "quarantine")
        fatal = [number for number in self._numbers_with("fail") if _limit(self._expectations[number]) is None]
        rows = flagged
        if stop_at_failure and fatal:
            rows = rows.where(f"CASE WHEN {_any_flag(fatal)} THEN {raise_sql(FAILED_RUN)} ELSE true END")
        if left_out:
            rows = rows.where(f"NOT ({_any_flag(left_out)})")
        return rows.drop(*(f"{FLAG}{number}" for number, _ in self._flags()))

    def quarantine_rows(self, flagged: "DataFrame", run_id: str, malformed: "Sequence[DataFrame]" = ()) -> "DataFrame":
        """Return the rows for the quarantine table, each with the reasons, the run's id and the current time.

        `malformed` are the malformed rows of sources, each with its reason, text and file.
        """
        from pyspark.sql import functions

        flags = [(number, rule) for number, rule in self._flags() if rule.action == "quarantine"]
        reasons = ", ".join(f"CASE WHEN {FLAG}{number} THEN {literal(rule.title)} END" for number, rule in flags)
        rows = flagged.where(self.quarantine_condition)
        rows = rows.withColumn("_reasons", functions.expr(f"array_compact(array({reasons}))"))
        for rejects in malformed:
            text = {
                name: functions.lit(None).cast("string") for name in rejects.columns[1:] if name not in rows.columns
            }
            rows = rows.withColumns(text).unionByName(rejects, allowMissingColumns=True)
        rows = rows.withColumn("_run", functions.lit(run_id)).withColumn(
            "_quarantined_at", functions.current_timestamp()
        )
        return rows.drop(*(f"{FLAG}{number}" for number, _ in self._flags()))

    def _numbers_with(self, *actions: str) -> list[int]:
        return [number for number, rule in self._flags() if rule.action in actions]

    def _flags(self) -> Iterator[tuple[int, dataset_model.AnyExpectation]]:
        return ((number, rule) for number, rule in enumerate(self._expectations) if _has_flag(rule))


def refuse_failed(verdicts: Sequence[ExpectationVerdict]) -> None:
    """Raise `ExpectationFailed` if any expectation fails the run; the message names all such expectations."""
    failed = [verdict.text for verdict in verdicts if verdict.refused]
    if failed:
        raise ExpectationFailed(f"expectations failed, nothing was written: {'; '.join(failed)}.", verdicts)


def _has_flag(rule: dataset_model.AnyExpectation) -> bool:
    if isinstance(rule, dataset_model.Unique):
        return rule.action in {"drop", "quarantine"}
    return not isinstance(rule, dataset_model.RowCount | dataset_model.FreshnessExpectation)


def _limit(rule: dataset_model.AnyExpectation) -> str | None:
    return rule.at_most if isinstance(rule, dataset_model.RowExpectation) else None


def _make_verdict(rule: dataset_model.AnyExpectation, failing: int, text: str, rows: int) -> ExpectationVerdict:
    limit = _limit(rule)
    refused = failing > 0 and rule.action == "fail" if limit is None else exceeds(limit, failing, rows)
    text += f", at most {limit}" if limit else ""
    return ExpectationVerdict(rule.title, rule.action, failing, text, refused, limit)


def _any_flag(flags: Sequence[int]) -> str:
    return " OR ".join(f"{FLAG}{number}" for number in flags) or "false"


def _failure_condition(rule: dataset_model.AnyExpectation) -> str:
    match rule:
        case dataset_model.NotNull():
            return " OR ".join(f"{quoted(name)} IS NULL" for name in rule.columns)
        case dataset_model.Range():
            bounds = [f"{quoted(rule.column)} >= {_literal(rule.min)}"] if rule.min is not None else []
            bounds += [f"{quoted(rule.column)} <= {_literal(rule.max)}"] if rule.max is not None else []
            return f"NOT coalesce({' AND '.join(bounds)}, true)"
        case dataset_model.AcceptedValues():
            return f"NOT coalesce({quoted(rule.column)} IN ({', '.join(map(_literal, rule.values))}), true)"
        case dataset_model.Unique():
            names = ", ".join(quoted(name) for name in rule.columns)
            no_nulls = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in rule.columns)
            return f"{no_nulls} AND count(*) OVER (PARTITION BY {names}) > 1"
        case dataset_model.Condition():
            return f"NOT coalesce(({rule.condition}), true)"
        case _:
            raise AssertionError(rule.expect)


def _flag_reference(rows: "DataFrame", rule: dataset_model.Reference, number: int) -> "DataFrame":
    """Flag the rows whose values do not exist in the referenced view. As in SQL, rows with a null pass."""
    from pyspark.sql import functions

    view = rows.sparkSession.table(rule.to)
    names = [f"{FLAG}{number}_{position}" for position in range(len(rule.columns))]
    columns = rule.to_columns or rule.columns
    missing = [name for name in columns if name.lower() not in {column.lower() for column in view.columns}]
    if missing:
        raise PipelineError(f"the expectation {rule.title}: {rule.to} has no column {missing[0]}.")
    pairs = zip(columns, names, strict=True)
    existing = view.select(*(functions.col(quoted(name)).alias(alias) for name, alias in pairs)).distinct()
    on = [functions.col(quoted(name)) == functions.col(alias) for name, alias in zip(rule.columns, names, strict=True)]
    joined = rows.join(existing, on=on, how="left")
    no_nulls = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in rule.columns)
    return joined.withColumn(f"{FLAG}{number}", functions.expr(f"{no_nulls} AND {names[0]} IS NULL")).drop(*names)


def _literal(value: dataset_model.Bound) -> str:
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
