"""The folder of what is made for Iceberg's clients of one table, and the indexes in it, by which it is found again.

It lies in the server's own bucket and names the week, the table, its place and the recipient's rights: who sees other
files has another folder, and nobody reads in another's. Objects there never change, and the week lets the bucket drop
them by age without taking what a newer version still names (decision 162).
"""

import hashlib
from typing import Final

from deltaic.iceberg.file_index import FileIndex
from deltaic.sharing.context import SharedTable
from deltaic.storage.server_bucket import ServerBucket

INDEXES: Final = "i"
"""Where the indexes lie in their folder, which only this server reads."""


def folder_of(table: SharedTable, week: str) -> str:
    """Return the folder of all that is made in a week for this recipient's rights to a table, whatever its log."""
    place = hashlib.sha256(table.identity.encode()).hexdigest()[:16]
    return f"{week}/{table.entry.id}/{place}/{table.rights.identity or 'all'}"


def since_of(table: SharedTable) -> int | None:
    """Return the first version that is listed beside the latest; None where none is."""
    return table.gate.start_version if table.gate.history_shared else None


def index_key(folder: str, version: int, commit_id: str) -> str:
    """Return where the index of a version lies: what was made, and of which files; a replaced commit has another."""
    return f"{folder}/{INDEXES}/{version:020d}-{commit_id}.index"


def read_index(bucket: ServerBucket, key: str) -> FileIndex | None:
    """Return the index at a key; None where there is none that this release can read."""
    content = bucket.get(key)
    try:
        return None if content is None else FileIndex.decode(content)
    except ValueError:  # of another release
        return None
