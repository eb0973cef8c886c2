"""AWS Glue's data catalog, in which a database's tables are named, and an Iceberg table's current metadata."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from deltaic.aws_codes import DENIED, THROTTLED
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_client import control_client
from deltaic.storage.endpoints import StorageConfig

_LASTING: Final = DENIED | {"EntityNotFoundException", "GlueEncryptionException", "InvalidInputException"}
_FORMATS: Final = ("table_type", "spark.sql.sources.provider", "classification")
"""Parameters by which Athena and crawlers, Spark and Trino say what a table is."""


def metadata_location(home: StorageConfig, database: str, table: str) -> str:
    """Return the URI of a table's metadata, from the catalog of this account and region.

    Raises TableUnreadable where Glue has no such table, or refuses it, or it is none of Iceberg's; TooManyRequests and
    Unavailable for what passes.
    """
    glue = control_client("glue", home.region, home.endpoint)
    answer = _answered(
        lambda: glue.get_table(DatabaseName=database, Name=table),
        "this table is not in the catalog that names it: its provider must act",
        f"glue:GetTable of {database}.{table}",
    )
    found = answer.get("Table", {}).get("Parameters", {}).get("metadata_location", "")
    if not found:
        raise TableUnreadable(
            "this table is none of Iceberg's: its provider must correct its entry", f"{database}.{table}"
        )
    return str(found)


def delta_tables(glue: Any, database: str) -> Iterator[list[tuple[str, str]]]:
    """Yield pages of the Delta tables of a database: name and location, which may be empty.

    `glue` is a client of Glue, botocore's or ours. Raises TableUnreadable where Glue has no such database or refuses
    it, TooManyRequests and Unavailable for what passes.
    """
    more: dict[str, str] = {}
    while True:
        answer = _answered(
            lambda: glue.get_tables(DatabaseName=database, **more),  # noqa: B023 -- called before it changes
            f"AWS Glue gives no tables of the database '{database}': look at its name, account, region and rights",
            f"glue:GetTables of {database}",
        )
        yield [(table["Name"], _location(table)) for table in answer.get("TableList", []) if _is_delta(table)]
        if not answer.get("NextToken"):
            return
        more = {"NextToken": answer["NextToken"]}


def _is_delta(table: dict[str, Any]) -> bool:
    said = table.get("Parameters", {})
    return any(str(said.get(name, "")).lower() == "delta" for name in _FORMATS)


def _location(table: dict[str, Any]) -> str:
    """Return where a table lies: Spark names a placeholder as its location, and the folder among the SerDe's facts."""
    stored = table.get("StorageDescriptor", {})
    return str(stored.get("SerdeInfo", {}).get("Parameters", {}).get("path") or stored.get("Location", ""))


def _answered(ask: Callable[[], dict[str, Any]], missing: str, what: str) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    failure: DeltaicError
    try:
        return ask()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in THROTTLED:
            failure = TooManyRequests("the catalog that names this table is throttling requests; try again")
        elif code in _LASTING:
            failure = TableUnreadable(missing, f"{what}: {code}")
        else:
            failure = Unavailable(f"the catalog that names this table failed ({code}); try again")
        raise failure from error
    except Exception as error:
        raise Unavailable("the catalog that names this table did not answer; try again") from error
