"""Where deltalake comes from: this environment, or the archive of its layer, unpacked once for the process.

Unpacked, both layers together would be larger than Lambda takes (decision 62).
"""

import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

ARCHIVE: Final = "deltalake.zip"


@cache
def provide() -> None:
    """Make `import deltalake` work; raises ModuleNotFoundError where neither it nor its archive is.

    What was unpacked is deleted as soon as it is loaded: the disk has it back when this process ends, however it ends.
    """
    try:
        _load()
    except ModuleNotFoundError:
        archive = next((path for folder in sys.path if (path := Path(folder) / ARCHIVE).is_file()), None)
        if archive is None:
            raise
        with tempfile.TemporaryDirectory(prefix="deltalake-") as folder:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            sys.path.append(folder)
            _load()
            sys.path.remove(folder)


def _load() -> None:
    """Import all that is used."""
    import deltalake
    import deltalake.exceptions  # noqa: F401 -- loaded for whoever imports it later
