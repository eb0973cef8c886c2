"""Decode commit files: newline-delimited actions, in slices of bounded size.

Delta protocol, "Delta Log Entries". Only a line feed ends a line, because Spark writes U+2028 and similar characters
unescaped.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from deltaic.delta.actions import Add, Metadata, Protocol, Remove, parse_metadata, parse_protocol
from deltaic.delta.log_files import reading
from deltaic.delta.paths import CommitFile
from deltaic.errors import TableUnreadable

WINDOW_BYTES: Final = 16 << 20
"""Maximum total bytes of commit files that are fetched together."""

_SLICE: Final = 4 << 20
"""Bytes decoded at a time, so that a commit with a million actions never becomes a million objects in memory."""


class FileActions(msgspec.Struct, gc=False):
    """Actions in one line of a commit file, limited to those that reconciliation (`replay`) needs."""

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
_action: Final = msgspec.json.Decoder(dict[str, Any])


def to_slices(content: bytes) -> Iterator[bytes]:
    """Split a commit into slices that end at a line feed."""
    if len(content) <= _SLICE:
        yield content
        return
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _SLICE)
        end = len(content) if end < 0 else end + 1
        yield content[start:end]
        start = end


def decode_lines(content: bytes, path: str, lines: msgspec.json.Decoder[_Line]) -> Iterator[_Line]:
    """Yield the decoded lines of a commit; raises TableUnreadable with `path` for an invalid line."""
    for part in to_slices(content):
        with reading(path):
            decoded = lines.decode_lines(part)
        yield from decoded


def decode_metadata(raw: msgspec.Raw, path: str) -> Metadata | None:
    """Decode the `metaData` action of a line; None if the line has no such action."""
    action = decode_json(raw, path)
    return None if action is None else parse_metadata(action, path)


def decode_protocol(raw: msgspec.Raw, path: str) -> Protocol | None:
    """Decode the `protocol` action of a line; None if the line has no such action."""
    action = decode_json(raw, path)
    return None if action is None else parse_protocol(action, path)


def in_commit_timestamp(content: bytes, path: str) -> int:
    """Return the in-commit timestamp in ms since the epoch; raises TableUnreadable if it is missing.

    Delta protocol, "In-Commit Timestamps": `commitInfo` must be the first action. This function accepts it in any line.
    """
    for line in content.split(b"\n"):
        if b'"commitInfo"' not in line:
            continue
        with reading(path):
            info = _info.decode(line).commit_info
        if info is not None and info.in_commit_timestamp is not None:
            return info.in_commit_timestamp
    raise TableUnreadable(f"the table's log is inconsistent: {path} has no inCommitTimestamp though it is enabled")


def decode_json(raw: msgspec.Raw, path: str) -> dict[str, Any] | None:
    """Decode a raw action as plain JSON values; None if it is empty or null. `path` is for error messages."""
    value = bytes(raw)
    if not value or value == b"null":
        return None
    with reading(path):
        return _action.decode(value)


def to_windows(commits: Iterable[CommitFile], most_commits: int | None = None) -> Iterator[list[CommitFile]]:
    """Group commits: each group has at most `most_commits` and WINDOW_BYTES, or is a single larger commit."""
    window: list[CommitFile] = []
    window_bytes = 0
    for commit in commits:
        if window and (len(window) == most_commits or window_bytes + commit.file.size > WINDOW_BYTES):
            yield window
            window, window_bytes = [], 0
        window.append(commit)
        window_bytes += commit.file.size
    if window:
        yield window
