"""The command `deltaic demo`: share sample tables on this machine and read them with the published client."""

import os
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic_terminal.printing import text_console
from deltaic_terminal.progress import Progress, step, terminal

from deltaic_ops.cli.local.serve import FAILURES, serve_on, stoppable
from deltaic_ops.cli.operator import PORT_HELP
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import Stack, StackFailed, local_stack
from deltaic_ops.rights.profile_file import reserve_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from pandas import DataFrame
    from rich.console import Console

RECIPIENT = "demo_reader"
PROFILE = "vaccine.share"
GUEST = "demo_guest"
"""Recipient that downloads its own profile through a link."""

SITES = {"demo_porto": "Porto", "demo_turku": "Turku"}
"""Recipients that see only the rows of one trial site; each has a profile file with its name."""

LOCATION = f"s3://{DATA_BUCKET}/vaccine"
FIRST_ROWS = 5
OWN_ROWS = 3
CONNECTOR = "io.delta:delta-sharing-spark_4.1_2.13:4.2.0"


def demo(
    ctx: typer.Context,
    exit_: Annotated[bool, typer.Option("--exit", help="Stop after the read.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help=PORT_HELP)] = 8000,
) -> None:
    r"""Share sample tables on this machine and read them.

    The command reads them once with the published Delta Sharing client, and then keeps serving.

    \b
    deltaic demo           # read them yourself afterwards; Ctrl-C stops
    deltaic demo --exit    # stop after the read
    """
    from deltaic.errors import DeltaicError
    from deltalake.exceptions import DeltaError

    console = text_console(stderr=True)
    folder, progress = ctx.obj.options.state, terminal()
    with stoppable(console, (*FAILURES, DeltaicError, DeltaError)) as stop, ExitStack() as parts:
        with step(progress, "Starting the built-in AWS emulator and the gateway") as update:
            stack = parts.enter_context(local_stack(folder, port))
            update(stack.endpoint)
        _share_and_read(console, progress, stack, folder)
        if exit_:
            console.print("\nTo read the tables yourself, keep the server running: deltaic demo", soft_wrap=True)
        else:
            _explain(console, Path(PROFILE))
            _show_links(console, stack)
            stop.interrupts = False
            serve_on(console, stop, stack)


def _share_and_read(console: "Console", progress: Progress, stack: Stack, folder: Path) -> None:
    # The next steps connect to AWS like any tool of a provider: with the standard variables.
    os.environ.update(stack.environment)
    _publish(progress, stack.environment)
    with step(progress, f"Granting shares to {RECIPIENT}, {GUEST}, {' and '.join(SITES)}"):
        _grant()
    profiles = {recipient: Path(f"{recipient}.share") for recipient in SITES}
    with step(progress, f"Writing {PROFILE}, {', '.join(map(str, profiles.values()))}") as update:
        update(_profile(stack, RECIPIENT, Path(PROFILE)))
        for recipient, profile in profiles.items():
            _profile(stack, recipient, profile)
    _read(console, progress, Path(PROFILE), folder)
    _read_own_rows(console, progress, profiles, folder)


def _admin() -> "CatalogAdmin":
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.settings import settings

    tables = settings()
    return CatalogAdmin(tables.catalog_table, tables.tokens_table)


def _grant() -> None:
    from deltaic.errors import AlreadyExists

    from deltaic_ops.local.sample import MY_SITE, PATIENTS, SITE

    admin = _admin()
    for recipient in (RECIPIENT, GUEST, *SITES):
        share = MY_SITE[0] if recipient in SITES else PATIENTS[0]
        properties = {SITE: SITES[recipient]} if recipient in SITES else {}
        with suppress(AlreadyExists):
            admin.recipients.create(recipient, comment="reads the demo", properties=properties)
        with suppress(AlreadyExists):
            admin.grants.create(recipient, share)


def _publish(progress: Progress, environment: "Mapping[str, str]") -> None:
    from deltaic_ops.local.sample import publish

    with step(progress, f"Writing {LOCATION} with deltalake and pyiceberg") as update:
        publish(_admin(), LOCATION, {**environment, "AWS_ALLOW_HTTP": "true"}, lambda text, _: update(text))
        update("2 Delta tables in 6 versions, an Iceberg table in 2")


def _profile(stack: Stack, recipient: str, path: Path) -> str:
    """Write a recipient's profile with a new token, which replaces that of an earlier run; return a message."""
    admin = _admin()
    with reserve_profile(path) as file:
        issued = admin.tokens.create(admin.recipients.get(recipient), overlap=timedelta(0))
        file.write_profile(stack.endpoint, issued, serves_iceberg=True)
    return f"the token expires on {issued.token.expires_at:%Y-%m-%d}"


def _show_links(console: "Console", stack: Stack) -> None:
    """Print the endpoint and a new link, which revokes the token of an earlier link when it is used."""
    admin = _admin()
    invitation = admin.invitations.create(admin.recipients.get(GUEST), stack.endpoint, overlap=timedelta(0))
    for line in (
        f"\nserving [bold]{stack.endpoint}[/bold]  (Ctrl-C stops)",
        f"To look at the data, open [bold]{stack.endpoint}/explore[/bold] and choose {PROFILE}",
        f"To see what a recipient with a link sees, open [bold]{invitation.link}[/bold]",
        "To share a file of yours, in another terminal: deltaic table load my_share.my_schema.my_table FILE",
    ):
        console.print(line, markup=True, soft_wrap=True)


def _load(urls: "Mapping[str, str]", state: Path) -> "dict[str, DataFrame]":
    """Read tables with the published client; raises StackFailed if it cannot."""
    import logging

    import delta_sharing

    logging.getLogger("delta_sharing").setLevel(logging.WARNING)
    try:
        return {key: delta_sharing.load_as_pandas(url) for key, url in urls.items()}
    except Exception as error:  # the client raises whatever its HTTP and Parquet libraries raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise StackFailed(f"the client could not read the share: {reason}; see {state / 'gateway.log'}") from error


def _read(console: "Console", progress: Progress, profile: Path, state: Path) -> None:
    from deltaic_ops.local.sample import DELIVERIES, INGREDIENTS, PATIENTS

    names = [".".join(title) for title in (PATIENTS, INGREDIENTS, DELIVERIES)]
    with step(progress, "Reading it with the delta-sharing client") as update:
        frames = _load({name: f"{profile}#{name}" for name in names}, state)
        update(f"{len(frames)} tables, {sum(map(len, frames.values())):,} rows")
    for name, frame in frames.items():
        console.print(f"\n[bold]{name}[/bold]: the first {FIRST_ROWS} of {len(frame):,} rows", markup=True)
        console.print(first_rows(frame, FIRST_ROWS, console.width), soft_wrap=True)


def _read_own_rows(console: "Console", progress: Progress, profiles: "Mapping[str, Path]", state: Path) -> None:
    from deltaic_ops.local.sample import MY_SITE

    name = ".".join(MY_SITE)
    with step(progress, f"Reading {name} with {' and '.join(map(str, profiles.values()))}") as update:
        frames = _load({recipient: f"{profile}#{name}" for recipient, profile in profiles.items()}, state)
        update(", ".join(f"{len(frame):,} rows" for frame in frames.values()))
    for recipient, frame in frames.items():
        sites = ", ".join(sorted(frame["site"].unique()))
        read = f"\n[bold]{name}[/bold], read by {recipient}: {len(frame):,} rows, of {sites}"
        console.print(read, markup=True, soft_wrap=True)
        console.print(first_rows(frame, OWN_ROWS, console.width), soft_wrap=True)


def first_rows(frame: "DataFrame", rows: int, width: int | None = None) -> str:
    """Return a frame's first rows as text, sorted, because the order of a table's files is arbitrary."""
    ordered = frame.sort_values(list(frame.columns[:2]))
    return str(ordered.head(rows).to_string(index=False, line_width=width))


def _explain(console: "Console", profile: Path) -> None:
    from deltaic_ops.local.sample import PATIENTS

    url = f"{profile}#{'.'.join(PATIENTS)}"
    console.print(
        f"""
[bold]Read it from Python[/bold]   (pip install delta-sharing)

    import delta_sharing
    delta_sharing.load_as_pandas("{url}", limit=10)
    delta_sharing.load_table_changes_as_pandas("{url}", starting_version=1)

[bold]Read it from Spark[/bold]    (--packages {CONNECTOR})

    spark.read.format("deltaSharing").load("{url}").show()""",
        markup=True,
        soft_wrap=True,
    )
