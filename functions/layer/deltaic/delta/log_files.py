"""Read complete files of the log, and report unreadable ones with the cause.

A store or proxy can return status 200 with an empty, partial or wrong body. Half a commit would still parse, and half a
table would look complete, so each length is checked before the content is decoded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from deltaic.delta.paths import LOG
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import TableUnreadable, Unavailable


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Convert errors in the `with` block, about a missing or invalid file `name`, to TableUnreadable.

    Errors of the store itself (throttled, denied, transient) are `deltaic.errors` already and pass unchanged.
    """
    import pyarrow as pa  # imported late: commands that only describe actions need no Arrow

    try:
        yield
    except FileNotFoundError as missing:
        # The wording of the reference server, which clients' tests compare, and then the file's name.
        # The store's error has the exact path; `name` can describe several files.
        path = missing.args[0] if missing.args and isinstance(missing.args[0], str) else name
        raise TableUnreadable(f"table files missing: {public_path(path)}", path) from missing
    except msgspec.MsgspecError as broken:
        message = f"the table's log cannot be read: {public_path(name)} contains invalid JSON: {broken}"
        raise TableUnreadable(message, name) from broken
    except (pa.ArrowException, OSError, ValueError, RecursionError) as broken:
        cause = str(broken).partition("\n")[0]
        message = f"the table's log cannot be read: {public_path(name)} is corrupt: {cause}"
        raise TableUnreadable(message, name) from broken


def public_path(path: str) -> str:
    """Return a log file's path for recipients: relative to the root, or only the name of a file elsewhere."""
    return path.rpartition("/")[2] if ":/" in path or path.startswith("/") else path


def read_listed(store: TableStore, file: LogFile) -> bytes:
    """Return a log file's content; raises Unavailable if its length differs from the listing."""
    return read_all_listed(store, [file])[0]


def read_all_listed(store: TableStore, files: Sequence[LogFile]) -> list[bytes]:
    """Return the contents of log files in the given order; raises the same errors as `read_listed`."""
    contents = store.get_many([LOG + file.name for file in files])
    for file, content in zip(files, contents, strict=True):
        check_length(LOG + file.name, len(content), file.size)
    return contents


def check_length(path: str, length: int, expected: int) -> None:
    """Raise Unavailable for an object of an unexpected length, because it was truncated or replaced."""
    if length != expected:
        raise Unavailable(
            "the storage of this table returned a file whose length differs from that in the log; try again",
            f"{path}: {length} bytes instead of {expected}",
        )
