"""Decides which names and share attributes the protocol allows, and when two names are the same name.

PROTOCOL.md, naming rules: at most 255 characters; no space, forward slash, ASCII control character (00-1F hex) or
DELETE (7F hex); schemas and tables also no period, because `share.schema.table` is how clients write a table.
OpenSharing has the same rules for volumes and models, and agentskills.io its own for skills. Beyond them, `#` and names
of periods alone are refused, because clients cannot write them (decision 196).
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
_SHOWN: Final = 60


def check_name(kind: str, name: str) -> str:
    """Return `name` if a share, schema, table, volume, skill, model or recipient (`kind`) may have it.

    Else raises `InvalidParameter`.
    """
    if kind == "skill" and not (len(name) <= MAX_SKILL_NAME and _SKILL.fullmatch(name)):
        raise InvalidParameter(
            f"the skill name {_quoted(name)} is not allowed: lower-case letters, digits and single hyphens between "
            f"them, at most {MAX_SKILL_NAME}."
        )
    if not name:
        raise InvalidParameter(f"the {kind} name is empty; give it 1 to {MAX_NAME} characters.")
    _check_text(f"the {kind} name", name, MAX_NAME)
    match = _FORBIDDEN.search(name)
    if match:
        raise InvalidParameter(
            f"the {kind} name {_quoted(name)} holds {_character(match[0])} at position {match.start()}; "
            "spaces, '/', control characters and DELETE are not allowed."
        )
    if kind != "recipient" and _UNWRITABLE.search(name):
        raise InvalidParameter(
            f"no client can write the {kind} name {_quoted(name)}: use no '#', and not only periods."
        )
    if "." in name and kind not in {"share", "recipient"}:
        raise InvalidParameter(f"the {kind} name {_quoted(name)} holds a period, which is not allowed there.")
    return name


def split_table_name(text: str) -> tuple[str, str, str]:
    """Return share, schema and table of `share.schema.table`; the share's name may hold periods.

    None of them is empty; whether it may be a name is for the checks above. Raises `InvalidParameter`.
    """
    parent, _, table = text.rpartition(".")
    share, _, schema = parent.rpartition(".")
    if not share or not schema or not table:
        raise InvalidParameter(f"'{text}' is not a table: write SHARE.SCHEMA.TABLE")
    return share, schema, table


def check_display_name(text: str) -> str:
    """Return a share's `displayName` of at most 255 characters, else raise `InvalidParameter`."""
    return _check_text("displayName", text, MAX_DISPLAY_NAME)


def check_comment(text: str) -> str:
    """Return a comment of at most 65536 characters, else raise `InvalidParameter`."""
    return _check_text("comment", text, MAX_COMMENT)


def check_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of at most 50 pairs, keys of 1 to 255 and values of at most 1000 characters."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidParameter(f"properties has {len(properties)} pairs; at most {MAX_PROPERTIES} are allowed.")
    for name, value in properties.items():
        if not name:
            raise InvalidParameter("a property's key is empty; give it at least one character.")
        _check_text("the key of a property", name, MAX_PROPERTY_KEY)
        _check_text(f"the value of property {_quoted(name)}", value, MAX_PROPERTY_VALUE)
    return dict(properties)


def key(name: str) -> str:
    """Return what two spellings of one name share: names are case-insensitive, their spelling is kept for answers."""
    return name.lower()


def _check_text(what: str, text: str, limit: int) -> str:
    if len(text) > limit:
        raise InvalidParameter(f"{what} has {len(text)} characters; at most {limit} are allowed.")
    if _SURROGATE.search(text):  # half a UTF-16 pair: it is no character and UTF-8 cannot carry it
        raise InvalidParameter(f"{what} holds an unpaired surrogate, which is not text.")
    return text


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _character(character: str) -> str:
    return {" ": "a space", "/": "'/'", "\x7f": "DELETE"}.get(character, f"the control character {ord(character):02X}")
