"""The commands of `deltaic table`."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer
from deltaic.catalog.admin.tables import Fit
from deltaic.catalog.items import Table, TableFormat
from deltaic.errors import InvalidParameter, NotFound

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import ID, Ids, Operator
from deltaic_ops.cli.recipients.holders import show_table
from deltaic_ops.cli.words import TableTitle, names_of, share_or_schema, table_name, text_of

app = Commands()

IcebergWay = Literal["off", "vended", "signed"]
_HISTORY = "Share earlier versions and the change data feed too."
_START = (
    "The first version that is shared, where history is. What its commit took away is not told: queries and feeds from "
    "this version on begin with the files that it added. Whoever needs all rows reads the version, then its changes."
)
_MODE = "url: signed URLs; dir: credentials for the folder, with --history. Can be repeated."
_AUXILIARY = "Another folder that the table's files may lie in. Can be repeated."
_CHECKPOINT = (
    "Let the stack's function write checkpoints into the table's log, with the writer's lease held. For small tables "
    "whose writers leave none; the stack needs Checkpoints=enabled."
)
_FILTER = (
    "The rows that are shared: a condition over partition columns, literals and current_recipient('property'). "
    "@FILE reads it from a file. Wants access mode url alone."
)
_HIDE = "Partition columns that recipients do not see, separated by commas. Wants access mode url alone."
_ICEBERG = (
    "How Iceberg clients read it. signed: the server signs each of their requests; vended: with credentials for the "
    "folder (wants --access-mode dir --history). The stack needs Iceberg=enabled."
)
_FORMAT = (
    "iceberg: an Iceberg table, shared whole and with Iceberg clients alone; --location is its folder (with a version "
    "hint) or one of its metadata files."
)
_GLUE = "The Iceberg table in AWS Glue that says where its current metadata is."
_UNCHECKED = "Do not look whether a table is there that your credentials can read, where nothing narrows it."
_STORAGE = "The storage that the location is in (deltaic storage); AWS S3 if none is named."


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a table entry holds
    out: Operator,
    name: TableTitle,
    location: Annotated[str, typer.Option(metavar="S3-URI", help="The table's folder: s3://bucket/path.")] = "",
    history: Annotated[bool, typer.Option("--history/--no-history", help=_HISTORY)] = False,
    start_version: Annotated[int, typer.Option(min=0, help=_START)] = 0,
    access_mode: Annotated[list[str] | None, typer.Option(metavar="url|dir", help=_MODE)] = None,
    auxiliary: Annotated[list[str] | None, typer.Option(metavar="S3-URI", help=_AUXILIARY)] = None,
    storage: Annotated[str, typer.Option(metavar="NAME", help=_STORAGE)] = "",
    checkpoint: Annotated[bool, typer.Option("--checkpoint/--no-checkpoint", help=_CHECKPOINT)] = False,
    partition_filter: Annotated[str, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = "",
    hide_columns: Annotated[list[str] | None, typer.Option(metavar="NAMES", help=_HIDE)] = None,
    iceberg: Annotated[IcebergWay, typer.Option(help=_ICEBERG)] = "off",
    format_: Annotated[TableFormat, typer.Option("--format", help=_FORMAT)] = "delta",
    glue: Annotated[str, typer.Option(metavar="DB.TABLE", help=_GLUE)] = "",
    id_: Annotated[str | None, typer.Option("--id", metavar="UUID", help="The id it had elsewhere.")] = None,
    unchecked: Annotated[bool, typer.Option("--unchecked", help=_UNCHECKED)] = False,
) -> None:
    r"""Share a table under a name. Its log is looked at with your credentials; nothing in its folder is changed.

    \b
    deltaic table create vaccine_share.acme_vaccine_data.vaccine_patients --location s3://bucket/patients
    deltaic table create s.d.t --location s3://bucket/t --history --start-version 10
    deltaic table create s.d.t --location s3://lake/t --history --access-mode url --access-mode dir
    deltaic table create s.d.t --location s3://lake/t --storage minio
    deltaic table create s.d.t --location s3://lake/t --partition-filter "region = current_recipient('region')"
    deltaic table create s.d.t --format iceberg --glue sales.orders
    deltaic table create s.d.t --location s3://lake/t --partition-filter @rows.sql --hide-columns region,team
    """
    share, schema, table = table_name(name)
    rows, hidden, metadata_location = text_of(partition_filter), names_of(hide_columns), ""
    if format_ == "iceberg":
        location, metadata_location = _iceberg_place(lambda: out.connection.client("glue"), location, glue)
        access_mode, history, iceberg = ["dir"], True, "signed" if iceberg == "off" else iceberg
    elif glue or not location:
        raise typer.BadParameter("give --location, or --format iceberg with --glue")
    warnings: list[str] = []
    made = out.admin.tables.create(
        share,
        schema,
        table,
        location,
        auxiliary_locations=auxiliary or (),
        access_modes=access_mode or ("url",),
        history=history,
        start_version=start_version,
        storage=storage,
        checkpoint=checkpoint,
        partition_filter=rows,
        hidden_columns=hidden,
        iceberg=_stored(iceberg),
        format=format_,
        metadata_location=metadata_location,
        table_id=id_,
        fit=_fit(out, warnings, unchecked=unchecked),
    )
    done = f"shared '{made.title}'; next: deltaic grant create <who> {made.share}"
    out.show(made, done, warnings)


@app.command("list")
def list_(out: Operator, name: Annotated[str, typer.Argument(metavar="SHARE[.SCHEMA]")], ids: Ids = False) -> None:
    r"""List the tables of a share, or of one of its schemas.

    \b
    deltaic table list vaccine_share
    deltaic table list vaccine_share.acme_vaccine_data --ids
    """
    share, schema = share_or_schema(out.admin, name)
    columns = [
        *fields(NAME="title", LOCATION="location", ACCESS="access_modes"),
        ("HISTORY", lambda table: f"from {table.start_version}" if table.history else "no"),
        ("STORAGE", lambda table: table.storage),
        ("ROWS", lambda table: table.partition_filter or "all"),
        ("HIDDEN", lambda table: table.hidden_columns),
        ("ICEBERG", lambda table: f"{table.iceberg or 'no'}{', its own' if table.format == 'iceberg' else ''}"),
        ("LISTED", lambda table: f"no: {table.unlisted}" if table.unlisted else "yes"),
        ("CHECKPOINTS", lambda table: "yes" if table.checkpoint else "no"),
        *([ID] if ids else []),
    ]
    out.rows(out.admin.tables.list(share, schema), columns, f"'{name}' has no table yet")


app.command("show")(show_table)


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a table entry holds
    out: Operator,
    name: TableTitle,
    location: Annotated[str | None, typer.Option(metavar="S3-URI", help="The table's new folder.")] = None,
    history: Annotated[bool | None, typer.Option("--history/--no-history", help=_HISTORY)] = None,
    start_version: Annotated[int | None, typer.Option(min=0, help=_START)] = None,
    access_mode: Annotated[list[str] | None, typer.Option(metavar="url|dir", help=_MODE)] = None,
    auxiliary: Annotated[list[str] | None, typer.Option(metavar="S3-URI", help=f"{_AUXILIARY} Replaces all.")] = None,
    no_auxiliary: Annotated[bool, typer.Option("--no-auxiliary", help="Take all auxiliary locations away.")] = False,
    storage: Annotated[str | None, typer.Option(metavar="NAME", help='The storage; "" for AWS S3.')] = None,
    checkpoint: Annotated[bool | None, typer.Option("--checkpoint/--no-checkpoint", help=_CHECKPOINT)] = None,
    partition_filter: Annotated[str | None, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = None,
    no_partition_filter: Annotated[bool, typer.Option("--no-partition-filter", help="Share all rows.")] = False,
    hide_columns: Annotated[list[str] | None, typer.Option(metavar="NAMES", help=f"{_HIDE} Replaces all.")] = None,
    iceberg: Annotated[IcebergWay | None, typer.Option(help=_ICEBERG)] = None,
    no_hide_columns: Annotated[bool, typer.Option("--no-hide-columns", help="Show all columns.")] = False,
    unchecked: Annotated[bool, typer.Option("--unchecked", help=_UNCHECKED)] = False,
) -> None:
    r"""Change what is given and keep the rest; a table's name and id stay.

    \b
    deltaic table update s.d.t --history --start-version 0
    deltaic table update s.d.t --location s3://other/place
    deltaic table update s.d.t --checkpoint
    deltaic table update s.d.t --iceberg signed
    deltaic table update s.d.t --partition-filter "year >= 2024" --no-hide-columns
    """
    _not_both("auxiliary", auxiliary, no_auxiliary)
    _not_both("partition-filter", partition_filter, no_partition_filter)
    _not_both("hide-columns", hide_columns, no_hide_columns)
    share, schema, table = table_name(name)
    rows = "" if no_partition_filter else None if partition_filter is None else text_of(partition_filter)
    hidden = [] if no_hide_columns else names_of(hide_columns) or None
    warnings: list[str] = []
    changed = out.admin.tables.update(
        share,
        schema,
        table,
        location=location,
        auxiliary_locations=() if no_auxiliary else auxiliary or None,
        access_modes=access_mode or None,
        history=history,
        start_version=start_version,
        storage=storage,
        checkpoint=checkpoint,
        partition_filter=rows,
        hidden_columns=hidden,
        iceberg=None if iceberg is None else _stored(iceberg),
        fit=_fit(out, warnings, unchecked=unchecked),
    )
    out.show(changed, f"changed table '{changed.title}'", warnings)


@app.command()
def delete(out: Operator, name: TableTitle) -> None:
    r"""Stop sharing a table; the Delta table itself is not touched.

    \b
    deltaic table delete vaccine_share.acme_vaccine_data.vaccine_patients
    """
    share, schema, table = table_name(name)
    gone = out.admin.tables.delete(share, schema, table)
    out.show(gone, f"deleted table '{gone.title}'")


def _fit(out: Operator, warnings: list[str], *, unchecked: bool) -> Fit:
    """Return what sees that a table is there and fits what narrows it, and leaves its warnings in the list.

    Its modules are loaded when it is asked.
    """

    def fit(wanted: Table, before: Table | None) -> Table:
        from deltaic_ops.inspection.filter_checks import fitted

        stored, warnings[:] = fitted(out.admin, lambda: out.schemas, wanted, before, unchecked=unchecked)
        return stored

    return fit


def _stored(iceberg: IcebergWay) -> str:
    return "" if iceberg == "off" else iceberg


def _not_both(name: str, given: object, taken_away: bool) -> None:
    if given and taken_away:
        raise typer.BadParameter(f"give --{name} or --no-{name}, not both")


_METADATA = ".metadata.json"


def _iceberg_place(glue_client: Callable[[], Any], location: str, glue: str) -> tuple[str, str]:
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
    from deltaic.sharing.iceberg_clients.own_metadata import GLUE

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
