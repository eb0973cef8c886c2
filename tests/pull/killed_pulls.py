"""Runs a command again and again, killed two steps later each time, until it ends; after each kill, a check.

python killed_pulls.py CHECK COMMAND...: a step is what a process does to the disk (Python's audit events). The check
is a program that gets whether the command has ended. What is killed is a fork, so that nothing is imported anew.
"""

import os
import subprocess
import sys

from deltaic_ops.cli import app

STEPS = {"open", "os.rename", "os.mkdir", "os.remove", "os.truncate", "sqlite3.connect"}


def killed_at(step: int, command: list[str]) -> int:
    """Return a child's exit code: 9 if it was killed at that step."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = step

    def hook(event: str, told: tuple[object, ...]) -> None:
        nonlocal left
        writes = event != "open" or (isinstance(told[2], int) and told[2] & (os.O_WRONLY | os.O_RDWR))
        if event in STEPS and writes:
            left -= 1
            if left < 0:
                os._exit(9)

    sys.addaudithook(hook)
    try:
        app(command)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    os._exit(3)


def main() -> None:
    """Play it."""
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
