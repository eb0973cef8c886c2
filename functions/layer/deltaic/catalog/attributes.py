"""Convert Python values to DynamoDB attribute values and back; faster to import than boto3's serializer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from deltaic.errors import InvalidParameter


def marshal(value: Any) -> dict[str, Any]:
    """Convert a Python value to a DynamoDB attribute value, such as {"S": "orders"}.

    Accepts str, bool, int, datetime (stored in epoch seconds), and lists and mappings of these. Raises
    InvalidParameter for a string with lone surrogates.
    """
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidParameter(f"{value[:60]!a} is not valid Unicode: write it in UTF-8") from None
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case datetime():
            return {"N": str(int(value.timestamp()))}
        case Mapping():
            return {"M": marshal_item(value)}
        case list() | tuple():
            return {"L": [marshal(element) for element in value]}
        case _:
            raise TypeError(f"a value of type {type(value).__name__} cannot be stored in DynamoDB")


def marshal_item(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an item to DynamoDB attribute values, and omit attributes whose value is None."""
    return {name: marshal(value) for name, value in values.items() if value is not None}


def unmarshal(attribute: Mapping[str, Any]) -> Any:
    """Convert a DynamoDB attribute value to a Python value; all numbers are read as integers."""
    ((kind, value),) = attribute.items()
    match kind:
        case "N":
            return int(value)
        case "L":
            return [unmarshal(element) for element in value]
        case "M":
            return unmarshal_item(value)
        case _:
            return value


def unmarshal_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a DynamoDB item to Python values."""
    return {name: unmarshal(attribute) for name, attribute in item.items()}
