"""Build dataset files for tests, with defaults for all parts."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.run.run_state import Run
from deltalake import write_deltalake
from pipeline.place import StoredTable


def dataset(location: str, **parts: Any) -> dict[str, Any]:
    """Return the content of a dataset file; parts with the value None are left out."""
    target = {"location": location, **parts.pop("target", {})}
    content = {"name": "tried", "target": target, "write": {"mode": "append"}, **parts}
    return {name: value for name, value in content.items() if value is not None}


def run_of(content: Mapping[str, Any], run_id: str = "run") -> Run:
    """Return a run of a dataset after writing and reading its file."""
    return Run(dataset_of(yaml.safe_dump(dict(content)), "dataset.yaml")[0], run_id)


def store_rows(table: StoredTable, rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Create a table with rows and a change feed, as an earlier run has created it, but without Spark."""
    options, configuration = dict(table.options), {"delta.enableChangeDataFeed": "true"}
    records = pa.Table.from_pylist([dict(row) for row in rows], schema)
    write_deltalake(table.location, records, storage_options=options, configuration=configuration)


def json_source(
    folder: Path, name: str, rows: Iterable[Mapping[str, Any]], schema: str | None = None
) -> dict[str, Any]:
    """Write rows to a file of JSON lines and return the source that reads it."""
    file = folder / f"{name}.json"
    file.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), encoding="utf-8")
    return {"format": "json", "paths": [str(file)], **({"schema": schema} if schema else {})}
