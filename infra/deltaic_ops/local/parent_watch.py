"""Watch on the parent process: one of ours ends when the one that started it does, however that came."""

import sys


def wait_for_parent() -> None:
    """Return when standard input ends: the parent holds its other end, and the kernel closes it with the parent."""
    while sys.stdin.buffer.read(4096):
        pass
