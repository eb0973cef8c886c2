"""Read with `scan_iceberg` of polars and the reader that the argument names: `native` or `pyiceberg`."""

import sys
from typing import Any, Literal, cast

import polars as pl
from client_matrix.scripts import reading
from client_matrix.scripts.pyiceberg_tables import open_table, snapshot_id


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    table = open_table(job, check)
    reader = cast('Literal["native", "pyiceberg"]', sys.argv[1])
    config = table.config
    options = (
        {
            "aws_access_key_id": config["s3.access-key-id"],
            "aws_secret_access_key": config["s3.secret-access-key"],
            "aws_session_token": config["s3.session-token"],
            "aws_region": config["s3.region"],
            "aws_endpoint_url": config["s3.endpoint"],
            "aws_allow_http": "true",
        }
        if "s3.access-key-id" in config and reader == "native"
        else None
    )
    scan = pl.scan_iceberg(table, snapshot_id=snapshot_id(check), reader_override=reader, storage_options=options)
    rows: reading.Rows = scan.collect().to_dicts()
    return rows


reading.main(pl.__version__, read)
