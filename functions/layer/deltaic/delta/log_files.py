"""Reads files of the log whole or not at all, and reports one that cannot be read by its name and the cause.

A store, or a proxy before it, may answer 200 with nothing, with a part, or with somebody else's body. Half a commit is
a commit all the same, and half a table looks like a table: so every length is compared before a byte is understood.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from deltaic.delta.paths import LOG
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import TableUnreadable, Unavailable


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn whatever reading the file `name` raises about its contents or absence into TableUnreadable.

    Failures of the store (throttling, refusal, anything passing) are `deltaic.errors` already and go through.
    """
    try:
        yield
    except FileNotFoundError as missing:
        # The reference server's text, which clients' tests look for, and then which file.
        # The store names the file; `name` may stand for several.
        path = missing.args[0] if missing.args and isinstance(missing.args[0], str) else name
        raise TableUnreadable(f"table files missing: {shown(path)}", path) from missing
    except msgspec.MsgspecError as broken:
        raise TableUnreadable(
            f"the table's log cannot be read: {shown(name)} holds broken JSON: {broken}", name
        ) from broken
    except (pa.ArrowException, OSError, ValueError, RecursionError) as broken:
        first = str(broken).partition("\n")[0]
        raise TableUnreadable(f"the table's log cannot be read: {shown(name)} is corrupt: {first}", name) from broken


def shown(path: str) -> str:
    """Return how a recipient may read a path of the log: below the table's root as it is, elsewhere the name alone."""
    return path.rpartition("/")[2] if ":/" in path or path.startswith("/") else path


def read_listed(store: TableStore, file: LogFile) -> bytes:
    """Return a file of the log whole; raises Unavailable for another length than that in the listing."""
    return read_all_listed(store, [file])[0]


def read_all_listed(store: TableStore, files: Sequence[LogFile]) -> list[bytes]:
    """Return files of the log whole, in their order; raises what `read_listed` raises."""
    contents = store.get_many([LOG + file.name for file in files])
    for file, content in zip(files, contents, strict=True):
        check_length(LOG + file.name, len(content), file.size)
    return contents


def check_length(path: str, length: int, told: int) -> None:
    """Raise Unavailable for an object of another length than was told: it was cut, or replaced since."""
    if length != told:
        raise Unavailable(
            "the storage of this table gave another length of a file than the log tells; try again",
            f"{path}: {length} bytes instead of {told}",
        )
