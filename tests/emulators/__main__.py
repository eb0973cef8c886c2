"""Start an emulator without Docker, deploy the template to it, check it and stop it.

uv run python -m emulators up [--engine localstack-core --dynamodb-local PORT] [--port 0]
uv run python -m emulators deploy
uv run python -m emulators verify
uv run python -m emulators down
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from deltaic.errors import DeltaicError, InvalidParameter
from deltaic_ops.localstack import deployment, instance
from deltaic_terminal.progress import step, terminal

from emulators import starting
from emulators.deploying import deploy
from emulators.engines import ENGINES, LOCALEMU, LOCALSTACK_CORE, install

DELTAIC = Path(sys.executable).parent / "deltaic"
PID = "emulator.pid"


def main() -> int:
    """Run one command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="emulators", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["up", "deploy", "verify", "down"])
    parser.add_argument("--engine", choices=ENGINES, default=LOCALEMU.name)
    parser.add_argument("--port", type=int, default=4566, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--dynamodb-local", type=int, default=0, metavar="PORT", help="localstack-core needs one")
    parser.add_argument("--state", type=Path, default=Path(".deltaic"), help="folder of the emulator's files")
    parser.add_argument("--built", type=Path, help="folder of a build, which `deploy` then does not repeat")
    options = parser.parse_args()
    if options.command == "verify":
        command = [DELTAIC, "--state", options.state, "verify", "--as", deployment.READER]
        return subprocess.run(command, check=False).returncode
    folder = instance.folder_of(options.state)
    try:
        match options.command:
            case "up":
                up(options, folder)
            case "deploy":
                deploy(options.state, folder / "build", options.built)
            case _:
                down(options.state, folder)
    except DeltaicError as error:
        print(f"refused: {error.message}", file=sys.stderr)
        return 1
    return 0


def up(options: argparse.Namespace, folder: Path) -> None:
    """Install the emulator if needed, start it unless one is up, and record it in the state folder."""
    engine = ENGINES[options.engine]
    if instance.running_emulator(options.state) is not None:
        return
    if engine is LOCALSTACK_CORE and not options.dynamodb_local:
        raise InvalidParameter("localstack-core has no DynamoDB: give the port of DynamoDB Local by --dynamodb-local")
    with step(terminal(), f"Starting {engine.name} {engine.version}") as update:
        install(engine)
        emulator, pid = starting.start(engine, folder, options.port, options.dynamodb_local)
        update(emulator.endpoint)
    (folder / PID).write_text(str(pid))
    instance.record_emulator(options.state, emulator)


def down(state: Path, folder: Path) -> None:
    """Stop the emulator that `up` has started, and remove what functions have unpacked."""
    if instance.running_emulator(state) is not None:
        starting.end(int((folder / PID).read_text()))
    instance.record_emulator(state, None)
    for name in ("root", "tmp"):
        shutil.rmtree(folder / "run" / name, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
