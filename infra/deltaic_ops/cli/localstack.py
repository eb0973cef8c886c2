"""The commands of `deltaic localstack`: the template on an emulator of AWS, from nothing to a share that is read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from deltaic.errors import Conflict, InvalidParameter, NotFound, Unavailable
from deltaic_pipeline.spark.progress import Progress, silent, step, terminal
from deltaic_pipeline.spark.stop_flag import StopFlag

from deltaic_ops.cli.operator import AsJson, Operator, operator
from deltaic_ops.cli.words import pairs
from deltaic_ops.local.private import StateUnusable
from deltaic_ops.localstack import containers, running, starting
from deltaic_ops.localstack.engines import ENGINES, LOCALEMU, LOCALSTACK_CORE, docker_answers, install, installed

app = typer.Typer(no_args_is_help=True, add_completion=False)

PORT = 4566
Engine = Literal["auto", "docker", "localemu", "localstack-core"]


@app.command()
def up(
    ctx: typer.Context,
    engine: Annotated[
        Engine, typer.Option(help="What to start; auto is LocalStack's image where Docker answers, else LocalEmu.")
    ] = "auto",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = PORT,
    dynamodb_local: Annotated[
        int, typer.Option(metavar="PORT", help="Where a DynamoDB Local runs (localstack-core needs one).")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    r"""Start LocalStack on this machine, roles and signed URLs enforced; nothing happens if it is up.

    With Docker its image is started by Compose (LOCALSTACK_AUTH_TOKEN, where its edition wants one), else LocalEmu, its
    open fork, as a process: fetched once (400 MB), with Python 3.13, into ~/.cache/deltaic
    (DELTAIC_CACHE).

    \b
    deltaic localstack up
    deltaic localstack up --engine localemu --port 0
    """
    out = operator(ctx, as_json)
    chosen = engine if engine != "auto" else "docker" if docker_answers() else LOCALEMU.name
    if chosen == LOCALSTACK_CORE.name and not dynamodb_local:
        raise InvalidParameter("localstack-core has no DynamoDB inside: give the port of one by --dynamodb-local")
    with _alone(out) as folder:
        there = running.running(out.state)
        if there is not None:
            if engine not in {"auto", there.engine}:
                raise Conflict(f"{there.engine} is up at {there.endpoint}: `deltaic localstack down` ends it")
            _tell(out, f"{there.engine} is up already at {there.endpoint}")
            return
        starting.take(port)
        running.forget(out.state)
        progress = _progress(out)
        if chosen == "docker":
            with step(progress, "Starting LocalStack in Docker") as tell:
                started = containers.start(folder, port)
                tell(started.endpoint)
        else:
            engine_parts = ENGINES[chosen]
            if not installed(engine_parts):
                with step(progress, f"Fetching {engine_parts.name} {engine_parts.version}") as tell:
                    install(engine_parts)
                    tell(str(engine_parts.folder))
            with step(progress, f"Starting {engine_parts.name} {engine_parts.version}") as tell:
                started = starting.start(engine_parts, folder, port, dynamodb_local)
                tell(started.endpoint)
        running.announce(out.state, started)
        _tell(out, "deploy the template there: `deltaic localstack deploy`")


@app.command()
def deploy(
    ctx: typer.Context,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter of the template. Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    r"""Build template.yaml and deploy it to the LocalStack that is up, with a small table and a reader's profile.

    This is `sam build` and `sam deploy` of the template as it is. A process cannot update a stack: begin anew for that.

    \b
    deltaic localstack deploy
    deltaic localstack deploy --parameter UrlTtlSeconds=1800
    """
    from deltaic_ops.localstack import deploying

    out = operator(ctx, as_json)
    with _alone(out) as folder:
        there = running.running(out.state)
        if there is None:
            raise NotFound(f"no LocalStack is up in {out.state}: start it by `deltaic localstack up`")
        deploying.refuse_update(out.stack, there)
        progress = _progress(out)
        with step(progress, "Building the functions and their layer"):
            built = deploying.built(folder / "build")
        with step(progress, f"Deploying the stack {out.stack}") as tell:
            deployment = deploying.deployed(built, out.stack, there, pairs(parameter))
            endpoint = deploying.endpoint_of(deployment, there)
            tell(endpoint)
        profile = folder / running.PROFILE
        with step(progress, f"Publishing a table and writing the profile of {deploying.READER}") as tell:
            rows = deploying.publish(deployment, there, profile)
            tell(f"{rows} rows, {profile}")
        running.announce(out.state, running.Deployed(out.stack, endpoint, str(profile.absolute())))
        _tell(out, "play its reader: `deltaic verify`")


@app.command()
def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    r"""Show what is up in the state folder, and what was deployed there; exit code 1 if nothing is.

    \b
    deltaic localstack status
    deltaic localstack status --json
    """
    out = operator(ctx, as_json)
    _show(out)
    if running.running(out.state) is None:
        raise typer.Exit(1)


@app.command()
def down(ctx: typer.Context, as_json: AsJson = False) -> None:
    r"""End the LocalStack that `up` has started, and nothing else; its tables, objects and stacks end with it.

    \b
    deltaic localstack down
    """
    out = operator(ctx, as_json)
    with _alone(out) as folder:
        there = running.running(out.state)
        if there is not None:
            with step(_progress(out), f"Ending {there.engine} at {there.endpoint}"):
                if there.containers:
                    containers.end(there.containers)
                else:
                    starting.end(there.pid)
        running.forget(out.state)
        for name in ("root", "tmp"):
            shutil.rmtree(folder / "run" / name, ignore_errors=True)
        kept = [
            f"logs and the build in {folder}",
            *(f"{each.name} in {each.folder}" for each in ENGINES.values() if installed(each)),
        ]
        _tell(out, f"{'ended' if there else 'nothing was up'}; kept: {', '.join(kept)}")


@contextmanager
def _alone(out: Operator) -> Iterator[Path]:
    """Hold the folder; a signal ends what is under way in order, as Ctrl-C does."""
    StopFlag(interrupts=True).handle_signals()
    try:
        with running.alone(out.state) as folder:
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
    there, stack = running.running(out.state), running.deployed(out.state)
    status: dict[str, object] = {"up": there is not None}
    if there is not None:
        status |= {"engine": there.engine, "version": there.version, "endpoint": there.endpoint, "pid": there.pid}
    if stack is not None:
        status |= {"stack": stack.stack, "sharingEndpoint": stack.endpoint, "profile": stack.profile}
    if out.as_json:
        out.json(status)
        return
    out.table(status.items(), [("what", lambda item: item[0]), ("is", lambda item: item[1])])
