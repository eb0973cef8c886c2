"""Parse the capabilities header, in which a client lists what it supports, and write the header of the response.

PROTOCOL.md, "Delta Sharing Capabilities Header": `key=value1,value2` separated by semicolons, case-insensitive.
"""

from typing import Final, Literal, Self, TypeAlias, get_args

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.parameters import shorten

HEADER: Final = "delta-sharing-capabilities"
FILE_ID_HASH_HEADER: Final = "fileidhash"

ResponseFormat: TypeAlias = Literal["parquet", "delta"]
FileIdHash: TypeAlias = Literal["parquet", "delta"]


class Capabilities(msgspec.Struct, frozen=True):
    """Capabilities of the client that sent a request; the defaults apply without the header."""

    response_formats: tuple[ResponseFormat, ...] = ("parquet",)
    """In the client's order, never empty. PROTOCOL.md: without the header, the response must be in parquet format."""
    reader_features: frozenset[str] = frozenset()
    """Supported reader features in lower case; used for the delta format only."""
    include_end_stream_action: bool = False
    async_query: bool = False

    @classmethod
    def parse(cls, header: str | None) -> Self:
        """Parse the `delta-sharing-capabilities` header of a request.

        Spaces are ignored (the reference server drops entries with spaces), and so are unknown keys, and unknown
        formats if there is a supported one. The last value of a repeated key counts. Raises InvalidParameter if no
        format in the header is supported.
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
    """Return the capabilities header of a response; it says whether an `endStreamAction` follows."""
    # Python clients search this header for "delta", so no other part may contain it.
    text = f"responseformat={response_format}"
    if end_stream_action:
        text += ";includeendstreamaction=true"
    if async_query:
        text += ";asyncquery=true"
    return text


def file_id_hash(header: str | None) -> FileIdHash | None:
    """Parse the `fileidhash` header, which the response repeats; None without the header.

    Raises InvalidParameter for an unknown value, even an empty string.
    """
    if header is None:
        return None
    if formats := _supported([header.strip().lower()]):
        return formats[0]
    raise InvalidParameter(f"Unsupported fileidhash: '{shorten(header)}'. Supported: parquet, delta")


def _formats(names: list[str]) -> tuple[ResponseFormat, ...]:
    formats = _supported(names)
    if names and not formats:
        raise InvalidParameter(f"Unsupported responseformat: '{shorten(','.join(names))}'. Supported: parquet, delta")
    return tuple(dict.fromkeys(formats)) or ("parquet",)


def _supported(names: list[str]) -> list[ResponseFormat]:
    return [supported for name in names for supported in get_args(ResponseFormat) if supported == name]
