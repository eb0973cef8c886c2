"""Who may assume whom: the signing role by the functions that sign, and the roles that storages name."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltaic.catalog.items import Storage

from deltaic_ops.deploy.deployed_stack import DeployedStack
from deltaic_ops.inspection.findings import Finding, ask, judge, ok

if TYPE_CHECKING:
    from mypy_boto3_iam import IAMClient

SIGNERS = (
    "QueryTable",
    "GetQuery",
    "ListTableChanges",
    "CreateTableCredentials",
    "CreateAssetCredentials",
    "ListAssetFiles",
    "LoadIcebergTable",
    "MakeIcebergMetadata",
    "SignIcebergRequest",
)
"""The functions that sign, by their logical ids (template.yaml, SigningRole); a stack has those of its parameters."""


def signing_role(client: "IAMClient", stack: DeployedStack) -> Iterator[Finding]:
    """Check that the signing role trusts the roles of the functions that sign, and that those may assume it.

    Nothing is assumed: the trust is read, and IAM simulates the rest.
    """
    redeploy = "deploy again; if nothing changes, delete what was added to the role by hand"
    yield from ask("the signing role trusts who signs", redeploy, lambda: _trust(client, stack))
    yield from ask("who signs may assume the signing role", redeploy, lambda: _may_assume(client, stack))


def _trust(client: "IAMClient", stack: DeployedStack) -> Finding:
    said: Any = client.get_role(RoleName=stack.resources.get("SigningRole", ""))["Role"]["AssumeRolePolicyDocument"]
    trusted = {
        principal
        for statement in said.get("Statement", [])
        if statement.get("Effect") == "Allow" and "sts:AssumeRole" in _list(statement.get("Action"))
        for principal in _list(statement.get("Principal", {}).get("AWS"))
    }
    roles = _arns(client, stack)
    missing = [name for name, arn in roles.items() if arn not in trusted]
    return judge(
        "the signing role trusts who signs",
        f"not the role of {', '.join(missing)}" if missing else f"{len(roles)} functions",
        "deploy again: a role that was deleted and made anew is another one to the trust that named it",
        holds=not missing,
    )


def _may_assume(client: "IAMClient", stack: DeployedStack) -> Finding:
    target, roles = stack.outputs.get("SigningRoleArn", ""), _arns(client, stack)
    refused = []
    for name, arn in roles.items():
        answer = client.simulate_principal_policy(
            PolicySourceArn=arn, ActionNames=["sts:AssumeRole"], ResourceArns=[target]
        )
        if any(one["EvalDecision"] != "allowed" for one in answer["EvaluationResults"]):
            refused.append(name)
    return judge(
        "who signs may assume the signing role",
        f"not {', '.join(refused)}" if refused else f"{len(roles)} functions",
        "deploy again: the policy SignUrls says so; look for a permissions boundary or an organization's policy too",
        holds=not refused,
    )


def _arns(client: "IAMClient", stack: DeployedStack) -> dict[str, str]:
    roles = {name: stack.resources.get(f"{name}Role", "") for name in SIGNERS if name in stack.resources}
    return {name: client.get_role(RoleName=role)["Role"]["Arn"] for name, role in roles.items()}


def storage_roles(storages: Iterable[Storage], stack: DeployedStack) -> Iterator[Finding]:
    """Check that the functions may assume every role that a storage names."""
    allowed = stack.list_of("StorageRoles")
    for storage in storages:
        if storage.role_arn:
            check = f"may assume the role of the storage {storage.name}"
            if storage.role_arn in allowed:
                yield ok(check, storage.role_arn)
            else:
                remedy = f"deploy with StorageRoles={','.join([*allowed, storage.role_arn])}"
                yield Finding(check, "failed", f"{storage.role_arn} is not in StorageRoles", remedy)


def _list(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
