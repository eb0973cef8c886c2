"""The capabilities header: what a client says it can read, and what the answer says in return.

PROTOCOL.md, "Delta Sharing Capabilities Header": `key=value1,value2` separated by semicolons, case-insensitive.
"""

from typing import Final, Literal, Self, TypeAlias, get_args

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.parameters import shown

HEADER: Final = "delta-sharing-capabilities"
FILE_ID_HASH_HEADER: Final = "fileidhash"

ResponseFormat: TypeAlias = Literal["parquet", "delta"]
FileIdHash: TypeAlias = Literal["parquet", "delta"]


class Capabilities(msgspec.Struct, frozen=True):
    """What one request's capabilities header says; the defaults are those of a request without the header."""

    response_formats: tuple[ResponseFormat, ...] = ("parquet",)
    """In the client's order, never empty. PROTOCOL.md: without the header the answer must be in parquet format."""
    reader_features: frozenset[str] = frozenset()
    """Lower case, otherwise as sent; meaningful for the delta format only."""
    include_end_stream_action: bool = False
    async_query: bool = False

    @classmethod
    def parse(cls, header: str | None) -> Self:
        """Read the header.

        Spaces around anything are dropped (the reference loses such entries), unknown keys are ignored, of a repeated
        key the last counts. Unknown formats beside a known one are ignored.

        Raises InvalidParameter: formats are named, and none of them is known.
        """
        values: dict[str, list[str]] = {}
        for entry in (header or "").lower().split(";"):
            name, separator, text = entry.partition("=")
            if separator and "=" not in text:
                values[name.strip()] = [value for item in text.split(",") if (value := item.strip())]
        return cls(
            response_formats=_formats(values.get("responseformat", [])),
            reader_features=frozenset(values.get("readerfeatures", [])),
            include_end_stream_action=values.get("includeendstreamaction") == ["true"],
            async_query=values.get("asyncquery") == ["true"],
        )


def reply(response_format: ResponseFormat, *, end_stream_action: bool = False, async_query: bool = False) -> str:
    """Return the header of an answer; a client that is promised an `endStreamAction` by it must fail without one."""
    # Python clients look for the letters "delta" in this header, so nothing else may contain them.
    text = f"responseformat={response_format}"
    if end_stream_action:
        text += ";includeendstreamaction=true"
    if async_query:
        text += ";asyncquery=true"
    return text


def file_id_hash(header: str | None) -> FileIdHash | None:
    """Return the file id scheme asked for, to be echoed; None without the header.

    Raises InvalidParameter: the header is there, blank ones included, and names neither scheme.
    """
    if header is None:
        return None
    if formats := _known([header.strip().lower()]):
        return formats[0]
    raise InvalidParameter(f"Unsupported fileidhash: '{shown(header)}'. Supported: parquet, delta")


def _formats(names: list[str]) -> tuple[ResponseFormat, ...]:
    formats = _known(names)
    if names and not formats:
        raise InvalidParameter(f"Unsupported responseformat: '{shown(','.join(names))}'. Supported: parquet, delta")
    return tuple(dict.fromkeys(formats)) or ("parquet",)


def _known(names: list[str]) -> list[ResponseFormat]:
    return [one for name in names for one in get_args(ResponseFormat) if one == name]
