"""Tables for tests of Iceberg clients, and the recipients who may read them."""

from typing import Any, Final

import deltalake
import pyarrow as pa
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import FilledServer
from pyiceberg.catalog.glue import GlueCatalog

SHARE: Final = "lent"
FOLDER: Final[dict[str, Any]] = {"access_modes": ("url", "dir"), "history": True}
TABLES: Final[dict[str, dict[str, Any]]] = {
    "vended": {**FOLDER, "iceberg": "vended"},
    "signed": {"iceberg": "signed"},
    "with_history": {"iceberg": "signed", "history": True},
    "with_late_history": {"iceberg": "signed", "history": True, "start_version": 1},
    "of_country": {"iceberg": "signed", "partition_filter": "country = current_recipient('country')"},
    "without_country": {"iceberg": "signed", "hidden_columns": ("country",)},
    "closed": dict(FOLDER),
}
LOCATIONS: Final = {"of_country": "orders", "without_country": "orders"}
RECIPIENTS: Final = {"alice": (SHARE,), "bob": (SHARE,), "carol": (), "dave": (SHARE,)}
ORDERS: Final = pa.table({
    "id": pa.array(range(12), pa.int64()),
    "country": ["FI", "PL", "SE"] * 4,
    "note": [f"order {number}" for number in range(12)],
})  # fmt: skip


def write(server: FilledServer, name: str, rows: pa.Table, **arguments: Any) -> None:
    """Append to a table of the bucket."""
    deltalake.write_deltalake(
        f"s3://{DATA_BUCKET}/{name}", rows, mode="append", storage_options=options(server), **arguments
    )


def options(server: FilledServer) -> dict[str, str]:
    """Return the storage options of `deltalake` for the bucket."""
    variables = {name: value for name, value in server.environment.items() if name.startswith("AWS_")}
    return {**variables, "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}


def glue_writer(server: FilledServer) -> GlueCatalog:
    """Return a catalog that writes Iceberg tables into the server's AWS Glue, as its administrator."""
    environment = server.environment
    options = {
        "access-key-id": environment["AWS_ACCESS_KEY_ID"],
        "secret-access-key": environment["AWS_SECRET_ACCESS_KEY"],
        "endpoint": environment["AWS_ENDPOINT_URL"],
        "region": environment["AWS_REGION"],
    }
    return GlueCatalog(
        "writer", **{f"{part}.{key}": value for part in ("glue", "s3") for key, value in options.items()}
    )
