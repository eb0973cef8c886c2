"""Reads metadata files with DuckDB, which has its extensions in an environment of its own; run by `test_duckdb.py`.

Standard input names files and, for each, versions and where their rows go; what fails is printed.
"""

import importlib.metadata
import json
import sys
from typing import Any

import duckdb
import pyarrow as pa


def main() -> None:
    """Read what standard input names."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        files = importlib.metadata.files(f"duckdb-extension-{name}") or ()
        [extension] = [str(file.locate()) for file in files if file.suffix == ".duckdb_extension"]
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    failures = {}
    for one in json.load(sys.stdin):
        scan = f"iceberg_scan('{one['document']}', snapshot_from_id => {10**12 + one['version']})"
        try:
            rows: Any = connection.execute(f"FROM {scan}").to_arrow_table()
            with pa.OSFile(one["into"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
        except Exception as error:  # noqa: BLE001 -- whatever DuckDB raises
            failures[one["into"]] = str(error)
    sys.stdout.write(json.dumps(failures) + "\n")


if __name__ == "__main__":
    main()
