"""The contract's document, and the schemas of its answers' lines as JSON Schema."""

import json
from functools import cache
from typing import Any

from deltaic_ops.deploy.template import ROOT
from jsonschema import Draft202012Validator

PATH = ROOT / "functions" / "api" / "get_contract" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
SCHEMAS: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]


@cache
def validator(name: str, *, closed: bool = False) -> Draft202012Validator:
    """Return what checks a value against one of the document's schemas; `closed` ones take no key that is not named."""
    schemas = _closed(SCHEMAS) if closed else SCHEMAS
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}})


def mistakes(name: str, value: object, *, closed: bool = True) -> list[str]:
    """Return what is wrong with a value, where and why."""
    found = validator(name, closed=closed).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def _closed(schema: Any) -> Any:
    match schema:
        case dict():
            told = {name: _closed(value) for name, value in schema.items()}
            if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
                told.setdefault("additionalProperties", False)
            return told
        case list():
            return [_closed(value) for value in schema]
    return schema
