"""Decides where deltalake comes from: this environment, or the archive of its layer, unpacked once for the process.

Unpacked, both layers together would be larger than Lambda takes (decision 62).
"""

import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

ARCHIVE: Final = "deltalake.zip"

_unpacked: list[tempfile.TemporaryDirectory[str]] = []
"""Kept until the process ends: its libraries are loaded from there."""


@cache
def provide() -> None:
    """Make `import deltalake` work; raises ModuleNotFoundError where neither it nor its archive is."""
    try:
        import deltalake  # noqa: F401 -- asked whether it is there
    except ModuleNotFoundError:
        archive = next((path for folder in sys.path if (path := Path(folder) / ARCHIVE).is_file()), None)
        if archive is None:
            raise
        folder = tempfile.TemporaryDirectory(prefix="deltalake-", ignore_cleanup_errors=True)
        _unpacked.append(folder)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder.name)
        sys.path.append(folder.name)
