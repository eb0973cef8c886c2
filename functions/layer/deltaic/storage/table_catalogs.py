"""Read tables from AWS Glue and S3 Tables: those of a database, and where an Iceberg table's metadata is."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from deltaic.aws_codes import DENIED, THROTTLED
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_client import control_client
from deltaic.storage.endpoints import StorageConfig

GLUE: Final = "glue://"
"""Start of the name of a table in AWS Glue: `glue://database/table`."""
TABLE_BUCKET: Final = "s3tables://"
"""Start of the name of a table in S3 Tables: `s3tables://bucket-arn/namespace/table`."""

_PERMANENT_ERRORS: Final = DENIED | {
    "BadRequestException",
    "EntityNotFoundException",
    "ForbiddenException",
    "GlueEncryptionException",
    "InvalidInputException",
    "NotFoundException",
}
_FORMATS: Final = ("table_type", "spark.sql.sources.provider", "classification")
"""Glue table parameters with the table format, as set by Athena and crawlers, by Spark, and by Trino."""


class ListedTable(NamedTuple):
    """Delta or Iceberg table of a Glue database."""

    name: str
    location: str
    """Folder of the table; can be empty."""
    iceberg_name: str = ""
    """Name of an Iceberg table for `metadata_location`; empty for a Delta table."""
    metadata_uri: str = ""
    """Current metadata file of an Iceberg table."""


ClientOf = Callable[[Any], Any]
"""Function that returns a client of an AWS service: botocore's or an AwsClient."""


def clients_at(home: StorageConfig) -> ClientOf:
    """Return a function that creates clients for the region and endpoint of `home`, with the process's credentials."""
    return lambda service: control_client(service, home.region, home.endpoint)


def metadata_location(client_of: ClientOf, name: str) -> str:
    """Return the URI of an Iceberg table's metadata, from AWS Glue or S3 Tables.

    `name` starts with GLUE or TABLE_BUCKET. Raises TableUnreadable if the service does not have the table or denies
    access, or if it is not an Iceberg table; TooManyRequests and Unavailable for transient errors.
    """
    if name.startswith(TABLE_BUCKET):
        bucket, namespace, table = name.removeprefix(TABLE_BUCKET).rsplit("/", 2)
        tables = client_of("s3tables")
        answer = _call(
            lambda: tables.get_table_metadata_location(tableBucketARN=bucket, namespace=namespace, name=table),
            "S3 Tables does not have this table, or denies access: ask its provider to fix the catalog entry or "
            "permissions",
            f"s3tables:GetTableMetadataLocation of {namespace}.{table} in {bucket}",
        )
        uri = answer.get("metadataLocation", "")
    else:
        uri = read_glue_table(client_of, name).get("Parameters", {}).get("metadata_location", "")
    if not uri:
        raise TableUnreadable("this table is not an Iceberg table: ask its provider to fix the catalog entry", name)
    return str(uri)


def read_glue_table(client_of: ClientOf, name: str) -> dict[str, Any]:
    """Return a table of AWS Glue, whose name starts with GLUE; raises the errors of `metadata_location`."""
    glue = client_of("glue")
    database, table = name.removeprefix(GLUE).split("/", 1)
    answer = _call(
        lambda: glue.get_table(DatabaseName=database, Name=table),
        "AWS Glue does not have this table, or denies access: ask its provider to fix the catalog entry or permissions",
        f"glue:GetTable of {database}.{table}",
    )
    return dict(answer.get("Table", {}))


def glue_tables(glue: Any, database: str) -> Iterator[list[ListedTable]]:
    """Yield pages of the Delta and Iceberg tables of a database.

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
        yield [
            ListedTable(table["Name"], location_of(table), f"{GLUE}{database}/{table['Name']}" * bool(uri), uri)
            for table in answer.get("TableList", [])
            if (uri := _iceberg_metadata(table)) or _is_delta(table)
        ]
        if not answer.get("NextToken"):
            return
        next_page = {"NextToken": answer["NextToken"]}


def _iceberg_metadata(table: dict[str, Any]) -> str:
    parameters = table.get("Parameters", {})
    is_iceberg = str(parameters.get("table_type", "")).lower() == "iceberg"
    return str(parameters.get("metadata_location", "")) if is_iceberg else ""


def _is_delta(table: dict[str, Any]) -> bool:
    parameters = table.get("Parameters", {})
    return any(str(parameters.get(name, "")).lower() == "delta" for name in _FORMATS)


def location_of(table: dict[str, Any]) -> str:
    """Return the folder of a Glue table; Spark stores it in the SerDe parameter `path`, others in `Location`."""
    stored, metadata = table.get("StorageDescriptor", {}), str(table.get("Parameters", {}).get("metadata_location", ""))
    path = stored.get("SerdeInfo", {}).get("Parameters", {}).get("path")
    return str(path or stored.get("Location") or metadata.rpartition("/metadata/")[0])


def _call(send: Callable[[], dict[str, Any]], missing: str, operation: str) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    failure: DeltaicError
    try:
        return send()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in THROTTLED:
            failure = TooManyRequests("AWS is throttling requests for this table's metadata; try again")
        elif code in _PERMANENT_ERRORS:
            failure = TableUnreadable(missing, f"{operation}: {code}")
        else:
            failure = Unavailable(f"AWS failed to return this table's metadata ({code}); try again")
        raise failure from error
    except Exception as error:
        raise Unavailable("AWS did not respond to the request for this table's metadata; try again") from error
