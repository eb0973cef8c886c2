"""The tokens that continue a request, each kind its own, and what a client is told when one does not fit.

    list     the next page of a listing             one day      `invalid 'nextPageToken'`
    page     the next page of a query or changes    three days   messages of the reference
    refresh  new URLs for the same snapshot         one hour     messages of the reference

Every token is bound to its recipient: another recipient's is as unreadable as a random text.
"""

from datetime import timedelta
from typing import Final, TypeAlias, TypeVar

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.names import key
from deltaic.protocol.parameters import shown
from deltaic.protocol.sealed_tokens import TokenContents, TokenSigner

LIST_TTL: Final = timedelta(days=1)
PAGE_TTL: Final = timedelta(days=3)
REFRESH_TTL: Final = timedelta(hours=1)

ResumePoint: TypeAlias = tuple[int | str, ...]
"""Where the next page starts, in the words of whoever plans pages."""


class Listing(msgspec.Struct, frozen=True):
    """The listing that a list token belongs to; share and schema in any spelling, empty where the call has none."""

    recipient: str
    call: str
    """`shares`, `schemas`, `tables` or `all-tables`."""
    share: str = ""
    schema: str = ""


class PageBinding(msgspec.Struct, frozen=True):
    """The request that a page token continues: it must be the same on every page."""

    recipient: str
    table_id: str
    call: str
    """`query`, `changes`, or the id of the query whose result is paged."""
    parameters: str
    """`tokens.checksum` of the request's `fingerprint`."""
    response_formats: tuple[ResponseFormat, ...]
    """Those asked for: with the version pinned, the same ones choose the same format again."""
    file_id_hash: FileIdHash | None
    """The header as sent: another scheme on a later page would give a file two ids."""
    rights: str = ""
    """What the recipient may see of the table, by name; empty for all of it."""


class PageClaims(msgspec.Struct, frozen=True):
    """What a page token, or a submitted query, pins: the versions that were found first, and where the page starts."""

    version: int
    """The snapshot, or the first version of the range."""
    end_version: int | None
    """The last version of the range, inclusive; None for a snapshot."""
    latest_version: int
    """The table's latest version when the first page was answered."""
    response_format: ResponseFormat
    """The first page's: what it was chosen for, later pages may no longer see."""
    log_id: str
    """Names the log and the newest commit that is read: what is paged must not be rewritten in between."""
    position: ResumePoint
    """Empty at the very beginning, which is where a submitted query is pinned."""


class RefreshClaims(msgspec.Struct, frozen=True):
    """The snapshot that a refresh token answers with again."""

    recipient: str
    table_id: str
    version: int
    log_id: str
    """As in `PageClaims`."""
    rights: str = ""
    """As in `PageBinding`."""


class _ListClaims(msgspec.Struct, frozen=True):
    listing: Listing
    after: str | None


class _SealedPage(msgspec.Struct, frozen=True):
    binding: PageBinding
    page: PageClaims


_Claims = TypeVar("_Claims", _ListClaims, _SealedPage, RefreshClaims)


def seal_list_token(
    signer: TokenSigner, listing: Listing, after: str | None, *, now: float, ttl: timedelta = LIST_TTL
) -> str:
    """Return the token for the items strictly after the key `after`; None starts over (`maxResults=0`)."""
    return _seal(signer, "list", _ListClaims(_keyed(listing), after), now, ttl)


def open_list_token(signer: TokenSigner, token: str, listing: Listing, *, now: float) -> str | None:
    """Return the key after which the page starts; anything that does not fit raises `InvalidParameter`."""
    contents = signer.open("list", token)
    claims = _claims(contents, _ListClaims)
    if contents is None or claims is None or contents.expired(now) or claims.listing != _keyed(listing):
        raise InvalidParameter("invalid 'nextPageToken'")
    return claims.after


def seal_page_token(
    signer: TokenSigner, binding: PageBinding, page: PageClaims, *, now: float, ttl: timedelta = PAGE_TTL
) -> str:
    """Return the token for the page that starts at `page.position`."""
    return _seal(signer, "page", _SealedPage(binding, page), now, ttl)


def open_page_token(signer: TokenSigner, token: str, binding: PageBinding, *, now: float) -> PageClaims:
    """Return where the page starts; raises `InvalidParameter`, checks in the reference's order."""
    contents = signer.open("page", token)
    claims = _claims(contents, _SealedPage)
    if contents is None or claims is None or claims.binding.recipient != binding.recipient:
        raise InvalidParameter(f"Error decoding the page token: {shown(token)}.")
    if contents.expired(now):
        raise InvalidParameter("The page token has expired. Please restart the query.")
    if claims.binding.table_id != binding.table_id:
        raise InvalidParameter("The table specified in the page token does not match the table being queried.")
    check_rights(claims.binding.rights, binding.rights)
    if claims.binding != binding:
        raise InvalidParameter(
            "Query parameter mismatch detected for the next page query. The query parameter cannot change when "
            "querying the next page results."
        )
    return claims.page


def seal_refresh_token(signer: TokenSigner, claims: RefreshClaims, *, now: float, ttl: timedelta = REFRESH_TTL) -> str:
    """Return the token with which a client gets new URLs for the files of this very version."""
    return _seal(signer, "refresh", claims, now, ttl)


def open_refresh_token(  # noqa: PLR0913 -- what it is bound to
    signer: TokenSigner, token: str, recipient: str, table_id: str, *, rights: str = "", now: float
) -> RefreshClaims:
    """Return what to answer with again; raises `InvalidParameter`, checks in the reference's order."""
    contents = signer.open("refresh", token)
    claims = _claims(contents, RefreshClaims)
    if contents is None or claims is None or claims.recipient != recipient:
        raise InvalidParameter(f"Error decoding refresh token: {shown(token)}.")
    if contents.expired(now):
        raise InvalidParameter("The refresh token has expired. Please restart the query.")
    if claims.table_id != table_id:
        raise InvalidParameter("The table specified in the refresh token does not match the table being queried.")
    check_rights(claims.rights, rights)
    return claims


def check_rights(pinned: str, found: str) -> None:
    """Raise `InvalidParameter` if the recipient may see other rows by now: what was begun is not gone on with."""
    if pinned != found:
        raise InvalidParameter(
            "What is shared with you of this table has changed since this query began. Please restart the query."
        )


def check_log(pinned: str, found: str) -> None:
    """Raise `InvalidParameter` if the log that is read now has another id; `found` may be the beginning of one."""
    if not pinned.startswith(found):
        raise InvalidParameter("The table's log has been rewritten since this query began. Please restart the query.")


def _keyed(listing: Listing) -> Listing:
    return Listing(listing.recipient, listing.call, key(listing.share), key(listing.schema))


def _seal(
    signer: TokenSigner, kind: str, claims: _ListClaims | _SealedPage | RefreshClaims, now: float, ttl: timedelta
) -> str:
    return signer.seal(kind, msgspec.to_builtins(claims), ttl=ttl, now=now)


def _claims(contents: TokenContents | None, kind: type[_Claims]) -> _Claims | None:
    """Return typed claims; a token of an earlier release, sealed with other claims, counts as unreadable."""
    if contents is None:
        return None
    try:
        return msgspec.convert(contents.claims, kind)
    except msgspec.ValidationError:
        return None
