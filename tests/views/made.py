"""A source and a view of it on this machine's disk, and what the view should hold by the word of plain Spark."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic_pipeline.view_refresh.definition import Audience, Definition, SourceTable
from deltaic_pipeline.view_refresh.refresh import RefreshResult, refresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASKED = re.compile(r"(IN\s+)?current_recipient\('(\w+)'\)")
FED = ("_change_type", "_commit_version", "_commit_timestamp")

Values = Mapping[str, str | tuple[str, ...]]


@dataclass
class Made:
    """One source, one view."""

    spark: "SparkSession"
    folder: Path
    sql: str
    key: tuple[str, ...] = ()
    others: Mapping[str, SourceTable] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
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

    def source_of(self, columns: str, *statements: str, properties: str = "") -> None:
        """Make the source; statements name it `{source}`."""
        told = f"'delta.enableChangeDataFeed' = 'true'{properties}"
        self.spark.sql(f"CREATE TABLE {self.source} ({columns}) USING delta TBLPROPERTIES ({told})")
        self.run(*statements)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("{source}", self.source))

    def refresh(self, audiences: Mapping[str, Values], run: str = "") -> RefreshResult:
        """Refresh as the job does: audiences that are not wanted leave the catalog before, new ones enter after."""
        self.runs += 1
        self.known &= audiences.keys()
        wanted = [Audience(name, values) for name, values in audiences.items()]
        found = refresh(self.spark.newSession(), self.definition, wanted, self.known, run or f"run-{self.runs}")
        self.known |= audiences.keys()
        return found

    def version(self) -> int:
        found: Any = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.location}` LIMIT 1").first()
        return int(found["version"])

    def rows(self, version: int | None = None) -> Counter[str]:
        """Return the view's rows, audience first, with their copies."""
        options = {} if version is None else {"versionAsOf": str(version)}
        return counted(self.spark.read.format("delta").options(**options).load(self.location))

    def expected(self, audiences: Mapping[str, Values]) -> Counter[str]:
        """Return what the SQL with literals says of the source as it is now."""
        session = self.spark.newSession()
        session.read.format("delta").load(f"{self.folder}/source").createOrReplaceTempView("source")
        found: Counter[str] = Counter()
        for name, values in audiences.items():
            rows = session.sql(written(self.sql, values))
            columns = [f"'{name}' AS {AUDIENCE_COLUMN}", *(f"`{column}`" for column in rows.columns)]
            found += counted(rows.selectExpr(*columns))
        return found

    def changes(self, version: int) -> list[tuple[str, str]]:
        """Return the view's own change feed at one version: what kind, and the row."""
        options = {"readChangeFeed": "true", "startingVersion": str(version), "endingVersion": str(version)}
        rows = self.spark.read.format("delta").options(**options).load(self.location)
        return [(kind, text(row)) for kind, row in _split(rows)]


def counted(rows: "DataFrame") -> Counter[str]:
    return Counter(text(row.asDict(recursive=True)) for row in rows.collect())


def text(row: Mapping[str, Any]) -> str:
    """Write a row such that equal rows are equal texts: a column that came later is as one that is null."""

    def sorted_(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: sorted_(value[name]) for name in sorted(value)}
        return [sorted_(one) for one in value] if isinstance(value, list) else value

    return repr(sorted_({name: value for name, value in row.items() if value is not None}))


def applied(before: Counter[str], changes: Sequence[tuple[str, str]]) -> Counter[str]:
    """Return rows after a change feed; an assertion fails where it takes away what is not there."""
    after = Counter(before)
    for kind, row in changes:
        if kind in {"delete", "update_preimage"}:
            after[row] -= 1
        else:
            after[row] += 1
    assert min(after.values(), default=0) >= 0
    return +after


def _split(rows: "DataFrame") -> list[tuple[str, dict[str, Any]]]:
    found = [row.asDict(recursive=True) for row in rows.collect()]
    return [(row["_change_type"], {name: row[name] for name in row if name not in FED}) for row in found]


def written(sql: str, values: Values) -> str:
    return ASKED.sub(lambda match: _literal(values[match[2]], match[1]), sql)


def _literal(value: str | tuple[str, ...], listed: str | None) -> str:
    values = (value,) if isinstance(value, str) else value
    quoted = ["'" + one.replace("\\", "\\\\").replace("'", "\\'") + "'" for one in values]
    return f"IN ({', '.join(quoted)})" if listed else quoted[0]
