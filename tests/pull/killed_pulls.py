"""Run a command repeatedly and kill it after 0, 2, 4... disk operations, until it ends by itself.

Usage: python killed_pulls.py CHECK COMMAND... Disk operations are Python's audit events. After each run, the program
CHECK runs with the argument True if the command has ended. Each run is a fork, so modules are imported only once.
"""

import os
import subprocess
import sys

from deltaic_ops.cli import app

STEPS = {"open", "os.rename", "os.mkdir", "os.remove", "os.truncate", "sqlite3.connect"}


def killed_at(step: int, command: list[str]) -> int:
    """Run the command in a fork and return its exit code: 9 if it was killed at that step."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    remaining = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal remaining
        writes = event != "open" or (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if event in STEPS and writes:
            remaining -= 1
            if remaining < 0:
                os._exit(9)

    sys.addaudithook(hook)
    try:
        app(command)
    except SystemExit as error:
        os._exit(int(error.code or 0))
    os._exit(3)


def main() -> None:
    """Run the command until it ends, and print the number of steps."""
    check, *command = sys.argv[1:]
    for step in range(0, 1000, 2):
        code = killed_at(step, command)
        subprocess.run([sys.executable, check, str(code == 0)], check=True)
        if code == 0:
            sys.stdout.write(str(step))
            return
        if code != 9:
            sys.exit(code)


if __name__ == "__main__":
    main()
