"""Error class for invalid files, whose message has a line for each problem."""

from collections.abc import Sequence

from deltaic.errors import InvalidParameter


class Mistakes(InvalidParameter):
    """Errors in files; each line of the message starts with file:line:column, which editors can open."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
