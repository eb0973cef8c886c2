"""Read CSV and JSON rows with the types of their schema, and flag rows that do not fit it.

Spark reads strings only; SQL from `typed_texts` parses them in the same pass (decision 198).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.casting import ddl
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.table.typed_texts import (
    TypedTexts,
    field,
    is_text,
    marked,
    only,
    parsed,
    sql_map,
    unmarked,
    wrong_keys,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructField

    Reader = DataFrameReader | DataStreamReader
    Fields = Sequence[StructField]
    Options = Mapping[str, str]

MISFIT, RAW, FILE = "__misfit", "__raw", "__file"
"""Columns after the columns of the files: the reasons why a row does not fit, or null; its raw text; its file."""

NOT_BLANK = "trim(BOTH ' \\t\\r' FROM value) <> ''"
RECORD = "__record"
FILE_PATH = f"regexp_replace(_metadata.file_path, '^s3a:', 's3:') AS {FILE}"
"""SQL for the file of a row. Spark computes it for each row, even if the query does not use the column."""

_WIDE = ("UTF-16", "UTF-32")
_OBJECT = "MAP<STRING, STRING>"
CANDIDATES = ("INT", "BIGINT", "DECIMAL(38,0)", "DOUBLE", "date", "timestamp", "boolean")
"""Types to try for a CSV column without a declared type, in this order; numeric types in capitals."""


def encoding_of(options: "Options") -> str:
    """Return the name of the files' encoding in upper case; UTF-8 by default."""
    return options.get("encoding", options.get("charset", "UTF-8")).upper()


def by_lines(options: "Options") -> bool:
    """Return whether Spark can split the files at line breaks: not with `multiLine`, UTF-16 or UTF-32."""
    return options.get("multiline", "").lower() != "true" and not encoding_of(options).startswith(_WIDE)


def flagged_csv(
    reader: "Reader", paths: Any, schema: "Fields", options: "Options", extra: Sequence[str]
) -> "DataFrame":
    """Read CSV files, and append the columns `MISFIT` and `RAW` and the SQL expressions in `extra`."""
    declared = ", ".join([*(_declared("STRING", column) for column in schema), f"{RECORD} STRING"])
    records = reader.format("csv").options(**_text_options(options)).schema(declared).load(paths)
    partitions = records.columns[records.columns.index(RECORD) + 1 :]
    data = _file_columns(schema, partitions)
    names = [quoted(column.name) for column in data]
    exact = {"nullvalue": "", "ignoreleadingwhitespace": "false", "ignoretrailingwhitespace": "false"}
    raw = f"coalesce({RECORD}, to_csv(struct({', '.join(names)}), {sql_map({**options, **exact})}))"
    record_error = "does not have one value for each column"
    cut_message = literal(f"{record_error}: a line break within quotes needs the option `multiLine: true`")
    quote = options.get("quote", '"') if by_lines(options) else ""
    is_open = f"length({RECORD}) % 2 <> length(replace({RECORD}, {literal(quote)})) % 2" if quote else "false"
    record_error = f"CASE WHEN {RECORD} IS NOT NULL THEN if({is_open}, {cut_message}, {literal(record_error)}) END"
    # An empty text is null, except in a column of strings.
    keep_empty = [column.dataType.typeName() in {"string", "binary"} for column in data]
    texts = [name if keep else f"nullif({name}, '')" for name, keep in zip(names, keep_empty, strict=True)]
    columns = [*_numbered_columns("text", texts), f"{record_error} AS __record_error", f"{raw} AS {RAW}"]
    rows = records.selectExpr(*columns, *extra, *_quoted_names(partitions))
    return _typed(rows, data, TypedTexts(options), partitions)


def inferred_csv(reader: "DataFrameReader", paths: Any, options: "Options") -> "list[StructField]":
    """Return the columns of CSV files, each with the first type of `CANDIDATES` that fits all its values."""
    from pyspark.sql import types

    rows, texts = reader.format("csv").options(**_text_options(options)).load(paths), TypedTexts(options)
    fields = [column for column in rows.schema.fields if column.name != RECORD]
    kinds = {}
    for column in fields:
        text, fits = f"nullif({quoted(column.name)}, '')", []
        for number, name in enumerate(CANDIDATES):
            kind = types.DataType.fromDDL(name)
            wrong = f"{texts.reason('', text, texts.value(text, kind), kind)} IS NOT NULL"
            wrong += f" OR {text} RLIKE '^[+-]?0[0-9]'" * name.isupper()  # leading zeros have a meaning, as in 007
            fits.append(f"WHEN count({text}) > 0 AND count_if({wrong}) = 0 THEN {number}")
        if column.dataType == types.StringType() and options["inferschema"].lower() == "true":
            kinds[column.name] = f"CASE {' '.join(fits)} END"
    results: Any = rows.selectExpr("count(*)", *kinds.values()).first()
    names = {name: CANDIDATES[number] for name, number in zip(kinds, results[1:], strict=True) if number is not None}
    return [
        types.StructField(column.name, types.DataType.fromDDL(names[column.name])) if column.name in names else column
        for column in fields
    ]


def flagged_json(
    reader: "Reader", paths: Any, schema: "Fields", options: "Options", extra: Sequence[str]
) -> "DataFrame":
    """Read JSON as `flagged_csv` reads CSV: an object per line or, with `multiLine`, an object or array per file."""
    encoding, multiple = encoding_of(options), options.get("multiline", "").lower() == "true"
    reader = reader.format("text").options(**options, wholetext=str(not by_lines(options)).lower())
    files = reader.load(paths)
    partitions = files.columns[1:]
    data = _file_columns(schema, partitions)
    if len(data) < len(schema):
        typed = [_declared(ddl(column.dataType), column) for column in schema if column not in data]
        files = reader.schema(", ".join(["value STRING", *typed])).load(paths)
    value = "value" if encoding == "UTF-8" else f"decode(CAST(value AS BINARY), {literal(encoding)})"
    value = value if by_lines(options) else f"trim(LEADING '\ufeff' FROM {value})"
    if not multiple and not by_lines(options):
        value = f"explode(split({value}, '\\r\\n|[\\r\\n]'))"
    more = [*[FILE] * bool(extra), *_quoted_names(partitions)]
    rows = files.selectExpr(f"{value} AS value", *extra, *_quoted_names(partitions)).where(NOT_BLANK)
    no_text = "is not Unicode text: name the `encoding` of the files if it is not UTF-8"
    text_error = f"CASE WHEN NOT {is_text('value')} THEN {literal(no_text)} END AS __record_error"
    if multiple:
        rows = rows.selectExpr(f"{only(marked('value'), 'STRING')} AS value", text_error, *more)
        rows = rows.selectExpr(
            f"explode(coalesce({parsed('value', 'ARRAY<STRING>')}, array(value))) AS value", "__record_error", *more
        )
        rows = rows.selectExpr(f"{parsed('value')} AS __row", "__record_error", f"{unmarked('value')} AS {RAW}", *more)
    else:
        row = f"{only(marked('value'), _OBJECT)} AS __row"
        rows = rows.selectExpr(row, text_error, f"make_valid_utf8(value) AS {RAW}", *more)
    record_error = "CASE WHEN __record_error IS NULL AND __row IS NULL THEN 'is not one JSON object' END"
    record_error = f"coalesce(__record_error, {record_error}, {wrong_keys('__row', data)}) AS __record_error"
    columns = _numbered_columns("text", [field("__row", column.name) for column in data])
    rows = rows.selectExpr(*columns, record_error, RAW, *more)
    return _typed(rows, data, TypedTexts(options, json=True), partitions)


def _typed(rows: "DataFrame", data: "Fields", texts: TypedTexts, partitions: Sequence[str]) -> "DataFrame":
    """Return typed values of string columns, and in `MISFIT` the reasons why strings do not fit their type."""
    from pyspark.sql import functions

    more = [RAW, *(name for name in rows.columns if name == FILE), *_quoted_names(partitions)]
    numbers = range(len(data))
    expressions = [texts.value(f"__text{number}", data[number].dataType) for number in numbers]
    rows = rows.selectExpr("*", *_numbered_columns("value", expressions))
    reasons = []
    for number, column in enumerate(data):
        reason = texts.reason(column.name, f"__text{number}", f"__value{number}", column.dataType)
        null = literal(f"{column.name} is null, and the schema says NOT NULL")
        reasons.append(reason if column.nullable else f"if(__text{number} IS NULL, {null}, {reason})")
    rows = rows.selectExpr("*", *_numbered_columns("reason", reasons))
    all_reasons = ", ".join(f"__reason{number}" for number in numbers)
    reason_case = f"WHEN coalesce({all_reasons}) IS NOT NULL THEN array_compact(array({all_reasons}))"
    misfit = f"CASE WHEN __record_error IS NOT NULL THEN array(__record_error) {reason_case} END"
    values = [f"__value{number}" for number in numbers]
    # Spark must not push a filter below the reasons, because it would compute them twice. With partition columns, whose
    # filters Spark uses to skip files, a generator prevents it; otherwise a cheaper nondeterministic expression.
    if partitions:
        rows = rows.selectExpr(f"inline(array(struct({', '.join(values)}, {misfit} AS {MISFIT})))", *more)
    else:
        rows = rows.selectExpr(*values, f"if(spark_partition_id() < 0, NULL, {misfit}) AS {MISFIT}", *more)
    columns = [
        functions.col(f"__value{number}").alias(column.name, metadata=column.metadata or {})
        for number, column in enumerate(data)
    ]
    return rows.select(*columns, MISFIT, *more)


def _text_options(options: "Options") -> "Options":
    """Return options with which Spark reads CSV as strings, and keeps rows with too few or too many values."""
    multiple = str(not by_lines(options)).lower()
    more = {"mode": "PERMISSIVE", "columnnameofcorruptrecord": RECORD, "inferschema": "false", "multiline": multiple}
    return {**options, **more}


def _numbered_columns(name: str, expressions: Iterable[str]) -> list[str]:
    return [f"{expression} AS __{name}{number}" for number, expression in enumerate(expressions)]


def _file_columns(schema: "Fields", names: Sequence[str]) -> "Fields":
    """Return the columns of the schema that the files contain, without partition columns, which are in paths."""
    return [column for column in schema if column.name.lower() not in {name.lower() for name in names}]


def _quoted_names(names: Sequence[str]) -> Iterator[str]:
    return map(quoted, names)


def _declared(kind: str, column: "StructField") -> str:
    comment = (column.metadata or {}).get("comment")
    return f"{quoted(column.name)} {kind}" + (f" COMMENT {literal(comment)}" if comment else "")
