"""The command `deltaic env`: the shell lines with which other programs reach the running embedded AWS."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from deltaic_ops.local.private import StateUnusable
from deltaic_ops.local.state import served

APPEAR_SECONDS = 2.0
"""How long after its command a server's first trace may come."""


def env(
    ctx: typer.Context,
    state: Annotated[
        Path | None, typer.Option(help="The folder that `deltaic serve` was started with.", show_default=".deltaic")
    ] = None,
) -> None:
    r"""Print export lines for the embedded AWS that runs in a state folder, once it has started.

    \b
    eval "$(deltaic env)"
    aws s3 ls
    """
    folder = state or ctx.obj.wishes.state
    command = f"deltaic serve --state {shlex.quote(str(folder))}"
    try:
        environment = served(folder, appear=APPEAR_SECONDS)
        refusal = (
            f"no embedded AWS runs in {folder.absolute()}: start it with `{command}`, or name the folder of one "
            "that runs with --state"
        )
    except StateUnusable as error:
        environment, refusal = None, str(error)
    if environment is None:
        from deltaic_ops.cli.listing import print_lines

        print_lines([(refusal, "red")], stderr=True)
        raise typer.Exit(1)
    # deltalake and other readers in Rust take an endpoint without TLS only when they are told.
    for name, value in {**environment, "AWS_ALLOW_HTTP": "true"}.items():
        typer.echo(f"export {name}={shlex.quote(value)}")
