"""The console's web application: routes, sign-in, and error pages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
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
    start_pages,
    usage_pages,
)
from deltaic_ops.console.console_context import ConsoleContext, Handler
from deltaic_ops.console.guard import ConsoleGuard, Login, cookie_name
from deltaic_ops.console.provider import Provider
from deltaic_ops.local.embedded import bind_port
from deltaic_ops.local.http_server import serving

_STATIC: Final = Path(__file__).parent / "static"


@contextmanager
def console(provider: Provider, port: int, show_link: Callable[[str], None]) -> Iterator[str]:
    """Serve the console while the `with` block runs, and yield its URL.

    Calls `show_link` with each sign-in link. The link has its key in the fragment, which browsers do not send to
    servers. Raises OSError if the port is in use.
    """
    with bind_port(port) as listener:
        listener.listen()  # before the link is shown: a program can open it at once
        actual_port = listener.getsockname()[1]
        address = f"http://127.0.0.1:{actual_port}"
        login = Login(lambda key: show_link(f"{address}/#{key}"))
        with TemporaryDirectory(prefix="deltaic-console-") as uploads:
            app = application(ConsoleContext(provider), login, actual_port, uploads)
            with serving(app, listener):
                yield address


def application(context: ConsoleContext, login: Login, port: int, uploads: str) -> ASGIApp:
    """Return the console's ASGI application, which is served on the loopback port `port`; `uploads` is a folder."""
    pages: dict[str, Handler] = {"/": _entrance}
    forms: dict[str, Handler] = {"/enter": partial(_sign_in, login), "/leave": partial(_sign_out, login)}
    modules = (share_pages, recipient_pages, previews, usage_pages, run_pages, cached_reads, page_actions)
    for module in (start_pages, *modules):
        pages |= module.ROUTES
        forms |= getattr(module, "FORMS", {})
    routes = [
        *(Route(path, partial(handler, context)) for path, handler in pages.items()),
        *(Route(path, partial(handler, context), methods=["POST"]) for path, handler in forms.items()),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]

    def show_error(request: Request, error: Exception) -> Response:
        if isinstance(error, DeltaicError):
            return context.page(request, "refused.html", error.status, message=error.message)
        status = error.status_code if isinstance(error, HTTPException) else 500
        return context.page(request, "refused.html", status, message="this page does not exist: check the URL")

    app = Starlette(routes=routes, exception_handlers={DeltaicError: show_error, HTTPException: show_error})
    return ConsoleGuard(app, login, port, uploads)


def _entrance(context: ConsoleContext, request: Request) -> Response:
    """Show the sign-in form, or redirect to the start page if the browser has a session."""
    if request.state.session is not None:
        return RedirectResponse("/start#", 303)  # without the '#', a browser keeps the fragment, which has the key
    return context.page(request, "enter.html", is_wrong_key=False)


def _sign_in(login: Login, context: ConsoleContext, request: Request) -> Response:
    """Exchange the key of a sign-in link for a session cookie (HttpOnly, SameSite=Strict)."""
    session = login.sign_in(request.state.form.get("key", ""))
    if session is None:
        return context.page(request, "enter.html", 403, is_wrong_key=True)
    response = RedirectResponse("/start", 303)
    response.set_cookie(cookie_name(request.url.port or 80), session, path="/", httponly=True, samesite="strict")
    return response


def _sign_out(login: Login, _: ConsoleContext, request: Request) -> Response:
    login.sign_out(request.state.session)
    return RedirectResponse("/", 303)
