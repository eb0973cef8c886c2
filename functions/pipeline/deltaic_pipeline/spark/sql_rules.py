"""Check that SQL of datasets, publish jobs and views is a query that reads only temporary views of the session."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import is_instance, java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMANDS = frozenset({
    "InsertIntoStatement", "InsertIntoDir", "ScriptTransformation", "CompoundBody", "UnresolvedExecuteImmediate",
    "Call",
})  # fmt: skip
"""Names of Spark's plan nodes that write or run programs, although they are no subclasses of `Command`."""

LITERAL_ROWS = frozenset({"OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef"})
"""Names of leaf nodes of an analyzed plan whose rows are in the SQL itself."""

EXTERNAL_FUNCTIONS = (
    # call any class on the class path, and so read the machine's variables and properties
    "reflect", "java_method", "try_reflect",
    # open files and addresses that their options name, some during the analysis
    "from_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "schema_of_xml",
    # open files and addresses that the text of a row names (<!DOCTYPE a SYSTEM "...">)
    "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short",
    "xpath_string",
)  # fmt: skip
"""Spark SQL functions that can read other data than the rows of the query."""

FILES = "spark.sql.runSQLOnFiles"
"""Spark setting that allows paths as table names, such as parquet.`/tmp/x`."""


def query_rows(spark: "SparkSession", sql: str) -> "DataFrame":
    """Return the rows (lazily) of a query that reads only temporary views of the session.

    Raises `PipelineError` for a command, which Spark would run immediately, and for a query that reads other tables.
    """
    java: Any = spark._jsparkSession  # noqa: SLF001 -- pyspark parses nothing without running it
    for plan in _plans(java.sessionState().sqlParser().parsePlan(sql)):
        _refuse_command(plan)
    with without_paths(spark):
        return check_reads_views(spark.sql(sql))


def check_reads_views(rows: "DataFrame") -> "DataFrame":
    """Return the rows unchanged; raise `PipelineError` if their query runs programs or reads more than temporary views.

    This checks the analyzed plan, because windows, subqueries and `IDENTIFIER` hide tables in the parsed plan.
    """
    for plan in _plans(rows._jdf.queryExecution().analyzed()):  # noqa: SLF001 -- pyspark has no way to the plan
        _refuse_command(plan)
        if plan.children().isEmpty() and plan.nodeName() not in LITERAL_ROWS:
            raise PipelineError("the SQL reads a table or file that is neither a source nor a step. Declare a source")
    return rows


def refuse_queries(spark: "SparkSession", condition: str) -> None:
    """Raise `PipelineError` if a SQL condition contains a subquery, which can read more than the row."""
    java: Any = spark._jsparkSession  # noqa: SLF001 -- as above
    query = java_class("org.apache.spark.sql.catalyst.trees.TreePattern").PLAN_EXPRESSION()
    if java.sessionState().sqlParser().parseExpression(condition).containsPattern(query):
        raise PipelineError("a condition uses the columns of one row and cannot contain a SELECT. Join in a step")


@contextmanager
def without_paths(spark: "SparkSession") -> Iterator[None]:
    """Disallow paths as table names in SQL that is analyzed in the block; Delta's statements need them elsewhere."""
    before = str(spark.conf.get(FILES))
    spark.conf.set(FILES, "false")
    try:
        yield
    finally:
        spark.conf.set(FILES, before)


def drop_external_functions(spark: "SparkSession") -> None:
    """Remove from a session the functions that can read more than the rows (`EXTERNAL_FUNCTIONS`)."""
    java: Any = spark._jsparkSession  # noqa: SLF001 -- as above
    registry = java.sessionState().functionRegistry()
    identifier = java_class("org.apache.spark.sql.catalyst.FunctionIdentifier")
    for name in EXTERNAL_FUNCTIONS:
        registry.dropFunction(identifier(name))


def _refuse_command(plan: Any) -> None:
    command = "org.apache.spark.sql.catalyst.plans.logical.Command"
    name = str(plan.nodeName())
    if name in COMMANDS or is_instance(plan, command):
        raise PipelineError(
            f"the SQL must be a query, and nothing that writes or runs programs ({name}). Write SELECT ..."
        )


def _plans(plan: Any) -> Iterator[Any]:
    """Yield a Spark plan and all plans in it, except the definitions of temporary views."""
    yield plan
    if plan.nodeName() == "View" and plan.isTempView():
        return
    for part in (plan.children(), plan.subqueries()):
        for number in range(part.size()):
            yield from _plans(part.apply(number))
