"""Load a table with pyiceberg's catalog, for pyiceberg itself and for engines that read its tables."""

from typing import Any

from client_matrix.scripts import reading
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table


def open_table(job: dict[str, Any], check: reading.Check) -> Table:
    """Load a table from the catalog."""
    rights = {"token": job["token"]}
    if check["profile"] == "key":
        raise reading.Unsupported("it signs no assertions")
    if check["profile"] == "secret":
        client = job["client"]
        rights = {
            "credential": f"{client['clientId']}:{client['clientSecret']}",
            "oauth2-server-uri": client["tokenEndpoint"],
        }
    catalog = RestCatalog("shared", uri=job["iceberg"], warehouse=job["share"], **rights)
    table: Table = catalog.load_table(f"{job['schema']}.{check['table']}")
    return table


def snapshot_id(check: reading.Check) -> int | None:
    """Return the snapshot of a version: its tag's, which is a constant plus the version."""
    return None if check["version"] is None else 1_000_000_000_000 + int(check["version"])
