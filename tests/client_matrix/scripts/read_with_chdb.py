"""Read with ClickHouse, as chdb has it; the argument is `delta` (folders) or `iceberg` (`DataLakeCatalog`)."""

import importlib
import json
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from client_matrix.scripts import reading
from served import served

chdb = importlib.import_module("chdb")
SETTINGS = "allow_database_iceberg = 1, output_format_json_quote_64bit_integers = 0"


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table."""
    with (
        served(without_store_address(job)) as url,  # ends last: a session that closes asks the catalog
        closing(importlib.import_module("chdb.session").Session()) as session,
    ):
        catalog = url + "/" + job["iceberg"].split("/", 3)[3]
        query = delta_query(job, check) if sys.argv[1] == "delta" else iceberg_query(session, catalog, job, check)
        text = str(session.query(f"{query} SETTINGS {SETTINGS}", "JSONEachRow"))
    return [json.loads(line) for line in text.splitlines() if line]


def without_store_address(job: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    """Return a proxy of the catalog that removes the store's address from its answers, as they are on AWS.

    Outside AWS, ClickHouse takes that address for the bucket's.
    """
    origin = "/".join(job["iceberg"].split("/")[:3])

    class CatalogProxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = {
                name: value for name, value in self.headers.items() if name.lower() not in {"host", "accept-encoding"}
            }
            try:
                with urlopen(Request(origin + self.path, headers=sent)) as response:  # noqa: S310
                    status, body = response.status, json.load(response)
            except HTTPError as error:
                status, body = error.code, json.load(error)
            body.get("config", {}).pop("s3.endpoint", None)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return CatalogProxy


def delta_query(job: dict[str, Any], check: reading.Check) -> str:
    """Return the query of a folder."""
    location, options = reading.credentials(job, check["table"])
    if check["version"] is not None:
        raise reading.Unsupported("the table function has no version")
    url = f"{options['AWS_ENDPOINT_URL']}/{location.removeprefix('s3://')}/"
    keys = [options[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
    return f"SELECT * FROM deltaLake({', '.join(repr(text) for text in (url, *keys))})"  # noqa: S608


def iceberg_query(session: Any, catalog: str, job: dict[str, Any], check: reading.Check) -> str:
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
        f"CREATE DATABASE shared ENGINE = DataLakeCatalog('{catalog}/v1') SETTINGS catalog_type = 'rest',"
        f" storage_endpoint = '{job['store']}', warehouse = '{job['share']}', {rights},"
        " vended_credentials = true SETTINGS allow_database_iceberg = 1"
    )
    if check["version"] is not None:
        session.query(f"SET iceberg_snapshot_id = {1_000_000_000_000 + check['version']}")
    return f"SELECT * FROM shared.`{job['schema']}.{check['table']}`"  # noqa: S608


reading.main(chdb.query("SELECT version()").data().strip().strip('"'), read)
