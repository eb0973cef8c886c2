"""How secrets are handed over: in a profile file whose place is taken before, or shown once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.items import OAuthClient, Token
from deltaic.errors import AlreadyExists, Unavailable

from deltaic_ops.cli.operator import Operator, wire
from deltaic_ops.rights.profile_file import ProfilePlace, profile_place

Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Server in the profile.  [default: $DELTAIC_ENDPOINT, else the stack's]"),
]


@contextmanager
def place_of(path: Path | None, *, force: bool | None = None) -> Iterator[ProfilePlace | None]:
    """Take the place of a profile before what it names is made; `force` is None where no option replaces a file."""
    if path is None:
        yield None
        return
    if force is None and path.exists():
        raise AlreadyExists(f"'{path}' is there already: name another file")
    with profile_place(path) as place:
        if force is False and path.exists():
            raise AlreadyExists(f"'{path}' is there already: name another file, or replace it with --force")
        yield place


def hand_over(  # noqa: PLR0913 -- what was made, and what is said of it
    out: Operator,
    made: Token | OAuthClient,
    secret: dict[str, str],
    done: str,
    unusable: str,
    *,
    path: Path | None,
    server: str = "",
) -> None:
    """Show what was made, and its secret this once (by its name in JSON) unless a profile holds it.

    Raises Unavailable, which ends with `unusable`, where the secret could not be shown.
    """
    try:
        if out.as_json:
            held = secret if path is None else {"profile": str(path)} | ({"endpoint": server} if server else {})
            out.json({**wire(made), **held})
        elif path is None:
            out.show(made, f"{done}; its secret is shown this once:")
            typer.echo(" ".join(secret.values()))
        else:
            out.show(made, done)
            out.note(f"wrote {path}{f' for {server}' * bool(server)}: hand it over by a safe way, and keep no copy")
    except OSError as error:
        if path is not None:
            raise
        what = "token" if isinstance(made, Token) else "secret"
        raise Unavailable(f"the {what} could not be shown ({error.strerror}){unusable}") from error
