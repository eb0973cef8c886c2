"""Read with ClickHouse, as chdb has it; the argument is `delta` (folders) or `iceberg` (`DataLakeCatalog`)."""

import importlib
import json
import sys
from typing import Any

from client_matrix.scripts import reading

chdb = importlib.import_module("chdb")
SETTINGS = "allow_database_iceberg = 1, output_format_json_quote_64bit_integers = 0"


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    session = importlib.import_module("chdb.session").Session()
    try:
        query = delta_query(job, check) if sys.argv[1] == "delta" else iceberg_query(session, job, check)
        text = str(session.query(f"{query} SETTINGS {SETTINGS}", "JSONEachRow"))
    finally:
        session.close()
    return [json.loads(line) for line in text.splitlines() if line]


def delta_query(job: dict[str, Any], check: reading.Check) -> str:
    """Return the query of a folder."""
    location, options = reading.credentials(job, check["table"])
    if check["version"] is not None:
        raise reading.Unsupported("the table function has no version")
    url = f"{options['AWS_ENDPOINT_URL']}/{location.removeprefix('s3://')}/"
    keys = [options[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
    return f"SELECT * FROM deltaLake({', '.join(repr(text) for text in (url, *keys))})"  # noqa: S608


def iceberg_query(session: Any, job: dict[str, Any], check: reading.Check) -> str:
    """Add the catalog to a session; return the query of a table."""
    rights = f"auth_header = 'Authorization: Bearer {job['token']}'"
    if check["profile"] == "key":
        raise reading.Unsupported("it signs no assertions")
    if check["profile"] == "secret":
        client = job["client"]
        rights = (
            f"catalog_credential = '{client['clientId']}:{client['clientSecret']}',"
            f" oauth_server_uri = '{client['tokenEndpoint']}'"
        )
    session.query(
        f"CREATE DATABASE shared ENGINE = DataLakeCatalog('{job['iceberg']}/v1') SETTINGS catalog_type = 'rest',"
        f" warehouse = '{job['share']}', {rights}, vended_credentials = true SETTINGS allow_database_iceberg = 1"
    )
    if check["version"] is not None:
        session.query(f"SET iceberg_snapshot_id = {1_000_000_000_000 + check['version']}")
    return f"SELECT * FROM shared.`{job['schema']}.{check['table']}`"  # noqa: S608


reading.main(chdb.query("SELECT version()").data().strip().strip('"'), read)
