"""Convert rows to lines of CSV, by the rules in docs/recipients.md.

The server's page for recipients writes the same bytes. `pa.array`, and Python values as arguments of Arrow's functions,
would import pandas if it is installed.
"""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_sharing_pull.errors import UnsupportedOperation

_FORMULA: Final = r"^[=+\-@\t\r]"
"""Matches a text that a spreadsheet can run as a formula."""
_MAX_DIGITS: Final = 21
"""Digits before the decimal point from which on a floating point number is written with an exponent."""
_to_json: Final = json.JSONEncoder(ensure_ascii=False).encode


def check_types(types: Mapping[str, Any]) -> None:
    """Raise UnsupportedOperation if a column is of type variant or contains one; `types` are Delta types by name."""
    for name, kind in types.items():
        if '"variant"' in json.dumps(kind):
            raise UnsupportedOperation(
                f"CSV cannot represent column '{name}' of type variant: select other columns with --column"
            )


def csv_header(names: Iterable[str], *, guard_formulas: bool) -> bytes:
    """Return the line of column names; `guard_formulas` puts `'` before names that look like formulas."""
    texts = _guarded(_strings(names)) if guard_formulas else _strings(names)
    return f"{','.join(_quoted(texts).to_pylist())}\r\n".encode()


def csv_lines(batch: pa.RecordBatch, *, guard_formulas: bool) -> tuple[pa.Buffer, int]:
    """Return the lines of a batch of rows, and the number of texts that look like formulas.

    Raises UnsupportedOperation for a year beyond 32767.
    """
    formulas, cells = 0, []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        texts = _texts(column, field)
        if pa.types.is_string(field.type):
            formulas += pc.sum(pc.match_substring_regex(texts, _FORMULA)).as_py() or 0
            texts = _guarded(texts) if guard_formulas else texts
        cells.append(_quoted(texts))
    comma, end, nothing = _strings([",", "\r\n", ""])
    lines = pc.binary_join_element_wise(*cells, comma, null_handling="replace", null_replacement="")
    return pc.binary_join_element_wise(lines, nothing, end).buffers()[2], formulas


def row_texts(batch: pa.RecordBatch) -> list[tuple[str | None, ...]]:
    """Return the texts of a batch's cells by row, without quotes; raises the same error as `csv_lines`."""
    columns = (_texts(column, field).to_pylist() for field, column in zip(batch.schema, batch.columns, strict=True))
    return list(zip(*columns, strict=True))


def _guarded(texts: Any) -> Any:
    return pc.replace_substring_regex(texts, f"({_FORMULA})", r"'\1")


def _quoted(texts: Any) -> Any:
    is_quoted = pc.match_substring_regex(texts, '^$|[",\r\n]')
    if not pc.any(is_quoted).as_py():
        return texts
    quote, nothing = _strings(['"', ""])
    quoted = pc.binary_join_element_wise(nothing, pc.replace_substring(texts, '"', '""'), nothing, quote)
    return pc.if_else(is_quoted, quoted, texts)


def _texts(column: Any, field: Any) -> Any:
    """Return the texts of a column, without quotes; null for null."""
    kind, types = field.type, pa.types
    texts = column.cast(_retyped(kind, to_text=False)).cast(_retyped(kind, to_text=True))
    if types.is_temporal(kind) and pc.any(pc.match_substring(texts, "<")).as_py():
        raise UnsupportedOperation(f"CSV cannot represent a year beyond 32767 in column '{field.name}': use .parquet")
    if types.is_timestamp(kind):
        trimmed = pc.ascii_rtrim(pc.ascii_rtrim(pc.replace_substring(texts, " ", "T"), "0"), ".")
        return pc.binary_join_element_wise(trimmed, *_strings(["Z" if kind.tz else "", ""]))
    is_number = types.is_floating(kind) or types.is_decimal(kind)
    is_final = not (types.is_nested(kind) or types.is_binary(kind))
    if is_final and not (is_number and pc.any(pc.match_substring_regex(texts, "[eEn]")).as_py()):
        return texts
    return _strings(None if value is None else _text(value, kind) for value in texts.to_pylist())


def _strings(texts: Iterable[str | None]) -> Any:
    builder = pa.lib.StringBuilder()
    for text in texts:
        builder.append(text)
    return builder.finish()


def _retyped(kind: Any, *, to_text: bool) -> Any:
    """Return a type with timestamps without zone; with `to_text`, with strings for all but bytes."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _retyped(child.type, to_text=to_text)) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(_retyped(kind.value_type, to_text=to_text))
    if pa.types.is_map(kind):
        return pa.map_(_retyped(kind.key_type, to_text=to_text), _retyped(kind.item_type, to_text=to_text))
    if to_text:
        return kind if pa.types.is_binary(kind) else pa.string()
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def _text(value: Any, kind: Any) -> str:
    """Return the text of a value, given as Arrow's text, as bytes, or as a nested value of these."""
    types = pa.types
    if types.is_map(kind):
        pairs = (f"{_to_json(_text(key, kind.key_type))}:{_json(item, kind.item_type)}" for key, item in value)
        return f"{{{','.join(pairs)}}}"
    if types.is_list(kind):
        return f"[{','.join(_json(item, kind.value_type) for item in value)}]"
    if types.is_struct(kind):
        return f"{{{','.join(f'{_to_json(child.name)}:{_json(value[child.name], child.type)}' for child in kind)}}}"
    if types.is_binary(kind):
        return bytes(value).hex()
    if types.is_timestamp(kind):
        return f"{value.replace(' ', 'T').rstrip('0').rstrip('.')}{'Z' if kind.tz else ''}"
    if types.is_decimal(kind):
        return f"{Decimal(value):f}"
    if types.is_floating(kind):
        short = "e+" in value and int(value.partition("e+")[2]) < _MAX_DIGITS
        return f"{Decimal(value):f}" if short else value.replace("inf", "Infinity").replace("nan", "NaN")
    return str(value)


def _json(value: Any, kind: Any) -> str:
    if value is None:
        return "null"
    text, types = _text(value, kind), pa.types
    is_number = types.is_integer(kind) or types.is_decimal(kind) or (types.is_floating(kind) and text[-1].isdigit())
    return text if is_number or types.is_boolean(kind) or types.is_nested(kind) else _to_json(text)
