"""The command `deltaic env`: print shell lines that connect other programs to the built-in AWS emulator."""

import shlex

import typer

from deltaic_ops.local.private import StateUnusable
from deltaic_ops.local.state_folder import wait_for_environment

APPEAR_SECONDS = 2.0
"""How long to wait for a server that is starting in the state folder."""


def env(ctx: typer.Context) -> None:
    r"""Print variables that connect tools to the local server.

    \b
    eval "$(deltaic env)"
    aws s3 ls
    """
    folder = ctx.obj.options.state
    command = f"deltaic serve --state {shlex.quote(str(folder))}"
    try:
        environment = wait_for_environment(folder, appear_seconds=APPEAR_SECONDS)
        refusal = (
            f"no local server is running in {folder.absolute()}: start it with `{command}`, or select another "
            "folder with --state"
        )
    except StateUnusable as error:
        environment, refusal = None, str(error)
    if environment is None:
        from deltaic_ops.cli.list_output import print_lines

        print_lines([(refusal, "red")], stderr=True)
        raise typer.Exit(1)
    # deltalake and other readers in Rust reject an endpoint without TLS unless this variable allows it.
    for name, value in {**environment, "AWS_ALLOW_HTTP": "true"}.items():
        typer.echo(f"export {name}={shlex.quote(value)}")
