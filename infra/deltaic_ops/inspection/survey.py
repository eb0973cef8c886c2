"""Survey a Delta table: read its log, and the Parquet footers of some of its files."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError, TableUnreadable

from deltaic_ops.inspection.client_limits import is_odd
from deltaic_ops.inspection.shared_schema import SchemaReader, SharedSchema
from deltaic_ops.inspection.table_facts import TableFacts, facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltaic.delta.snapshot import Snapshot
    from deltaic.iceberg.data_footers import DataFile
    from deltaic.storage.objects import ObjectTableStore

_FILES = 10_000
"""Maximum number of data files from which the sample is chosen whose Parquet footers are read."""

_LISTED_NAMES = 100
"""Maximum number of objects listed in a folder without a Delta log, to recognize other formats."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of a survey of a table: facts, schema, and properties with which some clients have problems."""

    latest: TableFacts
    schema: SharedSchema
    without_statistics: int
    odd_paths: int
    """Number of files whose path has a space or a non-ASCII letter."""

    in_views: tuple[str, ...]
    """Columns that some files store with the Arrow types string_view or binary_view."""

    unread: str = ""
    """Error message for a data file that cannot be read; empty if all examined files can be read."""


def survey(schemas: SchemaReader, location: str, storage: str = "", table: Table | None = None) -> Survey:
    """Survey a table; `table` is its catalog entry, if shared. Raises DeltaicError if it cannot be read."""
    try:
        return schemas.in_store(location, storage, lambda store: _read_survey(store, location, table))
    except TableUnreadable as refusal:
        raise TableUnreadable(f"{refusal.message}{_suggest_format(schemas, location, storage)}") from refusal


def _suggest_format(schemas: SchemaReader, location: str, storage: str) -> str:
    from deltaic.storage.folder_objects import list_page
    from deltaic.storage.locations import Location

    with suppress(DeltaicError), schemas.reading(location, storage) as (config, credentials):

        def names(prefix: str) -> list[str]:
            page = list_page(credentials(), config, Location.parse(location), prefix=prefix, limit=_LISTED_NAMES)
            return [entry.name for entry in page.objects]

        if names("_delta_log/"):
            return ""
        if any(".metadata.json" in name for name in names("metadata/")):
            return ". The folder looks like an Iceberg table: share it with --format iceberg"
        if any(name.endswith(".parquet") for name in names("")):
            return ". The folder has Parquet files: convert it with deltalake.convert_to_deltalake or CONVERT TO DELTA"
    return ""


def _read_survey(store: "ObjectTableStore", location: str, table: Table | None) -> Survey:
    from deltaic.delta.log import DeltaLog
    from deltaic.iceberg.data_footers import columns_in_views
    from deltaic.pruning.columns import Columns

    snapshot, without_statistics, odd_paths, unscaled = DeltaLog(store).snapshot().load_commits(), 0, 0, set[str]()
    columns = Columns(snapshot.metadata)
    partitions = [columns.find((name,)) for name in snapshot.metadata.partition_columns]
    scales = {column.path[0]: column.type.scale for column in partitions if column and column.type.name == "decimal"}
    for batch in snapshot.files():
        without_statistics += batch["stats"].null_count
        odd_paths += sum(is_odd(unquote(path)) for path in batch["path"].to_pylist())
        for name, value in chain.from_iterable(batch["partitionValues"].to_pylist()):
            if value and len(value.partition(".")[2]) != scales.get(name, len(value.partition(".")[2])):
                unscaled.add(f"{name}={value}")
    in_views, unread = [], ""
    try:
        in_views = columns_in_views(store, list(islice(_files_in_folder(snapshot), _FILES)))
    except DeltaicError as refusal:
        unread = f"{refusal.message} ({refusal.detail})" if refusal.detail else refusal.message
    schema = SharedSchema(snapshot.metadata, snapshot.protocol, location, tuple(sorted(unscaled)))
    return Survey(facts_of(snapshot, table, schema), schema, without_statistics, odd_paths, tuple(in_views), unread)


def _files_in_folder(snapshot: "Snapshot") -> "Iterator[DataFile]":
    from deltaic.iceberg.data_footers import DataFile

    for batch in snapshot.files():
        for path, size in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True):
            if ":/" not in path:
                yield DataFile(path, size)
