"""List the Delta tables of a Glue database, page by page, and translate errors of Glue."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.glue_catalog import delta_tables

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
    [page] = delta_tables(Glue([{"Name": "t", **entry}]), "sales")
    assert page == ([] if location is None else [("t", location)])


def test_pages_without_delta_tables_are_read() -> None:
    delta = {"Parameters": {"table_type": "delta"}, "StorageDescriptor": {"Location": LOCATION}}
    pages = [{"Name": "a", **delta}], [{"Name": "b"}], [{"Name": "c", **delta}]
    assert list(delta_tables(Glue(*pages), "sales")) == [[("a", LOCATION)], [], [("c", LOCATION)]]


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
        list(delta_tables(Glue(failure=failure), "sales"))
    with pytest.raises(Unavailable):
        list(delta_tables(Glue(failure=EndpointConnectionError(endpoint_url="https://glue")), "sales"))
