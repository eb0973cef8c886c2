"""Read with pyiceberg."""

import importlib.metadata
from typing import Any

from client_matrix.scripts import reading
from client_matrix.scripts.pyiceberg_tables import open_table, snapshot_id


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    scan = open_table(job, check).scan(snapshot_id=snapshot_id(check))
    rows: reading.Rows = scan.to_arrow().to_pylist()
    return rows


reading.main(importlib.metadata.version("pyiceberg"), read)
