"""The commands of `deltaic table`."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer
from deltaic.catalog.admin.table_admin import Validate
from deltaic.catalog.aws_errors import to_operator_error
from deltaic.catalog.items import Table, TableFormat
from deltaic.errors import InvalidParameter, NotFound, TableUnreadable, Unavailable

from deltaic_ops.cli.catalog.file_load import load_files
from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import HISTORY_HELP, ID, ID_HELP, Ids, Operator
from deltaic_ops.cli.recipients.holders import show_table
from deltaic_ops.cli.value_parsers import (
    ShareOrSchema,
    TableTitle,
    names_of,
    refuse_both,
    share_or_schema,
    table_name,
    text_of,
)

app = Commands()

IcebergWay = Literal["off", "vended", "signed"]

_START = (
    "First version that recipients can read (requires --history). Change feeds and streams that start at this "
    "version return the rows that its commit added, but not the rows that the commit removed."
)
_MODE = "url: signed URLs; dir: credentials for the folder (requires --history). Can be repeated."
_AUXILIARY = "Another folder with files of the table. Can be repeated."
_REPLACE = "The given values replace the stored ones."
_CHECKPOINT = (
    "Let the stack write checkpoints into the table's log. Use this option for a small table if the program that "
    "writes the table creates no checkpoints. The stack needs Checkpoints=enabled."
)
_FILTER = (
    "Share only rows that match this condition over partition columns, literals and current_recipient('property'). "
    "With @FILE, the condition is read from a file. Requires url as the only access mode."
)
_HIDE = "Partition columns to hide, separated by commas. Requires url as the only access mode."
_ICEBERG = (
    "How Iceberg clients read the table. signed: the server signs each request; vended: clients get credentials for "
    "the folder (requires --access-mode dir --history). The stack needs Iceberg=enabled."
)
_FORMAT = (
    "Table format. iceberg: Delta Sharing clients and Iceberg clients can read the table; --location is its folder "
    "(with a version hint) or one of its metadata files. With a filter, only Delta Sharing clients can read it."
)
_GLUE = "Iceberg table in AWS Glue, from which the server gets its current metadata file."
_TABLE_BUCKET = "Iceberg table in Amazon S3 Tables: the ARN of its table bucket, and namespace.table."
_UNCHECKED = "Do not check that your credentials can read the table. Filters and hidden columns are always checked."
_STORAGE = "Storage of the location (see deltaic storage). [default: AWS S3]"


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a table entry holds
    cli: Operator,
    name: TableTitle,
    location: Annotated[str, typer.Option(metavar="S3-URI", help="Folder of the table: s3://bucket/path.")] = "",
    history: Annotated[bool, typer.Option("--history/--no-history", help=HISTORY_HELP)] = False,
    start_version: Annotated[int, typer.Option(min=0, metavar="VERSION", help=_START)] = 0,
    access_mode: Annotated[list[str] | None, typer.Option(metavar="url|dir", help=_MODE)] = None,
    auxiliary: Annotated[list[str] | None, typer.Option(metavar="S3-URI", help=_AUXILIARY)] = None,
    storage: Annotated[str, typer.Option(metavar="NAME", help=_STORAGE)] = "",
    checkpoint: Annotated[bool, typer.Option("--checkpoint/--no-checkpoint", help=_CHECKPOINT)] = False,
    partition_filter: Annotated[str, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = "",
    hide_columns: Annotated[list[str] | None, typer.Option(metavar="NAMES", help=_HIDE)] = None,
    iceberg: Annotated[IcebergWay, typer.Option(help=_ICEBERG)] = "off",
    format_: Annotated[TableFormat, typer.Option("--format", help=_FORMAT)] = "delta",
    glue: Annotated[str, typer.Option(metavar="DB.TABLE", help=_GLUE)] = "",
    table_bucket: Annotated[tuple[str, str], typer.Option(metavar="ARN NAME", help=_TABLE_BUCKET)] = ("", ""),
    id_: Annotated[str | None, typer.Option("--id", metavar="UUID", help=ID_HELP)] = None,
    unchecked: Annotated[bool, typer.Option("--unchecked", help=_UNCHECKED)] = False,
) -> None:
    r"""Share a Delta or Iceberg table.

    The command reads the table's log with your credentials and changes nothing in its folder.

    \b
    deltaic table create vaccine_share.acme.patients --location s3://bucket/patients
    deltaic table create s.d.t --location s3://bucket/t --history --start-version 10
    deltaic table create s.d.t --location s3://lake/t --history --access-mode dir
    deltaic table create s.d.t --location s3://lake/t --storage minio
    deltaic table create s.d.t --location s3://lake/t --partition-filter "year >= 2024"
    deltaic table create s.d.t --location s3://lake/t --hide-columns region,team
    deltaic table create s.d.t --format iceberg --glue sales.orders
    deltaic table create s.d.t --format iceberg --table-bucket arn:aws:s3tables:...:bucket/b a.t
    """
    share, schema, table = table_name(name)
    rows, hidden, metadata_location = text_of(partition_filter), names_of(hide_columns), ""
    if format_ == "iceberg":
        location, metadata_location = _iceberg_place(cli.connection.client, location, glue, table_bucket)
        access_mode = access_mode or (["url"] if rows or hidden else ["url", "dir"])
        history, iceberg = True, "signed" if iceberg == "off" and "dir" in access_mode else iceberg
    elif glue or table_bucket[0] or not location:
        raise typer.BadParameter("missing location: use --location, or --format iceberg with --glue or --table-bucket")
    warnings: list[str] = []
    created = cli.admin.tables.create(
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
        validate=_validation(cli, warnings, unchecked=unchecked),
    )
    versions = f"versions from {created.start_version}" if created.history else "the latest version"
    visible = f"rows where {created.partition_filter}" if created.partition_filter else "all rows"
    visible += f" without {', '.join(created.hidden_columns)}" * bool(created.hidden_columns)
    done = f"shared table '{created.title}': {versions}, {visible}; next: deltaic grant create <recipient> "
    cli.show(created, done + created.share, warnings)


@app.command("list")
def list_(cli: Operator, name: ShareOrSchema, ids: Ids = False) -> None:
    r"""List the tables of a share or schema.

    \b
    deltaic table list vaccine_share
    deltaic table list vaccine_share.acme_vaccine_data --ids
    """
    share, schema = share_or_schema(cli.admin, name)
    columns = [
        *fields(NAME="title", LOCATION="location", ACCESS="access_modes"),
        ("HISTORY", lambda table: f"from {table.start_version}" if table.history else "no"),
        ("STORAGE", lambda table: table.storage),
        ("ROWS", lambda table: table.partition_filter or "all"),
        ("HIDDEN", lambda table: table.hidden_columns),
        ("ICEBERG", lambda table: f"{table.iceberg or 'no'}{', Iceberg table' if table.format == 'iceberg' else ''}"),
        ("LISTED", lambda table: f"no: {table.unlisted}" if table.unlisted else "yes"),
        ("CHECKPOINTS", lambda table: "yes" if table.checkpoint else "no"),
        *([ID] if ids else []),
    ]
    cli.rows(cli.admin.tables.list(share, schema), columns, f"'{name}' has no tables yet")


app.command("show")(show_table)
app.command("load")(load_files)


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a table entry holds
    cli: Operator,
    name: TableTitle,
    location: Annotated[str | None, typer.Option(metavar="S3-URI", help="New folder of the table.")] = None,
    history: Annotated[bool | None, typer.Option("--history/--no-history", help=HISTORY_HELP)] = None,
    start_version: Annotated[int | None, typer.Option(min=0, metavar="VERSION", help=_START)] = None,
    access_mode: Annotated[list[str] | None, typer.Option(metavar="url|dir", help=_MODE)] = None,
    auxiliary: Annotated[list[str] | None, typer.Option(metavar="S3-URI", help=f"{_AUXILIARY} {_REPLACE}")] = None,
    no_auxiliary: Annotated[bool, typer.Option("--no-auxiliary", help="Remove all auxiliary locations.")] = False,
    storage: Annotated[str | None, typer.Option(metavar="NAME", help='Storage; "" for AWS S3.')] = None,
    checkpoint: Annotated[bool | None, typer.Option("--checkpoint/--no-checkpoint", help=_CHECKPOINT)] = None,
    partition_filter: Annotated[str | None, typer.Option(metavar="SQL|@FILE", help=_FILTER)] = None,
    no_partition_filter: Annotated[bool, typer.Option("--no-partition-filter", help="Share all rows.")] = False,
    hide_columns: Annotated[list[str] | None, typer.Option(metavar="NAMES", help=f"{_HIDE} {_REPLACE}")] = None,
    iceberg: Annotated[IcebergWay | None, typer.Option(help=_ICEBERG)] = None,
    no_hide_columns: Annotated[bool, typer.Option("--no-hide-columns", help="Show all columns.")] = False,
    unchecked: Annotated[bool, typer.Option("--unchecked", help=_UNCHECKED)] = False,
) -> None:
    r"""Change a shared table; options that you omit keep their values.

    \b
    deltaic table update s.d.t --history --start-version 0
    deltaic table update s.d.t --location s3://other/place
    deltaic table update s.d.t --checkpoint
    deltaic table update s.d.t --iceberg signed
    deltaic table update s.d.t --partition-filter "year >= 2024" --no-hide-columns
    """
    refuse_both("auxiliary", auxiliary, no_auxiliary)
    refuse_both("partition-filter", partition_filter, no_partition_filter)
    refuse_both("hide-columns", hide_columns, no_hide_columns)
    share, schema, table = table_name(name)
    rows = "" if no_partition_filter else None if partition_filter is None else text_of(partition_filter)
    hidden = [] if no_hide_columns else names_of(hide_columns) or None
    warnings: list[str] = []
    before = cli.admin.tables.get(share, schema, table)
    changed = cli.admin.tables.update(
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
        validate=_validation(cli, warnings, unchecked=unchecked),
    )
    cli.updated(f"table '{changed.title}'", before, changed, warnings)


@app.command()
def delete(cli: Operator, name: TableTitle) -> None:
    r"""Stop sharing a table; its files stay.

    \b
    deltaic table delete vaccine_share.acme_vaccine_data.vaccine_patients
    """
    share, schema, table = table_name(name)
    deleted = cli.admin.tables.delete(share, schema, table)
    cli.show(deleted, f"deleted table '{deleted.title}'")


def _validation(cli: Operator, warnings: list[str], *, unchecked: bool) -> Validate:
    """Return a function that validates a table's location and filters and replaces the content of `warnings`."""

    def validate(changed: Table, before: Table | None) -> Table:
        from deltaic_ops.inspection.filter_checks import validate_table

        stored, warnings[:] = validate_table(cli.admin, lambda: cli.schemas, changed, before, unchecked=unchecked)
        return stored

    return validate


def _stored(iceberg: IcebergWay) -> str:
    return "" if iceberg == "off" else iceberg


def _iceberg_place(
    client: Callable[[Any], Any], location: str, glue: str, table_bucket: tuple[str, str]
) -> tuple[str, str]:
    """Return an Iceberg table's folder, and its metadata file or name in AWS (empty with a version hint)."""
    from deltaic.storage.table_catalogs import GLUE, TABLE_BUCKET, find_table

    bucket, name = table_bucket
    if [bool(location), bool(glue), bool(bucket)].count(True) != 1:
        raise InvalidParameter(
            "an Iceberg table needs one of --location, --glue database.table and --table-bucket arn namespace.table"
        )
    if location:
        folder, inside, _ = location.partition("/metadata/")
        if not location.endswith(".metadata.json"):
            return location, ""
        if not inside:
            raise InvalidParameter(f"'{location}' is not in the metadata/ folder of a table: use a file in metadata/")
        return folder, location
    first, _, table = (glue or name).partition(".")
    if not first or not table:
        form = "database.table" if glue else "namespace.table"
        raise InvalidParameter(f"'{glue or name}' is not the name of an Iceberg table: use the form {form}")
    reference = f"{GLUE}{first}/{table}" if glue else f"{TABLE_BUCKET}{bucket}/{first}/{table}"
    try:
        return find_table(client, reference).location, reference
    except (TableUnreadable, Unavailable) as refusal:
        cause = refusal.__cause__
        if isinstance(refusal, Unavailable) and isinstance(cause, Exception):
            raise to_operator_error(cause) from cause
        if cause is None:
            raise InvalidParameter(f"'{glue or name}' is not an Iceberg table: AWS has no metadata of it") from None
        reason = f"cannot read the Iceberg table '{glue or name}' ({refusal.detail})"
        raise NotFound(f"{reason}: check name, account and region") from refusal
