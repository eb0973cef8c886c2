"""The set of files whose requests are signed for one reader: sealed into what its client sends with each of them.

It names what was made for the reader's rights, and the version that it has loaded: a reader in the middle of a version
goes on with it when the table has moved on, for as long as page tokens live. Rights are looked up with each request.
"""

from datetime import timedelta
from typing import Final

import msgspec

from deltaic.errors import PermissionDenied
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.metadata_folder import folder_of

SET_TTL: Final = timedelta(days=3)
_KIND: Final = "iceberg"


class SignedSet(msgspec.Struct, frozen=True):
    """What was made for a reader, and of which version."""

    folder: str
    version: int
    index_key: str = ""
    listed: int = 0
    """How many versions were listed with it: an index that has been kept may know fewer."""


def seal_set(sharing: Sharing, table: SharedTable, signed: SignedSet) -> str:
    """Return a set's token, which is bound to the recipient."""
    claims = {"recipient": table.caller.recipient_id, **msgspec.structs.asdict(signed)}
    return sharing.signer.seal(_KIND, claims, ttl=SET_TTL, now=sharing.clock())


def open_set(sharing: Sharing, table: SharedTable, token: str) -> SignedSet:
    """Return the set of a token; raises PermissionDenied for one of another recipient, table, place or rights."""
    opened = sharing.signer.open(_KIND, token)
    if opened is not None and not opened.expired(sharing.clock()):
        found = msgspec.convert(opened.claims, SignedSet)
        week = found.folder.partition("/")[0]
        is_own = found.index_key.startswith(f"{folder_of(table, week)}/")
        if is_own and opened.claims["recipient"] == table.caller.recipient_id:
            return found
    raise PermissionDenied("this table was loaded too long ago, or with other rights than you have now: load it again")
