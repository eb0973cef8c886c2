"""Folder of generated Iceberg metadata for one table and set of rights, and the indexes of its files.

The folder is in the server's bucket. Its name has the week, the table, its location and the recipient's rights, so
that recipients with different rights never share a folder. Objects never change. The week allows the bucket to expire
objects by age, without deleting files that newer metadata still references (decision 162).
"""

import hashlib
from typing import Final

from deltaic.iceberg.file_index import FileIndex
from deltaic.sharing.context import SharedTable
from deltaic.storage.server_bucket import ServerBucket

INDEXES: Final = "i"
"""Subfolder of the indexes, which only this server reads."""


def folder_of(table: SharedTable, week: str) -> str:
    """Return the folder of the metadata that is generated in a week for this recipient's rights to a table."""
    location = hashlib.sha256(table.identity.encode()).hexdigest()[:16]
    return f"{week}/{table.entry.id}/{location}/{table.rights.identity or 'all'}"


def since_of(table: SharedTable) -> int | None:
    """Return the first version that the metadata lists; None if it lists only the latest."""
    return table.gate.start_version if table.gate.history_shared else None


def index_key(folder: str, version: int, commit_id: str) -> str:
    """Return the key of the index of a version; a replaced commit has another key."""
    return f"{folder}/{INDEXES}/{version:020d}-{commit_id}.index"


def read_index(bucket: ServerBucket, key: str) -> FileIndex | None:
    """Return the index at a key; None if it does not exist or another release wrote it."""
    content = bucket.get(key)
    try:
        return None if content is None else FileIndex.decode(content)
    except ValueError:  # from another release
        return None
