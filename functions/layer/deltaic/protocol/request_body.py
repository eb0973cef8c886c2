"""Parse a request's JSON body by the rules of protobuf's JSON mapping.

Unknown fields are ignored, `camelCase` and `snake_case` name the same field, null means absent, and a 64-bit number can
be a string. Wrong types raise `MalformedRequest` with the reference server's wording.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from deltaic.errors import MalformedRequest
from deltaic.protocol.parameters import INT32_MAX, INT64_MAX, integer, shorten

_EXACT_FLOAT: Final = 2**53


class Body(msgspec.Struct, frozen=True):
    """Fields of a request body, checked when they are read."""

    message: str
    """Name of the protobuf message that the body represents, for error messages."""
    fields: Mapping[str, Any]
    """Fields of the JSON object by camelCase name, without nulls."""

    @classmethod
    def decode(cls, content: bytes, message: str, *, optional: bool = False) -> Self:
        """Decode a body; with `optional` an empty body equals `{}`.

        Raises MalformedRequest if the body is empty, not JSON, or not an object.
        """
        if not content.strip():
            if optional:
                return cls(message, {})
            raise MalformedRequest("No content to map due to end-of-input")
        try:
            value = msgspec.json.decode(content)
        except msgspec.DecodeError as error:
            raise MalformedRequest(f"The request body is not valid JSON: {error}") from error
        except (UnicodeDecodeError, RecursionError) as error:
            raise MalformedRequest("The request body is not valid JSON: bad UTF-8 or nested too deeply") from error
        if not isinstance(value, dict):
            raise MalformedRequest(f"Expected an object for {message}, such as {{}}")
        present = {name: item for name, item in value.items() if item is not None}
        return cls(message, {**{camel_case(name): item for name, item in present.items()}, **present})

    def string(self, name: str) -> str | None:
        """Return a string field; None if absent."""
        value = self.fields.get(name)
        if value is None or isinstance(value, str):
            return value
        raise MalformedRequest(f"Expected a string for field {name} of {self.message}")

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a repeated string field; empty if absent."""
        value = self.fields.get(name, [])
        if not isinstance(value, list):
            raise MalformedRequest(f"Expected an array for repeated field {name} of {self.message}")
        if not all(isinstance(item, str) for item in value):
            raise MalformedRequest(f"Expected strings in repeated field {name} of {self.message}")
        return tuple(value)

    def int32(self, name: str) -> int | None:
        """Return a 32-bit integer field; None if absent."""
        return self._number(name, INT32_MAX, "Not an int32 value")

    def int64(self, name: str) -> int | None:
        """Return a 64-bit integer field; None if absent."""
        return self._number(name, INT64_MAX, "Not an int64 value")

    def boolean(self, name: str) -> bool:
        """Return a boolean field, false if absent; `"True"` counts as true."""
        value = self.fields.get(name, False)
        if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
            return value.strip().lower() == "true"
        if isinstance(value, bool):
            return value
        raise MalformedRequest(f"Expected true or false for field {name} of {self.message}")

    def _number(self, name: str, limit: int, out_of_range: str) -> int | None:
        value = self.fields.get(name)
        if isinstance(value, str):
            number = integer(value, 10**20)
            if number is None:
                raise MalformedRequest(f"Not a numeric value: {shorten(value)} for field {name} of {self.message}")
            value = number
        elif isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
            value = int(value)  # protobuf's JSON mapping accepts 1.0 and 1e3 as integers
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MalformedRequest(f"Not a numeric value: field {name} of {self.message}")
        if isinstance(value, float) or not -limit - 1 <= value <= limit:
            raise MalformedRequest(f"{out_of_range}: field {name} of {self.message}")
        return value


def camel_case(name: str) -> str:
    """Convert a snake_case name to camelCase, as JSON spells it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
