"""List the tables of a Glue database, find an Iceberg table's metadata in S3 Tables, and translate errors."""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.table_catalogs import TABLE_BUCKET, ListedTable, clients_at, find_table, glue_tables
from served import served

LOCATION = "s3://lake/x"
ENTRIES: list[tuple[dict[str, Any], str | None]] = [
    ({"Parameters": {"table_type": "DELTA"}, "StorageDescriptor": {"Location": LOCATION}}, LOCATION),
    ({"Parameters": {"classification": "delta"}, "StorageDescriptor": {"Location": LOCATION}}, LOCATION),
    (
        {
            "Parameters": {"spark.sql.sources.provider": "delta"},
            "StorageDescriptor": {
                "Location": "s3://other/__PLACEHOLDER__",
                "SerdeInfo": {"Parameters": {"path": LOCATION}},
            },
        },
        LOCATION,
    ),
    ({"Parameters": {"table_type": "DELTA"}}, ""),
    ({"Parameters": {"table_type": "ICEBERG"}, "StorageDescriptor": {"Location": LOCATION}}, None),
    ({"Parameters": {"table_type": "VIEW", "metadata_location": f"{LOCATION}/metadata/1.metadata.json"}}, None),
    ({"Parameters": {"classification": "parquet"}, "StorageDescriptor": {"Location": LOCATION}}, None),
    ({"TableType": "VIRTUAL_VIEW"}, None),
]


class Glue:
    """Glue client that returns a page for each token, or fails."""

    def __init__(self, *pages: list[dict[str, Any]], failure: Exception | None = None) -> None:
        self.pages = pages
        self.failure = failure

    def get_tables(self, DatabaseName: str, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803 -- AWS's names
        assert DatabaseName == "sales"
        if self.failure:
            raise self.failure
        number = int(NextToken)
        next_page = {"NextToken": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"TableList": self.pages[number], **next_page}


@pytest.mark.parametrize(("entry", "location"), ENTRIES)
def test_delta_tables_of_all_writers_are_recognized(entry: dict[str, Any], location: str | None) -> None:
    [page] = glue_tables(Glue([{"Name": "t", **entry}]), "sales")
    assert page == ([] if location is None else [ListedTable("t", location)])


@pytest.mark.parametrize("descriptor", [{"Location": LOCATION}, {}])
def test_iceberg_tables_are_listed_with_their_metadata(descriptor: dict[str, str]) -> None:
    uri = f"{LOCATION}/metadata/00001-a.metadata.json"
    parameters = {"table_type": "ICEBERG", "metadata_location": uri}
    entry = {"Name": "t", "Parameters": parameters, "StorageDescriptor": descriptor}
    [page] = glue_tables(Glue([entry]), "sales")
    assert page == [ListedTable("t", LOCATION, "glue://sales/t", uri)]


def test_pages_without_delta_tables_are_read() -> None:
    delta = {"Parameters": {"table_type": "delta"}, "StorageDescriptor": {"Location": LOCATION}}
    pages = [{"Name": "a", **delta}], [{"Name": "b"}], [{"Name": "c", **delta}]
    assert list(glue_tables(Glue(*pages), "sales")) == [[ListedTable("a", LOCATION)], [], [ListedTable("c", LOCATION)]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("EntityNotFoundException", TableUnreadable),
        ("AccessDeniedException", TableUnreadable),
        ("GlueEncryptionException", TableUnreadable),
        ("InvalidInputException", TableUnreadable),
        ("ThrottlingException", TooManyRequests),
        ("InternalServiceException", Unavailable),
    ],
)
def test_transient_errors_are_distinguished_from_permanent_errors(code: str, expected: type[DeltaicError]) -> None:
    failure = ClientError({"Error": {"Code": code, "Message": ""}}, "GetTables")
    with pytest.raises(expected):
        list(glue_tables(Glue(failure=failure), "sales"))
    with pytest.raises(Unavailable):
        list(glue_tables(Glue(failure=EndpointConnectionError(endpoint_url="https://glue")), "sales"))


BUCKET = "arn:aws:s3tables:eu-west-1:123456789012:bucket/lake"
METADATA = f"{LOCATION}/metadata/00002-b.metadata.json"


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (200, "", None),
        (403, "ForbiddenException", TableUnreadable),
        (404, "NotFoundException:http://internal.amazon.com/", TableUnreadable),
        (429, "TooManyRequestsException", TooManyRequests),
        (500, "InternalServerErrorException", Unavailable),
    ],
)
def test_s3_tables_returns_the_metadata_location(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, expected: type[DeltaicError] | None
) -> None:
    class Service(BaseHTTPRequestHandler):
        """The operation GetTableMetadataLocation as AWS documents it."""

        def do_GET(self) -> None:
            paths.append(self.path)
            answer = {"versionToken": "v", "metadataLocation": METADATA, "warehouseLocation": LOCATION}
            body = json.dumps({"message": "no"} if code else answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-amzn-errortype", code)
            self.end_headers()
            self.wfile.write(body)

    paths: list[str] = []
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with served(Service) as endpoint:
        home = StorageConfig(region="eu-west-1", endpoint=endpoint, path_style=True)
        if expected is None:
            found = find_table(clients_at(home), f"{TABLE_BUCKET}{BUCKET}/sales/orders")
            assert (found.location, found.metadata_uri) == (LOCATION, METADATA)
        else:
            with pytest.raises(expected):
                find_table(clients_at(home), f"{TABLE_BUCKET}{BUCKET}/sales/orders")
    encoded = BUCKET.replace(":", "%3A").replace("/", "%2F")
    assert set(paths) == {f"/tables/{encoded}/sales/orders/metadata-location"}
