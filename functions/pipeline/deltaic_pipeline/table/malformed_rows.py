"""Rows of CSV and JSON files in the types of their schema, and for rows that do not fit the reason and the raw text.

Spark reads texts only; `typed_texts` turns them into values in the same pass (decision 198).
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
"""Behind the columns of the files: why a row does not fit, or null; its text; the file that has it."""

NOT_BLANK = "trim(BOTH ' \\t\\r' FROM value) <> ''"
RECORD = "__record"
FILE_PATH = f"regexp_replace(_metadata.file_path, '^s3a:', 's3:') AS {FILE}"
"""What gives a row its file; Spark looks it up for each row of a query that has it, whether it is asked for or not."""

_WIDE = ("UTF-16", "UTF-32")
_OBJECT = "MAP<STRING, STRING>"
CANDIDATES = ("INT", "BIGINT", "DECIMAL(38,0)", "DOUBLE", "date", "timestamp", "boolean")
"""The types that a column of CSV may turn out to have, in this order; those of numbers in capitals."""


def encoding_of(options: "Options") -> str:
    """Return the encoding of the files in capitals."""
    return options.get("encoding", options.get("charset", "UTF-8")).upper()


def by_lines(options: "Options") -> bool:
    """Return whether Spark may split files at line breaks, which it finds as single bytes."""
    return options.get("multiline", "").lower() != "true" and not encoding_of(options).startswith(_WIDE)


def flagged_csv(reader: "Reader", paths: Any, schema: "Fields", options: "Options", told: Sequence[str]) -> "DataFrame":
    """Read CSV and append `MISFIT`, `RAW` and the expressions in `told` to the columns."""
    declared = ", ".join([*(_declared("STRING", each) for each in schema), f"{RECORD} STRING"])
    records = reader.format("csv").options(**_keeping(options)).schema(declared).load(paths)
    further = records.columns[records.columns.index(RECORD) + 1 :]
    data = _others(schema, further)
    names = [quoted(each.name) for each in data]
    exact = {"nullvalue": "", "ignoreleadingwhitespace": "false", "ignoretrailingwhitespace": "false"}
    raw = f"coalesce({RECORD}, to_csv(struct({', '.join(names)}), {sql_map({**options, **exact})}))"
    whole = "does not have one value for each column"
    cut = literal(f"{whole}: a line break within quotes needs the option `multiLine: true`")
    quote = options.get("quote", '"') if by_lines(options) else ""
    odd = f"length({RECORD}) % 2 <> length(replace({RECORD}, {literal(quote)})) % 2" if quote else "false"
    whole = f"CASE WHEN {RECORD} IS NOT NULL THEN if({odd}, {cut}, {literal(whole)}) END"
    # An empty text is null in a column of another type.
    kept = [each.dataType.typeName() in {"string", "binary"} for each in data]
    texts = [name if keeps else f"nullif({name}, '')" for name, keeps in zip(names, kept, strict=True)]
    rows = records.selectExpr(*_named("text", texts), f"{whole} AS __whole", f"{raw} AS {RAW}", *told, *_all(further))
    return _typed(rows, data, TypedTexts(options), further)


def inferred_csv(reader: "DataFrameReader", paths: Any, options: "Options") -> "list[StructField]":
    """Return the columns of CSV files, each in the first type that all its texts fit."""
    from pyspark.sql import types

    rows, texts = reader.format("csv").options(**_keeping(options)).load(paths), TypedTexts(options)
    fields = [each for each in rows.schema.fields if each.name != RECORD]
    kinds = {}
    for each in fields:
        text, fits = f"nullif({quoted(each.name)}, '')", []
        for number, name in enumerate(CANDIDATES):
            kind = types.DataType.fromDDL(name)
            wrong = f"{texts.reason('', text, texts.value(text, kind), kind)} IS NOT NULL"
            wrong += f" OR {text} RLIKE '^[+-]?0[0-9]'" * name.isupper()  # a number whose zeros say something
            fits.append(f"WHEN count({text}) > 0 AND count_if({wrong}) = 0 THEN {number}")
        if each.dataType == types.StringType() and options["inferschema"].lower() == "true":
            kinds[each.name] = f"CASE {' '.join(fits)} END"
    found: Any = rows.selectExpr("count(*)", *kinds.values()).first()
    names = {name: CANDIDATES[number] for name, number in zip(kinds, found[1:], strict=True) if number is not None}
    return [
        types.StructField(each.name, types.DataType.fromDDL(names[each.name])) if each.name in names else each
        for each in fields
    ]


def flagged_json(
    reader: "Reader", paths: Any, schema: "Fields", options: "Options", told: Sequence[str]
) -> "DataFrame":
    """Read JSON like `flagged_csv`: an object a line, or with `multiLine` an object or an array of them a file."""
    encoding, multiple = encoding_of(options), options.get("multiline", "").lower() == "true"
    reader = reader.format("text").options(**options, wholetext=str(not by_lines(options)).lower())
    files = reader.load(paths)
    further = files.columns[1:]
    data = _others(schema, further)
    if len(data) < len(schema):
        typed = [_declared(ddl(each.dataType), each) for each in schema if each not in data]
        files = reader.schema(", ".join(["value STRING", *typed])).load(paths)
    value = "value" if encoding == "UTF-8" else f"decode(CAST(value AS BINARY), {literal(encoding)})"
    value = value if by_lines(options) else f"trim(LEADING '\ufeff' FROM {value})"
    if not multiple and not by_lines(options):
        value = f"explode(split({value}, '\\r\\n|[\\r\\n]'))"
    more = [*[FILE] * bool(told), *_all(further)]
    rows = files.selectExpr(f"{value} AS value", *told, *_all(further)).where(NOT_BLANK)
    no_text = "is not Unicode text: name the `encoding` of the files if it is not UTF-8"
    checked = f"CASE WHEN NOT {is_text('value')} THEN {literal(no_text)} END AS __whole"
    if multiple:
        rows = rows.selectExpr(f"{only(marked('value'), 'STRING')} AS value", checked, *more)
        rows = rows.selectExpr(
            f"explode(coalesce({parsed('value', 'ARRAY<STRING>')}, array(value))) AS value", "__whole", *more
        )
        rows = rows.selectExpr(f"{parsed('value')} AS __row", "__whole", f"{unmarked('value')} AS {RAW}", *more)
    else:
        row = f"{only(marked('value'), _OBJECT)} AS __row"
        rows = rows.selectExpr(row, checked, f"make_valid_utf8(value) AS {RAW}", *more)
    whole = "CASE WHEN __whole IS NULL AND __row IS NULL THEN 'is not one JSON object' END"
    whole = f"coalesce(__whole, {whole}, {wrong_keys('__row', data)}) AS __whole"
    rows = rows.selectExpr(*_named("text", [field("__row", each.name) for each in data]), whole, RAW, *more)
    return _typed(rows, data, TypedTexts(options, json=True), further)


def _typed(rows: "DataFrame", data: "Fields", texts: TypedTexts, further: Sequence[str]) -> "DataFrame":
    """Return the values of texts, and in `MISFIT` the reasons of those that are not in their type's grammar."""
    from pyspark.sql import functions

    more = [RAW, *(name for name in rows.columns if name == FILE), *_all(further)]
    numbers = range(len(data))
    values = [texts.value(f"__text{number}", data[number].dataType) for number in numbers]
    rows = rows.selectExpr("*", *_named("value", values))
    reasons = []
    for number, each in enumerate(data):
        reason = texts.reason(each.name, f"__text{number}", f"__value{number}", each.dataType)
        null = literal(f"{each.name} is null, and the schema says NOT NULL")
        reasons.append(reason if each.nullable else f"if(__text{number} IS NULL, {null}, {reason})")
    rows = rows.selectExpr("*", *_named("reason", reasons))
    found = ", ".join(f"__reason{number}" for number in numbers)
    some = f"WHEN coalesce({found}) IS NOT NULL THEN array_compact(array({found}))"
    misfit = f"CASE WHEN __whole IS NOT NULL THEN array(__whole) {some} END"
    made = [f"__value{number}" for number in numbers]
    # No filter may move below the reasons, where it would compute them again. With columns of folders, whose filters
    # Spark uses to leave out files, a generator stops it; otherwise an expression that is not deterministic, for less.
    if further:
        rows = rows.selectExpr(f"inline(array(struct({', '.join(made)}, {misfit} AS {MISFIT})))", *more)
    else:
        rows = rows.selectExpr(*made, f"if(spark_partition_id() < 0, NULL, {misfit}) AS {MISFIT}", *more)
    columns = [
        functions.col(f"__value{number}").alias(each.name, metadata=each.metadata or {})
        for number, each in enumerate(data)
    ]
    return rows.select(*columns, MISFIT, *more)


def _keeping(options: "Options") -> "Options":
    """Return the options by which Spark reads texts of CSV, and keeps those of rows with too few or too many."""
    multiple = str(not by_lines(options)).lower()
    more = {"mode": "PERMISSIVE", "columnnameofcorruptrecord": RECORD, "inferschema": "false", "multiline": multiple}
    return {**options, **more}


def _named(name: str, expressions: Iterable[str]) -> list[str]:
    return [f"{expression} AS __{name}{number}" for number, expression in enumerate(expressions)]


def _others(schema: "Fields", names: Sequence[str]) -> "Fields":
    """Return the columns that the files themselves have: those of the partitions stand in their paths."""
    return [field for field in schema if field.name.lower() not in {name.lower() for name in names}]


def _all(names: Sequence[str]) -> Iterator[str]:
    return map(quoted, names)


def _declared(kind: str, field: "StructField") -> str:
    comment = (field.metadata or {}).get("comment")
    return f"{quoted(field.name)} {kind}" + (f" COMMENT {literal(comment)}" if comment else "")
