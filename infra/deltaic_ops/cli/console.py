"""The command `deltaic console`: web pages for operators, on this machine."""

import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic.errors import NotFound, Unavailable
from deltaic_pipeline.spark.stop_flag import StopFlag

from deltaic_ops.cli.jobs.usage import HERE
from deltaic_ops.cli.operator import PORT_HELP, Operator, operator
from deltaic_ops.cli.stack.doctor import check_context

if TYPE_CHECKING:
    from deltaic_ops.console.provider import Provider
    from deltaic_ops.inspection.findings import Finding

CHECK_SECONDS = 0.2


def console(  # noqa: PLR0913, PLR0917 -- settings of the pages
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help=PORT_HELP)] = 0,
    usage: Annotated[
        str, typer.Option("--usage", envvar="DELTAIC_USAGE", metavar="S3_URL", help="Location of the usage table.")
    ] = HERE,
    runs: Annotated[
        str,
        typer.Option("--runs", envvar="DELTAIC_RUNS", metavar="S3_URL", help="Location of the runs table of datasets."),
    ] = "",
    endpoint: Annotated[str, typer.Option(metavar="URL", help="Endpoint of the sharing server.")] = "",
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the pages in a browser.")] = True,
) -> None:
    r"""Manage shares and recipients in a browser, with your own credentials.

    The server listens only on 127.0.0.1. The link that it prints can be used once, in one browser. Ctrl-C stops it.

    \b
    deltaic console
    deltaic --stack deltaic-prod console --no-open
    """
    from deltaic_ops.console.application import console as served

    cli = operator(ctx, as_json=False)
    about = _provider(cli, endpoint, usage, runs, _typed(ctx))
    stop = StopFlag()
    links: list[str] = []

    def show_link(link: str) -> None:
        links.append(link)
        cli.note("a new link:" if len(links) > 1 else "open this link, which can be used once:")
        typer.echo(link)

    stop.handle_signals()
    try:
        with served(about, port, show_link), _open_in_browser(links) if open_ and _has_screen() else nullcontext():
            while not stop.wait(CHECK_SECONDS):
                pass
    except OSError as error:
        raise Unavailable(f"cannot listen on port {port} ({error.strerror}): choose another with --port") from None


@contextmanager
def _open_in_browser(links: list[str]) -> Iterator[None]:
    """Open the link in a browser through a private file, because other users can see arguments of processes."""
    with tempfile.TemporaryDirectory(prefix="deltaic-console-") as folder:
        page = Path(folder) / "console.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={links[0]}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _typed(ctx: typer.Context) -> list[str]:
    above = ctx.find_root()
    return [
        argument
        for option in above.command.params
        if option.name and (source := above.get_parameter_source(option.name)) and source.name == "COMMANDLINE"
        for argument in (option.opts[0], str(above.params[option.name]))
    ]


def _provider(cli: Operator, endpoint: str, usage: str, runs: str, options: Sequence[str]) -> "Provider":
    from deltaic_ops.console.provider import Provider

    connection = cli.connection
    try:
        server = cli.sharing_endpoint(endpoint)
    except NotFound:
        server = ""

    def examine() -> "Iterable[Finding]":
        from deltaic_ops.checks.doctor.examination import examine

        return examine(check_context(cli, server))

    from deltaic_ops.cli.rehearsal import rehearse

    return Provider(
        title=f"{connection.stack} in {connection.region}" if connection.outputs else connection.catalog_table,
        admin=cli.admin,
        reader=cli.reader,
        schemas=lambda: cli.schemas,
        endpoint=server,
        usage=usage,
        runs=runs,
        options=options,
        environment=connection.environment,
        examine=examine,
        rehearse=partial(rehearse, cli),
    )
