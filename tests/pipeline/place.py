"""Names of the bucket and the catalog for tests of jobs, and the locations of one test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

BUCKET = "pipeline"
CATALOG, TOKENS = "pipeline-catalog", "pipeline-tokens"


@dataclass(frozen=True)
class StoredTable:
    """A Delta table as its readers see it: read by deltalake, which did not write it and needs no Spark job."""

    location: str
    options: Mapping[str, str]

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self.location, dict(self.options))

    def open(self) -> DeltaTable:
        return DeltaTable(self.location, storage_options=dict(self.options))

    def version(self) -> int:
        return self.open().version()

    def columns(self) -> list[str]:
        return [column.name for column in self.open().schema().fields]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the values of columns, or of fields such as `n.x`, of all rows, sorted by their texts."""
        return _sorted_values(pa.table(self.open().scan()), columns)

    def changes(self, version: int, *columns: str) -> list[tuple[Any, ...]]:
        """Return the type and the columns of all changes of a version, as a recipient of the change feed sees them."""
        reader = self.open().load_cdf(starting_version=version, ending_version=version)
        return _sorted_values(pa.table(reader), ("_change_type", *columns))


@dataclass(frozen=True)
class Place:
    """A test's folder in the bucket, and its folder on disk."""

    location: str
    """`s3://bucket/test`."""

    prefix: str
    folder: Path
    options: Mapping[str, str] = field(repr=False)
    """Storage options of deltalake."""

    @property
    def spark_location(self) -> str:
        return self.location.replace("s3://", "s3a://", 1)

    def table(self, suffix: str = "") -> StoredTable:
        """Return the table at the location, or at the location with a suffix."""
        return StoredTable(self.location + suffix, self.options)


def _sorted_values(table: pa.Table, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    def value(record: Any, column: str) -> Any:
        return reduce(lambda struct, name: None if struct is None else struct[name], column.split("."), record)

    return sorted((tuple(value(record, column) for column in columns) for record in table.to_pylist()), key=repr)
