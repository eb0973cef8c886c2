"""Keys of a table that a full extract lacks: how many there are, whether they may go, and the rows that delete them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.casting import cast, null
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import DELETES, lacked
from deltaic_pipeline.table.row_limits import exceeds
from deltaic_pipeline.table.schema_diff import conformed
from deltaic_pipeline.table.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Missing:
    """The keys that a table has now and an extract has not."""

    keys: "DataFrame"
    count: int
    since: int | None
    """When their states end, in microseconds since 1970: as the extract's latest row begins; None: there are none."""

    refusal: str


def missing_keys(
    spark: "SparkSession", table: "DataFrame", given: "DataFrame", rows: "DataFrame", target: Target
) -> Missing:
    """Return the keys of a table, in its current rows, that no given row has; a key that is null is none.

    `rows` are those of the given ones that are to be written, as they are merged. Where there are none the extract is
    taken for one that failed, whatever the limit is.
    """
    from pyspark.sql import functions

    names, limit = [quoted(key) for key in target.keys], target.missing_at_most or ""
    known = table.where(" AND ".join(f"{name} IS NOT NULL" for name in names))
    absent = lacked(known, conformed(spark, given.select(*names), target), target.keys)
    one = functions.count("*").alias("count")
    if target.validity is None:
        found: Any = absent.agg(one).first()
        last: Any = rows.limit(1).agg(one).first()
    else:
        begin = functions.unix_micros(functions.max(quoted(target.validity.valid_from))).alias("begin")
        found, last = absent.agg(one, begin).first(), rows.agg(one, begin).first()
    count, total = int(found["count"]), table.count()
    since = None if target.validity is None or last["begin"] is None else int(last["begin"])
    refusal = ""
    if count and not last["count"]:
        refusal = f"there are no rows to write, and {total:,} keys in the table: such an extract is taken for a failure"
    elif exceeds(limit, count, total):
        refusal = f"{count:,} of the table's {total:,} keys are missing in the rows, and at most {limit} may be deleted"
        refusal += ": if that is right, say so by write.at_most, or by --delete-at-most for one run"
    elif count and target.validity is not None and (since is None or since <= int(found["begin"])):
        refusal = "keys are missing whose states begin no earlier than the latest of the rows: the extract is older "
        refusal += "than the table, or write.at is not the extract's own time, which a step can give it"
    return Missing(absent.select(*names), count, since, refusal)


def with_missing(rows: "DataFrame", missing: Missing, target: Target) -> "DataFrame":
    """Return marked rows, and for each missing key one more that deletes it."""
    if not missing.count:
        return rows
    found = {field.name.lower(): field for field in missing.keys.schema.fields}
    values = {DELETES: "true"}
    if target.validity is not None:
        values[target.validity.valid_from.lower()] = f"timestamp_micros({missing.since})"
    columns = []
    for field in rows.schema.fields:
        key = found.get(field.name.lower())
        value = cast(quoted(key.name), key.dataType, field.dataType) if key else null(field.dataType)
        columns.append(f"{values.get(field.name.lower(), value)} AS {quoted(field.name)}")
    return rows.unionByName(missing.keys.selectExpr(*columns))
