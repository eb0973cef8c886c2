"""Find keys of a table that a full extract lacks, check their limit, and add rows that delete them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.casting import cast, null
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import DELETES, missing_rows
from deltaic_pipeline.table.row_limits import exceeds
from deltaic_pipeline.table.schema_diff import conform
from deltaic_pipeline.table.target import DeltaTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class MissingKeys:
    """Keys of a table that a full extract of its source lacks; `refusal`: reason not to delete them, or empty."""

    keys: "DataFrame"
    count: int
    since: int | None
    """End of the missing keys' states, in microseconds since 1970: the latest `valid_from` of the extract's rows."""

    refusal: str


def missing_keys(
    spark: "SparkSession", table: "DataFrame", extract: "DataFrame", rows: "DataFrame", target: DeltaTarget
) -> MissingKeys:
    """Return the keys in the table's current rows that the extract lacks, without null keys.

    `rows` are the rows of the extract that will be merged. If there are none, no key may be deleted, whatever the limit
    is, because the extract probably failed.
    """
    from pyspark.sql import functions

    names, limit = [quoted(key) for key in target.keys], target.missing_at_most or ""
    keyed_rows = table.where(" AND ".join(f"{name} IS NOT NULL" for name in names))
    absent = missing_rows(keyed_rows, conform(spark, extract.select(*names), target), target.keys)
    count = functions.count("*").alias("count")
    if target.validity is None:
        absent_facts: Any = absent.agg(count).first()
        row_facts: Any = rows.limit(1).agg(count).first()
    else:
        begin = functions.unix_micros(functions.max(quoted(target.validity.valid_from))).alias("begin")
        absent_facts, row_facts = absent.agg(count, begin).first(), rows.agg(count, begin).first()
    key_count, total = int(absent_facts["count"]), table.count()
    since = None if target.validity is None or row_facts["begin"] is None else int(row_facts["begin"])
    refusal = ""
    if key_count and not row_facts["count"]:
        refusal = f"there are no rows to write, but {total:,} keys in the table: the extract probably failed"
    elif exceeds(limit, key_count, total):
        refusal = (
            f"{key_count:,} of the table's {total:,} keys are missing in the rows, and at most {limit} may be deleted"
        )
        refusal += ": if that is right, raise write.at_most, or use --delete-at-most for one run"
    elif key_count and target.validity is not None and (since is None or since <= int(absent_facts["begin"])):
        refusal = "keys are missing whose states begin at or after the latest row of the extract: the extract is older "
        refusal += "than the table, or write.at is not the time of the extract, which a step can set"
    return MissingKeys(absent.select(*names), key_count, since, refusal)


def add_missing_keys(rows: "DataFrame", missing: MissingKeys, target: DeltaTarget) -> "DataFrame":
    """Return the rows to merge, and for each missing key one more row, marked to delete that key."""
    if not missing.count:
        return rows
    key_fields = {field.name.lower(): field for field in missing.keys.schema.fields}
    values = {DELETES: "true"}
    if target.validity is not None:
        values[target.validity.valid_from.lower()] = f"timestamp_micros({missing.since})"
    columns = []
    for field in rows.schema.fields:
        key = key_fields.get(field.name.lower())
        value = cast(quoted(key.name), key.dataType, field.dataType) if key else null(field.dataType)
        columns.append(f"{values.get(field.name.lower(), value)} AS {quoted(field.name)}")
    return rows.unionByName(missing.keys.selectExpr(*columns))
