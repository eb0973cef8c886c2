"""AWS Glue's data catalog, in which an Iceberg table's current metadata is named."""

from deltaic.aws_codes import DENIED, THROTTLED
from deltaic.errors import TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_client import control_client
from deltaic.storage.endpoints import StorageConfig


def metadata_location(home: StorageConfig, database: str, table: str) -> str:
    """Return the URI of a table's metadata, from the catalog of this account and region.

    Raises TableUnreadable where Glue has no such table, or refuses it, or it is none of Iceberg's; TooManyRequests and
    Unavailable for what passes.
    """
    from botocore.exceptions import ClientError

    try:
        answer = control_client("glue", home.region, home.endpoint).get_table(DatabaseName=database, Name=table)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in THROTTLED:
            raise TooManyRequests("the catalog that names this table is throttling requests; try again") from error
        if code in DENIED or code == "EntityNotFoundException":
            told = f"glue:GetTable of {database}.{table}: {code}"
            raise TableUnreadable(
                "this table is not in the catalog that names it: its provider must act", told
            ) from error
        raise Unavailable(f"the catalog that names this table failed ({code}); try again") from error
    except Exception as error:
        raise Unavailable("the catalog that names this table did not answer; try again") from error
    found = answer.get("Table", {}).get("Parameters", {}).get("metadata_location", "")
    if not found:
        raise TableUnreadable(
            "this table is none of Iceberg's: its provider must correct its entry", f"{database}.{table}"
        )
    return str(found)
