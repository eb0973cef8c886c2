"""Malformed rows of CSV and JSON files: flagged as they are read, with the reason and the raw text.

Spark's readers set what they cannot read to null and keep the text of the row. Which column it was is found by reading
that text again with every column as text: a null beside a text is a value that does not fit (decision 105).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.spark.casting import comparable, ddl
from deltaic_pipeline.spark.quoting import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import DataType, StructField

    Reader = DataFrameReader | DataStreamReader
    Fields = Sequence[StructField]
    Options = Mapping[str, str]

MISFIT, RAW, FILE = "__misfit", "__raw", "__file"
"""Behind the columns of the files: why a row does not fit, or null; its text; the file that has it."""

NOT_BLANK = "trim(BOTH ' \\t\\r' FROM value) <> ''"
RECORD = "__record"
FILE_PATH = f"regexp_replace(_metadata.file_path, '^s3a:', 's3:') AS {FILE}"
"""What gives a row its file; Spark looks it up for each row of a query that has it, whether it is asked for or not."""

_REPLACED = "\ufffd"
"""What Spark puts in the place of bytes that are no text in the encoding that it reads."""

_MOST_DIGITS = 38


def flagged_records(  # noqa: PLR0913, PLR0917 -- what is read, and how
    reader: "Reader", source_format: str, paths: Any, schema: "Fields", options: "Options", told: Sequence[str]
) -> "DataFrame":
    """Read CSV, or JSON that is not an object a line, with `MISFIT`, `RAW` and what is `told` behind the columns."""
    options = _keeping(options)
    asked = ", ".join([_declared(_wide(field.dataType), field) for field in schema] + [f"{RECORD} STRING"])
    records = reader.format(source_format).options(**options).schema(asked).load(paths)
    further = records.columns[records.columns.index(RECORD) + 1 :]
    data = _others(schema, further)
    csv = source_format == "csv"
    raw = f"coalesce({RECORD}, {_as_csv(data, options)})" if csv else RECORD
    decoded = csv and not {"encoding", "charset"} & options.keys()
    whole = "does not have one value for each column" if csv else "is not as the schema says"
    quote = options.get("quote", '"') if csv and options.get("multiline", "").lower() != "true" else ""
    odd = f"length(__text.{RECORD}) % 2 <> length(replace(__text.{RECORD}, {literal(quote)})) % 2"
    cut = literal(f"{whole}: a line break within quotes needs the option `multiLine: true`")
    misfit = _misfit(
        [f"{RECORD} IS NOT NULL", *_unfit(data, "", decoded=decoded)],
        f"from_{source_format}({RECORD}, {literal(_texts(data) + f', {RECORD} STRING')}, {_map(options)})",
        [*[(odd, cut)] * bool(quote), (f"__text.{RECORD} IS NOT NULL", literal(whole))],
        _reasons(data, "", "__text.", csv=csv, decoded=decoded),
    )
    # A row of CSV whose every column has its text is one that has quoted empty texts where no text stands: nulls.
    misfit = misfit if csv else f"coalesce({misfit}, CASE WHEN {RECORD} IS NOT NULL THEN array({literal(whole)}) END)"
    marks = (f"{misfit} AS {MISFIT}", f"{raw} AS {RAW}")
    return records.selectExpr(*_narrow(data, ""), *marks, *told, *_all(further))


def flagged_lines(
    reader: "Reader", paths: Any, schema: "Fields", options: "Options", told: Sequence[str]
) -> "DataFrame":
    """Read JSON, an object a line: one with anything beside it does not fit, nor one with fields of other names."""
    lines = reader.format("text").options(**options).load(paths)
    further = lines.columns[1:]
    data = _others(schema, further)
    if len(data) < len(schema):
        typed = [_declared(field.dataType, field) for field in schema if field not in data]
        lines = reader.schema(", ".join(["value STRING", *typed])).load(paths)

    def parsed(columns: str) -> str:
        # Within another object, so that the line is read to its end.
        kind = literal(f"__row STRUCT<{columns}>, {RECORD} STRING")
        return f"from_json(concat('{{\"__row\":', value, '\\n}}'), {kind}, {_map(_keeping(options))})"

    names = ", ".join(literal(field.name) for field in data)
    unknown = f"array_except(json_object_keys(value), array({names}))"
    misfit = _misfit(
        [
            f"{RECORD} IS NOT NULL OR __row IS NULL OR NOT is_valid_utf8(value) OR size({unknown}) > 0",
            *_unfit(data, "__row."),
        ],
        parsed(_texts(data)),
        [
            ("NOT is_valid_utf8(value)", "'is not UTF-8 text: name the `encoding` of the files'"),
            (f"__text.{RECORD} IS NOT NULL OR __text.__row IS NULL", "'is not one JSON object'"),
            (
                f"size({unknown}) > 0",
                f"concat('has fields that the schema does not have: ', array_join({unknown}, ', '))",
            ),
        ],
        _reasons(data, "__row.", "__text.__row."),
    )
    misfit = f"coalesce({misfit}, CASE WHEN {RECORD} IS NOT NULL THEN array('is not as the schema says') END)"
    wide = ", ".join(_declared(_wide(field.dataType), field) for field in data)
    # What a generator gives is computed once, however many expressions take from it.
    rows = lines.where(NOT_BLANK).selectExpr("value", f"inline(array({parsed(wide)}))", *told, *_all(further))
    marks = (f"{misfit} AS {MISFIT}", f"make_valid_utf8(value) AS {RAW}", *([FILE] if told else []))
    return rows.selectExpr(*_narrow(data, "__row."), *marks, *_all(further))


def _misfit(unfit: Sequence[str], texts: str, whole: Sequence[tuple[str, str]], reasons: Iterator[str]) -> str:
    """Return why a row does not fit, or null: the first reason that is the whole row's, or those of its columns."""
    cases = " ".join(f"WHEN {condition} THEN array({reason})" for condition, reason in whole)
    told = f"CASE {cases} ELSE array_compact(array({', '.join(reasons)})) END"
    # A lambda's variable is computed once, and only for rows that need it.
    some = f"filter(transform(array({texts}), __text -> {told}), __told -> size(__told) > 0)"
    return f"CASE WHEN {' OR '.join(unfit)} THEN get({some}, 0) END"


def _unfit(data: "Fields", row: str, *, decoded: bool = False) -> Iterator[str]:
    """Yield what is true of rows that Spark takes and that do not fit."""
    for field in data:
        value = f"{row}{quoted(field.name)}"
        if not field.nullable:
            yield f"{value} IS NULL"
        if lossy := _lossy(value, field.dataType):
            yield lossy
        if decoded and field.dataType.typeName() == "string":
            yield f"contains({value}, '{_REPLACED}')"


def _reasons(  # noqa: PLR0913 -- what is compared, and how
    fields: "Fields",
    row: str,
    texts: str,
    *,
    csv: bool = False,
    decoded: bool = False,
    path: str = "",
    within: str = "",
) -> Iterator[str]:
    """Yield for each column an expression that says what is wrong with its value, or null."""
    from pyspark.sql import types

    for field in fields:
        value, text = f"{row}{quoted(field.name)}", f"{texts}{quoted(field.name)}"
        name, kind = f"{path}{field.name}", field.dataType.simpleString().upper()
        kind = "STRUCT" if isinstance(field.dataType, types.StructType) else kind
        missing = f"{value} IS NULL AND {text} {'<> ' + chr(39) * 2 if csv else 'IS NOT NULL'}{within}"
        lossy = _lossy(value, field.dataType)
        cases = [f"WHEN {missing}{f' OR {lossy}' if lossy else ''} THEN {literal(f'{name} is not {kind}')}"]
        if not path and not field.nullable:
            cases.append(f"WHEN {value} IS NULL THEN {literal(f'{name} is null, and the schema says NOT NULL')}")
        if decoded and kind == "STRING":
            told = literal(f"{name} is not UTF-8 text: name the `encoding` of the files")
            cases.append(f"WHEN contains({value}, '{_REPLACED}') THEN {told}")
        yield f"CASE {' '.join(cases)} END"
        if isinstance(field.dataType, types.StructType):
            inner = f"from_json({text}, {literal(_texts(field.dataType.fields))})."
            there = f" AND {value} IS NOT NULL"
            yield from _reasons(field.dataType.fields, f"{value}.", inner, path=f"{name}.", within=there)


def _wide(kind: "DataType") -> "DataType":
    """Return a type whose decimals have all the digits behind the point that Spark can give them."""
    from pyspark.sql import types

    match kind:
        case types.DecimalType():
            return types.DecimalType(_MOST_DIGITS, _MOST_DIGITS - kind.precision + kind.scale)
        case types.StructType():
            return types.StructType([types.StructField(field.name, _wide(field.dataType)) for field in kind.fields])
        case types.ArrayType():
            return types.ArrayType(_wide(kind.elementType))
        case types.MapType():
            return types.MapType(kind.keyType, _wide(kind.valueType))
        case _:
            return kind


def _lossy(value: str, kind: "DataType") -> str:
    """Return what is true of a value that was read in the wide type and is not one of this; empty where none is."""
    wide = _wide(kind)
    if wide.simpleString() == kind.simpleString():
        return ""
    back = f"CAST(try_cast({value} AS {ddl(kind)}) AS {ddl(wide)})"
    return f"NOT ({comparable(back, wide)} <=> {comparable(value, wide)})"


def _narrow(data: "Fields", row: str) -> Iterator[str]:
    """Yield the columns in the types of the schema; of what does not fit there is no value that could be cast."""
    for field in data:
        value = f"{row}{quoted(field.name)}"
        same = _wide(field.dataType).simpleString() == field.dataType.simpleString()
        yield f"{value if same else f'try_cast({value} AS {ddl(field.dataType)})'} AS {quoted(field.name)}"


def _as_csv(data: "Fields", options: "Options") -> str:
    """Return the text of a row that Spark has read, and of which it does not keep the raw text."""
    from pyspark.sql import types

    def column(field: "StructField") -> str:
        text = f"CAST({quoted(field.name)} AS STRING)"
        filled = isinstance(field.dataType, types.DecimalType) and field.dataType.precision < _MOST_DIGITS
        text = f"regexp_replace({text}, '[.]?0+$', '')" if filled else text
        return f"{text} AS {quoted(field.name)}"

    columns = map(column, data)
    return f"to_csv(struct({', '.join(columns)}), {_map({**options, 'nullvalue': ''})})"


def _texts(fields: "Fields") -> str:
    return ", ".join(f"{quoted(field.name)} STRING" for field in fields)


def _keeping(options: "Options") -> "Options":
    return {**options, "mode": "PERMISSIVE", "columnnameofcorruptrecord": RECORD}


def _map(options: "Options") -> str:
    return f"map({', '.join(f'{literal(name)}, {literal(value)}' for name, value in options.items())})"


def _others(schema: "Fields", names: Sequence[str]) -> "Fields":
    """Return the columns that the files themselves have: those of the partitions stand in their paths."""
    return [field for field in schema if field.name.lower() not in {name.lower() for name in names}]


def _all(names: Sequence[str]) -> Iterator[str]:
    return map(quoted, names)


def _declared(kind: "DataType", field: "StructField") -> str:
    comment = (field.metadata or {}).get("comment")
    return f"{quoted(field.name)} {ddl(kind)}" + (f" COMMENT {literal(comment)}" if comment else "")
