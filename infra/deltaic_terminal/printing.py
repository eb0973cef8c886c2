"""Print text safely: escape control characters and characters that change the reading direction."""

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

# Control characters except newline and tab, invisible line separators, overrides of the text direction, and unpaired
# surrogates, which are not valid Unicode.
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COMMAND = re.compile("(?<![\\w./-])(?<!run )deltaic(?= [a-z-])")


def visible(text: str) -> str:
    r"""Escape control and direction characters in a string as in JSON, such as ESC as `\u001b`."""
    return _NOT_TEXT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """Escape control and direction characters in a string, and replace its line breaks by spaces."""
    return visible(text.replace("\n", " ").replace("\t", " "))


def called() -> str:
    """Return the command with which the user started `deltaic`, for commands in messages that users can copy."""
    if "UV_RUN_RECURSION_DEPTH" in os.environ:  # set by `uv run`
        return "uv run deltaic"
    typed = sys.argv[0]
    return "deltaic" if Path(typed).name != "deltaic" or shutil.which("deltaic") == typed else shlex.quote(typed)


def as_called(text: str) -> str:
    """Replace `deltaic` in commands of a message by the command that the user typed; not for data."""
    return _COMMAND.sub(lambda _: called(), text)


class _Visible(io.TextIOBase):
    """Wrapper of standard output or error that escapes text, and has no `buffer` to which bytes can be written."""

    def __init__(self, stream: Any, escape: Callable[[str], str]) -> None:
        self.stream = stream
        self._escape = escape

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute in typeshed
        """The encoding of the wrapped stream."""
        return str(self.stream.encoding)

    def write(self, text: str) -> int:
        """Write text with control and direction characters escaped."""
        self.stream.write(self._escape(text))
        return len(text)

    def flush(self) -> None:
        """Flush the wrapped stream unless it is closed, because Python also flushes during garbage collection."""
        if not self.stream.closed:
            self.stream.flush()

    def isatty(self) -> bool:
        """Return whether the wrapped stream is a terminal."""
        return bool(self.stream.isatty())

    def fileno(self) -> int:
        """Return the file descriptor of the wrapped stream."""
        return int(self.stream.fileno())

    def writable(self) -> bool:
        """Return True, because text can be written."""
        return True


@contextmanager
def only_text() -> Iterator[None]:
    """Escape control characters in what the `with` block prints; on standard error, also apply `as_called`."""
    stdout: Any = sys.stdout if isinstance(sys.stdout, _Visible) else _Visible(sys.stdout, visible)
    stderr: Any = sys.stderr if isinstance(sys.stderr, _Visible) else _Visible(sys.stderr, _hints)
    with redirect_stdout(stdout), redirect_stderr(stderr):
        yield


def _hints(text: str) -> str:
    return visible(as_called(text))


def text_console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return a rich console that interprets no markup in text and escapes control and direction characters.

    The console's own colors and cursor movements bypass `only_text`.
    """
    from rich.console import Console
    from rich.segment import Segment

    escape = _hints if stderr else visible

    class Names(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(escape(part.text), part.style)

    stream = sys.stderr if stderr else sys.stdout
    file: Any = stream.stream if isinstance(stream, _Visible) else stream
    return Names(file=file, width=width, markup=False, emoji=False, highlight=False)
