"""Seal and open tokens that continue an earlier request, and raise the errors for invalid tokens.

    list     the next page of a listing             one day      `invalid 'nextPageToken'`
    page     the next page of a query or changes    three days   messages of the reference server
    refresh  new URLs for the same snapshot         one hour     messages of the reference server

Each token is bound to its recipient: for other recipients it is as invalid as a random string.
"""

from datetime import timedelta
from typing import Final, TypeAlias, TypeVar

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.names import key
from deltaic.protocol.parameters import shorten
from deltaic.protocol.sealed_tokens import TokenContents, TokenSigner

LIST_TTL: Final = timedelta(days=1)
PAGE_TTL: Final = timedelta(days=3)
REFRESH_TTL: Final = timedelta(hours=1)

ResumePoint: TypeAlias = tuple[int | str, ...]
"""Start of the next page as a tuple of JSON values, whose meaning the caller defines."""


class ListingBinding(msgspec.Struct, frozen=True):
    """Listing to which a list token is bound; names of share and schema are case-insensitive, or empty."""

    recipient: str
    call: str
    """`shares`, `schemas`, `tables` or `all-tables`."""
    share: str = ""
    schema: str = ""


class PageBinding(msgspec.Struct, frozen=True):
    """Request to which a page token is bound, which must be the same for every page."""

    recipient: str
    table_id: str
    call: str
    """`query`, `changes`, or the id of the asynchronous query whose result is paged."""
    parameters: str
    """`sealed_tokens.checksum` of the request's `fingerprint`."""
    response_formats: tuple[ResponseFormat, ...]
    """Formats that the client supports; for the same version they lead to the same response format."""
    file_id_hash: FileIdHash | None
    """The `fileidhash` header: another value for a later page would give a file two ids."""
    rights: str = ""
    """Identifies what the recipient may see of the table; empty for the whole table."""


class PageClaims(msgspec.Struct, frozen=True):
    """Contents of a page token or asynchronous query: versions that stay the same, and the start of the page."""

    version: int
    """Version of the snapshot, or first version of the range."""
    end_version: int | None
    """Last version of the range, inclusive; None for a snapshot."""
    latest_version: int
    """Latest version of the table at the time of the first page."""
    response_format: ResponseFormat
    """Format of the first page; a choice made for a later page might differ."""
    log_id: str
    """Key of the Delta log and of the newest commit that is read, which must not change between pages."""
    position: ResumePoint
    """Start of the page; empty for the first page, and for an asynchronous query."""


class RefreshClaims(msgspec.Struct, frozen=True):
    """Contents of a refresh token: the snapshot for whose files the client wants new URLs."""

    recipient: str
    table_id: str
    version: int
    log_id: str
    rights: str = ""


class _ListClaims(msgspec.Struct, frozen=True):
    listing: ListingBinding
    after: str | None


class _SealedPage(msgspec.Struct, frozen=True):
    binding: PageBinding
    page: PageClaims


_Claims = TypeVar("_Claims", _ListClaims, _SealedPage, RefreshClaims)


def seal_list_token(
    signer: TokenSigner, listing: ListingBinding, after: str | None, *, now: float, ttl: timedelta = LIST_TTL
) -> str:
    """Return a list token for the items after the key `after`; None means from the first item (`maxResults=0`)."""
    return _seal(signer, "list", _ListClaims(_normalize(listing), after), now, ttl)


def open_list_token(signer: TokenSigner, token: str, listing: ListingBinding, *, now: float) -> str | None:
    """Return the key after which the page of the listing starts; raises `InvalidParameter` for an invalid token."""
    contents = signer.open("list", token)
    claims = _decode_claims(contents, _ListClaims)
    if contents is None or claims is None or contents.expired(now) or claims.listing != _normalize(listing):
        raise InvalidParameter("invalid 'nextPageToken'")
    return claims.after


def seal_page_token(
    signer: TokenSigner, binding: PageBinding, page: PageClaims, *, now: float, ttl: timedelta = PAGE_TTL
) -> str:
    """Return a page token for the page that starts at `page.position`."""
    return _seal(signer, "page", _SealedPage(binding, page), now, ttl)


def open_page_token(signer: TokenSigner, token: str, binding: PageBinding, *, now: float) -> PageClaims:
    """Return the contents of a page token; raises `InvalidParameter`, after checks in the reference server's order."""
    contents = signer.open("page", token)
    claims = _decode_claims(contents, _SealedPage)
    if contents is None or claims is None or claims.binding.recipient != binding.recipient:
        raise InvalidParameter(f"Error decoding the page token: {shorten(token)}.")
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
    """Return a refresh token, with which a client can request new URLs for the files of this version."""
    return _seal(signer, "refresh", claims, now, ttl)


def open_refresh_token(  # noqa: PLR0913 -- what it is bound to
    signer: TokenSigner, token: str, recipient: str, table_id: str, *, rights: str = "", now: float
) -> RefreshClaims:
    """Return a refresh token's contents; raises `InvalidParameter`, after checks in the reference server's order."""
    contents = signer.open("refresh", token)
    claims = _decode_claims(contents, RefreshClaims)
    if contents is None or claims is None or claims.recipient != recipient:
        raise InvalidParameter(f"Error decoding refresh token: {shorten(token)}.")
    if contents.expired(now):
        raise InvalidParameter("The refresh token has expired. Please restart the query.")
    if claims.table_id != table_id:
        raise InvalidParameter("The table specified in the refresh token does not match the table being queried.")
    check_rights(claims.rights, rights)
    return claims


def check_rights(pinned: str, current: str) -> None:
    """Raise `InvalidParameter` if the recipient's rights have changed since the query began."""
    if pinned != current:
        raise InvalidParameter(
            "Your access to this table has changed since this query began. Please restart the query."
        )


def check_log(pinned: str, current: str) -> None:
    """Raise `InvalidParameter` unless the first page's log id `pinned` is, or begins with, the log's id `current`."""
    if not pinned.startswith(current):
        raise InvalidParameter("The table's log has been rewritten since this query began. Please restart the query.")


def _normalize(listing: ListingBinding) -> ListingBinding:
    return ListingBinding(listing.recipient, listing.call, key(listing.share), key(listing.schema))


def _seal(
    signer: TokenSigner, kind: str, claims: _ListClaims | _SealedPage | RefreshClaims, now: float, ttl: timedelta
) -> str:
    return signer.seal(kind, msgspec.to_builtins(claims), ttl=ttl, now=now)


def _decode_claims(contents: TokenContents | None, kind: type[_Claims]) -> _Claims | None:
    """Decode a token's claims; None if they are invalid, for example from an earlier release of the server."""
    if contents is None:
        return None
    try:
        return msgspec.convert(contents.claims, kind)
    except msgspec.ValidationError:
        return None
