"""The command `deltaic pull`: the download client's own, with this command line's output and refusals."""

from functools import wraps
from typing import Any

from delta_sharing_pull import command

from deltaic_ops.inspection.pull_errors import own_errors


@wraps(command.pull)
def pull(*arguments: Any, **options: Any) -> None:
    """Download; the options are those of the client's own command."""
    with own_errors():
        command.pull(*arguments, **options)


pull.__doc__ = command.HELP.replace(command.PROGRAM, "deltaic pull")
