"""Set of files that one Iceberg client may read with signed requests, stored in a tamper-proof token.

The token contains the metadata folder and the loaded version, so that a client can finish reading this version after a
new commit, for three days (as page tokens). Each request also checks the recipient's current rights.
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
    """Generated metadata and version that a client has loaded, which determine the files that it may read."""

    folder: str
    version: int
    index_key: str = ""
    listed: int = 0
    """Number of versions in the loaded metadata; an index that was cached earlier may have fewer."""


def seal_set(sharing: Sharing, table: SharedTable, signed: SignedSet) -> str:
    """Return a token with the set, valid only for this recipient."""
    claims = {"recipient": table.caller.recipient_id, **msgspec.structs.asdict(signed)}
    return sharing.signer.seal(_KIND, claims, ttl=SET_TTL, now=sharing.clock())


def open_set(sharing: Sharing, table: SharedTable, token: str) -> SignedSet:
    """Return the set in a token; raises PermissionDenied for another recipient, table, location or rights."""
    sealed = sharing.signer.open(_KIND, token)
    if sealed is not None and not sealed.expired(sharing.clock()):
        signed = msgspec.convert(sealed.claims, SignedSet)
        week = signed.folder.partition("/")[0]
        has_same_rights = signed.index_key.startswith(f"{folder_of(table, week)}/")
        if has_same_rights and sealed.claims["recipient"] == table.caller.recipient_id:
            return signed
    raise PermissionDenied("you loaded this table too long ago, or your rights have changed since: load it again")
