"""Commit files as they are read: newline-delimited actions, in bounded slices, split at line feeds only.

Delta protocol, "Delta Log Entries". U+2028 and its like stand raw inside lines that Spark wrote, so nothing but a
line feed ends a line.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from deltaic.delta.actions import Add, Metadata, Protocol, Remove, metadata_of, protocol_of
from deltaic.delta.log_files import reading
from deltaic.delta.paths import Commit
from deltaic.errors import TableUnreadable

WINDOW_BYTES: Final = 16 << 20
"""Bytes of commits fetched at once."""

_SLICE: Final = 4 << 20
"""Bytes decoded at a time: a commit of a million adds never stands in memory as a million objects at once."""


class FileActions(msgspec.Struct, gc=False):
    """One line of a commit as replay needs it; what replay ignores is not decoded."""

    add: Add | None = None
    remove: Remove | None = None
    meta_data: msgspec.Raw = msgspec.field(name="metaData", default_factory=msgspec.Raw)
    protocol: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Times(msgspec.Struct, gc=False, rename="camel"):
    in_commit_timestamp: int | None = None


class _Info(msgspec.Struct, gc=False, rename="camel"):
    commit_info: _Times | None = None


_Line = TypeVar("_Line")
_info: Final = msgspec.json.Decoder(_Info, strict=False)
_plain: Final = msgspec.json.Decoder(dict[str, Any])


def slices(content: bytes) -> Iterator[bytes]:
    """Cut a commit into slices of whole lines."""
    if len(content) <= _SLICE:
        yield content
        return
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _SLICE)
        end = len(content) if end < 0 else end + 1
        yield content[start:end]
        start = end


def lines_of(content: bytes, path: str, lines: msgspec.json.Decoder[_Line]) -> Iterator[_Line]:
    """Yield the lines of a commit in their order; raises TableUnreadable, naming `path`, at a torn or foreign line."""
    for part in slices(content):
        with reading(path):
            decoded = lines.decode_lines(part)
        yield from decoded


def metadata_in(raw: msgspec.Raw, path: str) -> Metadata | None:
    """Read a line's `metaData`; None where the line has none."""
    plain = object_in(raw, path)
    return None if plain is None else metadata_of(plain, path)


def protocol_in(raw: msgspec.Raw, path: str) -> Protocol | None:
    """Read a line's `protocol`; None where the line has none."""
    plain = object_in(raw, path)
    return None if plain is None else protocol_of(plain, path)


def in_commit_timestamp(content: bytes, path: str) -> int:
    """Return the commit's own time, in ms since the epoch; raises TableUnreadable where it should be and is not.

    Delta protocol, "In-Commit Timestamps": `commitInfo` is the first action then. Any line is accepted here.
    """
    for line in content.split(b"\n"):
        if b'"commitInfo"' not in line:
            continue
        with reading(path):
            info = _info.decode(line).commit_info
        if info is not None and info.in_commit_timestamp is not None:
            return info.in_commit_timestamp
    raise TableUnreadable(f"the table's log contradicts itself: {path} has no inCommitTimestamp though it is enabled")


def object_in(raw: msgspec.Raw, path: str) -> dict[str, Any] | None:
    """Read an action as plain JSON values; None where the line has none."""
    value = bytes(raw)
    if not value or value == b"null":
        return None
    with reading(path):
        return _plain.decode(value)


def windows(commits: Iterable[Commit], most_commits: int | None = None) -> Iterator[list[Commit]]:
    """Cut commits, in their order, into runs that are fetched at once: of WINDOW_BYTES, or of one commit above it."""
    window: list[Commit] = []
    window_bytes = 0
    for commit in commits:
        if window and (len(window) == most_commits or window_bytes + commit.file.size > WINDOW_BYTES):
            yield window
            window, window_bytes = [], 0
        window.append(commit)
        window_bytes += commit.file.size
    if window:
        yield window
