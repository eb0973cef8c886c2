"""The report of a file of the log that cannot be read: TableUnreadable, naming the file and the cause."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from deltaic.errors import TableUnreadable


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
