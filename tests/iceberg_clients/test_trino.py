"""Trino reads tables with credentials; it does not support signed requests."""

from collections.abc import Iterator
from typing import Any

import pytest
from filled_server import FilledServer
from iceberg_clients.tables import ORDERS, SHARE
from iceberg_clients.test_pyiceberg import delta_rows
from iceberg_clients.trino import Trino, TrinoRefused, run_trino

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def trino(server: FilledServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    catalog = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": f"{server.endpoint}/iceberg",
        "iceberg.rest-catalog.warehouse": SHARE,
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.token": server.readers["alice"].token,
        "iceberg.rest-catalog.vended-credentials-enabled": "true",
        "fs.native-s3.enabled": "true",
        "s3.region": "us-east-1",  # Trino takes neither region nor endpoint from the catalog
        "s3.endpoint": server.environment["AWS_ENDPOINT_URL"],
        "s3.path-style-access": "true",
    }
    with run_trino(tmp_path_factory.mktemp("trino"), catalog) as trino_server:
        yield trino_server


def rows(trino: Trino, source: str) -> list[dict[str, Any]]:
    return [dict(zip(ORDERS.column_names, row, strict=True)) for row in trino.rows(f"SELECT * {source} ORDER BY id")]


def test_rows_equal_those_of_delta(server: FilledServer, trino: Trino) -> None:
    assert rows(trino, "FROM vended") == delta_rows(server, "vended")
    finns = [row for row in ORDERS.to_pylist() if row["country"] == "FI"]
    assert rows(trino, "FROM vended WHERE country = 'FI'") == finns


def test_versions_are_read_by_tag_and_number(server: FilledServer, trino: Trino) -> None:
    for version, tag in enumerate(("'v0'", str(10**12 + 1), "'v2'")):
        assert rows(trino, f"FROM vended FOR VERSION AS OF {tag}") == delta_rows(server, "vended", version)


def test_signed_requests_and_writes_fail(trino: Trino) -> None:
    with pytest.raises(TrinoRefused, match="Error processing metadata"):
        trino.rows("SELECT * FROM signed")
    with pytest.raises(TrinoRefused, match="Error committing write"):
        trino.rows("INSERT INTO vended VALUES (1, 'FI', 'x')")
