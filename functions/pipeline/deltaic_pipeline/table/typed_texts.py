"""Build SQL that parses strings from CSV and JSON into typed values, by one grammar for each type (decision 198).

Spark's own readers and casts accept invalid strings and change values: they read `1,50` as 150, `10:00` as today, and
`1e400` as infinite. Spark's JSON parser also drops unknown fields, keeps one of two equal keys and rounds numbers. So
each JSON object is read as a map of strings, each with a first character (mark) for its JSON type: string or number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaic_pipeline.spark.casting import ddl
from deltaic_pipeline.spark.quoting import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

STRING_MARK, NUMBER_MARK = "\uffff", "\ufffe"
"""Marks: first characters that `marked` gives JSON strings and numbers; both are code points without a character."""

UNDECODED = "\ufffd"
"""Character with which a decoder replaces bytes that are invalid in its encoding."""

_END = r"\z"
"""End of the string in a regex; unlike `$`, it does not match before a trailing line break."""

_DATE = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ZONE = " ?(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DATE_TIME = f"{_DATE}(?:[ T][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.][0-9]{{1,6}}0*)?%s)?)?"
_GRAMMARS = {
    "boolean": "(?i)true|false",
    **dict.fromkeys(("byte", "short", "integer", "long"), "[+-]?[0-9]+"),
    "date": _DATE,
    "timestamp": _DATE_TIME % f"(?:{_ZONE})?",
    "timestamp_ntz": _DATE_TIME % "",
}
_NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?"
_NOT_FINITE = {"nanvalue": "NaN", "positiveinf": "Inf", "negativeinf": "-Inf"}
_EXACT = {"float": 2**24, "double": 2**53}
"""Number for each floating-point type: the type represents all smaller integers exactly."""

_FORMATS = {"date": "dateformat", "timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat"}
_JSON_STRING = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_JSON_NUMBER = r"-?(?:(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.eE+-])|Infinity)|NaN"
_BETWEEN = r'[^"0-9NI-]*+'
_SURROGATES = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_NO_CHARACTER = r"\\u(?:[dD][89a-fA-F]|[fF]{3}[eEfF])"


@dataclass(frozen=True, slots=True)
class TypedTexts:
    """Builder of SQL that parses the strings of a CSV or JSON source; names in `options` are in lower case."""

    options: Mapping[str, str]
    json: bool = False

    def value(self, text: str, kind: "DataType", depth: int = 0) -> str:
        """Return SQL that converts a string to type `kind`; valid only where the SQL from `reason` is null."""
        from pyspark.sql import types

        name, x = kind.typeName(), f"x{depth}"
        match kind:
            case types.StructType():
                values = (
                    f"{literal(member.name)}, {self.value(field(x, member.name), member.dataType, depth + 1)}"
                    for member in kind.fields
                )
                return _once(parsed(text), x, f"if({x} IS NULL, NULL, named_struct({', '.join(values)}))")
            case types.ArrayType():
                return (
                    f"transform({parsed(text, 'ARRAY<STRING>')}, {x} -> {self.value(x, kind.elementType, depth + 1)})"
                )
            case types.MapType():
                keys = f"transform(map_keys({x}), k -> {self.value('k', kind.keyType)})"
                keys = f"array_distinct(filter({keys}, k -> k IS NOT NULL))"
                inner = f"transform(map_values({x}), y{depth} -> {self.value(f'y{depth}', kind.valueType, depth + 1)})"
                return _once(parsed(text), x, f"if(size({keys}) = size({x}), map_from_arrays({keys}, {inner}), NULL)")
            case types.VariantType() if self.json:
                return f"try_parse_json({unmarked(text)})"
            case types.StringType() if self.json:
                return f"CASE WHEN {text} RLIKE '^[{{\\\\[]' THEN {unmarked(text)} ELSE {_scalar(text)} END"
            case types.StringType():
                return text
            case types.BinaryType():
                return f"try_to_binary({_scalar(text)}, 'base64')" if self.json else f"CAST({text} AS BINARY)"
        text = _scalar(text) if self.json else text
        if _FORMATS.get(name, "") in self.options or (name == "timestamp" and "timezone" in self.options):
            return self._formatted(text, kind)
        if name in _EXACT and _NOT_FINITE.keys() & self.options.keys():
            cases = " ".join(
                f"WHEN {literal(self.options.get(key, to))} THEN '{to}'" for key, to in _NOT_FINITE.items()
            )
            text = f"CASE {text} {cases} ELSE {text} END"
        return f"try_cast({text} AS {ddl(kind)})"

    def reason(self, path: str, text: str, value: str, kind: "DataType", depth: int = 0) -> str:
        """Return SQL for the reason why a string in column `path` does not fit type `kind`; null if it fits."""
        from pyspark.sql import types

        x, wrong = f"x{depth}", f"{path} is not {kind.simpleString().upper()}"
        match kind:
            case types.StructType():
                wrong = literal(f"{path} is not STRUCT")
                reasons = [f"if({x} IS NULL, {wrong}, NULL)", wrong_keys(x, kind.fields, f"{path} ")]
                for member in kind.fields:
                    inner, name = f"{value}.{quoted(member.name)}", f"{path}.{member.name}"
                    reasons.append(self.reason(name, field(x, member.name), inner, member.dataType, depth + 1))
                first_reason = _once(parsed(text), x, f"coalesce({', '.join(reasons)})")
                return f"if({text} IS NULL, NULL, {first_reason})"
            case types.ArrayType():
                condition = self._all_fit(parsed(text, "ARRAY<STRING>"), kind.elementType, x, depth)
            case types.MapType():
                condition = f"{value} IS NOT NULL"  # null if keys are malformed or equal
                for part, part_type in (("keys", kind.keyType), ("values", kind.valueType)):
                    condition += f" AND {self._all_fit(f'map_{part}({parsed(text)})', part_type, x, depth)}"
            case types.VariantType() if self.json:
                condition = f"{value} IS NOT NULL"
            case types.BinaryType():
                condition = f"base64({value}) = {_scalar(text)}" if self.json else "true"
            case types.StringType():
                wrong = f"{path} is not text in the files' encoding: set the option `encoding`"
                condition = "true" if self.json else f"NOT contains({text}, '{UNDECODED}')"
            case _:
                condition = self._fits(_scalar(text) if self.json else text, value, kind)
        return f"CASE WHEN NOT coalesce({text} IS NULL OR ({condition}), false) THEN {literal(wrong)} END"

    def _all_fit(self, texts: str, kind: "DataType", x: str, depth: int) -> str:
        pairs = f"transform({texts}, {x} -> named_struct('text', {x}, 'value', {self.value(x, kind, depth + 1)}))"
        return f"forall({pairs}, {x} -> {self.reason('', f'{x}.text', f'{x}.value', kind, depth + 1)} IS NULL)"

    def _fits(self, text: str, value: str, kind: "DataType") -> str:
        from pyspark.sql import types

        name = kind.typeName()
        if _FORMATS.get(name, "") in self.options:
            return f"{value} IS NOT NULL"
        if name in _EXACT:
            # Refuse values that the type cannot represent: too large, too small, or integers that lose digits.
            non_finite = "|".join(f"\\Q{self.options.get(key, word)}\\E" for key, word in _NOT_FINITE.items())
            non_finite += "" if _NOT_FINITE.keys() & self.options.keys() else "|[+-]?Infinity"
            # A DECIMAL has only the shortest digits that Java prints; a BIGINT has all digits.
            exact = f"coalesce(try_cast({value} AS BIGINT), try_cast({value} AS DECIMAL(38,0)))"
            is_exact = f"try_cast({text} AS DECIMAL(38,0)) = {exact}"
            finite = (
                f"abs({value}) < CAST('Infinity' AS DOUBLE) AND ({value} <> 0 OR NOT {text} RLIKE '^[^eE]*[1-9]')"
                f" AND (abs({value}) < {_EXACT[name]} OR NOT {_matches(text, '[+-]?[0-9]+(?:[.]0*)?')} OR {is_exact})"
            )
            return f"CASE WHEN {_matches(text, _NUMBER)} THEN {finite} ELSE {_matches(text, non_finite)} END"
        if isinstance(kind, types.DecimalType):
            integer_digits = kind.precision - kind.scale
            grammar = f"[+-]?(?=[.]?[0-9])0*[0-9]{{0,{integer_digits}}}(?:[.][0-9]{{0,{kind.scale}}}0*)?"
        elif name in _GRAMMARS:
            grammar = _GRAMMARS[name]
        else:  # such as intervals, which must be written as by Spark
            return f"CAST({value} AS STRING) = {text}"
        condition = f"{_matches(text, grammar)} AND {value} IS NOT NULL"
        if isinstance(kind, types.IntegralType):  # most texts are as Spark writes them, and this check is cheaper
            return f"CAST({value} AS STRING) = {text} OR ({condition})"
        if name == "timestamp" and "timezone" in self.options:  # refuse a local time that a clock change skips
            local = f"from_utc_timestamp({value}, {literal(self.options['timezone'])})"
            condition += f" AND ({_matches(text, f'.*:[0-9.]+{_ZONE}')} OR {local} = CAST({text} AS TIMESTAMP))"
        return condition

    def _formatted(self, text: str, kind: "DataType") -> str:
        """Return SQL that parses a date or time as Spark's CSV reader does: by format, locale and time zone."""
        names = self.options.keys() & {*_FORMATS.values(), "locale", "timezone"}
        reader_options = {**{name: self.options[name] for name in sorted(names)}, "sep": NUMBER_MARK, "quote": ""}
        return f"from_csv({text}, {literal(f'x {ddl(kind)}')}, {sql_map(reader_options)}).x"


def marked(json: str) -> str:
    """Return SQL that adds `STRING_MARK` to all strings in JSON, and makes numbers strings with `NUMBER_MARK`."""
    strings = f"regexp_replace({json}, {literal(_JSON_STRING)}, '\"{STRING_MARK}$1\"')"
    numbers = literal(rf"\G({_BETWEEN}(?:{_JSON_STRING}{_BETWEEN})*+)({_JSON_NUMBER})")
    return f"regexp_replace({strings}, {numbers}, '$1\"{NUMBER_MARK}$3\"')"


def unmarked(json: str) -> str:
    """Return SQL that restores the original JSON from JSON with the marks of `marked`."""
    numbers = f"regexp_replace({json}, '\"{NUMBER_MARK}([^\"]*)\"', '$1')"
    return f"replace({numbers}, '{STRING_MARK}', '')"


def is_text(json: str) -> str:
    """Return SQL that is true if JSON is valid Unicode, without unpaired surrogates and without characters of marks."""
    lone = f"regexp_replace({json}, {literal(_SURROGATES)}, ' ') RLIKE {literal(_NO_CHARACTER)}"
    marks = f"contains({json}, '{STRING_MARK}') OR contains({json}, '{NUMBER_MARK}')"
    return f"(is_valid_utf8({json}) AND NOT ({marks}) AND NOT (contains({json}, '\\\\u') AND {lone}))"


def parsed(text: str, kind: str = "MAP<STRING, STRING>") -> str:
    """Return SQL that parses an object (or array, by `kind`) from `marked` into strings with marks; else null."""
    begin = "{" if kind.startswith("MAP") else "["
    return f"if(startswith({text}, '{begin}'), {_from_json(text, kind)}, NULL)"


def only(json: str, kind: str) -> str:
    """Return SQL that parses JSON from `marked` as type `kind`; null unless the JSON has exactly one value."""
    # An end mark follows, which is no marked text, so that a bracket in the text cannot hide other values.
    end, last = ('"{}"', "x[1] = '{}'") if kind == "STRING" else ('{{"{}":0}}', "map_contains_key(x[1], '{}')")
    array = _from_json(f"concat('[', {json}, {literal(f',{end.format(NUMBER_MARK)}]')})", f"ARRAY<{kind}>")
    return _once(array, "x", f"if(size(x) = 2 AND {last.format(NUMBER_MARK)}, x[0], NULL)")


def field(row: str, name: str) -> str:
    """Return SQL for a field's string, with its mark, in an object from `parsed`."""
    return f"{row}[{literal(STRING_MARK + name)}]"


def wrong_keys(row: str, fields: "Sequence[StructField]", owner: str = "") -> str:
    """Return SQL for an error message about unknown or repeated fields of an object from `parsed`; else null."""
    names = ", ".join(literal(STRING_MARK + member.name) for member in fields)
    unknown = f"array_except(map_keys({row}), array({names}))"
    message = literal(f"{owner}has fields that the schema does not have: ")
    message = f"concat({message}, translate(array_join({unknown}, ', '), '{STRING_MARK}{NUMBER_MARK}', ''))"
    repeated = f"WHEN size(array_distinct(map_keys({row}))) < size({row}) THEN {literal(f'{owner}has a field twice')}"
    return (
        f"CASE WHEN map_keys({row}) = array({names}) THEN NULL WHEN size({unknown}) > 0 THEN {message} {repeated} END"
    )


def sql_map(options: Mapping[str, str]) -> str:
    """Return SQL for a map of reader options."""
    return f"map({', '.join(f'{literal(name)}, {literal(value)}' for name, value in options.items())})"


def _matches(text: str, grammar: str) -> str:
    return f"{text} RLIKE {literal(f'^(?:{grammar})' + _END)}"


def _from_json(text: str, kind: str) -> str:
    options = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
    return f"from_json({text}, '{kind}', {sql_map(options)})"


def _once(expression: str, name: str, body: str) -> str:
    """Return SQL that computes an expression once, even if `body` uses its name several times."""
    return f"get(transform(array({expression}), {name} -> {body}), 0)"


def _scalar(text: str) -> str:
    return f"trim(LEADING '{STRING_MARK}{NUMBER_MARK}' FROM {text})"
