"""The command `deltaic serve`: the server on this machine, until it is told to stop."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic_pipeline.spark.stop_flag import StopFlag
from deltaic_terminal.printing import text_console

from deltaic_ops.cli.connection import Wishes
from deltaic_ops.deploy.intrinsics import TemplateError
from deltaic_ops.local.aws_limits import Limits
from deltaic_ops.local.private import StateUnusable
from deltaic_ops.local.stack import Stack, StackFailed, gateway_over, local_stack
from deltaic_ops.local.variables import check_answered, names_aws

if TYPE_CHECKING:
    from rich.console import Console

CHECK_SECONDS = 0.5
FAILURES = (StateUnusable, StackFailed, TemplateError)
INTERRUPTED = 130
"""The exit code of what Ctrl-C has ended before it served (128 + SIGINT)."""


@contextmanager
def stoppable(console: "Console", failures: tuple[type[Exception], ...] = FAILURES) -> Iterator[StopFlag]:
    """Give the flag that signals set; a failure of the block is printed, and ends the command with 1.

    Until `serve_on`, a signal interrupts whatever is under way.
    """
    stop = StopFlag(interrupts=True)
    stop.handle_signals()
    try:
        yield stop
    except KeyboardInterrupt:
        console.print("stopped")
        raise typer.Exit(INTERRUPTED) from None
    except failures as error:
        console.print(str(error), style="red", soft_wrap=True)
        raise typer.Exit(1) from None


def serve_on(console: "Console", stop: StopFlag, stack: Stack) -> None:
    """Return when a signal has come; raises StackFailed."""
    while not stop.wait(CHECK_SECONDS):
        stack.check()
    console.print("stopping ...")


def serve(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = 8000,
    state: Annotated[
        Path | None, typer.Option(help="Where the embedded AWS keeps its data.", show_default=".deltaic")
    ] = None,
    limits: Annotated[
        Limits, typer.Option(help="Whose limits answers are held to; aws: 6 MB at once, then 2 MB/s, 200 MB in all.")
    ] = "none",
) -> None:
    """Serve shares on this machine, over the AWS that the ordinary variables name or else the embedded one.

    \b
    deltaic serve                                  # the embedded AWS, kept in .deltaic
    AWS_PROFILE=lake deltaic serve --port 9000     # the catalog and tables of a deployed stack
    deltaic serve --limits aws                     # answers as fast, and as long, as on Lambda
    """  # noqa: D301 -- \b tells typer to keep the lines
    console = text_console(stderr=True)
    wishes: Wishes = ctx.obj.wishes
    folder = state or wishes.state
    variables = {**os.environ, **wishes.variables}
    if variables.get("AWS_ENDPOINT_URL"):
        alone = "start it, or for an AWS of this command's own: unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID"
        check_answered(variables["AWS_ENDPOINT_URL"], alone)
    with stoppable(console) as stop:
        part: AbstractContextManager[Stack] = (
            gateway_over(variables, folder, port, limits=limits)
            if names_aws(variables)
            else local_stack(folder, port, limits=limits)
        )
        with part as stack:
            stop.interrupts = False
            _tell(console, stack, folder)
            serve_on(console, stop, stack)


def _tell(console: "Console", stack: Stack, state: Path) -> None:
    console.print(f"serving [bold]{stack.endpoint}[/bold]  (Ctrl-C stops)", markup=True)
    console.print(f"a look in the browser: {stack.endpoint}/explore")
    if stack.embedded:
        console.print(f"over the embedded AWS in {state}; in another terminal:")
        console.print(f'  eval "$(deltaic env --state {state})"')
    console.print(f"log: {state / 'gateway.log'}")
