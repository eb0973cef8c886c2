"""Check that the columns that a dataset file names exist in its rows or table, and have suitable types."""

from collections.abc import Iterable, Iterator, Mapping

from deltaic_pipeline.table.column_names import THE_TABLE, missing_column, names_by_lower_case, unknown_name
from deltaic_terminal.document import Path

from deltaic_datasets.file import dataset_model
from deltaic_datasets.file.dataset_model import Dataset

UNSORTED = frozenset(
    {"array", "binary", "boolean", "geography", "geometry", "interval", "map", "struct", "variant", "void"}
)
"""Types for which Delta has no minimum and maximum statistics, so that it cannot cluster by them."""

NESTED = frozenset({"array", "map", "struct", "variant"})

Columns = Mapping[str, str]
"""Types of columns by name, each as the first word of the type in Spark's DDL."""


def column_mistakes(
    dataset: Dataset, rows: Columns, table: Iterable[str] | None = (), *, owner: str = "the rows"
) -> Iterator[tuple[Path, str]]:
    """Yield the path and an error for each field of a dataset that names a missing or unsuitable column.

    `rows` has the columns of the last step, and `owner` is the name of these rows in messages. `table` has the columns
    of the existing table; empty if there is no table, None if its columns are unknown.
    """
    columns = names_by_lower_case([*(table or ()), *rows, *_state_columns(dataset)])
    types = {name.lower(): type_ for name, type_ in rows.items()}
    for path, name in _row_columns(dataset):
        if name.lower() not in names_by_lower_case(rows):
            yield path, unknown_name(name, rows, f"a column of {owner}")
    for field, names, unsupported in (
        ("partition_by", dataset.target.partition_by, NESTED),
        ("cluster_by", dataset.target.cluster_by, UNSORTED),
    ):
        for number, name in enumerate(names):
            path = ("target", field, number)
            if name.lower() not in columns:
                if table is not None:
                    yield path, unknown_name(name, columns.values(), "a column")
            elif name.lower() in map(str.lower, names[:number]):
                yield path, f"'{name}' is named twice"
            elif (type_ := types.get(name.lower(), "")) in unsupported:
                yield path, f"'{name}' is of type {type_}, by which Delta tables cannot be {_PARTICIPLES[field]}"
    for name in dataset.target.columns:
        if table is not None and name.lower() not in columns:
            yield ("target", "columns", name), unknown_name(name, columns.values(), "a column")


def table_column_mistakes(dataset: Dataset, table: Columns) -> Iterator[tuple[Path, str]]:
    """Yield the path and an error for each field that names a column which the existing table will never have."""
    state_columns = names_by_lower_case(_state_columns(dataset))
    if not dataset.target.evolve_schema:
        rows = {name: kind for name, kind in table.items() if name.lower() not in state_columns}
        yield from column_mistakes(dataset, rows, table, owner=THE_TABLE)
        return
    for number, key in enumerate(getattr(dataset.write, "keys", ())):
        if message := missing_column(key, table, "the table"):
            yield ("write", "keys", number), message


_PARTICIPLES = {"partition_by": "partitioned", "cluster_by": "clustered"}


def name_refusal(name: str, properties: Mapping[str, str]) -> str | None:
    """Return an error for a column name that is invalid in a new Delta table with these properties, else None."""
    mapping = {key.lower(): value.lower() for key, value in properties.items()}.get("delta.columnmapping.mode", "none")
    if mapping != "none" or not set(name) & set(" ,;{}()\n\t="):
        return None
    return (
        f"the column '{name}' has a character that Delta rejects in names ( ,;{{}}()= or white space). Rename it in a"
        f" step (SELECT `{name}` AS ...), or set delta.columnMapping.mode: name in target.properties"
    )


def _row_columns(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    for number, key in enumerate(getattr(dataset.write, "keys", ())):
        yield ("write", "keys", number), key
    if isinstance(dataset.write, dataset_model.Scd2) and dataset.write.at:
        yield ("write", "at"), dataset.write.at
    for number, rule in enumerate(dataset.expectations):
        if hasattr(rule, "column"):
            yield ("expectations", number, "column"), rule.column
        for position, name in enumerate(getattr(rule, "columns", ())):
            yield ("expectations", number, "columns", position), name


def _state_columns(dataset: Dataset) -> list[str]:
    write = dataset.write
    return [write.valid_from, write.valid_to, write.current] if isinstance(write, dataset_model.Scd2) else []
