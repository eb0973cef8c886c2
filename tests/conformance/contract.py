"""The OpenAPI document, and its schemas as JSON Schema validators."""

import json
from functools import cache
from typing import Any

from deltaic_ops.deploy.sam_template import ROOT
from jsonschema import Draft202012Validator

PATH = ROOT / "functions" / "api" / "get_contract" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
SCHEMAS: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]


@cache
def validator(name: str, *, closed: bool = False) -> Draft202012Validator:
    """Return a validator for a schema of the document. A `closed` one rejects unknown keys."""
    schemas = _closed(SCHEMAS) if closed else SCHEMAS
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}})


def schema_errors(name: str, value: object, *, closed: bool = True) -> list[str]:
    """Return the violations of a schema, with their JSON paths."""
    errors = validator(name, closed=closed).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


def _closed(schema: Any) -> Any:
    match schema:
        case dict():
            properties = {name: _closed(value) for name, value in schema.items()}
            if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
                properties.setdefault("additionalProperties", False)
            return properties
        case list():
            return [_closed(value) for value in schema]
    return schema
