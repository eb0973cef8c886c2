"""The console as one application on a port of this machine: the guard, the way in and out, the pages, and refusals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from deltaic.errors import DeltaicError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from deltaic_ops.console import (
    cached_reads,
    page_actions,
    previews,
    recipient_pages,
    run_pages,
    share_pages,
    usage_pages,
)
from deltaic_ops.console.console_context import Desk, Handler
from deltaic_ops.console.guard import Entrance, Guard, cookie_name
from deltaic_ops.console.provider import Provider
from deltaic_ops.local.embedded import bind_port
from deltaic_ops.local.http_server import serving

_STATIC: Final = Path(__file__).parent / "static"


@contextmanager
def console(provider: Provider, port: int, told: Callable[[str], None]) -> Iterator[str]:
    """Serve the console as long as the block lasts; gives its address, and tells each link that lets somebody in.

    The key stands in the link's fragment, which no browser sends to anybody. Raises OSError for a port that is taken.
    """
    with bind_port(port) as listener:
        taken = listener.getsockname()[1]
        address = f"http://127.0.0.1:{taken}"
        entrance = Entrance(lambda key: told(f"{address}/#{key}"))
        with serving(application(Desk(provider), entrance, taken), listener):
            yield address


def application(desk: Desk, entrance: Entrance, port: int) -> ASGIApp:
    """Return what answers on a port of this machine."""
    pages: dict[str, Handler] = {"/": _first}
    forms: dict[str, Handler] = {"/enter": partial(_enter, entrance), "/leave": partial(_leave, entrance)}
    for room in (share_pages, recipient_pages, previews, usage_pages, run_pages, cached_reads, page_actions):
        pages |= room.ROUTES
        forms |= getattr(room, "FORMS", {})
    routes = [
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


def _first(desk: Desk, request: Request) -> Response:
    """Ask for the key; whoever is let in already goes on."""
    if request.state.session is not None:
        return RedirectResponse("/shares#", 303)  # else a browser keeps the fragment, and with it a key
    return desk.page(request, "enter.html", refused=False)


def _enter(entrance: Entrance, desk: Desk, request: Request) -> Response:
    """Let in whoever has the key: a cookie that no script reads and no other site's page brings along."""
    session = entrance.enter(request.state.form.get("key", ""))
    if session is None:
        return desk.page(request, "enter.html", 403, refused=True)
    answer = RedirectResponse("/shares", 303)
    answer.set_cookie(cookie_name(request.url.port or 80), session.id, path="/", httponly=True, samesite="strict")
    return answer


def _leave(entrance: Entrance, _: Desk, request: Request) -> Response:
    entrance.leave(request.state.session)
    return RedirectResponse("/", 303)
