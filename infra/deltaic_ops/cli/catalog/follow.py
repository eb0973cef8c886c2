"""The command `deltaic share follow`: a schema has a table for each Delta table of a folder, or of a Glue database."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from deltaic.catalog.admin.follows import CHECKED, GLUE, Follow, name_for
from deltaic.catalog.admin.records import checked
from deltaic.catalog.items import now as moment
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound
from deltaic.storage.locations import Location
from msgspec.structs import replace

from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Column, Operator

if TYPE_CHECKING:
    from deltaic.scheduled.following import FollowMeans, TableOutcome

_FOLDER = "The folder one level below which Delta tables lie: s3://bucket/folder/."
_DATABASE = "A database of AWS Glue, as glue:NAME."
_SCHEMA = "The schema that has the tables; it is made if it is not there. Named like folder or database unless you say."
_EXCLUDE = "A pattern of names that are not shared, as 'tmp_*'. Can be repeated; replaces all."
_HISTORY = "Share the history of tables that are entered from now on."
_NOW = "Look now, with your credentials, and show what became of which table."
_DRY = "Look, show what would become of which table, and change nothing."
_OFF = "Follow no more. Tables that are shared stay; those that recipients do not see any more are deleted."


def follow(  # noqa: PLR0913, PLR0917 -- what a follow holds, and what is done with it
    out: Operator,
    share: Annotated[str, typer.Argument(metavar="SHARE")],
    folder: Annotated[str, typer.Option(metavar="S3-URI", help=_FOLDER)] = "",
    database: Annotated[str, typer.Option(metavar="glue:NAME", help=_DATABASE)] = "",
    schema: Annotated[str, typer.Option(metavar="NAME", help=_SCHEMA)] = "",
    storage: Annotated[str | None, typer.Option(metavar="NAME", help="The storage that the tables are in.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help=_EXCLUDE)] = None,
    no_exclude: Annotated[bool, typer.Option("--no-exclude", help="Share all names.")] = False,
    history: Annotated[bool | None, typer.Option("--history/--no-history", help=_HISTORY)] = None,
    now: Annotated[bool, typer.Option("--now", help=_NOW)] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_DRY)] = False,
    off: Annotated[bool, typer.Option("--off", help=_OFF)] = False,
) -> None:
    r"""Share the Delta tables of a folder or a Glue database, those too that come later.

    \b
    deltaic share follow sales --folder s3://lake/sales/ --exclude 'tmp_*' --now
    deltaic share follow sales --database glue:sales --schema europe --dry-run
    deltaic share follow sales --off
    """
    source, patterns = _source(folder, database), [] if no_exclude else exclude
    if exclude and no_exclude:
        raise typer.BadParameter("give --exclude or --no-exclude, not both")
    given = {"storage": storage, "exclude": patterns, "history": history}
    changes = bool(source) or any(one is not None for one in given.values())
    if off == (changes or now or dry_run):
        raise typer.BadParameter("give --folder or --database; or --now, --dry-run or --off of what is followed")
    found = _known(out, share, schema or (_named(source) if source else ""))
    if found is None and not source:
        what = f"'{share}.{schema}' follows nothing" if schema else f"no schema of '{share}' follows anything"
        raise NotFound(f"{what}: deltaic share follow {share} --folder s3://... or --database glue:...")
    wanted = found or Follow(
        share=share, schema_name=schema or _named(source), share_id="", source=source, created_at=moment()
    )
    if off:
        _end(out, wanted)
    elif dry_run:
        _look(out, replace(wanted, **checked(CHECKED, {"source": source or wanted.source, **given})), dry=True)
    else:
        entered = _enter(out, wanted, source or wanted.source, given) if changes else wanted
        if now:
            _look(out, entered, dry=False)
        else:
            out.show(
                entered,
                f"{entered.title} follows {entered.source}: a stack with Follow=enabled looks every hour; now: "
                f"deltaic share follow {entered.share} --schema {entered.schema_name} --now",
            )


def _source(folder: str, database: str) -> str:
    if folder and database:
        raise typer.BadParameter("give --folder or --database, not both")
    if database and not database.startswith(GLUE):
        raise typer.BadParameter(f"'{database}' names no database: write glue:NAME")
    return database or folder


def _known(out: Operator, share: str, schema: str) -> Follow | None:
    """Return what the schema follows, or of a share with one such schema that; None if nothing."""
    follows = list(out.admin.follows.list(share))
    if schema:
        return next((one for one in follows if one.schema_name.lower() == schema.lower()), None)
    if len(follows) > 1:
        names = ", ".join(one.schema_name for one in follows)
        raise InvalidParameter(f"several schemas of '{share}' follow something: say --schema, one of {names}")
    return follows[0] if follows else None


def _named(source: str) -> str:
    """Return the name of a schema for a source: of its folder, its bucket or its database."""
    if source.startswith(GLUE):
        return name_for(source.removeprefix(GLUE))
    place = Location.parse(source)
    return name_for(place.prefix.rpartition("/")[2] or place.bucket)


def _enter(out: Operator, wanted: Follow, source: str, given: dict[str, Any]) -> Follow:
    """Enter what is followed, and the schema if it is not there; first the source must be one of tables."""
    from deltaic.scheduled.following import first_look

    checked(CHECKED, {"source": source, **given})
    with _means(out, source, wanted.storage if given["storage"] is None else given["storage"]) as means:
        is_table = first_look(source, means)
    if is_table:
        raise InvalidParameter(
            f"{source} is a table itself: name the folder above it, or share it by deltaic table create"
        )
    with suppress(AlreadyExists):
        out.admin.schemas.create(wanted.share, wanted.schema_name)
    return out.admin.follows.enter(wanted.share, wanted.schema_name, source, **given)


@contextmanager
def _means(out: Operator, source: str, storage: str) -> "Iterator[FollowMeans]":
    from deltaic.scheduled.following import FollowMeans

    with out.schemas.reading(source, storage) as (config, credentials):
        yield FollowMeans(config, credentials, lambda: out.connection.client("glue"))


def _look(out: Operator, followed: Follow, *, dry: bool) -> None:
    from deltaic.scheduled.following import look

    outcomes: list[TableOutcome] = []
    not_made_yet = suppress(NotFound) if dry else nullcontext()  # the schema
    with _means(out, followed.source, followed.storage) as means, not_made_yet:
        for outcome in look(out.admin, followed, means, dry=dry):
            outcomes.append(outcome)
            out.note(f"{outcome.did} {outcome.name}")
    told = [{"table": one.name, "location": one.location, "did": one.did, "why": one.why} for one in outcomes]
    if out.as_json:
        out.json(told)
        return
    if outcomes:
        out.table(outcomes, _OUTCOMES)
    else:
        out.note(f"nothing has changed: the tables of {followed.source} are shared as they were")
    if dry:
        out.note("nothing was written; without --dry-run, and with --now, it is done")


_OUTCOMES: list[Column] = fields(TABLE="name", DID="did", LOCATION="location", WHY="why")


def _end(out: Operator, followed: Follow) -> None:
    """Follow no more, and leave the tables that recipients see as if they had been shared by hand."""
    gone = out.admin.follows.end(followed.share, followed.schema_name)
    for table in list(out.admin.tables.list(gone.share, gone.schema_name)):
        place = (table.share, table.schema_name, table.name)
        if table.followed and table.unlisted:
            out.admin.tables.delete(*place)
        elif table.followed:
            out.admin.tables.update(*place, followed=False)
    out.show(gone, f"{gone.title} follows {gone.source} no more; its tables stay: deltaic table list {gone.title}")
