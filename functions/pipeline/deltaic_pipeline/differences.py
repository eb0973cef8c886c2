"""What is different between rows and the table that they are to enter: columns, which a run never adds unasked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.sources import spark_path
from deltaic_pipeline.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Difference:
    """A column that is not the same on both sides; None: it is not there."""

    column: str
    table: str | None
    rows: str | None

    def __str__(self) -> str:
        if self.table is None:
            return f"{self.column} ({self.rows}) is not in the table"
        if self.rows is None:
            return f"{self.column} ({self.table}) is missing in the rows"
        return f"{self.column} is {self.table} in the table and {self.rows} in the rows"


def differences(spark: "SparkSession", rows: "DataFrame", target: Target) -> list[Difference] | None:
    """Return the differences in the order of the columns; None where there is no table yet."""
    location = spark_path(target.location)
    if not DeltaTable.isDeltaTable(spark, location):
        return None
    own = {name.lower() for name in target.validity.columns} if target.validity else set()
    found = {field.name.lower(): field for field in rows.schema.fields}
    there = {
        f.name.lower(): f for f in spark.read.format("delta").load(location).schema.fields if f.name.lower() not in own
    }
    told = []
    for name in dict.fromkeys([*there, *found]):
        before = there[name].dataType.simpleString() if name in there else None
        after = found[name].dataType.simpleString() if name in found else None
        if before != after:
            told.append(Difference((there.get(name) or found[name]).name, before, after))
    return told


def refuse_drift(found: list[Difference] | None, target: Target) -> None:
    """Raise `PipelineError` for columns that are new or missing, unless the target's schema may change.

    Delta would fill a missing column with nulls. Other types are left to it: it takes those that lose nothing.
    """
    drift = [str(one) for one in found or () if one.table is None or one.rows is None]
    if drift and not target.evolve_schema:
        raise PipelineError(
            f"schema drift: {'; '.join(drift)}. Put it right in a step, or allow it with target.evolve_schema."
        )
