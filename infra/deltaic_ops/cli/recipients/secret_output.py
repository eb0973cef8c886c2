"""Output new secrets: write them to a profile file that was reserved before, or print them once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from deltaic.catalog.items import OAuthClient, Token
from deltaic.errors import AlreadyExists, Unavailable

from deltaic_ops.cli.operator import Operator
from deltaic_ops.rights.profile_file import ProfileFile, reserve_profile

_ENDPOINT = "Server in the profile. [default: $DELTAIC_ENDPOINT, then the stack's endpoint]"
Endpoint = Annotated[str | None, typer.Option(metavar="URL", help=_ENDPOINT)]


@contextmanager
def place_of(path: Path | None, *, force: bool | None = None) -> Iterator[ProfileFile | None]:
    """Reserve a profile file before its secret is created; `force` is None for commands without the option --force."""
    if path is None:
        yield None
        return
    if force is None and path.exists():
        raise AlreadyExists(f"'{path}' already exists: choose another file")
    with reserve_profile(path) as file:
        if force is False and path.exists():
            raise AlreadyExists(f"'{path}' already exists: choose another file, or replace it with --force")
        yield file


def hand_over(  # noqa: PLR0913 -- the created entry, its secret, and messages
    cli: Operator,
    created: Token | OAuthClient,
    secret: dict[str, str],
    done: str,
    unusable: str,
    *,
    path: Path | None,
    server: str = "",
) -> None:
    """Print the created token or client, and its secret unless a profile file contains the secret.

    Raises Unavailable, with a message that ends with `unusable`, if the secret could not be printed.
    """
    try:
        if path is None:
            cli.show(created, f"{done}; its secret is shown only once:", **secret)
            if not cli.as_json:
                typer.echo(" ".join(secret.values()))
        else:
            wrote = f"wrote {path}{f' for {server}' * bool(server)}: send it over a secure channel, and keep no copy"
            cli.show(created, f"{done}; {wrote}", profile=str(path), endpoint=server)
    except OSError as error:
        if path is not None:
            raise
        kind = "token" if isinstance(created, Token) else "secret"
        raise Unavailable(f"the {kind} could not be printed ({error.strerror}){unusable}") from error
