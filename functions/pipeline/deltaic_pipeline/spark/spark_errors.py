"""Convert Spark's errors to messages without row data, or to complete messages for `--show-values`.

Spark's messages contain values: the string that it cannot cast, the malformed record, the row that violates a
constraint. So messages are built again from the templates of Spark's error conditions, with parameters that name files,
tables, columns, types and settings; other parameters become `...`. A Java exception without an error condition is
reported by its class only, unless that class is about files or hosts.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

from deltaic_terminal.nearest import did_you_mean

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jvm import is_instance, java_class
from deltaic_pipeline.spark.quoting import literal

HIDDEN = "..."
"""Replacement in messages for text that can contain row data."""

SAFE_PARAMETERS = re.compile(
    r"actualType|alternative|ansiConfig|arraySize|checkConstraint|className|colName|column|columnName|columns"
    r"|config|configKey|constraintName|dataType|expectedType|failFastMode|filePath|fileName|fromType|func"
    r"|functionName|inputType|jsonType|mapKeyDedupPolicy|maxRoundedArrayLength|objectName|operation|optionName"
    r"|parameter|parquetType|path|paths|precision|provider|replaceWhere|scale|schema|sourceType|srcType"
    r"|suggestion|supportedFormat|tableName|tablePath|targetType|toType|typeName|version"
    r"|ARITHMETIC_OVERFLOW\.message|DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\.expression"
)
"""Parameters of Spark's error conditions that never contain row data, by name, or by condition and name. Examples of
others: `expression` can be the value that cannot be cast, `fieldName` the key of a map in JSON, `message` any text."""

LOCATION_ERRORS = re.compile(
    r"org\.apache\.hadoop\.fs\..*|software\.amazon\.awssdk\..*|java\.io\.FileNotFoundException"
    r"|java\.nio\.file\.(AccessDenied|NoSuchFile|FileSystem)Exception|java\.net\.\w*(Host|Connect|Socket|Route)\w*"
    r"|javax\.net\.ssl\..*|java\.lang\.(ClassNotFoundException|NoClassDefFoundError|UnsatisfiedLinkError|OutOfMemoryError)"
)
"""Java exception classes whose messages are about files, hosts, permissions and the class path only."""

DATABASE_STATES = re.compile("08|0A|25|28|3D|3F|40|42|53|55|57|58|XJ")
"""SQLSTATE classes whose messages are about connections, logins, names, syntax and locks; 22 and 23 contain values."""

SAFE_PHRASES = re.compile(
    r"is not a Parquet file|Unexpected end of input stream|Unexpected end-of-input|not in gzip format"
    r"|ExecutorLostFailure \(executor \S+ exited [^()]*\)( Reason: [^\n]*)?"
)
"""Parts without row data in messages of other Java exceptions; the rest of these messages is hidden."""

GENERIC = re.compile(
    r"^\[(TASK_WRITE_FAILED|STREAM_FAILED|FAILED_EXECUTE\w*)\]|^\w*(SparkException|Py4JJavaError): \.\.\.$"
)
"""Pattern of Spark's messages that report a failure without a reason."""

NOISE = re.compile(r"(^|(?<=: ))([\w$]+\.)+[\w$]*(Exception|Error|Throwable): |\s*SQLSTATE: \w+|:null$")
MOST_CAUSES = 2
LONGEST_FRAGMENT = 200
OWN_PREFIX = "deltaic: "
"""Prefix of messages from `raise_sql`, which contain no row data and are shown completely."""

DISK_FULL = ("No space left on device", "File too large", "EntityTooLarge", "XMinioStorageFull", "Disk quota exceeded")
_PARAMETER = re.compile(r"<([A-Za-z0-9_-]+)>")
_HEADER_LENGTH = re.compile(r"CSV header is not equal .*\s+Header length: (\d+), schema size: (\d+)\s+CSV file: (.*)")
_HEADER_NAMES = re.compile(
    r"CSV header does not conform .*\s+Header: .*\s+Schema: (.*)\s+Expected: (.*) but found: (.*)\s+CSV file: (.*)"
)


@contextmanager
def refusals() -> Iterator[None]:
    """Convert Spark's errors in the block to a `PipelineError` of one line."""
    try:
        yield
    except spark_failures() as failure:
        raise PipelineError(safe_message(failure)) from failure


def spark_failures() -> tuple[type[Exception], ...]:
    """Return the classes of Spark's exceptions in Python; empty if Spark is not installed."""
    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
    except ImportError:  # without Spark there are none
        return ()
    return PySparkException, Py4JJavaError


def raise_sql(message: str) -> str:
    """Return SQL that makes a query fail with this message, which must not contain row data."""
    return f"raise_error({literal(OWN_PREFIX + message)})"


def safe_message(failure: Exception) -> str:
    """Return Spark's error message in one line, without row data and without uninformative causes."""
    causes = list(_causes(failure))
    messages = [str(cause.getMessage() or "") for cause in causes]
    if header := next(filter(None, map(_header_error, messages)), ""):
        return header
    condition = getattr(failure, "getCondition", lambda: None)()
    python_line = f"{type(failure).__name__}: {f'[{condition}] ' if condition else ''}{HIDDEN}"
    lines = list(map(_safe_line, causes)) or [python_line]
    chosen: list[str] = []
    for line in [line for line in lines if not GENERIC.search(line)] or lines:
        if not any(line in other for other in chosen):
            chosen = [other for other in chosen if other not in line] + [line]
    message = " Cause: ".join(chosen[:1] + chosen[1:][-MOST_CAUSES:])
    if any(sign in text for sign in DISK_FULL for text in messages):
        return f"a disk is full ({message}): free some space, or set another folder in SPARK_LOCAL_DIRS, and run again."
    return message


def full_message(failure: BaseException | None) -> str:
    """Return the messages and notes of an exception and all its causes, with row data; empty if there are none."""
    messages: list[str] = []
    while failure is not None:
        messages += getattr(failure, "__notes__", ())
        if isinstance(failure, spark_failures()):
            messages += [str(cause.getMessage() or "") for cause in _causes(failure)] or [str(failure)]
        failure = failure.__cause__ or failure.__context__
    return "\n".join(dict.fromkeys(messages))


def is_database_error(failure: BaseException | None) -> bool:
    """Return whether a JDBC driver's `SQLException` is among the causes of a failure."""
    return failure is not None and any(_is(cause, "java.sql.SQLException") for cause in _causes(failure))


def _causes(failure: BaseException) -> Iterator[Any]:
    return _chain(getattr(failure, "java_exception", None) or getattr(failure, "_origin", None))


def _chain(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def _safe_line(thrown: Any) -> str:
    name = thrown.getClass().getName()
    if LOCATION_ERRORS.fullmatch(name) or all(_is(cause, "sql.AnalysisException") for cause in _chain(thrown)):
        # Errors in a query are found before Spark reads rows, so they are about the query and schemas.
        return _first_line(str(thrown.getMessage() or "")) or name
    if _is(thrown, "SparkThrowable") and (condition := str(thrown.getCondition() or "")):
        return _condition_line(thrown, condition)
    return _java_line(thrown, name.rpartition(".")[2])


def _condition_line(thrown: Any, condition: str) -> str:
    utils = java_class("org.apache.spark.api.python.PythonErrorUtils")
    parameters = dict(utils.getMessageParameters(thrown))
    error_message = str(parameters.get("errorMessage", ""))
    if error_message.startswith(OWN_PREFIX):
        return error_message.removeprefix(OWN_PREFIX)
    templates = java_class("org.apache.spark.sql.delta.DeltaThrowableHelper")  # for conditions of Spark and Delta
    try:
        template = str(templates.getMainMessageTemplate(condition.partition(".")[0]))
        if "." in condition:
            template += f" {templates.getSubMessageTemplate(condition)}"
    except spark_failures():  # a condition of a connector
        template = HIDDEN

    def fill(match: re.Match[str]) -> str:
        names = (match[1], f"{condition}.{match[1]}")
        return parameters.get(match[1], HIDDEN) if any(map(SAFE_PARAMETERS.fullmatch, names)) else HIDDEN

    line = _first_line(_PARAMETER.sub(fill, template))
    contexts = utils.getQueryContext(thrown)
    fragment = next((each.fragment() for each in contexts if each.contextType().toString() == "SQL"), "")
    place = f" (in {shorten(fragment, LONGEST_FRAGMENT)})" if fragment else ""
    return f"[{condition}] {line}{f' {HIDDEN}' if line.endswith(':') else ''}{place}"


def _java_line(thrown: Any, name: str) -> str:
    message = str(thrown.getMessage() or "")
    if _is(thrown, "java.sql.SQLException"):
        state = str(thrown.getSQLState() or "unknown")
        line = _first_line(message) if DATABASE_STATES.match(state) else ""
        return line or f"the database returned an error with SQLSTATE {state}, {name}: {HIDDEN}"
    phrase = SAFE_PHRASES.search(message)
    return f"{name}: {phrase[0] if phrase else HIDDEN}" if message else name


def _is(thrown: Any, name: str) -> bool:
    return is_instance(thrown, name if name.startswith("java.") else f"org.apache.spark.{name}")


def _header_error(message: str) -> str:
    if lengths := _HEADER_LENGTH.search(message):
        hint = ": is `sep` the separator?" if lengths[1] == "1" else ""
        return f"{lengths[3]}: its header has {lengths[1]} columns, and the schema {lengths[2]}{hint}"
    if names := _HEADER_NAMES.search(message):
        schema, expected, actual, file = names.groups()
        columns = schema.split(", ")
        position = f"column {columns.index(expected) + 1}" if expected in columns else "a column"
        # Only a name that is similar to a column's is shown: in a file without a header, it would be row data.
        near = did_you_mean(actual, columns)
        suffix = f", but '{actual}'{near if expected not in near else ''}" if near else ""
        return f"{file}: {position} of its header is not '{expected}', as the schema says{suffix}"
    return ""


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return NOISE.sub("", line).strip()
