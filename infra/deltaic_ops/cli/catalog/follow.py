"""The command `deltaic share follow`: share each Delta table of a folder or of a Glue database."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from deltaic.catalog.admin.follow_admin import CHECKED, GLUE, Follow, checked_source, name_for
from deltaic.catalog.admin.records import checked
from deltaic.catalog.items import now as moment
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound
from deltaic.storage.locations import Location
from msgspec.structs import replace

from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Column, Operator
from deltaic_ops.cli.value_parsers import ShareName, refuse_both

if TYPE_CHECKING:
    from deltaic.scheduled.source_check import FollowContext, TableCheck

_FOLDER = "Folder whose direct subfolders are Delta tables: s3://bucket/folder/."
_DATABASE = "AWS Glue database, for example glue:sales."
_SCHEMA = "Schema in which the tables are shared; created if missing. [default: the name of the folder or database]"
_EXCLUDE = "Tables not to share, such as 'tmp_*'. Can be repeated. The given patterns replace the stored ones."
_HISTORY = "Share the history of tables that are added from now on."
_NOW = "Check the source now, with your credentials, and show the result for each table."
_DRY = "Show the result for each table, and change nothing."
_OFF = (
    "Stop following the source. Tables that recipients see now stay shared. Tables that Deltaic has hidden from "
    "recipients, because they are missing or unreadable, are removed from the catalog. No data is deleted."
)


def follow(  # noqa: PLR0913, PLR0917 -- what a follow holds, and what is done with it
    cli: Operator,
    share: ShareName,
    folder: Annotated[str, typer.Option(metavar="S3-URI", help=_FOLDER)] = "",
    database: Annotated[str, typer.Option(metavar="glue:NAME", help=_DATABASE)] = "",
    schema: Annotated[str, typer.Option(metavar="NAME", help=_SCHEMA)] = "",
    storage: Annotated[
        str | None, typer.Option(metavar="NAME", help="Storage of the tables (see deltaic storage).")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help=_EXCLUDE)] = None,
    no_exclude: Annotated[bool, typer.Option("--no-exclude", help="Remove all exclude patterns.")] = False,
    history: Annotated[bool | None, typer.Option("--history/--no-history", help=_HISTORY)] = None,
    now: Annotated[bool, typer.Option("--now", help=_NOW)] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_DRY)] = False,
    off: Annotated[bool, typer.Option("--off", help=_OFF)] = False,
) -> None:
    r"""Share all tables of a folder or Glue database, also new ones.

    A stack with Follow=enabled checks the source every hour, so it also shares tables that are created later.

    \b
    deltaic share follow sales --folder s3://lake/sales/ --exclude 'tmp_*' --now
    deltaic share follow sales --database glue:sales --schema europe --dry-run
    deltaic share follow sales --off
    """
    source, patterns = _source(folder, database), [] if no_exclude else exclude
    refuse_both("exclude", exclude, no_exclude)
    options = {"storage": storage, "exclude": patterns, "history": history}
    changes = bool(source) or any(value is not None for value in options.values())
    if off == (changes or now or dry_run):
        raise typer.BadParameter("use --folder or --database; if a source is followed, --now, --dry-run or --off")
    existing = _find_follow(cli, share, schema, source)
    if existing is None and not source:
        problem = f"schema '{share}.{schema}' follows no" if schema else f"no schema of share '{share}' follows a"
        raise NotFound(f"{problem} source: run deltaic share follow {share} --folder s3://... or --database glue:...")
    followed = existing or Follow(
        share=share, schema_name=schema or _default_schema(source), share_id="", source=source, created_at=moment()
    )
    if off:
        _end(cli, followed)
    elif dry_run:
        preview = replace(followed, **checked(CHECKED, {"source": source or followed.source, **options}))
        _check_source(cli, preview, dry=True)
    else:
        stored = _store(cli, followed, source or followed.source, options) if changes else followed
        if now:
            _check_source(cli, stored, dry=False)
        else:
            cli.show(
                stored,
                f"{stored.title} follows {stored.source}; a stack with Follow=enabled checks it every hour; to check "
                f"it now and list its tables: deltaic share follow {stored.share} --schema {stored.schema_name} --now",
            )


def _source(folder: str, database: str) -> str:
    if folder and database:
        raise typer.BadParameter("use --folder or --database, not both")
    if database and not database.startswith(GLUE):
        raise typer.BadParameter(f"'{database}' is not an AWS Glue database: use the form glue:NAME")
    return database or folder


def _find_follow(cli: Operator, share: str, schema: str, source: str) -> Follow | None:
    """Return the Follow entry of a schema or source, or without both the share's only one; None if missing."""
    follows = list(cli.admin.follows.list(share))
    if source and not schema:
        stored = checked_source(source)
        schema = next((each.schema_name for each in follows if each.source == stored), _default_schema(source))
    if schema:
        return next((each for each in follows if each.schema_name.lower() == schema.lower()), None)
    if len(follows) > 1:
        names = ", ".join(each.schema_name for each in follows)
        raise InvalidParameter(f"several schemas of share '{share}' follow a source: add --schema, one of {names}")
    return follows[0] if follows else None


def _default_schema(source: str) -> str:
    if source.startswith(GLUE):
        return name_for(source.removeprefix(GLUE))
    location = Location.parse(source)
    return name_for(location.prefix.rpartition("/")[2] or location.bucket)


def _store(cli: Operator, followed: Follow, source: str, options: dict[str, Any]) -> Follow:
    """Store a Follow entry, and create its schema if missing; raises an error if the source is a single table."""
    from deltaic.scheduled.source_check import is_single_table

    checked(CHECKED, {"source": source, **options})
    storage = followed.storage if options["storage"] is None else options["storage"]
    with _follow_context(cli, source, storage) as context:
        is_table = is_single_table(source, context)
    if is_table:
        raise InvalidParameter(f"{source} is a Delta table: use its parent folder, or use `deltaic table create`")
    with suppress(AlreadyExists):
        cli.admin.schemas.create(followed.share, followed.schema_name)
    return cli.admin.follows.put(followed.share, followed.schema_name, source, **options)


@contextmanager
def _follow_context(cli: Operator, source: str, storage: str) -> "Iterator[FollowContext]":
    from deltaic.scheduled.source_check import FollowContext

    with cli.schemas.reading(source, storage) as (config, credentials):
        yield FollowContext(config, credentials, lambda: cli.connection.client("glue"))


def _check_source(cli: Operator, followed: Follow, *, dry: bool) -> None:
    from deltaic.scheduled.source_check import check_source

    outcomes: list[TableCheck] = []
    not_made_yet = suppress(NotFound) if dry else nullcontext()  # the schema
    progress = cli.progress_step(f"checking {followed.source}")
    with _follow_context(cli, followed.source, followed.storage) as context, not_made_yet, progress:
        outcomes.extend(check_source(cli.admin, followed, context, dry_run=dry))
    if cli.as_json:
        cli.json([{"table": it.name, "location": it.location, "did": it.status, "why": it.reason} for it in outcomes])
        return
    if outcomes:
        cli.table(outcomes, _OUTCOMES)
    else:
        cli.note(f"no changes: all tables of {followed.source} are shared already")
    if dry:
        cli.note("dry run: nothing was changed; to apply this, replace --dry-run with --now")


_OUTCOMES: list[Column] = fields(TABLE="name", RESULT="status", LOCATION="location", REASON="reason")


def _end(cli: Operator, followed: Follow) -> None:
    """Stop following: visible tables become manually shared tables, entries of hidden tables are deleted."""
    ended = cli.admin.follows.delete(followed.share, followed.schema_name)
    for table in list(cli.admin.tables.list(ended.share, ended.schema_name)):
        path = (table.share, table.schema_name, table.name)
        if table.followed and table.unlisted:
            cli.admin.tables.delete(*path)
        elif table.followed:
            cli.admin.tables.update(*path, followed=False)
    cli.show(
        ended, f"{ended.title} no longer follows {ended.source}; its tables stay: deltaic table list {ended.title}"
    )
