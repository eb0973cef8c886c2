"""Read tables' folders with `deltalake`; the argument is the function: `query` or `pyarrow`."""

import sys
from typing import Any

import deltalake
import pyarrow as pa
from client_matrix.scripts import reading


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table or its changes."""
    location, options = reading.credentials(job, check["table"])
    table = deltalake.DeltaTable(location, version=check["version"], storage_options=options)
    rows: pa.Table
    if check["changes"]:
        first, last = check["changes"]
        rows = pa.table(table.load_cdf(first, last).read_all()).drop_columns("_commit_timestamp")
    elif sys.argv[1:] == ["pyarrow"]:
        rows = table.to_pyarrow_table()
    else:
        query = deltalake.QueryBuilder().register("shared", table).execute("SELECT * FROM shared")
        rows = pa.table(query.read_all())
    records: reading.Rows = rows.to_pylist()
    return records


reading.main(deltalake.__version__, read)
