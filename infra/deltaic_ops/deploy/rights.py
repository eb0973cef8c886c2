"""What roles of the transformed template may do, from every place that says so."""

from collections.abc import Iterator, Mapping
from typing import Any

Resources = Mapping[str, Mapping[str, Any]]
_OF_AWS = "arn:aws:iam::aws:policy/"


def several(value: str | list[str]) -> list[str]:
    """Return the values of a policy's field, which is a list or one."""
    return [value] if isinstance(value, str) else value


def statements(resources: Resources, role: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of a role's own policies and of the template's; those of AWS's are not known here."""
    said = resources[role]["Properties"]
    documents = [policy["PolicyDocument"] for policy in said.get("Policies", [])]
    documents += [
        resources[arn[2:-1]]["Properties"]["PolicyDocument"]
        for arn in said.get("ManagedPolicyArns", [])
        if not arn.startswith(_OF_AWS)
    ]
    documents += [
        other["Properties"]["PolicyDocument"]
        for other in resources.values()
        if other["Type"] == "AWS::IAM::Policy" and f"${{{role}}}" in other["Properties"]["Roles"]
    ]
    for document in documents:
        yield from document["Statement"]
