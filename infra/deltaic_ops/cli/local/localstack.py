"""The commands of `deltaic localstack`: deploy the template to LocalStack in Docker, with a sample table."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from deltaic.errors import Conflict, NotFound, Unavailable
from deltaic_pipeline.spark.stop_flag import StopFlag
from deltaic_terminal.progress import Progress, silent, step, terminal

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.operator import PORT_HELP, Operator
from deltaic_ops.cli.value_parsers import pairs
from deltaic_ops.local.private import StateUnusable
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
    with _exclusive(cli) as folder:
        emulator = instance.running_emulator(cli.options.state)
        if emulator is not None:
            _report(cli, f"{emulator.engine} is already up at {emulator.endpoint}")
            return
        containers.check_port(port)
        if not containers.docker_answers():
            raise Unavailable("Docker with Compose is not available: start Docker, or use `deltaic serve`")
        instance.delete_records(cli.options.state)
        with step(_progress(cli), "Starting LocalStack in Docker") as update:
            emulator = containers.start(folder, port)
            update(emulator.endpoint)
        instance.write_record(cli.options.state, emulator)
        _report(cli, "deploy the template there: `deltaic localstack deploy`")


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

    with _exclusive(cli):
        emulator = instance.running_emulator(cli.options.state)
        if emulator is None:
            raise NotFound(f"no LocalStack is up in {cli.options.state}: start it with `deltaic localstack up`")
        deployment.deploy_sample(cli.options.state, cli.options.stack_name, emulator, pairs(parameter), _progress(cli))
        _report(cli, "check it as its recipient would: `deltaic verify`")


@app.command()
def status(cli: Operator) -> None:
    r"""Show whether LocalStack is running and what is deployed there. The exit code is 1 if it is not running.

    \b
    deltaic localstack status
    deltaic localstack status --json
    """
    _show(cli)
    if instance.running_emulator(cli.options.state) is None:
        raise typer.Exit(1)


@app.command()
def down(cli: Operator) -> None:
    r"""Stop LocalStack and delete its data.

    \b
    deltaic localstack down
    """
    with _exclusive(cli) as folder:
        emulator = instance.running_emulator(cli.options.state)
        if emulator is not None:
            if not emulator.containers:
                raise Conflict(f"{emulator.engine} does not run in Docker: stop it with the tool that started it")
            with step(_progress(cli), f"Stopping LocalStack at {emulator.endpoint}"):
                containers.end(emulator.containers)
        instance.delete_records(cli.options.state)
        shutil.rmtree(folder / "run", ignore_errors=True)
        _report(cli, f"{'stopped' if emulator else 'nothing was up'}; the build stays in {folder}")


@contextmanager
def _exclusive(cli: Operator) -> Iterator[Path]:
    """Lock LocalStack's folder for one command; SIGTERM interrupts the command like Ctrl-C."""
    StopFlag(interrupts=True).handle_signals()
    try:
        with instance.lock_folder(cli.options.state) as folder:
            yield folder
    except StateUnusable as error:
        raise Unavailable(str(error)) from error
    except KeyboardInterrupt:
        cli.note("stopped")
        raise typer.Exit(130) from None


def _progress(cli: Operator) -> Progress:
    return silent if cli.as_json else terminal()


def _report(cli: Operator, text: str) -> None:
    cli.note(text)
    if cli.as_json:
        _show(cli)


def _show(cli: Operator) -> None:
    engine, stack = instance.running_emulator(cli.options.state), instance.deployed_stack(cli.options.state)
    status: dict[str, object] = {"up": engine is not None}
    if engine is not None:
        status |= {"engine": engine.engine, "version": engine.version, "endpoint": engine.endpoint, "pid": engine.pid}
    if stack is not None:
        status |= {"stack": stack.stack, "sharingEndpoint": stack.endpoint, "profile": stack.profile}
    if cli.as_json:
        cli.json(status)
        return
    cli.table(status.items(), [("name", lambda item: item[0]), ("value", lambda item: item[1])])
