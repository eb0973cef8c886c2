"""The command `deltaic console`: pages about what is shared with whom, for the operator's own browser."""

import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic.errors import NotFound, Unavailable
from deltaic_pipeline.spark.stop_flag import StopFlag

from deltaic_ops.cli.jobs.usage import HERE
from deltaic_ops.cli.operator import Operator, operator
from deltaic_ops.cli.stack.doctor import examined

if TYPE_CHECKING:
    from deltaic_ops.console.provider import Provider
    from deltaic_ops.inspection.findings import Finding

CHECK_SECONDS = 0.2


def console(  # noqa: PLR0913, PLR0917 -- what the pages are told
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    usage: Annotated[
        str, typer.Option("--usage", envvar="DELTAIC_USAGE", metavar="S3_URL", help="Location of the usage table.")
    ] = HERE,
    runs: Annotated[
        str, typer.Option("--runs", envvar="DELTAIC_RUNS", metavar="S3_URL", help="The table of runs of datasets.")
    ] = "",
    endpoint: Annotated[str, typer.Option(metavar="URL", help="Where recipients are answered.")] = "",
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser of this machine.")] = True,
) -> None:
    r"""Open a page of this machine with your own rights: shares, tables, recipients, usage, and what can be done.

    Nothing of it is public: it listens on 127.0.0.1, and lets in whoever has the link that is shown, which opens once.
    Ctrl-C ends it.

    \b
    deltaic console
    deltaic --stack deltaic-prod console --no-open
    """
    from deltaic_ops.console.application import console as served

    out = operator(ctx, as_json=False)
    about = _provider(out, endpoint, usage, runs, _typed(ctx))
    stop = StopFlag()
    links: list[str] = []

    def told(link: str) -> None:
        links.append(link)
        out.note("to open it once more:" if len(links) > 1 else "open this link, which lets in one browser:")
        typer.echo(link)

    stop.handle_signals()
    try:
        with served(about, port, told), _opened(links) if open_ and _has_screen() else nullcontext():
            while not stop.wait(CHECK_SECONDS):
                pass
    except OSError as taken:
        raise Unavailable(f"port {port} cannot be opened ({taken.strerror}): name another with --port") from None


@contextmanager
def _opened(links: list[str]) -> Iterator[None]:
    """Open the link in a browser by a file of this user's own: other users see the arguments of processes."""
    with tempfile.TemporaryDirectory(prefix="deltaic-console-") as folder:
        page = Path(folder) / "console.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={links[0]}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def _has_screen() -> bool:
    """Whether a browser would have a window of its own, and not this terminal."""
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _typed(ctx: typer.Context) -> list[str]:
    above = ctx.find_root()
    return [
        word
        for option in above.command.params
        if option.name and (source := above.get_parameter_source(option.name)) and source.name == "COMMANDLINE"
        for word in (option.opts[0], str(above.params[option.name]))
    ]


def _provider(out: Operator, endpoint: str, usage: str, runs: str, options: Sequence[str]) -> "Provider":
    from deltaic_ops.console.provider import Provider

    where = out.connection
    try:
        server = out.sharing_endpoint(endpoint)
    except NotFound:
        server = ""

    def examine() -> "Iterable[Finding]":
        from deltaic_ops.checks.doctor.examination import examine

        return examine(examined(out, server))

    return Provider(
        title=f"{where.catalog_table} in {where.region}",
        admin=out.admin,
        reader=out.reader,
        schemas=lambda: out.schemas,
        endpoint=server,
        usage=usage,
        runs=runs,
        options=options,
        environment=where.environment,
        examine=examine,
    )
