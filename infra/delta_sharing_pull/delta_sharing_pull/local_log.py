"""Convert the Delta protocol and metadata of a shared table for the log of its local copy."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

LOG: Final = "_delta_log"
DATA_FEATURES: Final = (
    "columnMapping",
    "deletionVectors",
    "geospatial",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
)
"""Table features that readers of the data files must support (Delta protocol, "Valid Feature Names")."""
LOG_FEATURES: Final = ("v2Checkpoint", "vacuumProtocolCheck")
_SOURCE_ONLY: Final = {*LOG_FEATURES, "catalogManaged", "catalogOwned", "catalogOwned-preview"}
"""Table features that concern only the log or the catalog of the source, so that a copy does not have them."""
_PROPERTIES: Final = frozenset(
    {
        "delta.columnmapping.mode",
        "delta.columnmapping.maxcolumnid",
        "delta.enabledeletionvectors",
        "delta.enabletypewidening",
        "delta.enablevariantshredding",
    }
)
"""Table properties that affect reading, in lower case. Others, such as those for retention, are not copied."""
_READER, _WRITER = 3, 7


def local_protocol(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Delta protocol for a copy of a table, with only the features that affect reading its files.

    Unknown features are kept, so that a Delta library can report which feature it does not support.
    """
    reader = int(source.get("minReaderVersion", 1))
    if reader < _READER:
        return {"minReaderVersion": reader, "minWriterVersion": min(int(source.get("minWriterVersion", 2)), 6)}
    features = [name for name in source.get("readerFeatures") or [] if name not in _SOURCE_ONLY]
    return {
        "minReaderVersion": _READER,
        "minWriterVersion": _WRITER,
        "readerFeatures": features,
        "writerFeatures": features,
    }


def local_metadata(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return Delta's metaData for a copy of a table, with only the properties that affect reading."""
    properties = (source.get("configuration") or {}).items()
    configuration = {name: value for name, value in properties if name.lower() in _PROPERTIES}
    return {**source, "configuration": configuration}


def commit_name(version: int) -> str:
    """Return the file name of the commit with this version in a Delta log."""
    return f"{version:020}.json"


def commit_text(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the content of a commit file, one JSON action per line."""
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)
