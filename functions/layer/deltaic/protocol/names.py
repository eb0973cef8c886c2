"""Check names and attributes of shares, and of the schemas, tables and other assets in them.

PROTOCOL.md, naming rules: at most 255 characters; no space, forward slash, ASCII control character (00-1F hex) or
DELETE (7F hex); in schemas and tables also no period, because clients write `share.schema.table`. OpenSharing has the
same rules for volumes and models, and agentskills.io has other rules for skills. This server also rejects `#` and names
of only periods, because clients cannot write them (decision 196).
"""

import re
from collections.abc import Mapping
from typing import Final

from deltaic.errors import InvalidParameter

MAX_NAME: Final = 255
MAX_SKILL_NAME: Final = 64
MAX_DISPLAY_NAME: Final = 255
MAX_COMMENT: Final = 65_536
MAX_PROPERTIES: Final = 50
MAX_PROPERTY_KEY: Final = 255
MAX_PROPERTY_VALUE: Final = 1000

_FORBIDDEN: Final = re.compile(r"[\x00-\x20/\x7f]")
_UNWRITABLE: Final = re.compile(r"#|^\.+$")
_SKILL: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_QUOTED_CHARACTERS: Final = 60


def check_name(kind: str, name: str) -> str:
    """Return `name` if it is valid for this `kind`; else raise `InvalidParameter`.

    `kind` is share, schema, table, volume, skill, model or recipient.
    """
    if kind == "skill" and not (len(name) <= MAX_SKILL_NAME and _SKILL.fullmatch(name)):
        raise InvalidParameter(
            f"the skill name {_quote(name)} is not allowed: use lower-case letters, digits and single hyphens "
            f"between them, at most {MAX_SKILL_NAME} characters."
        )
    if not name:
        raise InvalidParameter(f"the {kind} name is empty; give it 1 to {MAX_NAME} characters.")
    _check_text(f"the {kind} name", name, MAX_NAME)
    match = _FORBIDDEN.search(name)
    if match:
        raise InvalidParameter(
            f"the {kind} name {_quote(name)} contains {_describe_character(match[0])} at position {match.start()}; "
            "spaces, '/', control characters and DELETE are not allowed."
        )
    if kind != "recipient" and _UNWRITABLE.search(name):
        raise InvalidParameter(f"no client can write the {kind} name {_quote(name)}: use no '#', and not only periods.")
    if "." in name and kind not in {"share", "recipient"}:
        raise InvalidParameter(f"the {kind} name {_quote(name)} contains a period: use another character.")
    return name


def split_table_name(text: str) -> tuple[str, str, str]:
    """Return share, schema and table of `share.schema.table`; the share's name can contain periods.

    Raises `InvalidParameter` if one of them is empty. Does not check the names.
    """
    parent, _, table = text.rpartition(".")
    share, _, schema = parent.rpartition(".")
    if not share or not schema or not table:
        raise InvalidParameter(f"'{text}' is not a table name: use the form SHARE.SCHEMA.TABLE")
    return share, schema, table


def check_display_name(text: str) -> str:
    """Return a share's `displayName` if it has at most 255 characters, else raise `InvalidParameter`."""
    return _check_text("displayName", text, MAX_DISPLAY_NAME)


def check_comment(text: str) -> str:
    """Return a comment if it has at most 65536 characters, else raise `InvalidParameter`."""
    return _check_text("comment", text, MAX_COMMENT)


def check_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of a share's `properties` if they are at most 50 valid pairs, else raise `InvalidParameter`."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidParameter(f"properties has {len(properties)} pairs; at most {MAX_PROPERTIES} are allowed.")
    for name, value in properties.items():
        if not name:
            raise InvalidParameter("a property's key is empty; give it at least one character.")
        _check_text("the key of a property", name, MAX_PROPERTY_KEY)
        _check_text(f"the value of property {_quote(name)}", value, MAX_PROPERTY_VALUE)
    return dict(properties)


def key(name: str) -> str:
    """Return a name in the form for comparison and lookup, because names are case-insensitive."""
    return name.lower()


def _check_text(label: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise InvalidParameter(f"{label} has {len(text)} characters; at most {limit} are allowed.")
    if _SURROGATE.search(text):  # half a UTF-16 pair, which UTF-8 cannot encode
        raise InvalidParameter(f"{label} contains an unpaired surrogate: use valid Unicode.")
    return text


def _quote(text: str) -> str:
    return ascii(text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "...")


def _describe_character(character: str) -> str:
    return {" ": "a space", "/": "'/'", "\x7f": "DELETE"}.get(character, f"the control character {ord(character):02X}")
