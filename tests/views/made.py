"""Create a source and a view on the local disk, and compute the view's expected rows with plain Spark."""

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic_pipeline.view_refresh.definition import Audience, Definition, SourceTable
from deltaic_pipeline.view_refresh.refresh import RefreshResult, refresh
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = re.compile(r"(IN\s+)?current_recipient\('(\w+)'\)")
FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

Values = Mapping[str, str | tuple[str, ...]]


@dataclass
class SampleView:
    """A view with its source."""

    spark: "SparkSession"
    folder: Path
    sql: str
    key: tuple[str, ...] = ()
    others: Mapping[str, SourceTable] = field(default_factory=dict)
    existing: set[str] = field(default_factory=set)
    runs: int = 0

    @property
    def source(self) -> str:
        return f"delta.`{self.folder}/source`"

    @property
    def location(self) -> str:
        return f"{self.folder}/view"

    @property
    def definition(self) -> Definition:
        source = SourceTable("shop.eu.orders", f"{self.folder}/source")
        return Definition("shop.eu.mine", self.location, self.sql, source, self.others, self.key)

    def create_source(self, columns: str, *statements: str, properties: str = "") -> None:
        """Create the source, and run statements, which refer to it as `{source}`."""
        all_properties = f"'delta.enableChangeDataFeed' = 'true'{properties}"
        self.spark.sql(f"CREATE TABLE {self.source} ({columns}) USING delta TBLPROPERTIES ({all_properties})")
        self.run(*statements)

    def copy_source(self, source: Path) -> None:
        """Use a copy of a prepared table as the source."""
        shutil.copytree(source, self.folder / "source")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("{source}", self.source))

    def refresh(self, audiences: Mapping[str, Values], run: str = "") -> RefreshResult:
        """Refresh as the job does: remove other audiences from the catalog before, and add new ones after."""
        self.runs += 1
        self.existing &= audiences.keys()
        requested = [Audience(name, values) for name, values in audiences.items()]
        run_id = run or f"run-{self.runs}"
        result = refresh(self.spark.newSession(), self.definition, requested, self.existing, run_id)
        self.existing |= audiences.keys()
        return result

    def version(self) -> int:
        return DeltaTable(self.location).version()

    def rows(self) -> Counter[str]:
        """Return the view's rows with their audience, and the number of copies, without Spark, which wrote them."""
        return count_rows(pa.table(DeltaTable(self.location).scan()))

    def expected(self, audiences: Mapping[str, Values]) -> Counter[str]:
        """Return the result of the SQL with literals over the current source."""
        session = self.spark.newSession()
        session.read.format("delta").load(f"{self.folder}/source").createOrReplaceTempView("source")
        results = []
        for name, values in audiences.items():
            rows = session.sql(sql_with_literals(self.sql, values))
            columns = [f"'{name}' AS {AUDIENCE_COLUMN}", *(f"`{column}`" for column in rows.columns)]
            results.append(rows.selectExpr(*columns))
        return count_rows(reduce(lambda first, second: first.union(second), results).toArrow())

    def changes(self, version: int) -> list[tuple[str, str]]:
        """Return the view's change feed at one version, as pairs of kind and row."""
        feed = pa.table(DeltaTable(self.location).load_cdf(starting_version=version, ending_version=version))
        return [(row["_change_type"], row_text(without_feed_columns(row))) for row in records(feed)]


def count_rows(rows: pa.Table) -> Counter[str]:
    return Counter(row_text(row) for row in records(rows))


def records(rows: pa.Table) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", rows.to_pylist(maps_as_pydicts="strict"))


def without_feed_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in FEED_COLUMNS}


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row as text, the same for equal rows; missing columns equal null columns."""

    def sort(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: sort(value[name]) for name in sorted(value)}
        return [sort(item) for item in value] if isinstance(value, list) else value

    return repr(sort({name: value for name, value in row.items() if value is not None}))


def apply_changes(before: Counter[str], changes: Sequence[tuple[str, str]]) -> Counter[str]:
    """Return rows after a change feed; assert that it removes existing rows only."""
    after = Counter(before)
    for kind, row in changes:
        if kind in {"delete", "update_preimage"}:
            after[row] -= 1
        else:
            after[row] += 1
    assert min(after.values(), default=0) >= 0
    return +after


def sql_with_literals(sql: str, values: Values) -> str:
    return PROPERTY.sub(lambda match: _literal(values[match[2]], match[1]), sql)


def _literal(value: str | tuple[str, ...], list_operator: str | None) -> str:
    values = (value,) if isinstance(value, str) else value
    quoted = ["'" + item.replace("\\", "\\\\").replace("'", "\\'") + "'" for item in values]
    return f"IN ({', '.join(quoted)})" if list_operator else quoted[0]
