"""Translate pydantic's validation errors of a YAML file into plain messages with a line and a field."""

from collections.abc import Iterable
from typing import Any

from deltaic_terminal.document import Document, Mistake
from deltaic_terminal.nearest import did_you_mean

MESSAGES: dict[str, str] = {
    "missing": "is required",
    "string_type": "is text: quote it if YAML reads it as another type",
    "text_or_list": "is text or a list of texts: quote it if YAML reads it as another type",
    "list_type": "is a list: write [one, two], or a line with a dash for each",
    "dict_type": "is a mapping of names to values",
    "model_type": "is a mapping of fields to values",
    "model_attributes_type": "is a mapping of fields to values",
    "int_type": "is a whole number",
    "int_parsing": "is a whole number",
    "bool_type": "is true or false",
    "bool_parsing": "is true or false",
    "greater_than_equal": "is at least {ge}",
    "less_than_equal": "is at most {le}",
    "union_tag_not_found": "needs the field {discriminator}, which selects its kind",
    "union_tag_invalid": "{discriminator} is {tag!r}: write one of {expected_tags}",
    "literal_error": "write {expected}",
    "too_short": "is empty: add at least one",
    "too_long": "has {actual_length} entries: the maximum is {max_length}",
    "string_too_short": "is empty",
    "string_pattern_mismatch": "is a name of letters, digits and underscores, which does not begin with a digit",
}


def mistake_of(document: Document, error: Any, fields: Iterable[str]) -> Mistake:
    """Convert a pydantic error to a `Mistake` with its line. A misspelled field's message suggests one of `fields`."""
    kind, context, path = error["type"], error.get("ctx", {}), [part for part in error["loc"] if part != "[key]"]
    if path[-1:] in (["str"], ["list[str]"]) and kind in {"string_type", "list_type"}:  # a union in pydantic
        path, kind = path[:-1], "text_or_list"
    if kind == "extra_forbidden":
        message = "is not a field here" + did_you_mean(str(path[-1]), fields)
    elif kind == "value_error":
        message = str(context["error"])
    elif kind in MESSAGES:
        message = MESSAGES[kind].format(**{name: _unquote(value) for name, value in context.items()})
    else:
        message = error["msg"][0].lower() + error["msg"][1:]
    position = document.position(path)
    if kind == "wrong_ddl":
        return Mistake(document.line_of_sql(path, context["line"]), position.field, message)
    return Mistake(position.line, position.field, message)


def _unquote(value: Any) -> Any:
    return value.replace("'", "") if isinstance(value, str) else value
