"""Endpoint of invitation links: GET describes the shared data, POST creates the recipient's profile once."""

from datetime import UTC, datetime
from http import HTTPStatus

from deltaic.errors import Conflict, PermissionDenied, Unauthenticated
from deltaic.http.request import PublicRequest
from deltaic.http.response import Response
from deltaic.pages import link_pages as pages
from deltaic.pages.html import HEADERS
from deltaic.pages.snippets import Example
from deltaic.settings import settings
from deltaic.sharing.rights.admission import check_admitted
from deltaic.sign_in.activation import LinkGone, Offer, open_link, profile, profile_name, use_link


def activate(request: PublicRequest) -> Response:
    """Respond to GET and POST of /activate/{secret} with an HTML page, also if the link is invalid."""
    secret, contact = request.names["secret"], settings().contact
    try:
        offer = open_link(secret, lambda limits: check_admitted(limits, request.source_ip, datetime.now(UTC)))
        request.audit.add(recipientId=offer.invitation.recipient_id, invitationId=offer.invitation.id)
        if request.method != "POST":
            page = pages.offer(offer.invitation.recipient, contact, _names(offer), offer.token_ends)
            return Response(HTTPStatus.OK, HEADERS, page)
        issued = use_link(secret)
    except (LinkGone, Unauthenticated):  # an expired recipient is answered like an unknown one
        return Response(HTTPStatus.GONE, HEADERS, pages.inactive_link(contact))
    except PermissionDenied:
        return Response(HTTPStatus.FORBIDDEN, HEADERS, pages.wrong_network(contact))
    except Conflict:
        return Response(HTTPStatus.CONFLICT, HEADERS, pages.too_many_profiles(contact))
    request.audit.add(tokenId=issued.token.id)
    endpoint = offer.invitation.endpoint
    text = profile(endpoint, issued, serves_iceberg=bool(settings().iceberg_bucket))
    page = pages.activated(contact, _names(offer), _example(offer), text, issued.token.expires_at)
    return Response(HTTPStatus.OK, HEADERS, page)


def _names(offer: Offer) -> pages.SharedNames:
    shares = [
        (share.name, share.comment, [f"{table.schema_name}.{table.name}" for table in tables])
        for share, tables in offer.tables
    ]
    return pages.SharedNames(shares, offer.more)


def _example(offer: Offer) -> Example:
    """Return the example for code snippets: the first shared table, or empty names if no table is shared."""
    name, endpoint = profile_name(offer.invitation.recipient), offer.invitation.endpoint
    explore = f"{endpoint}/explore" if settings().explore == "enabled" else ""
    for share, tables in offer.tables:
        for table in tables:
            return Example(endpoint, name, share.name, table.schema_name, table.name, explore)
    return Example(endpoint, name, "", "", "")
