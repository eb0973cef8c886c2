"""The pages of shares, of what is in each, and of who holds it: a tree that is read a level and a page at a time."""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Grant, Named
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.desk import Desk, Handler, listed

_NAME: Final[Callable[[Named], str]] = attrgetter("name")
_KINDS: Final = ("table", "volume", "skill", "model")


def shares(desk: Desk, request: Request) -> Response:
    """Show the shares."""
    return desk.page(request, "shares.html", shares=listed(request, desk.provider.admin.shares.list, _NAME))


def share(desk: Desk, request: Request) -> Response:
    """Show the schemas of a share."""
    admin = desk.provider.admin
    found = admin.shares.get(request.query_params.get("share", ""))
    schemas = listed(request, lambda excerpt: admin.schemas.list(found.name, excerpt), _NAME)
    return desk.page(request, "share.html", share=found, schemas=schemas)


def holders(desk: Desk, request: Request) -> Response:
    """Show who holds a share."""
    admin = desk.provider.admin
    found = admin.shares.get(request.query_params.get("share", ""))

    def held(excerpt: Excerpt) -> Iterator[Grant]:
        return admin.grants.of_share(found.name, excerpt)

    grants = listed(request, held, lambda grant: grant.recipient_id)
    return desk.page(request, "holders.html", share=found, grants=grants)


def schema(desk: Desk, request: Request) -> Response:
    """Show what is in a schema, of one kind at a time."""
    admin, asked = desk.provider.admin, request.query_params
    found = admin.schemas.get(asked.get("share", ""), asked.get("schema", ""))
    kind = asked.get("kind", "")
    kind = kind if kind in _KINDS else _KINDS[0]
    entries: Callable[[str, str, Excerpt], Iterable[Any]] = getattr(admin, f"{kind}s").list
    there = listed(request, lambda excerpt: entries(found.share, found.name, excerpt), _NAME)
    return desk.page(request, "schema.html", schema=found, kinds=_KINDS, kind=kind, there=there)


ROUTES: Final[dict[str, Handler]] = {"/shares": shares, "/share": share, "/holders": holders, "/schema": schema}
