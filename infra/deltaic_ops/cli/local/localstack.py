"""The commands of `deltaic localstack`: deploy the template to LocalStack's Docker image, and share a sample table."""

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
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.words import pairs
from deltaic_ops.local.private import StateUnusable
from deltaic_ops.localstack import containers, running

app = Commands()

PORT = 4566


@app.command()
def up(
    out: Operator,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = PORT,
) -> None:
    r"""Start LocalStack in Docker. Roles and signed URLs are enforced.

    Set LOCALSTACK_AUTH_TOKEN if your edition needs it. If LocalStack is already up, nothing happens.

    \b
    deltaic localstack up
    deltaic localstack up --port 0
    """
    with _exclusive(out) as folder:
        emulator = running.running(out.wishes.state)
        if emulator is not None:
            _tell(out, f"{emulator.engine} is already up at {emulator.endpoint}")
            return
        containers.check_port(port)
        if not containers.docker_answers():
            raise Unavailable("Docker with Compose is not available: start Docker, or use `deltaic serve`")
        running.forget(out.wishes.state)
        with step(_progress(out), "Starting LocalStack in Docker") as tell:
            emulator = containers.start(folder, port)
            tell(emulator.endpoint)
        running.announce(out.wishes.state, emulator)
        _tell(out, "deploy the template there: `deltaic localstack deploy`")


@app.command()
def deploy(
    out: Operator,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter of the template. Can be repeated.")
    ] = None,
) -> None:
    r"""Deploy the template to LocalStack, and share a small table with a sample recipient.

    The command runs `sam build` and `sam deploy`.

    \b
    deltaic localstack deploy
    deltaic localstack deploy --parameter UrlTtlSeconds=1800
    """
    from deltaic_ops.localstack import deploying

    with _exclusive(out):
        emulator = running.running(out.wishes.state)
        if emulator is None:
            raise NotFound(f"no LocalStack is up in {out.wishes.state}: start it with `deltaic localstack up`")
        deploying.deploy_sample(out.wishes.state, out.wishes.stack_name, emulator, pairs(parameter), _progress(out))
        _tell(out, "check it as its recipient would: `deltaic verify`")


@app.command()
def status(out: Operator) -> None:
    r"""Show whether LocalStack is up, and what is deployed there. Exit code 1 if it is down.

    \b
    deltaic localstack status
    deltaic localstack status --json
    """
    _show(out)
    if running.running(out.wishes.state) is None:
        raise typer.Exit(1)


@app.command()
def down(out: Operator) -> None:
    r"""Stop the LocalStack that `up` has started; its tables, objects and stacks end with it.

    \b
    deltaic localstack down
    """
    with _exclusive(out) as folder:
        emulator = running.running(out.wishes.state)
        if emulator is not None:
            if not emulator.containers:
                raise Conflict(f"{emulator.engine} does not run in Docker: stop it with the tool that started it")
            with step(_progress(out), f"Stopping LocalStack at {emulator.endpoint}"):
                containers.end(emulator.containers)
        running.forget(out.wishes.state)
        shutil.rmtree(folder / "run", ignore_errors=True)
        _tell(out, f"{'stopped' if emulator else 'nothing was up'}; the build stays in {folder}")


@contextmanager
def _exclusive(out: Operator) -> Iterator[Path]:
    """Lock LocalStack's folder for one command; SIGTERM ends the command in order, as Ctrl-C does."""
    StopFlag(interrupts=True).handle_signals()
    try:
        with running.alone(out.wishes.state) as folder:
            yield folder
    except StateUnusable as error:
        raise Unavailable(str(error)) from error
    except KeyboardInterrupt:
        out.note("stopped")
        raise typer.Exit(130) from None


def _progress(out: Operator) -> Progress:
    return silent if out.as_json else terminal()


def _tell(out: Operator, text: str) -> None:
    out.note(text)
    if out.as_json:
        _show(out)


def _show(out: Operator) -> None:
    there, stack = running.running(out.wishes.state), running.deployed(out.wishes.state)
    status: dict[str, object] = {"up": there is not None}
    if there is not None:
        status |= {"engine": there.engine, "version": there.version, "endpoint": there.endpoint, "pid": there.pid}
    if stack is not None:
        status |= {"stack": stack.stack, "sharingEndpoint": stack.endpoint, "profile": stack.profile}
    if out.as_json:
        out.json(status)
        return
    out.table(status.items(), [("what", lambda item: item[0]), ("is", lambda item: item[1])])
