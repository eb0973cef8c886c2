"""Limit of open files in a process of the local server: as many as it is allowed, within reason."""

import resource
from typing import Final

FILES: Final = 8192
"""Connections among them."""


def allow_files() -> None:
    """Raise this process's soft limit to FILES, or as far as the hard limit lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
