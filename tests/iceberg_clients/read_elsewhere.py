"""Read shared tables with clients that need a separate environment.

`test_clients.py` runs this script, which prints the result or error of each client as JSON.
"""

import importlib
import importlib.metadata
import json
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
from pyiceberg.catalog.rest import RestCatalog

FSSPEC = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}


def main() -> None:
    """Read the tables of the server in standard input."""
    server, daft = json.load(sys.stdin), importlib.import_module("daft")

    def table(name: str, recipient: str = "alice", **options: str) -> Any:
        catalog = RestCatalog("lent", uri=server["uri"], token=server["tokens"][recipient], warehouse="lent", **options)
        return catalog.load_table(f"default.{name}")

    def ids(rows: Any) -> list[int]:
        return sorted(rows["id"].to_pylist() if hasattr(rows["id"], "to_pylist") else rows["id"])

    reads: dict[str, Callable[[], Any]] = {
        "fsspec vended": lambda: ids(table("vended", **FSSPEC).scan().to_arrow()),
        "fsspec signed": lambda: ids(table("signed").scan().to_arrow()),
        "fsspec counted": lambda: ids(table("signed", "dave").scan().to_arrow()),
        "fsspec alice": lambda: ids(table("of_country").scan().to_arrow()),
        "fsspec bob": lambda: ids(table("of_country", "bob").scan().to_arrow()),
        "fsspec hidden": lambda: table("without_country").scan().to_arrow().column_names,
        "polars vended": lambda: ids(pl.scan_iceberg(table("vended"), reader_override="pyiceberg").collect()),
        "polars signed": lambda: ids(pl.scan_iceberg(table("signed"), reader_override="pyiceberg").collect()),
        "daft vended": lambda: ids(daft.from_arrow(table("vended").scan().to_arrow()).to_pydict()),
        "daft signed": lambda: ids(daft.from_arrow(table("signed").scan().to_arrow()).to_pydict()),
        "daft alone": lambda: ids(daft.read_iceberg(table("vended")).to_pydict()),
        **_duckdb(server["uri"], server["tokens"]["alice"]),
    }
    sys.stdout.write(json.dumps({name: _try(read) for name, read in reads.items()}) + "\n")


def _duckdb(uri: str, token: str) -> dict[str, Callable[[], Any]]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        files = importlib.metadata.files(f"duckdb-extension-{name}") or ()
        [extension] = [str(file.locate()) for file in files if file.suffix == ".duckdb_extension"]
        connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CREATE SECRET shares (TYPE iceberg, TOKEN '{token}')")
    connection.execute(f"ATTACH 'lent' AS lent (TYPE iceberg, SECRET shares, ENDPOINT '{uri}')")

    def rows(query: str) -> list[Any]:
        return connection.execute(query).fetchall()

    table = "lent.default.vended"
    return {
        "duckdb vended": lambda: [row[0] for row in rows(f"FROM {table} ORDER BY id")],
        "duckdb filtered": lambda: rows(f"SELECT count(*) FROM {table} WHERE country = 'FI'")[0][0],  # noqa: S608
        "duckdb first version": lambda: len(rows(f"FROM {table} AT (VERSION => 1000000000000)")),
        "duckdb create": lambda: rows("CREATE TABLE lent.default.new (a INTEGER)"),
        "duckdb drop": lambda: rows(f"DROP TABLE {table}"),
        "duckdb insert": lambda: rows(f"INSERT INTO {table} VALUES (1, 'x', 'y')"),  # noqa: S608
    }


def _try(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 -- whatever a client raises
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
