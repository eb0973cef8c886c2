"""Map the name of a shared object, which the server chooses, to a safe path below the target folder."""

import re
import unicodedata
from pathlib import Path, PurePosixPath
from typing import Final

from delta_sharing_pull.folder_lock import STATE_FOLDER

_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MAX_NAME_BYTES: Final = 255


def local_path(name: str) -> PurePosixPath | None:
    """Return the path of an object's local file, relative to the target folder; None if its name is unsafe.

    An unsafe name leads out of the folder or to the state folder, or contains control characters for a terminal.
    """
    parts = name.split("/")
    for part in parts:
        if part in {"", ".", ".."} or _UNSAFE.search(part) or len(part.encode()) > _MAX_NAME_BYTES:
            return None
    return None if parts[0].casefold() == STATE_FOLDER else PurePosixPath(*parts)


def folded(name: str) -> str:
    """Return a normalized name, equal for names that a case-insensitive file system does not distinguish."""
    return unicodedata.normalize("NFC", name).casefold()


def is_case_sensitive(folder: Path) -> bool:
    """Return whether the file system of a folder is case-sensitive, by creating a file in it."""
    (folder / "case").touch()
    return not (folder / "CASE").exists()
