"""Read with daft; the argument is `delta` (folders) or `iceberg`."""

import importlib
import sys
from typing import Any

from client_matrix.scripts import reading
from client_matrix.scripts.pyiceberg_tables import open_table, snapshot_id

daft = importlib.import_module("daft")


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    frame = read_folder(job, check) if sys.argv[1] == "delta" else read_iceberg(job, check)
    rows: reading.Rows = frame.to_pylist()
    return rows


def read_folder(job: dict[str, Any], check: reading.Check) -> Any:
    """Read a folder."""
    location, options = reading.credentials(job, check["table"])
    config = daft.io.S3Config(
        key_id=options["AWS_ACCESS_KEY_ID"],
        access_key=options["AWS_SECRET_ACCESS_KEY"],
        session_token=options["AWS_SESSION_TOKEN"],
        region_name=options["AWS_REGION"],
        endpoint_url=options["AWS_ENDPOINT_URL"],
        use_ssl=options["AWS_ENDPOINT_URL"].startswith("https"),
    )
    return daft.read_deltalake(location, version=check["version"], io_config=daft.io.IOConfig(s3=config))


def read_iceberg(job: dict[str, Any], check: reading.Check) -> Any:
    """Read a table of the catalog."""
    return daft.read_iceberg(open_table(job, check), snapshot_id=snapshot_id(check))


reading.main(daft.__version__, read)
