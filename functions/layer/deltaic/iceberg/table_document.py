"""The table as Iceberg's metadata (metadata.json) has it."""

from typing import Any

from deltaic.iceberg.file_index import FileIndex
from deltaic.iceberg.table_version import Means


def table_document(means: Means, table_id: str, index: FileIndex, *, since: int | None = None) -> dict[str, Any]:
    """Return the metadata, whose snapshots are the listed versions from `since` on; None for the newest alone.

    A snapshot's id is 10**12 + the version's number, and a tag `v<number>` names it. `table_id` is what the table keeps
    its identity by (a UUID; of another text one is made).
    """
    raise NotImplementedError
