"""What is wrong with files, a line for each mistake."""

from collections.abc import Sequence

from deltaic.errors import InvalidParameter


class Mistakes(InvalidParameter):
    """Mistakes of files, each of which begins with its place, as editors and terminals open it."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
