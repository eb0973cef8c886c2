"""Read tables' folders with `polars`."""

from typing import Any

import polars as pl
from client_matrix.scripts import reading


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    location, options = reading.credentials(job, check["table"])
    scan = pl.scan_delta(location, version=check["version"], storage_options=options)
    rows: reading.Rows = scan.collect().to_dicts()
    return rows


reading.main(pl.__version__, read)
