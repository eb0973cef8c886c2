"""Decides which file an object of a folder becomes, if any: its name comes from a server, and leads nowhere else."""

import re
import unicodedata
from pathlib import Path, PurePosixPath
from typing import Final

from delta_sharing_pull.folder_lock import OWN

_NOT_TEXT: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MOST_BYTES: Final = 255


def local_path(name: str) -> PurePosixPath | None:
    """Return where an object lies below the folder; None for what would leave it, steer a terminal, or is no name."""
    parts = name.split("/")
    for part in parts:
        if part in {"", ".", ".."} or _NOT_TEXT.search(part) or len(part.encode()) > _MOST_BYTES:
            return None
    return None if parts[0].casefold() == OWN else PurePosixPath(*parts)


def folded(name: str) -> str:
    """Return what two names share that are one file where case and composition of letters do not count."""
    return unicodedata.normalize("NFC", name).casefold()


def tells_case(own: Path) -> bool:
    """Return whether the disk tells upper from lower case, tried in the pull's own folder."""
    probe = own / "case"
    probe.touch()
    return not (own / "CASE").exists()
