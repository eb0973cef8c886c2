"""Spark's errors: what is told of one, which holds no row's value, and all that Spark said, for whoever asks for it.

Spark puts the values that it met into its words: the text that it cannot cast, the malformed record, the row that
breaks a constraint. So its sentences are made again from the templates of its error conditions, with parameters that
name files, tables, columns, types and settings alone; what stands for others is `...`. Of a Java exception without a
condition only the class is told, unless it is one that speaks of files and hosts.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

from deltaic_terminal.nearest import did_you_mean

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import is_instance, java_class
from deltaic_pipeline.spark.quoting import literal

HIDDEN = "..."
"""What stands for words that may hold a row's value."""

TOLD = re.compile(
    r"actualType|alternative|ansiConfig|arraySize|checkConstraint|className|colName|column|columnName|columns"
    r"|config|configKey|constraintName|dataType|expectedType|failFastMode|filePath|fileName|fromType|func"
    r"|functionName|inputType|jsonType|mapKeyDedupPolicy|maxRoundedArrayLength|objectName|operation|optionName"
    r"|parameter|parquetType|path|paths|precision|provider|replaceWhere|scale|schema|sourceType|srcType"
    r"|suggestion|supportedFormat|tableName|tablePath|targetType|toType|typeName|version"
    r"|ARITHMETIC_OVERFLOW\.message|DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\.expression"
)
"""The parameters of conditions that a row's value never fills, by name or by condition and name. Among those left out:
`expression` is the value that a cast met, `fieldName` of JSON may be the key of a map, `message` another's words."""

OF_PLACES = re.compile(
    r"org\.apache\.hadoop\.fs\..*|software\.amazon\.awssdk\..*|java\.io\.FileNotFoundException"
    r"|java\.nio\.file\.(AccessDenied|NoSuchFile|FileSystem)Exception|java\.net\.\w*(Host|Connect|Socket|Route)\w*"
    r"|javax\.net\.ssl\..*|java\.lang\.(ClassNotFoundException|NoClassDefFoundError|UnsatisfiedLinkError|OutOfMemoryError)"
)
"""Classes whose words are of files, hosts, rights and the class path, where Spark has no condition."""

OF_DATABASES = re.compile("08|0A|25|28|3D|3F|40|42|53|55|57|58|XJ")
"""The SQLSTATEs under which a database speaks of connections, logins, names, syntax, locks and its own state; 22 and 23
tell values."""

PHRASES = re.compile(
    r"is not a Parquet file|Unexpected end of input stream|Unexpected end-of-input|not in gzip format"
    r"|ExecutorLostFailure \(executor \S+ exited [^()]*\)( Reason: [^\n]*)?"
)
"""What is told of the words of other classes."""

GENERIC = re.compile(
    r"^\[(TASK_WRITE_FAILED|STREAM_FAILED|FAILED_EXECUTE\w*)\]|^\w*(SparkException|Py4JJavaError): \.\.\.$"
)
"""Words that say no more than that something failed."""

NOISE = re.compile(r"(^|(?<=: ))([\w$]+\.)+[\w$]*(Exception|Error|Throwable): |\s*SQLSTATE: \w+|:null$")
MOST_CAUSES = 2
LONGEST_FRAGMENT = 200
OWN = "deltaic: "
"""What the words begin with by which a query of ours ends itself: they hold no value, and are told whole."""

DISK_FULL = ("No space left on device", "File too large", "EntityTooLarge", "XMinioStorageFull", "Disk quota exceeded")
_PARAMETER = re.compile(r"<([A-Za-z0-9_-]+)>")
_HEADER_LENGTH = re.compile(r"CSV header is not equal .*\s+Header length: (\d+), schema size: (\d+)\s+CSV file: (.*)")
_HEADER_NAMES = re.compile(
    r"CSV header does not conform .*\s+Header: .*\s+Schema: (.*)\s+Expected: (.*) but found: (.*)\s+CSV file: (.*)"
)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what Spark says when it cannot go on into a `PipelineError` of one line."""
    try:
        yield
    except spark_failures() as failure:
        raise PipelineError(said_by_spark(failure)) from failure


def spark_failures() -> tuple[type[Exception], ...]:
    """Return the exceptions by which Spark says that it cannot go on."""
    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
    except ImportError:  # where it is not installed, it refuses nothing
        return ()
    return PySparkException, Py4JJavaError


def raised(message: str) -> str:
    """Return SQL that ends the query with words of ours, in which no value is: they are told whole."""
    return f"raise_error({literal(OWN + message)})"


def said_by_spark(failure: Exception) -> str:
    """Return what Spark said, without values, in one line: its causes but those that only say that something failed."""
    causes = list(_causes(failure))
    messages = [str(cause.getMessage() or "") for cause in causes]
    if header := next(filter(None, map(_wrong_header, messages)), ""):
        return header
    condition = getattr(failure, "getCondition", lambda: None)()
    of_python = f"{type(failure).__name__}: {f'[{condition}] ' if condition else ''}{HIDDEN}"
    said = list(map(_told, causes)) or [of_python]
    telling = [line for line in said if not GENERIC.search(line)] or said
    chosen: list[str] = []
    for line in telling:
        if not any(line in other for other in chosen):
            chosen = [other for other in chosen if other not in line] + [line]
    told = " Cause: ".join(chosen[:1] + chosen[1:][-MOST_CAUSES:])
    if any(sign in message for sign in DISK_FULL for message in messages):
        return f"a disk is full ({told}): free some space, or name another folder in SPARK_LOCAL_DIRS, and run again."
    return told


def all_said(failure: BaseException | None) -> str:
    """Return all that was said on the way to a refusal, values of rows among it; empty if that is the refusal alone."""
    messages: list[str] = []
    while failure is not None:
        messages += getattr(failure, "__notes__", ())
        if isinstance(failure, spark_failures()):
            messages += [str(cause.getMessage() or "") for cause in _causes(failure)] or [str(failure)]
        failure = failure.__cause__ or failure.__context__
    return "\n".join(dict.fromkeys(messages))


def of_database(failure: BaseException | None) -> bool:
    """Return whether a database's own refusal is among the causes of a failure."""
    return failure is not None and any(_is(cause, "java.sql.SQLException") for cause in _causes(failure))


def _causes(failure: BaseException) -> Iterator[Any]:
    return _chain(getattr(failure, "java_exception", None) or getattr(failure, "_origin", None))


def _chain(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def _told(thrown: Any) -> str:
    name = thrown.getClass().getName()
    if OF_PLACES.fullmatch(name) or all(_is(cause, "sql.AnalysisException") for cause in _chain(thrown)):
        # What is found wrong with a query before a row is read speaks of the query and of schemas.
        return _first_line(str(thrown.getMessage() or "")) or name
    if _is(thrown, "SparkThrowable") and (condition := str(thrown.getCondition() or "")):
        return _of_condition(thrown, condition)
    return _of_java(thrown, name.rpartition(".")[2])


def _of_condition(thrown: Any, condition: str) -> str:
    utils = java_class("org.apache.spark.api.python.PythonErrorUtils")
    parameters = dict(utils.getMessageParameters(thrown))
    own = str(parameters.get("errorMessage", ""))
    if own.startswith(OWN):
        return own.removeprefix(OWN)
    templates = java_class("org.apache.spark.sql.delta.DeltaThrowableHelper")  # it knows Spark's conditions and Delta's
    try:
        template = str(templates.getMainMessageTemplate(condition.partition(".")[0]))
        if "." in condition:
            template += f" {templates.getSubMessageTemplate(condition)}"
    except spark_failures():  # a connector's own condition
        template = HIDDEN

    def filled(match: re.Match[str]) -> str:
        names = (match[1], f"{condition}.{match[1]}")
        return parameters.get(match[1], HIDDEN) if any(map(TOLD.fullmatch, names)) else HIDDEN

    words = _first_line(_PARAMETER.sub(filled, template))
    contexts = utils.getQueryContext(thrown)
    sql = next((each.fragment() for each in contexts if each.contextType().toString() == "SQL"), "")
    where = f" (in {shorten(sql, LONGEST_FRAGMENT)})" if sql else ""
    return f"[{condition}] {words}{f' {HIDDEN}' if words.endswith(':') else ''}{where}"


def _of_java(thrown: Any, name: str) -> str:
    message = str(thrown.getMessage() or "")
    if _is(thrown, "java.sql.SQLException"):
        state = str(thrown.getSQLState() or "unknown")
        told = _first_line(message) if OF_DATABASES.match(state) else ""
        return told or f"the database refused with SQLSTATE {state}, {name}: {HIDDEN}"
    phrase = PHRASES.search(message)
    return f"{name}: {phrase[0] if phrase else HIDDEN}" if message else name


def _is(thrown: Any, name: str) -> bool:
    return is_instance(thrown, name if name.startswith("java.") else f"org.apache.spark.{name}")


def other_length(file: str, found: int, declared: int) -> str:
    """Say that the header of a CSV file has more or fewer columns than the schema."""
    hint = ": is `sep` the separator?" if found == 1 else ""
    return f"{file}: its header has {found} columns, and the schema {declared}{hint}"


def other_name(file: str, wanted: str, actual: str, schema: Sequence[str]) -> str:
    """Say that a column of the header of a CSV file has another name than in the schema.

    What stands in the header is told only where it is nearly a column's name: a file without one begins with a row.
    """
    position = f"column {schema.index(wanted) + 1}" if wanted in schema else "a column"
    near = did_you_mean(actual, schema)
    but = f", but '{actual}'{near if wanted not in near else ''}" if near else ""
    return f"{file}: {position} of its header is not '{wanted}', as the schema says{but}"


def _wrong_header(message: str) -> str:
    if lengths := _HEADER_LENGTH.search(message):
        return other_length(lengths[3], int(lengths[1]), int(lengths[2]))
    if names := _HEADER_NAMES.search(message):
        return other_name(names[4], names[2], names[3], names[1].split(", "))
    return ""


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return NOISE.sub("", line).strip()
