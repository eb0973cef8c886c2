"""The Delta tables of a Glue database: by whose words, where, page by page; and what a failure of Glue's means."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.glue_catalog import delta_tables

PLACE = "s3://lake/x"
SAID: list[tuple[dict[str, Any], str | None]] = [
    ({"Parameters": {"table_type": "DELTA"}, "StorageDescriptor": {"Location": PLACE}}, PLACE),
    ({"Parameters": {"classification": "delta"}, "StorageDescriptor": {"Location": PLACE}}, PLACE),
    (
        {
            "Parameters": {"spark.sql.sources.provider": "delta"},
            "StorageDescriptor": {
                "Location": "s3://other/__PLACEHOLDER__",
                "SerdeInfo": {"Parameters": {"path": PLACE}},
            },
        },
        PLACE,
    ),
    ({"Parameters": {"table_type": "DELTA"}}, ""),
    ({"Parameters": {"table_type": "ICEBERG"}, "StorageDescriptor": {"Location": PLACE}}, None),
    ({"Parameters": {"classification": "parquet"}, "StorageDescriptor": {"Location": PLACE}}, None),
    ({"TableType": "VIRTUAL_VIEW"}, None),
]


class Glue:
    """Gives a page for each token, or fails."""

    def __init__(self, *pages: list[dict[str, Any]], failure: Exception | None = None) -> None:
        self.pages = pages
        self.failure = failure

    def get_tables(self, DatabaseName: str, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803 -- AWS's names
        assert DatabaseName == "sales"
        if self.failure:
            raise self.failure
        number = int(NextToken)
        more = {"NextToken": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"TableList": self.pages[number], **more}


@pytest.mark.parametrize(("told", "location"), SAID)
def test_a_delta_table_is_known_by_the_words_of_whoever_entered_it(told: dict[str, Any], location: str | None) -> None:
    [page] = delta_tables(Glue([{"Name": "t", **told}]), "sales")
    assert page == ([] if location is None else [("t", location)])


def test_all_pages_are_read_those_without_a_delta_table_too() -> None:
    delta = {"Parameters": {"table_type": "delta"}, "StorageDescriptor": {"Location": PLACE}}
    pages = [{"Name": "a", **delta}], [{"Name": "b"}], [{"Name": "c", **delta}]
    assert list(delta_tables(Glue(*pages), "sales")) == [[("a", PLACE)], [], [("c", PLACE)]]


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
def test_what_passes_is_told_from_what_does_not(code: str, expected: type[DeltaicError]) -> None:
    failure = ClientError({"Error": {"Code": code, "Message": ""}}, "GetTables")
    with pytest.raises(expected):
        list(delta_tables(Glue(failure=failure), "sales"))
    with pytest.raises(Unavailable):
        list(delta_tables(Glue(failure=EndpointConnectionError(endpoint_url="https://glue")), "sales"))
