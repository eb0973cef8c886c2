"""Build the write requests of a DynamoDB transaction, with conditions and placeholders for attribute names."""

from collections.abc import Mapping
from typing import Any, Final

from deltaic.catalog.attributes import marshal, marshal_item
from deltaic.catalog.keys import Key

ABSENT: Final = object()
"""Value in a condition that means: the attribute does not exist."""

Write = dict[str, Any]
"""One write request of TransactWriteItems."""

Writes = list[Write]

Condition = Mapping[str, Any]
"""Expected values of attributes, by attribute name."""


def put_new(table: str, key: Key, attributes: Mapping[str, Any]) -> Write:
    """Return a write that creates an item with an update, because IAM can restrict which attributes updates write."""
    assign = {name: value for name, value in attributes.items() if value is not None}
    return update(table, key, assign=assign, expect={"pk": ABSENT}, create=True)


def check(table: str, key: Key, expect: Condition | None = None) -> Write:
    """Return a condition that fails the transaction unless the item exists and its attributes match `expect`."""
    return {"ConditionCheck": _Expression(expect).arguments(table, key)}


def delete(table: str, key: Key, expect: Condition | None = None, *, present: bool = True) -> Write:
    """Return a write that deletes an item if its attributes match `expect`; with `present`, the item must exist."""
    return {"Delete": _Expression(expect, exists=present).arguments(table, key)}


def update(  # noqa: PLR0913 -- the parts of one update expression
    table: str,
    key: Key,
    *,
    assign: Mapping[str, Any] | None = None,
    add: Mapping[str, int] | None = None,
    expect: Condition | None = None,
    create: bool = False,
) -> Write:
    """Return a write that updates an item if its attributes match `expect`; without `create`, the item must exist.

    A None in `assign` removes the attribute. `add` adds positive or negative amounts to numbers.
    """
    expression = _Expression(expect, exists=not create)
    assigned = {name: value for name, value in (assign or {}).items() if value is not None}
    removed = [name for name, value in (assign or {}).items() if value is None]
    parts = []
    if assigned:
        terms = [f"{expression.name(name)} = {expression.value(value)}" for name, value in assigned.items()]
        parts.append(f"SET {', '.join(terms)}")
    if removed:
        parts.append(f"REMOVE {', '.join(expression.name(name) for name in removed)}")
    if add:
        terms = [f"{expression.name(name)} {expression.value(value)}" for name, value in add.items()]
        parts.append(f"ADD {', '.join(terms)}")
    return {"Update": {**expression.arguments(table, key), "UpdateExpression": " ".join(parts)}}


class _Expression:
    """Placeholders for the names and values in one write request, because DynamoDB reserves many words."""

    def __init__(self, expect: Condition | None, *, exists: bool = True) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        terms = ["attribute_exists(pk)"] if exists else []
        for name, value in (expect or {}).items():
            if value is ABSENT:
                terms.append(f"attribute_not_exists({self.name(name)})")
            else:
                terms.append(f"{self.name(name)} = {self.value(value)}")
        self._condition = " AND ".join(terms)

    def name(self, name: str) -> str:
        placeholder = f"#{name}"
        self._names[placeholder] = name
        return placeholder

    def value(self, value: Any) -> str:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = marshal(value)
        return placeholder

    def arguments(self, table: str, key: Key) -> dict[str, Any]:
        arguments: dict[str, Any] = {"TableName": table, "Key": marshal_item(key._asdict())}
        if self._condition:
            arguments["ConditionExpression"] = self._condition
            arguments["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if self._names:
            arguments["ExpressionAttributeNames"] = self._names
        if self._values:
            arguments["ExpressionAttributeValues"] = self._values
        return arguments
