"""Read with iceberg-rust, as `pyiceberg-core` and DataFusion have it."""

import importlib
import importlib.metadata
from typing import Any

from client_matrix.scripts import reading
from client_matrix.scripts.pyiceberg_tables import open_table


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    table = open_table(job, check)
    datafusion, core = importlib.import_module("datafusion"), importlib.import_module("pyiceberg_core.datafusion")
    if check["version"] is not None:
        raise reading.Unsupported("its table has no function for it")
    properties = {**table.io.properties, **table.config}
    provider = core.IcebergDataFusionTable(
        identifier=list(table.name()),
        metadata_location=table.metadata_location,
        file_io_properties={key: value for key, value in properties.items() if isinstance(value, str)},
    )
    context = datafusion.SessionContext()
    context.register_table("shared", provider)
    rows: reading.Rows = context.sql("SELECT * FROM shared").to_pylist()
    return rows


reading.main(importlib.metadata.version("pyiceberg-core"), read)
