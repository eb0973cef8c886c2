"""Read from AWS Glue: the Delta tables of a database, and the metadata location of an Iceberg table."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from deltaic.aws_codes import DENIED, THROTTLED
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_client import control_client
from deltaic.storage.endpoints import StorageConfig

_PERMANENT_ERRORS: Final = DENIED | {"EntityNotFoundException", "GlueEncryptionException", "InvalidInputException"}
_FORMATS: Final = ("table_type", "spark.sql.sources.provider", "classification")
"""Glue table parameters with the table format, as set by Athena and crawlers, by Spark, and by Trino."""


def metadata_location(home: StorageConfig, database: str, table: str) -> str:
    """Return the URI of an Iceberg table's metadata, from AWS Glue in this account and region.

    Raises TableUnreadable if Glue does not have the table or denies access, or if it is not an Iceberg table;
    TooManyRequests and Unavailable for transient errors.
    """
    glue = control_client("glue", home.region, home.endpoint)
    answer = _call(
        lambda: glue.get_table(DatabaseName=database, Name=table),
        "AWS Glue does not have this table, or denies access: ask its provider to fix the catalog entry or permissions",
        f"glue:GetTable of {database}.{table}",
    )
    uri = answer.get("Table", {}).get("Parameters", {}).get("metadata_location", "")
    if not uri:
        raise TableUnreadable(
            "this table is not an Iceberg table in AWS Glue: ask its provider to fix the entry", f"{database}.{table}"
        )
    return str(uri)


def delta_tables(glue: Any, database: str) -> Iterator[list[tuple[str, str]]]:
    """Yield pages of the Delta tables of a database: the name and location (may be empty) of each.

    `glue` is a Glue client of botocore or an AwsClient. Raises TableUnreadable if Glue does not have the database or
    denies access; TooManyRequests and Unavailable for transient errors.
    """
    next_page: dict[str, str] = {}
    while True:
        answer = _call(
            lambda: glue.get_tables(DatabaseName=database, **next_page),  # noqa: B023 -- called before the next loop
            f"AWS Glue returns no tables of the database '{database}': check its name, account, region and permissions",
            f"glue:GetTables of {database}",
        )
        yield [(table["Name"], _location(table)) for table in answer.get("TableList", []) if _is_delta(table)]
        if not answer.get("NextToken"):
            return
        next_page = {"NextToken": answer["NextToken"]}


def _is_delta(table: dict[str, Any]) -> bool:
    parameters = table.get("Parameters", {})
    return any(str(parameters.get(name, "")).lower() == "delta" for name in _FORMATS)


def _location(table: dict[str, Any]) -> str:
    """Return a table's location: Spark stores it in the SerDe parameter `path`, others in `Location`."""
    stored = table.get("StorageDescriptor", {})
    return str(stored.get("SerdeInfo", {}).get("Parameters", {}).get("path") or stored.get("Location", ""))


def _call(send: Callable[[], dict[str, Any]], missing: str, operation: str) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    failure: DeltaicError
    try:
        return send()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in THROTTLED:
            failure = TooManyRequests("AWS Glue is throttling requests for this table; try again")
        elif code in _PERMANENT_ERRORS:
            failure = TableUnreadable(missing, f"{operation}: {code}")
        else:
            failure = Unavailable(f"AWS Glue failed to return this table ({code}); try again")
        raise failure from error
    except Exception as error:
        raise Unavailable("AWS Glue did not respond to the request for this table; try again") from error
