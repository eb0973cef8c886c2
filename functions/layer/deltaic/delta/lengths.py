"""Checks that what was read is whole: an object has the length that the log tells, or the request fails in passing.

A store, or a proxy before it, may answer 200 with nothing, with a part, or with somebody else's body. Half a commit is
a commit all the same, and half a table looks like a table: so every length is compared before a byte is understood.
"""

from collections.abc import Sequence

from deltaic.delta.paths import LOG
from deltaic.delta.store import LogFile, TableStore
from deltaic.errors import Unavailable


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
