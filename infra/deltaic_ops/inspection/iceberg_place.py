"""Where a provider's own Iceberg table lies: by its folder, by one of its metadata files, or by AWS Glue."""

from collections.abc import Callable
from typing import Any

from deltaic.errors import InvalidParameter, NotFound
from deltaic.sharing.iceberg_clients.own_metadata import GLUE

_METADATA = ".metadata.json"


def iceberg_place(glue_client: Callable[[], Any], location: str, glue: str) -> tuple[str, str]:
    """Return the folder of an Iceberg table that options name, and its metadata file or where that is named.

    The latter is empty where the folder's version hint names it. Raises InvalidParameter, and NotFound for a table that
    Glue lacks.
    """
    if bool(location) == bool(glue):
        raise InvalidParameter("an Iceberg table is named by --location or by --glue database.table: give one of them")
    if glue:
        return _of_glue(glue_client(), glue)
    folder, inside, _ = location.partition("/metadata/")
    if location.endswith(_METADATA):
        if not inside:
            raise InvalidParameter(
                f"'{location}' does not lie in the folder metadata/ of a table: name the table's own"
            )
        return folder, location
    return location, ""


def _of_glue(client: Any, glue: str) -> tuple[str, str]:
    from botocore.exceptions import ClientError

    database, _, name = glue.partition(".")
    if not database or not name:
        raise InvalidParameter(f"'{glue}' names no table of AWS Glue: write database.table")
    try:
        found = client.get_table(DatabaseName=database, Name=name)["Table"]
    except ClientError as error:
        code = error.response["Error"]["Code"]
        raise NotFound(f"AWS Glue gives no table '{glue}' ({code}): look at its name, account and region") from error
    metadata = found.get("Parameters", {}).get("metadata_location", "")
    if not metadata:
        raise InvalidParameter(f"'{glue}' is none of Iceberg's: it has no metadata_location")
    folder = found.get("StorageDescriptor", {}).get("Location") or str(metadata).partition("/metadata/")[0]
    return folder, f"{GLUE}{database}/{name}"
