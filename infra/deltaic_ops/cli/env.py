"""Decides what `deltaic env` prints: the shell lines with which other programs reach the running embedded AWS."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from deltaic_ops.local.state import running


def env(
    state: Annotated[Path, typer.Option(help="The folder that `deltaic serve` was started with.")] = Path(".deltaic"),
) -> None:
    r"""Print export lines for the embedded AWS that runs in a state folder.

    \b
    eval "$(deltaic env)"
    aws s3 ls
    """
    environment = running(state)
    if environment is None:
        typer.secho(
            f"no embedded AWS runs in {state}: start it with `deltaic serve --state {state}`", fg="red", err=True
        )
        raise typer.Exit(1)
    for name, value in environment.items():
        typer.echo(f"export {name}={shlex.quote(value)}")
