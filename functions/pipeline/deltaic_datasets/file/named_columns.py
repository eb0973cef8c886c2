"""Decides whether the columns that a dataset names are among those of its rows, wherever these are known from."""

from collections.abc import Iterable, Iterator, Mapping

from deltaic_pipeline.table.column_names import THE_TABLE, missing_in, names_by_lower_case, not_there
from deltaic_terminal.document import Path

from deltaic_datasets.file import dataset_model
from deltaic_datasets.file.dataset_model import Dataset

UNSORTED = frozenset(
    {"array", "binary", "boolean", "geography", "geometry", "interval", "map", "struct", "variant", "void"}
)
"""Types of which Delta has no minimum and maximum in its statistics, so that it does not cluster by them."""

NESTED = frozenset({"array", "map", "struct", "variant"})

Columns = Mapping[str, str]
"""Names of columns, and of each type the first word as Spark's DDL has it."""


def misnamed(
    dataset: Dataset, rows: Columns, table: Iterable[str] | None = (), *, owner: str = "the rows"
) -> Iterator[tuple[Path, str]]:
    """Yield what the dataset says of columns that there are not, and of columns whose type does not allow it.

    `rows` are the columns of what the last step gives, `table` those of the table that is there; None: it may have
    others, and nobody has looked. `owner` is who has the former.
    """
    whole = names_by_lower_case([*(table or ()), *rows, *_of_states(dataset)])
    kinds = {name.lower(): kind for name, kind in rows.items()}
    for path, name in _of_rows(dataset):
        if name.lower() not in names_by_lower_case(rows):
            yield path, not_there(name, rows, f"a column of {owner}")
    for field, names, unfit in (
        ("partition_by", dataset.target.partition_by, NESTED),
        ("cluster_by", dataset.target.cluster_by, UNSORTED),
    ):
        for number, name in enumerate(names):
            path = ("target", field, number)
            if name.lower() not in whole:
                if table is not None:
                    yield path, not_there(name, whole.values(), "a column")
            elif name.lower() in map(str.lower, names[:number]):
                yield path, f"'{name}' is named twice"
            elif (kind := kinds.get(name.lower(), "")) in unfit:
                yield path, f"'{name}' is of type {kind}, by which Delta's tables are not {_DONE[field]}"
    for name in dataset.target.columns:
        if table is not None and name.lower() not in whole:
            yield ("target", "columns", name), not_there(name, whole.values(), "a column")


def misnamed_of(dataset: Dataset, table: Columns) -> Iterator[tuple[Path, str]]:
    """Yield what the dataset says of columns that are not in the table which is there, where no rows can bring them."""
    own = names_by_lower_case(_of_states(dataset))
    if not dataset.target.evolve_schema:
        rows = {name: kind for name, kind in table.items() if name.lower() not in own}
        yield from misnamed(dataset, rows, table, owner=THE_TABLE)
        return
    for number, key in enumerate(getattr(dataset.write, "keys", ())):
        if message := missing_in(key, table, "the table"):
            yield ("write", "keys", number), message


_DONE = {"partition_by": "partitioned", "cluster_by": "clustered"}


def refused_name(name: str, properties: Mapping[str, str]) -> str | None:
    """Return what to say of a column that a new Delta table with these properties refuses; None if it does not."""
    mapping = {key.lower(): value.lower() for key, value in properties.items()}.get("delta.columnmapping.mode", "none")
    if mapping != "none" or not set(name) & set(" ,;{}()\n\t="):
        return None
    return (
        f"the column '{name}' has a character that Delta refuses in names ( ,;{{}}()= and white space). Rename it in a"
        f" step (SELECT `{name}` AS ...), or set delta.columnMapping.mode: name in target.properties"
    )


def _of_rows(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    for number, key in enumerate(getattr(dataset.write, "keys", ())):
        yield ("write", "keys", number), key
    if isinstance(dataset.write, dataset_model.Scd2) and dataset.write.at:
        yield ("write", "at"), dataset.write.at
    for number, one in enumerate(dataset.expectations):
        if hasattr(one, "column"):
            yield ("expectations", number, "column"), one.column
        for position, name in enumerate(getattr(one, "columns", ())):
            yield ("expectations", number, "columns", position), name


def _of_states(dataset: Dataset) -> list[str]:
    write = dataset.write
    return [write.valid_from, write.valid_to, write.current] if isinstance(write, dataset_model.Scd2) else []
