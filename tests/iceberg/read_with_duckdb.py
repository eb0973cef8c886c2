"""Read metadata files with DuckDB; `test_duckdb.py` runs this program in a separate environment with its extensions.

Standard input has a list of files, versions and output paths; failures are printed.
"""

import importlib.metadata
import json
import sys
from typing import Any

import duckdb
import pyarrow as pa


def main() -> None:
    """Read the versions that standard input lists."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        files = importlib.metadata.files(f"duckdb-extension-{name}") or ()
        [extension] = [str(file.locate()) for file in files if file.suffix == ".duckdb_extension"]
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    failures = {}
    for request in json.load(sys.stdin):
        scan = f"iceberg_scan('{request['document']}', snapshot_from_id => {10**12 + request['version']})"
        try:
            rows: Any = connection.execute(f"FROM {scan}").to_arrow_table()
            with pa.OSFile(request["into"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
        except Exception as error:  # noqa: BLE001 -- reports every error of DuckDB
            failures[request["into"]] = str(error)
    sys.stdout.write(json.dumps(failures) + "\n")


if __name__ == "__main__":
    main()
