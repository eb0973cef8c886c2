"""Makes the Iceberg metadata of a version: what other versions have made already stays."""

from typing import Final

from deltaic.iceberg.file_index import FileIndex
from deltaic.iceberg.table_version import Means, TableVersion

FILES_A_MANIFEST: Final = 1_000


def first_index(means: Means, version: TableVersion) -> FileIndex:
    """Make the metadata of one version with nothing to start from.

    Raises UnsupportedOperation, naming reason and remedy, for a table that Iceberg clients would misread.
    """
    raise NotImplementedError


def newer_index(means: Means, version: TableVersion, before: FileIndex) -> FileIndex:
    """Make the metadata of a version later than any that is listed; raises what `first_index` does."""
    raise NotImplementedError


def with_earlier(means: Means, version: TableVersion, index: FileIndex) -> FileIndex:
    """List a version before those that are listed, too; raises what `first_index` does."""
    raise NotImplementedError
