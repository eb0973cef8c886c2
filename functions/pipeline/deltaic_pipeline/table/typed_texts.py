"""SQL that turns texts of CSV and JSON into values: one grammar for each type (decision 198).

Spark's own readers and casts accept more than a type's texts and change values: `1,50` is 150, `10:00` is today, and
`1e400` is infinite. Its JSON parser also drops unknown fields, keeps one of two equal keys and rounds numbers. So each
object is read as a map of texts. Before that, every string gets a mark, and every number becomes a marked string.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaic_pipeline.spark.casting import ddl
from deltaic_pipeline.spark.quoting import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

STRING_MARK, NUMBER_MARK = "\uffff", "\ufffe"
"""What strings and numbers of JSON begin with; Unicode calls these code points noncharacters."""

UNDECODED = "\ufffd"
"""What a decoder puts in the place of bytes that are not text in its encoding."""

_TO_THE_END = r"\z"
"""Unlike `$` it does not stand before a line break."""

_DATE = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ZONE = " ?(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MOMENT = f"{_DATE}(?:[ T][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.][0-9]{{1,6}}0*)?%s)?)?"
_GRAMMARS = {
    "boolean": "(?i)true|false",
    **dict.fromkeys(("byte", "short", "integer", "long"), "[+-]?[0-9]+"),
    "date": _DATE,
    "timestamp": _MOMENT % f"(?:{_ZONE})?",
    "timestamp_ntz": _MOMENT % "",
}
_NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?"
_NOT_FINITE = {"nanvalue": "NaN", "positiveinf": "Inf", "negativeinf": "-Inf"}
_EXACT = {"float": 2**24, "double": 2**53}
"""Up to here every integer is a value of the type."""

_FORMATS = {"date": "dateformat", "timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat"}
_JSON_STRING = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_JSON_NUMBER = r"-?(?:(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.eE+-])|Infinity)|NaN"
_BETWEEN = r'[^"0-9NI-]*+'
_SURROGATES = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_NO_CHARACTER = r"\\u(?:[dD][89a-fA-F]|[fF]{3}[eEfF])"


@dataclass(frozen=True, slots=True)
class TypedTexts:
    """The texts of a source: the options of Spark's reader in lower case, and whether the texts are marked JSON."""

    options: Mapping[str, str]
    json: bool = False

    def value(self, text: str, kind: "DataType", depth: int = 0) -> str:
        """Return the value of a text. It is right only where `reason` is null."""
        from pyspark.sql import types

        name, x = kind.typeName(), f"x{depth}"
        match kind:
            case types.StructType():
                values = (
                    f"{literal(each.name)}, {self.value(field(x, each.name), each.dataType, depth + 1)}"
                    for each in kind.fields
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
            words = " ".join(
                f"WHEN {literal(self.options.get(key, to))} THEN '{to}'" for key, to in _NOT_FINITE.items()
            )
            text = f"CASE {text} {words} ELSE {text} END"
        return f"try_cast({text} AS {ddl(kind)})"

    def reason(self, path: str, text: str, value: str, kind: "DataType", depth: int = 0) -> str:
        """Return why a text is not one of a type, or null; `path` names the column or the field."""
        from pyspark.sql import types

        x, wrong = f"x{depth}", f"{path} is not {kind.simpleString().upper()}"
        match kind:
            case types.StructType():
                wrong = literal(f"{path} is not STRUCT")
                reasons = [f"if({x} IS NULL, {wrong}, NULL)", wrong_keys(x, kind.fields, f"{path} ")]
                for each in kind.fields:
                    inner, name = f"{value}.{quoted(each.name)}", f"{path}.{each.name}"
                    reasons.append(self.reason(name, field(x, each.name), inner, each.dataType, depth + 1))
                found = _once(parsed(text), x, f"coalesce({', '.join(reasons)})")
                return f"if({text} IS NULL, NULL, {found})"
            case types.ArrayType():
                fit = self._all_fit(parsed(text, "ARRAY<STRING>"), kind.elementType, x, depth)
            case types.MapType():
                fit = f"{value} IS NOT NULL"  # a null for keys that are none, or alike
                for part, its in (("keys", kind.keyType), ("values", kind.valueType)):
                    fit += f" AND {self._all_fit(f'map_{part}({parsed(text)})', its, x, depth)}"
            case types.VariantType() if self.json:
                fit = f"{value} IS NOT NULL"
            case types.BinaryType():
                fit = f"base64({value}) = {_scalar(text)}" if self.json else "true"
            case types.StringType():
                wrong = f"{path} is not text in the files' encoding: name it in the option `encoding`"
                fit = "true" if self.json else f"NOT contains({text}, '{UNDECODED}')"
            case _:
                fit = self._fits(_scalar(text) if self.json else text, value, kind)
        return f"CASE WHEN NOT coalesce({text} IS NULL OR ({fit}), false) THEN {literal(wrong)} END"

    def _all_fit(self, texts: str, kind: "DataType", x: str, depth: int) -> str:
        pairs = f"transform({texts}, {x} -> named_struct('text', {x}, 'value', {self.value(x, kind, depth + 1)}))"
        return f"forall({pairs}, {x} -> {self.reason('', f'{x}.text', f'{x}.value', kind, depth + 1)} IS NULL)"

    def _fits(self, text: str, value: str, kind: "DataType") -> str:
        from pyspark.sql import types

        name = kind.typeName()
        if _FORMATS.get(name, "") in self.options:
            return f"{value} IS NOT NULL"
        if name in _EXACT:
            # Refuse what the type cannot hold: too large, too small, or an integer whose digits it does not keep.
            words = "|".join(f"\\Q{self.options.get(key, word)}\\E" for key, word in _NOT_FINITE.items())
            words += "" if _NOT_FINITE.keys() & self.options.keys() else "|[+-]?Infinity"
            # Spark makes a DECIMAL of Java's shortest digits; a BIGINT has all of them.
            exact = f"coalesce(try_cast({value} AS BIGINT), try_cast({value} AS DECIMAL(38,0)))"
            kept = f"try_cast({text} AS DECIMAL(38,0)) = {exact}"
            finite = (
                f"abs({value}) < CAST('Infinity' AS DOUBLE) AND ({value} <> 0 OR NOT {text} RLIKE '^[^eE]*[1-9]')"
                f" AND (abs({value}) < {_EXACT[name]} OR NOT {_matches(text, '[+-]?[0-9]+(?:[.]0*)?')} OR {kept})"
            )
            return f"CASE WHEN {_matches(text, _NUMBER)} THEN {finite} ELSE {_matches(text, words)} END"
        if isinstance(kind, types.DecimalType):
            whole = kind.precision - kind.scale
            grammar = f"[+-]?(?=[.]?[0-9])0*[0-9]{{0,{whole}}}(?:[.][0-9]{{0,{kind.scale}}}0*)?"
        elif name in _GRAMMARS:
            grammar = _GRAMMARS[name]
        else:  # such as an interval, whose text is the one that Spark writes
            return f"CAST({value} AS STRING) = {text}"
        fit = f"{_matches(text, grammar)} AND {value} IS NOT NULL"
        if isinstance(kind, types.IntegralType):  # most texts are those that Spark writes, which is cheaper to see
            return f"CAST({value} AS STRING) = {text} OR ({fit})"
        if name == "timestamp" and "timezone" in self.options:  # a local time that a change of clocks skips is none
            local = f"from_utc_timestamp({value}, {literal(self.options['timezone'])})"
            fit += f" AND ({_matches(text, f'.*:[0-9.]+{_ZONE}')} OR {local} = CAST({text} AS TIMESTAMP))"
        return fit

    def _formatted(self, text: str, kind: "DataType") -> str:
        """Return a date or time by the dataset's own format, locale and time zone, as Spark's reader of CSV does."""
        names = self.options.keys() & {*_FORMATS.values(), "locale", "timezone"}
        how = {**{name: self.options[name] for name in sorted(names)}, "sep": NUMBER_MARK, "quote": ""}
        return f"from_csv({text}, {literal(f'x {ddl(kind)}')}, {sql_map(how)}).x"


def marked(json: str) -> str:
    """Return JSON with its strings and numbers marked."""
    strings = f"regexp_replace({json}, {literal(_JSON_STRING)}, '\"{STRING_MARK}$1\"')"
    numbers = literal(rf"\G({_BETWEEN}(?:{_JSON_STRING}{_BETWEEN})*+)({_JSON_NUMBER})")
    return f"regexp_replace({strings}, {numbers}, '$1\"{NUMBER_MARK}$3\"')"


def unmarked(json: str) -> str:
    """Return marked JSON as it was."""
    numbers = f"regexp_replace({json}, '\"{NUMBER_MARK}([^\"]*)\"', '$1')"
    return f"replace({numbers}, '{STRING_MARK}', '')"


def is_text(json: str) -> str:
    """Return SQL that is true where JSON has neither half a surrogate pair nor a noncharacter of the marks."""
    lone = f"regexp_replace({json}, {literal(_SURROGATES)}, ' ') RLIKE {literal(_NO_CHARACTER)}"
    marks = f"contains({json}, '{STRING_MARK}') OR contains({json}, '{NUMBER_MARK}')"
    return f"(is_valid_utf8({json}) AND NOT ({marks}) AND NOT (contains({json}, '\\\\u') AND {lone}))"


def parsed(text: str, kind: str = "MAP<STRING, STRING>") -> str:
    """Return the marked texts within a marked object, or with `kind` array; null for other texts."""
    begin = "{" if kind.startswith("MAP") else "["
    return f"if(startswith({text}, '{begin}'), {_from_json(text, kind)}, NULL)"


def only(json: str, kind: str) -> str:
    """Return the only value of a marked JSON text as `kind`; null where there is none, or anything beside it."""
    # What stands behind it is no marked text, so that a bracket within the text cannot hide what follows.
    end, last = ('"{}"', "x[1] = '{}'") if kind == "STRING" else ('{{"{}":0}}', "map_contains_key(x[1], '{}')")
    array = _from_json(f"concat('[', {json}, {literal(f',{end.format(NUMBER_MARK)}]')})", f"ARRAY<{kind}>")
    return _once(array, "x", f"if(size(x) = 2 AND {last.format(NUMBER_MARK)}, x[0], NULL)")


def field(row: str, name: str) -> str:
    """Return the marked text of a field of an object."""
    return f"{row}[{literal(STRING_MARK + name)}]"


def wrong_keys(row: str, fields: "Sequence[StructField]", owner: str = "") -> str:
    """Return which keys of an object the schema does not have, or that one is there twice; null if all is right."""
    names = ", ".join(literal(STRING_MARK + each.name) for each in fields)
    unknown = f"array_except(map_keys({row}), array({names}))"
    told = literal(f"{owner}has fields that the schema does not have: ")
    told = f"concat({told}, translate(array_join({unknown}, ', '), '{STRING_MARK}{NUMBER_MARK}', ''))"
    twice = f"WHEN size(array_distinct(map_keys({row}))) < size({row}) THEN {literal(f'{owner}has a field twice')}"
    return f"CASE WHEN map_keys({row}) = array({names}) THEN NULL WHEN size({unknown}) > 0 THEN {told} {twice} END"


def sql_map(options: Mapping[str, str]) -> str:
    """Return options as a map of SQL."""
    return f"map({', '.join(f'{literal(name)}, {literal(value)}' for name, value in options.items())})"


def _matches(text: str, grammar: str) -> str:
    return f"{text} RLIKE {literal(f'^(?:{grammar})' + _TO_THE_END)}"


def _from_json(text: str, kind: str) -> str:
    options = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
    return f"from_json({text}, '{kind}', {sql_map(options)})"


def _once(expression: str, name: str, body: str) -> str:
    """Return SQL that computes an expression once, however often `body` has its name."""
    return f"get(transform(array({expression}), {name} -> {body}), 0)"


def _scalar(text: str) -> str:
    return f"trim(LEADING '{STRING_MARK}{NUMBER_MARK}' FROM {text})"
