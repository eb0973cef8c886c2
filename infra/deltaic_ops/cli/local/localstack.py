"""The commands of `deltaic localstack`: deploy the template to LocalStack in Docker, with a sample table."""

from typing import Annotated

import typer
from deltaic.errors import NotFound
from deltaic_terminal.progress import Progress, silent, step, terminal

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.operator import PORT_HELP, Operator
from deltaic_ops.cli.value_parsers import pairs
from deltaic_ops.localstack import containers, instance

app = Commands()

PORT = 4566


@app.command()
def up(
    cli: Operator,
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help=PORT_HELP)] = PORT,
) -> None:
    r"""Start LocalStack in Docker.

    LocalStack enforces roles and signed URLs. Set LOCALSTACK_AUTH_TOKEN if your edition needs it. If LocalStack is
    already running, the command does nothing.

    \b
    deltaic localstack up
    deltaic localstack up --port 0
    """
    emulator = instance.running_emulator(cli.options.state)
    if emulator is None:
        with step(_progress(cli), "Starting LocalStack in Docker") as update:
            emulator = instance.Running(containers.start(port))
            update(emulator.endpoint)
        instance.record_emulator(cli.options.state, emulator)
    _report(cli, f"LocalStack is up at {emulator.endpoint}; next: deltaic localstack deploy")


@app.command()
def deploy(
    cli: Operator,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Template parameter. Can be repeated.")
    ] = None,
) -> None:
    r"""Deploy the template to LocalStack and share a sample.

    The command runs `sam build` and `sam deploy`, and shares a small table with a sample recipient.

    \b
    deltaic localstack deploy
    deltaic localstack deploy --parameter UrlTtlSeconds=1800
    """
    from deltaic_ops.localstack import deployment

    emulator = instance.running_emulator(cli.options.state)
    if emulator is None:
        raise NotFound(f"no LocalStack is up in {cli.options.state}: start it with `deltaic localstack up`")
    deployment.deploy_sample(cli.options.state, cli.options.stack_name, emulator, pairs(parameter), _progress(cli))
    _report(cli, f"next: deltaic verify --as {deployment.READER}")


@app.command()
def status(cli: Operator) -> None:
    r"""Show whether LocalStack is running, and its address. The exit code is 1 if it is not running.

    \b
    deltaic localstack status
    deltaic localstack status --json
    """
    if not _show(cli):
        raise typer.Exit(1)


@app.command()
def down(cli: Operator) -> None:
    r"""Stop LocalStack and delete its data.

    \b
    deltaic localstack down
    """
    emulator = instance.running_emulator(cli.options.state)
    if emulator is not None:
        with step(_progress(cli), f"Stopping LocalStack at {emulator.endpoint}"):
            containers.end(emulator.port)
    instance.record_emulator(cli.options.state, None)
    _report(cli, "LocalStack is stopped" if emulator else "LocalStack was not running")


def _progress(cli: Operator) -> Progress:
    return silent if cli.as_json else terminal()


def _report(cli: Operator, text: str) -> None:
    cli.note(text)
    if cli.as_json:
        _show(cli)


def _show(cli: Operator) -> bool:
    emulator = instance.running_emulator(cli.options.state)
    facts: dict[str, object] = {"up": emulator is not None}
    facts |= {} if emulator is None else {"endpoint": emulator.endpoint}
    if cli.as_json:
        cli.json(facts)
    else:
        cli.facts(facts)
    return emulator is not None
