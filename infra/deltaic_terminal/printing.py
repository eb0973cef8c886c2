"""Decides what reaches a terminal: text. What would command the terminal, or reorder what is read, is shown escaped."""

import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Control characters but newline and tab, ends of lines that no terminal shows, overrides of the direction in which one
# reads, and halves of characters, which are no Unicode.
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COMMAND = re.compile("(?<![\\w./-])(?<!run )deltaic(?= [a-z-])")


def visible(text: str) -> str:
    r"""Return text in which everything can be seen: ESC is `\u001b`, as in JSON, which stays JSON."""
    return _NOT_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Return text that can be seen, as one line."""
    return visible(text.replace("\n", " ").replace("\t", " "))


def called() -> str:
    """Return how the command `deltaic` is called here, so that a hint can be typed as it stands."""
    if "UV_RUN_RECURSION_DEPTH" in os.environ:  # set for what `uv run` runs
        return "uv run deltaic"
    typed = sys.argv[0]
    return "deltaic" if Path(typed).name != "deltaic" or shutil.which("deltaic") == typed else shlex.quote(typed)


def as_called(text: str) -> str:
    """Return a text for people whose hints name the command as it is called here; data is never such a text."""
    return _COMMAND.sub(lambda _: called(), text)


class _Visible(io.TextIOBase):
    """Standard output or error that takes text alone. It has no `buffer`, around which bytes could go."""

    def __init__(self, stream: Any, shown: Callable[[str], str]) -> None:
        self.stream = stream
        self._shown = shown

    @property
    def encoding(self) -> str:  # type: ignore[override]  # for typeshed an attribute
        """The stream's own."""
        return str(self.stream.encoding)

    def write(self, text: str) -> int:
        """Write what can be seen of it."""
        self.stream.write(self._shown(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream, if it is still open: Python flushes this object too when it is collected."""
        if not self.stream.closed:
            self.stream.flush()

    def isatty(self) -> bool:
        """Return whether somebody looks."""
        return bool(self.stream.isatty())

    def fileno(self) -> int:
        """Return the stream's own."""
        return int(self.stream.fileno())

    def writable(self) -> bool:
        """Return that it is."""
        return True


@contextmanager
def only_text() -> Iterator[None]:
    """Let nothing but text through whatever prints to standard output and error in the block; the latter is hints."""
    out: Any = sys.stdout if isinstance(sys.stdout, _Visible) else _Visible(sys.stdout, visible)
    err: Any = sys.stderr if isinstance(sys.stderr, _Visible) else _Visible(sys.stderr, _hints)
    with redirect_stdout(out), redirect_stderr(err):
        yield


def _hints(text: str) -> str:
    return visible(as_called(text))


def text_console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return a console of rich that shows names as they are: no markup in them, and nothing but text.

    Its own colours and movements go around `only_text`.
    """
    from rich.console import Console
    from rich.segment import Segment

    shown = _hints if stderr else visible

    class Names(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(shown(part.text), part.style)

    stream = sys.stderr if stderr else sys.stdout
    file: Any = stream.stream if isinstance(stream, _Visible) else stream
    return Names(file=file, width=width, markup=False, emoji=False, highlight=False)
