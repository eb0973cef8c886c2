"""Reads words of the command line: dotted names, durations, key=value pairs."""

import json
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.errors import InvalidParameter, NotFound
from deltaic.protocol.names import split_table_name

RecipientName = Annotated[str, typer.Argument(metavar="RECIPIENT")]
ShareName = Annotated[str, typer.Argument(metavar="SHARE")]
TableTitle = Annotated[str, typer.Argument(metavar="SHARE.SCHEMA.TABLE")]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([0-9]{1,6})([smhdw])")


def duration(text: str | timedelta) -> timedelta:
    """Read 90d, 12h, 30m, 45s or 2w; 0 needs no unit. Typer also hands defaults through here."""
    if isinstance(text, timedelta):
        return text
    if text == "0":
        return timedelta(0)
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise typer.BadParameter(f"'{text}' is not a duration: write 90d, 12h or 30m")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Read key=value pairs; the value may hold '=' and may be empty."""
    read = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"'{text}' is not a property: write key=value", param_hint="--property")
        read[name] = value
    return read


def properties(texts: list[str] | None) -> dict[str, str]:
    """Read key=value pairs of a recipient, in which a key that is given more than once has a list: a JSON array."""
    values: dict[str, list[str]] = {}
    for text in texts or []:
        for name, value in pairs([text]).items():
            values.setdefault(name, []).append(value)
    as_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    return {name: found[0] if len(found) == 1 else as_json([*dict.fromkeys(found)]) for name, found in values.items()}


def names_of(texts: list[str] | None) -> list[str]:
    """Read names that are separated by commas, in as many texts as there are."""
    return [name.strip() for text in texts or [] for name in text.split(",")]


def text_of(text: str) -> str:
    """Return what is typed, or of @FILE what the file holds, trimmed; raises OSError for a file that cannot be read."""
    if not text.startswith("@"):
        return text.strip()
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidParameter(f"{text[1:]} is not text in UTF-8: write the filter into it and nothing else") from None


def schema_name(text: str) -> tuple[str, str]:
    """Read SHARE.SCHEMA; the name of a share may hold periods, that of a schema may not."""
    share, separator, schema = text.rpartition(".")
    if not separator or not share or not schema:
        raise typer.BadParameter(f"'{text}' is not a schema: write SHARE.SCHEMA")
    return share, schema


def table_name(text: str) -> tuple[str, str, str]:
    """Read SHARE.SCHEMA.TABLE."""
    try:
        return split_table_name(text)
    except InvalidParameter as refusal:
        raise typer.BadParameter(refusal.message) from None


def asset_name(text: str, kind: str) -> tuple[str, str, str]:
    """Read SHARE.SCHEMA.NAME of a volume, a skill or a model."""
    try:
        return split_table_name(text)
    except InvalidParameter:
        raise typer.BadParameter(f"'{text}' is not a {kind}: write SHARE.SCHEMA.{kind.upper()}") from None


def share_or_schema(admin: CatalogAdmin, text: str) -> tuple[str, str | None]:
    """Read SHARE or SHARE.SCHEMA, whichever there is; a share that has the whole name comes first."""
    if "." not in text:
        return text, None
    try:
        return admin.shares.get(text).name, None
    except NotFound:
        return schema_name(text)
