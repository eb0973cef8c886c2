"""The first page, which takes the key, and the way out."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.desk import Desk
from deltaic_ops.console.entrance import Entrance
from deltaic_ops.console.guard import cookie_name


def first(desk: Desk, request: Request) -> Response:
    """Ask for the key; whoever is let in already goes on."""
    if request.state.session is not None:
        return RedirectResponse("/shares#", 303)  # else a browser keeps the fragment, and with it a key
    return desk.page(request, "enter.html", refused=False)


def enter(desk: Desk, request: Request, entrance: Entrance) -> Response:
    """Let in whoever has the key: a cookie that no script reads and no other site's page brings along."""
    session = entrance.enter(request.state.form.get("key", ""))
    if session is None:
        return desk.page(request, "enter.html", 403, refused=True)
    answer = RedirectResponse("/shares", 303)
    answer.set_cookie(cookie_name(request.url.port or 80), session.id, path="/", httponly=True, samesite="strict")
    return answer


def leave(desk: Desk, request: Request, entrance: Entrance) -> Response:
    """End the session."""
    del desk
    entrance.leave(request.state.session)
    return RedirectResponse("/", 303)
