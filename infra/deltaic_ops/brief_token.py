"""A bearer token for one round of checks: it is revoked when the round is over, and dies by itself soon after."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from deltaic.catalog.admin import CatalogAdmin

LIFE = timedelta(minutes=15)


@contextmanager
def brief_token(admin: CatalogAdmin, recipient: str, comment: str) -> Iterator[str]:
    """Give a recipient's token for as long as the block lasts; raises NotFound, or Conflict where it has too many."""
    known = admin.recipients.get(recipient)
    issued = admin.tokens.create(known, LIFE, comment=comment)
    try:
        yield issued.secret
    finally:
        admin.tokens.revoke(known, issued.token.id)
