"""The command `deltaic serve`: run the server on this machine until a signal stops it."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic_pipeline.spark.stop_flag import StopFlag
from deltaic_terminal.printing import text_console

from deltaic_ops.cli.aws_selection import GlobalOptions
from deltaic_ops.cli.operator import PORT_HELP
from deltaic_ops.deploy.intrinsics import TemplateError
from deltaic_ops.local.aws_variables import check_reachable, selects_aws
from deltaic_ops.local.private import StateUnusable
from deltaic_ops.local.stack import Stack, StackFailed, gateway_over, local_stack

if TYPE_CHECKING:
    from rich.console import Console

CHECK_SECONDS = 0.5
FAILURES = (StateUnusable, StackFailed, TemplateError)
INTERRUPTED = 130
"""Exit code after Ctrl-C before the server was ready (128 + SIGINT)."""


@contextmanager
def stoppable(console: "Console", failures: tuple[type[Exception], ...] = FAILURES) -> Iterator[StopFlag]:
    """Yield a StopFlag, which SIGINT and SIGTERM set; if the block raises one of `failures`, exit with code 1.

    The error is printed first. A signal before `serve_on` runs interrupts the block (exit code 130).
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
    """Keep serving until a signal arrives; raises StackFailed if the server fails."""
    while not stop.wait(CHECK_SECONDS):
        stack.check()
    console.print("stopping ...")


def serve(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help=PORT_HELP)] = 8000,
) -> None:
    """Run a sharing server on this machine.

    Without AWS environment variables, it uses a built-in AWS emulator, which keeps its data in the state folder.

    \b
    deltaic serve                                  # with the built-in AWS emulator in .deltaic
    AWS_PROFILE=lake deltaic serve --port 9000     # with the catalog and tables of a deployed stack
    """  # noqa: D301 -- \b tells typer to keep the lines
    console = text_console(stderr=True)
    options: GlobalOptions = ctx.obj.options
    variables = {**os.environ, **options.variables}
    if variables.get("AWS_ENDPOINT_URL"):
        remedy = "start it, or use the built-in AWS emulator: unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID"
        check_reachable(variables["AWS_ENDPOINT_URL"], remedy)
    with stoppable(console) as stop:
        part: AbstractContextManager[Stack] = (
            gateway_over(variables, options.state, port) if selects_aws(variables) else local_stack(options.state, port)
        )
        with part as stack:
            stop.interrupts = False
            _show_endpoint(console, stack, options.state)
            serve_on(console, stop, stack)


def _show_endpoint(console: "Console", stack: Stack, state: Path) -> None:
    console.print(f"serving [bold]{stack.endpoint}[/bold]  (Ctrl-C stops)", markup=True)
    console.print(f"in the browser: {stack.endpoint}/explore")
    if stack.embedded:
        console.print(f"with the built-in AWS emulator in {state}; to use it in another terminal:")
        console.print(f'  eval "$(deltaic env --state {state})"')
    console.print(f"log: {state / 'gateway.log'}")
