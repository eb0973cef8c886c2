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
    """Delta or Iceberg table in AWS Glue or S3 Tables."""

    name: str
    location: str
    """Folder of the table; can be empty."""
    iceberg_name: str = ""
    """Name of an Iceberg table for `find_table`; empty for a Delta table."""
    metadata_uri: str = ""
    """Current metadata file of an Iceberg table."""
    is_registered_with_lake_formation: bool = False
    """Whether the table is registered with AWS Lake Formation."""


ClientOf = Callable[[Any], Any]
"""Function that returns a client of an AWS service: botocore's or an AwsClient."""


def clients_at(home: StorageConfig) -> ClientOf:
    """Return a function that creates clients for the region and endpoint of `home`, with the process's credentials."""
    return lambda service: control_client(service, home.region, home.endpoint)


def find_table(client_of: ClientOf, name: str) -> ListedTable:
    """Return an Iceberg table of AWS Glue or S3 Tables, whose name starts with GLUE or TABLE_BUCKET.

    Raises TableUnreadable if the service does not have the table or denies access, or if it is not an Iceberg table;
    TooManyRequests and Unavailable for transient errors.
    """
    missing = "AWS does not have this table, or denies access: ask its provider to fix the catalog entry or permissions"
    if name.startswith(TABLE_BUCKET):
        bucket, namespace, table_name = name.removeprefix(TABLE_BUCKET).rsplit("/", 2)
        key = {"tableBucketARN": bucket, "namespace": namespace, "name": table_name}
        request = f"s3tables:GetTableMetadataLocation of {namespace}.{table_name} in {bucket}"
        answer = _call(client_of("s3tables").get_table_metadata_location, key, missing, request)
        uri = answer.get("metadataLocation", "")
        table = ListedTable(table_name, _folder_of(uri), name, uri)
    else:
        database, table_name = name.removeprefix(GLUE).split("/", 1)
        key, request = {"DatabaseName": database, "Name": table_name}, f"glue:GetTable of {database}.{table_name}"
        table = _glue_table(database, _call(client_of("glue").get_table, key, missing, request)["Table"])
    if not table.metadata_uri:
        raise TableUnreadable("this table is not an Iceberg table: ask its provider to fix the catalog entry", name)
    return table


def glue_tables(glue: Any, database: str) -> Iterator[list[ListedTable]]:
    """Yield pages of the Delta and Iceberg tables of a database.

    `glue` is a Glue client of botocore or an AwsClient. Raises TableUnreadable if Glue does not have the database or
    denies access; TooManyRequests and Unavailable for transient errors.
    """
    missing = (
        f"AWS Glue returns no tables of the database '{database}': check its name, account, region and permissions"
    )
    key = {"DatabaseName": database}
    while True:
        answer = _call(glue.get_tables, key, missing, f"glue:GetTables of {database}")
        tables = [(_glue_table(database, table), table.get("Parameters", {})) for table in answer.get("TableList", [])]
        yield [table for table, parameters in tables if table.metadata_uri or _is_delta(parameters)]
        if not answer.get("NextToken"):
            return
        key["NextToken"] = answer["NextToken"]


def _glue_table(database: str, table: dict[str, Any]) -> ListedTable:
    stored, parameters = table.get("StorageDescriptor", {}), table.get("Parameters", {})
    uri, name = "", ""
    if str(parameters.get("table_type", "")).lower() == "iceberg" and "metadata_location" in parameters:
        uri, name = str(parameters["metadata_location"]), f"{GLUE}{database}/{table['Name']}"
    # Spark stores the folder in the SerDe parameter `path`, others in `Location`.
    path = stored.get("SerdeInfo", {}).get("Parameters", {}).get("path")
    location = str(path or stored.get("Location") or _folder_of(uri))
    return ListedTable(table["Name"], location, name, uri, bool(table.get("IsRegisteredWithLakeFormation")))


def _folder_of(metadata_uri: str) -> str:
    return metadata_uri.rpartition("/metadata/")[0]


def _is_delta(parameters: dict[str, Any]) -> bool:
    return any(str(parameters.get(name, "")).lower() == "delta" for name in _FORMATS)


def _call(operation: Callable[..., Any], key: dict[str, str], missing: str, request: str) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    failure: DeltaicError
    try:
        return dict(operation(**key))
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in THROTTLED:
            failure = TooManyRequests("AWS is throttling requests for this table's metadata; try again")
        elif code in _PERMANENT_ERRORS:
            failure = TableUnreadable(missing, f"{request}: {code}")
        else:
            failure = Unavailable(f"AWS failed to return this table's metadata ({code}); try again")
        raise failure from error
    except Exception as error:
        raise Unavailable("AWS did not respond to the request for this table's metadata; try again") from error
