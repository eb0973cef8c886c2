"""The error for mistakes in files, with one line for each."""

from collections.abc import Sequence

from deltaic.errors import InvalidParameter


class Mistakes(InvalidParameter):
    """Mistakes in files; each line starts with file:line:column, which editors and terminals can open."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
