"""Read with DuckDB; the argument is the extension: `delta` (folders) or `iceberg`."""

import importlib.metadata
import sys
from typing import Any

import duckdb
from client_matrix.scripts import reading

EXTENSION = sys.argv[1]


def load_extensions(*names: str) -> duckdb.DuckDBPyConnection:
    """Return a connection with extensions that are Python packages."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in names:
        files = importlib.metadata.files(f"duckdb-extension-{name}") or ()
        [extension] = [str(file.locate()) for file in files if file.suffix == ".duckdb_extension"]
        connection.execute(f"LOAD '{extension}'")
    return connection


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    query = delta_query(job, check) if EXTENSION == "delta" else iceberg_query(job, check)
    rows: reading.Rows = query.arrow().read_all().to_pylist()
    return rows


def delta_query(job: dict[str, Any], check: reading.Check) -> Any:
    """Read a folder."""
    location, options = reading.credentials(job, check["table"])
    if check["version"] is not None:
        raise reading.Unsupported("`delta_scan` has no version")
    connection = load_extensions("httpfs", "delta")
    secure, _, host = options["AWS_ENDPOINT_URL"].partition("://")
    connection.execute(
        f"CREATE SECRET folder (TYPE s3, KEY_ID '{options['AWS_ACCESS_KEY_ID']}',"
        f" SECRET '{options['AWS_SECRET_ACCESS_KEY']}', SESSION_TOKEN '{options['AWS_SESSION_TOKEN']}',"
        f" REGION '{options['AWS_REGION']}', ENDPOINT '{host}', URL_STYLE 'path', USE_SSL {secure == 'https'})"
    )
    return connection.execute(f"FROM delta_scan('{location}')")


def iceberg_query(job: dict[str, Any], check: reading.Check) -> Any:
    """Read from the catalog."""
    connection = load_extensions("avro", "httpfs", "iceberg")
    rights, client = f"TOKEN '{job['token']}'", job["client"]
    if check["profile"] == "key":
        raise reading.Unsupported("it signs no assertions")
    if check["profile"] == "secret":
        rights = (
            f"CLIENT_ID '{client['clientId']}', CLIENT_SECRET '{client['clientSecret']}',"
            f" OAUTH2_SERVER_URI '{client['tokenEndpoint']}'"
        )
    connection.execute(f"CREATE SECRET shares (TYPE iceberg, {rights})")
    share, table = job["share"], f"{job['share']}.{job['schema']}.{check['table']}"
    connection.execute(f"ATTACH '{share}' AS {share} (TYPE iceberg, SECRET shares, ENDPOINT '{job['iceberg']}')")
    at = "" if check["version"] is None else f" AT (VERSION => {1_000_000_000_000 + check['version']})"
    return connection.execute(f"FROM {table}{at}")


reading.main(duckdb.__version__, read)
