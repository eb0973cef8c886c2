"""Who may assume whom (the signing role, the roles of storages), and who is denied there because of a cut-off."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltaic.catalog.items import Recipient, Storage
from deltaic.errors import DeltaicError
from deltaic.storage.sessions import tag_value

from deltaic_ops.deploy.deployed_stack import DeployedStack
from deltaic_ops.inspection.findings import Finding, advise, ask, judge, not_asked, ok
from deltaic_ops.rights.cut_off import Denials, roles_of

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


def denied(
    iam: Any, signing_role_arn: str, storages: Iterable[Storage], recipients: Iterable[Recipient]
) -> Iterator[Finding]:
    """Compare the marks with the Deny of each role; of a recipient that is gone a Deny may stay."""
    known = {tag_value(one.id): one for one in recipients}
    marked = {tag for tag, one in known.items() if one.cut_off_at is not None}
    for role in roles_of(signing_role_arn, storages)[0]:
        check = f"who is cut off is denied by {role.rsplit('/', 1)[-1]}"
        try:
            held = Denials(iam, role).denied() & known.keys()
        except DeltaicError as failure:
            yield not_asked(check, failure.message)
            continue
        wrong = [f"deltaic recipient cut-off {known[tag].name}" for tag in sorted(marked - held)]
        wrong += [f"deltaic recipient restore {known[tag].name}" for tag in sorted(held - marked)]
        told = f"{len(held)} denied, {len(marked)} cut off"
        yield advise(check, told, "; ".join(wrong), holds=not wrong)
