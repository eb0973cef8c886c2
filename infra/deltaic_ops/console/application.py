"""The console as one application: the guard, the pages, and what is shown where a page is refused."""

from functools import partial
from pathlib import Path
from typing import Final

from deltaic.errors import DeltaicError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from deltaic_ops.console import acting, entering, looks, previews, recipients, runs, shares, tables, usages
from deltaic_ops.console.desk import Desk, Handler
from deltaic_ops.console.entrance import Entrance
from deltaic_ops.console.guard import Guard

_STATIC: Final = Path(__file__).parent / "static"


def application(desk: Desk, entrance: Entrance, port: int) -> ASGIApp:
    """Return what answers on a port of this machine."""
    pages: dict[str, Handler] = {}
    forms: dict[str, Handler] = {}
    for room in (shares, tables, recipients, previews, usages, runs, looks, acting):
        pages |= room.ROUTES
        forms |= getattr(room, "FORMS", {})
    routes = [
        Route("/", partial(entering.first, desk)),
        Route("/enter", partial(entering.enter, desk, entrance=entrance), methods=["POST"]),
        Route("/leave", partial(entering.leave, desk, entrance=entrance), methods=["POST"]),
        *(Route(path, partial(handler, desk)) for path, handler in pages.items()),
        *(Route(path, partial(handler, desk), methods=["POST"]) for path, handler in forms.items()),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]

    def refused(request: Request, refusal: Exception) -> Response:
        """Show what the catalog, a log or a form refuses, with its status."""
        if isinstance(refusal, DeltaicError):
            return desk.page(request, "refused.html", refusal.status, message=refusal.message)
        status = refusal.status_code if isinstance(refusal, HTTPException) else 500
        return desk.page(request, "refused.html", status, message="there is no such page")

    made = Starlette(routes=routes, exception_handlers={DeltaicError: refused, HTTPException: refused})
    return Guard(made, entrance, port)
