"""The actions of a Delta log on this disk, made of what a server tells of a shared table."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

LOG: Final = "_delta_log"
DATA_FEATURES: Final = (
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
)
"""Table features that a reader of the data files must know (Delta protocol, "Valid Feature Names")."""
LOG_FEATURES: Final = ("v2Checkpoint", "vacuumProtocolCheck")
_OF_THE_SOURCE: Final = {*LOG_FEATURES, "catalogManaged", "catalogOwned", "catalogOwned-preview"}
"""Features of the source's log, which a copy does not have."""
_PROPERTIES: Final = frozenset(
    {
        "delta.columnmapping.mode",
        "delta.columnmapping.maxcolumnid",
        "delta.enabledeletionvectors",
        "delta.enabletypewidening",
        "delta.enablevariantshredding",
    }
)
"""In lower case: what says how files are read. Rules for writers, lifetimes and ids of rows stay with the source."""
_READER, _WRITER = 3, 7


def local_protocol(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return Delta's protocol with what concerns readers of the files, so that any library that knows those reads it.

    A feature that is not known here stays: then the library says what it cannot read.
    """
    reader = int(told.get("minReaderVersion", 1))
    if reader < _READER:
        return {"minReaderVersion": reader, "minWriterVersion": min(int(told.get("minWriterVersion", 2)), 6)}
    features = [name for name in told.get("readerFeatures") or [] if name not in _OF_THE_SOURCE]
    return {
        "minReaderVersion": _READER,
        "minWriterVersion": _WRITER,
        "readerFeatures": features,
        "writerFeatures": features,
    }


def local_metadata(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return Delta's metaData with the properties that say how files are read."""
    kept = {name: value for name, value in (told.get("configuration") or {}).items() if name.lower() in _PROPERTIES}
    return {**told, "configuration": kept}


def commit_name(version: int) -> str:
    """Return the name of a version's commit below the log."""
    return f"{version:020}.json"


def commit_text(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a commit: its actions, one a line."""
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)
