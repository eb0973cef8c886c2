"""The options by which recipients and grants are limited, and how their words are read."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from deltaic.catalog.restrictions import NEVER

_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([KMGT]?B)?", re.IGNORECASE)


def size(text: str | int) -> int:
    """Read 50GB, 200MB or a number of bytes; units are decimal. Typer also hands defaults through here."""
    if isinstance(text, int):
        return text
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"'{text}' is no size: write 50GB, 200MB, or 0 for no limit")
    unit = (found[2] or "").upper()
    return int(found[1]) * (1 if unit == "B" else _UNITS[unit])


def end(text: str | datetime) -> datetime:
    """Read 2027-02-01, 2027-02-01T12:00Z, or never; what names no zone is UTC."""
    if isinstance(text, datetime):
        return text
    if text == "never":
        return NEVER
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no date: write 2027-02-01, 2027-02-01T12:00Z, or never") from None
    return read.replace(tzinfo=read.tzinfo or UTC, microsecond=0).astimezone(UTC)


def told_end(ends_at: datetime | None) -> str:
    """Return an end as lists show it."""
    if ends_at is None:
        return ""
    return f"{'ended' if ends_at <= datetime.now(UTC) else 'ends'} {ends_at:%Y-%m-%d %H:%M}"


_ADDRESS = "A network whose requests are answered, and no others'. Can be repeated; 100 at most."
_ENDS = "From when on it is as if it were not there: a day in UTC, a time, or never."

Address = Annotated[list[str] | None, typer.Option("--address", metavar="CIDR", help=_ADDRESS)]
RemoveAddress = Annotated[
    list[str] | None,
    typer.Option("--remove-address", metavar="CIDR", help="Can be repeated; without any address all are answered."),
]
RequestsPerMinute = Annotated[
    int | None, typer.Option(min=0, help="More are answered with 429; 0 takes the limit away.")
]
BytesPerDay = Annotated[
    int | None,
    typer.Option(parser=size, metavar="SIZE", help="Of files that are signed in a day (UTC): 50GB; 0 takes it away."),
]
Ends = Annotated[datetime | None, typer.Option(parser=end, metavar="DATE", help=_ENDS)]
