"""Parse values of the command line: dotted names, durations, key=value pairs."""

import json
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.errors import InvalidParameter, NotFound
from deltaic.protocol.names import split_table_name

RecipientName = Annotated[str, typer.Argument(metavar="RECIPIENT", help="Name of the recipient.")]
_ONE_RECIPIENT = "Name of the recipient. [default: all recipients]"
OptionalRecipient = Annotated[str | None, typer.Argument(metavar="RECIPIENT", help=_ONE_RECIPIENT)]
ShareName = Annotated[str, typer.Argument(metavar="SHARE", help="Name of the share.")]
ShareOrSchema = Annotated[str, typer.Argument(metavar="SHARE[.SCHEMA]", help="Name of the share or schema.")]
TableTitle = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.TABLE", help="Full name of the table.")]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([0-9]{1,6})([smhdw])")


def duration(text: str | timedelta) -> timedelta:
    """Parse 90d, 12h, 30m, 45s or 2w; 0 needs no unit. Typer also passes defaults through here."""
    if isinstance(text, timedelta):
        return text
    if text == "0":
        return timedelta(0)
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"'{text}' is not a duration: use a form such as 90d, 12h or 30m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def duration_option(name: str, text: str) -> Any:
    """Return a Typer option whose value is a duration; `text` is its help."""
    return typer.Option(name, parser=duration, metavar="DURATION", help=text, show_default=False)


def refuse_both(name: str, value: object, removed: bool) -> None:
    """Raise BadParameter if both an option and its opposite `--no-...` are used."""
    if value and removed:
        raise typer.BadParameter(f"use --{name} or --no-{name}, not both")


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Parse key=value pairs; a value may be empty and may contain '='."""
    values = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"'{text}' is not a property: use the form key=value", param_hint="--property")
        values[name] = value
    return values


def properties(texts: list[str] | None) -> dict[str, str]:
    """Parse key=value pairs of a recipient; the values of a repeated key become one JSON array."""
    values: dict[str, list[str]] = {}
    for text in texts or []:
        for name, value in pairs([text]).items():
            values.setdefault(name, []).append(value)
    as_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    return {name: items[0] if len(items) == 1 else as_json([*dict.fromkeys(items)]) for name, items in values.items()}


def names_of(texts: list[str] | None) -> list[str]:
    """Parse comma-separated lists of names, and return all names as one list."""
    return [name.strip() for text in texts or [] for name in text.split(",")]


def text_of(text: str) -> str:
    """Return the trimmed text, or for @FILE the file's content; raises OSError for a file that cannot be read."""
    if not text.startswith("@"):
        return text.strip()
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidParameter(f"{text[1:]} is not a UTF-8 text file: save the SQL in it as UTF-8") from None


def schema_name(text: str) -> tuple[str, str]:
    """Parse SHARE.SCHEMA; only the name of the share may contain periods."""
    share, separator, schema = text.rpartition(".")
    if not separator or not share or not schema:
        raise typer.BadParameter(f"'{text}' is not a schema name: use the form SHARE.SCHEMA")
    return share, schema


def table_name(text: str, kind: str = "table") -> tuple[str, str, str]:
    """Parse SHARE.SCHEMA.NAME of a table, a view, a volume, a skill or a model."""
    try:
        return split_table_name(text)
    except InvalidParameter:
        form = f"SHARE.SCHEMA.{kind.upper()}"
        raise typer.BadParameter(f"'{text}' is not the name of a {kind}: use the form {form}") from None


def share_or_schema(admin: CatalogAdmin, text: str) -> tuple[str, str | None]:
    """Parse SHARE or SHARE.SCHEMA; a share whose name equals the whole string takes precedence."""
    if "." not in text:
        return text, None
    try:
        return admin.shares.get(text).name, None
    except NotFound:
        return schema_name(text)
