"""The SQL of datasets, publications and views: a query by Spark's own word, over views of the session alone."""

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
"""What Spark's parser makes of text that writes or runs programs, and does not call a command."""

OWN_ROWS = frozenset({"OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef"})
"""Leaves of an analysed plan whose rows the SQL itself says."""

REACHING = (
    # call whatever stands on the class path, and so read the machine's variables and properties
    "reflect", "java_method", "try_reflect",
    # open the files and addresses that their options name, some as soon as they are analysed
    "from_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "schema_of_xml",
    # open those that a row's own text names (<!DOCTYPE a SYSTEM "...">)
    "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short",
    "xpath_string",
)  # fmt: skip
"""Functions of Spark's that reach beyond the rows."""

FILES = "spark.sql.runSQLOnFiles"
"""Spark's setting that takes a format and a path for a table's name."""


def answer(spark: "SparkSession", sql: str) -> "DataFrame":
    """Return a query's rows (lazily), of views alone: no path is a table.

    Raises `PipelineError` for a command, which Spark would run at once, and for whatever else is read.
    """
    java: Any = spark._jsparkSession  # noqa: SLF001 -- pyspark parses nothing without running it
    for plan in _plans(java.sessionState().sqlParser().parsePlan(sql)):
        _refuse_command(plan)
    with no_files(spark):
        return of_views(spark.sql(sql))


def of_views(rows: "DataFrame") -> "DataFrame":
    """Return the rows as they are, if only views of their session are read for them and no program is run.

    The analysed plan is asked: it has in it what windows, subqueries and `IDENTIFIER` hide while the text is parsed.
    """
    for plan in _plans(rows._jdf.queryExecution().analyzed()):  # noqa: SLF001 -- pyspark has no way to the plan
        _refuse_command(plan)
        if plan.children().isEmpty() and plan.nodeName() not in OWN_ROWS:
            raise PipelineError("the SQL reads a table or a file that is no source and no step: name it as a source")
    return rows


def refuse_queries(spark: "SparkSession", condition: str) -> None:
    """Refuse a condition that has a query within, and so reads more than the row."""
    java: Any = spark._jsparkSession  # noqa: SLF001 -- as above
    query = java_class("org.apache.spark.sql.catalyst.trees.TreePattern").PLAN_EXPRESSION()
    if java.sessionState().sqlParser().parseExpression(condition).containsPattern(query):
        raise PipelineError("a condition is an expression over one row's columns, and has no SELECT: join in a step")


@contextmanager
def no_files(spark: "SparkSession") -> Iterator[None]:
    """Let no path be a table's name while SQL is analysed; Delta's own statements on paths need it elsewhere."""
    before = str(spark.conf.get(FILES))
    spark.conf.set(FILES, "false")
    try:
        yield
    finally:
        spark.conf.set(FILES, before)


def drop_reaching(spark: "SparkSession") -> None:
    """Take the functions that reach beyond the rows out of a session, wherever text becomes SQL in it."""
    java: Any = spark._jsparkSession  # noqa: SLF001 -- as above
    registry = java.sessionState().functionRegistry()
    identifier = java_class("org.apache.spark.sql.catalyst.FunctionIdentifier")
    for name in REACHING:
        registry.dropFunction(identifier(name))


def _refuse_command(plan: Any) -> None:
    command = "org.apache.spark.sql.catalyst.plans.logical.Command"
    name = str(plan.nodeName())
    if name in COMMANDS or is_instance(plan, command):
        raise PipelineError(f"the SQL is a query, and nothing that writes or runs programs ({name}): write SELECT ...")


def _plans(plan: Any) -> Iterator[Any]:
    """Yield a plan and all within it but what a session's view stands for."""
    yield plan
    if plan.nodeName() == "View" and plan.isTempView():
        return
    for part in (plan.children(), plan.subqueries()):
        for number in range(part.size()):
            yield from _plans(part.apply(number))
