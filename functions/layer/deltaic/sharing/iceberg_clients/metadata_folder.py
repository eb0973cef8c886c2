"""Folder of generated Iceberg metadata for one table and set of rights, and the indexes of its files.

The folder is in the server's bucket. Its path has the week, the table's id, and hashes of its location and of the
recipient's rights, so that recipients with different rights never share a folder. Objects never change. Each week has a
new folder, so that the bucket can delete old objects, which newer metadata does not reference (decision 162).
"""

import hashlib
from typing import Final

from deltaic.iceberg.file_index import FileIndex
from deltaic.sharing.context import SharedTable
from deltaic.storage.server_bucket import ServerBucket

INDEXES: Final = "i"
"""Subfolder of the file indexes, which only this server reads."""


def folder_of(table: SharedTable, week: str) -> str:
    """Return the folder of the metadata that is generated in a week for a table and a recipient's rights."""
    location = hashlib.sha256(table.identity.encode()).hexdigest()[:16]
    return f"{week}/{table.entry.id}/{location}/{table.rights.identity or 'all'}"


def since_of(table: SharedTable) -> int | None:
    """Return the first version that a table's Iceberg metadata includes; None if it includes only the latest."""
    return table.gate.start_version if table.gate.history_shared else None


def index_key(folder: str, version: int, commit_id: str) -> str:
    """Return the object key of a version's file index; it changes if the table is replaced."""
    return f"{folder}/{INDEXES}/{version:020d}-{commit_id}.index"


def read_index(bucket: ServerBucket, key: str) -> FileIndex | None:
    """Return the file index at an object key; None if it does not exist or another release wrote it."""
    content = bucket.get(key)
    try:
        return None if content is None else FileIndex.decode(content)
    except ValueError:  # from another release
        return None
