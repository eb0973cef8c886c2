"""The run ids that tables know: which runs have committed, read from their logs by deltalake, without Spark."""

from typing import TYPE_CHECKING

from deltaic_pipeline.spark.access import S3Access
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.table.transactions import Transaction

if TYPE_CHECKING:
    from deltalake import DeltaTable


class RunIds:
    """What has been committed when a table was first asked for."""

    def __init__(self, access: S3Access) -> None:
        self._access = access
        self._tables: dict[str, DeltaTable | None] = {}

    def has(self, location: str, transaction: Transaction) -> bool:
        """Tell whether a table has a commit; False where there is none, or where nobody knows."""
        if location not in self._tables:
            self._tables[location] = opened(location, self._access)
        table = self._tables[location]
        return table is not None and table.transaction_version(transaction.application) is not None


def opened(location: str, access: S3Access) -> "DeltaTable | None":
    """Return a table by its log alone; None where there is none, where it cannot be read, and without deltalake."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:  # a cluster's package has none: 54 MB more, for a row a run
        return None
    try:
        return DeltaTable(catalog_location(location), storage_options=access.deltalake())
    except (DeltaError, OSError, ValueError):
        return None
