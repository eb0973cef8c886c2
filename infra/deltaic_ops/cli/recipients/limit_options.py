"""Command-line options that limit the access of recipients and grants, and parsers for their values."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from deltaic.catalog.restrictions import NEVER

_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([KMGT]?B)?", re.IGNORECASE)


def size(text: str | int) -> int:
    """Parse 50GB, 200MB or a number of bytes; units are decimal. Typer also passes defaults through here."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"'{text}' is not a size: write 50GB, 200MB, or 0 for no limit")
    unit = (match[2] or "").upper()
    return int(match[1]) * (1 if unit == "B" else _UNITS[unit])


def end(text: str | datetime) -> datetime:
    """Parse 2027-02-01, 2027-02-01T12:00Z, or never; the default time zone is UTC."""
    if isinstance(text, datetime):
        return text
    if text == "never":
        return NEVER
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not a date: write 2027-02-01, 2027-02-01T12:00Z, or never") from None
    return read.replace(tzinfo=read.tzinfo or UTC, microsecond=0).astimezone(UTC)


def end_text(ends_at: datetime | None) -> str:
    """Return an expiry time as lists show it: "ends 2027-02-01 00:00", "ended ...", or "" for none."""
    if ends_at is None:
        return ""
    return f"{'ended' if ends_at <= datetime.now(UTC) else 'ends'} {ends_at:%Y-%m-%d %H:%M}"


_ADDRESS = "Accept requests only from this network. Can be repeated, up to 100 networks."
_REMOVE_ADDRESS = "Remove a network. Can be repeated. Without networks, all addresses are accepted."
_REQUESTS = "Maximum requests per minute; more are rejected with status 429. 0 removes the limit."
_ENDS = "When access ends: 2027-02-01 (start of the day in UTC), 2027-02-01T12:00Z, or never."

Address = Annotated[list[str] | None, typer.Option("--address", metavar="CIDR", help=_ADDRESS)]
RemoveAddress = Annotated[list[str] | None, typer.Option("--remove-address", metavar="CIDR", help=_REMOVE_ADDRESS)]
RequestsPerMinute = Annotated[int | None, typer.Option(min=0, metavar="N", help=_REQUESTS)]
BytesPerDay = Annotated[
    int | None,
    typer.Option(
        parser=size,
        metavar="SIZE",
        help="Maximum total size of files that are signed in a day (UTC), for example 50GB. 0 removes the limit.",
    ),
]
Ends = Annotated[datetime | None, typer.Option(parser=end, metavar="DATE", help=_ENDS)]
