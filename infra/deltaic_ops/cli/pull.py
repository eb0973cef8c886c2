"""The command `deltaic pull`: the download client's own command, with the output and errors of this command line."""

from functools import wraps
from typing import Any

from delta_sharing_pull import command

from deltaic_ops.inspection.pull_errors import own_errors


@wraps(command.pull)
def pull(*arguments: Any, **options: Any) -> None:
    """Run the download client's command and convert its errors."""
    with own_errors():
        command.pull(*arguments, **options)


pull.__doc__ = command.HELP.replace(command.PROGRAM, "deltaic pull")
