"""The command `deltaic pull`: run the download client, and print its errors like other commands."""

from functools import wraps
from typing import Any

from delta_sharing_pull import command

from deltaic_ops.inspection.pull_errors import translate_errors


@wraps(command.pull)
def pull(*arguments: Any, **options: Any) -> None:
    """Download, with the options of the command `delta-sharing-pull`."""
    with translate_errors():
        command.pull(*arguments, **options)


pull.__doc__ = command.HELP.replace(command.PROGRAM, "deltaic pull")
