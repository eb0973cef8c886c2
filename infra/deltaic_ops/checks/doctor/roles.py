"""Check the signing role and the roles of storages: who can assume them, and which recipients they deny."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deltaic.catalog.items import Recipient, Storage
from deltaic.errors import DeltaicError
from deltaic.storage.sessions import tag_value

from deltaic_ops.deploy.deployed_stack import DeployedStack
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import TEMPLATE
from deltaic_ops.inspection.findings import Finding, advise, ask, judge, not_tried
from deltaic_ops.rights.credential_denial import Denials, roles_of

if TYPE_CHECKING:
    from mypy_boto3_iam import IAMClient

_TRUSTS, _ASSUMES = "the signing role trusts signing functions", "signing functions can assume the signing role"


def check_signing_role(client: "IAMClient", stack: DeployedStack) -> Iterator[Finding]:
    """Check that the functions that sign URLs can assume the signing role, and that this role trusts their roles.

    The check reads the trust policy, and calls IAM's policy simulator; it assumes no role.
    """
    redeploy = "deploy again; if nothing changes, remove manual changes of the role"
    yield from ask(_TRUSTS, redeploy, lambda: _check_trust(client, stack))
    yield from ask(_ASSUMES, redeploy, lambda: _check_assume(client, stack))


def _check_trust(client: "IAMClient", stack: DeployedStack) -> Finding:
    policy: Any = client.get_role(RoleName=stack.resources.get("SigningRole", ""))["Role"]["AssumeRolePolicyDocument"]
    allowed = [statement for statement in policy["Statement"] if statement.get("Effect") == "Allow"]
    # An action or a principal can be a text or a list.
    trusting = [statement for statement in allowed if '"sts:AssumeRole"' in json.dumps(statement.get("Action"))]
    trusted, roles = json.dumps([statement.get("Principal") for statement in trusting]), _arns(client, stack)
    missing = [name for name, arn in roles.items() if f'"{arn}"' not in trusted]
    return judge(
        _TRUSTS,
        f"not trusted: the role of {', '.join(missing)}" if missing else f"{len(roles)} functions",
        "deploy again: the trust policy does not include a role that was deleted and created again",
        holds=not missing,
    )


def _check_assume(client: "IAMClient", stack: DeployedStack) -> Finding:
    target, roles = stack.outputs.get("SigningRoleArn", ""), _arns(client, stack)
    refused = []
    for name, arn in roles.items():
        response = client.simulate_principal_policy(
            PolicySourceArn=arn, ActionNames=["sts:AssumeRole"], ResourceArns=[target]
        )
        if any(result["EvalDecision"] != "allowed" for result in response["EvaluationResults"]):
            refused.append(name)
    return judge(
        _ASSUMES,
        f"denied: {', '.join(refused)}" if refused else f"{len(roles)} functions",
        "deploy again (policy SignUrls); also check permissions boundaries and policies of the organization",
        holds=not refused,
    )


def _arns(client: "IAMClient", stack: DeployedStack) -> dict[str, str]:
    """Return the ARN of the role of each function that signs URLs: the template's signing role trusts them."""
    trust = read(TEMPLATE)["Resources"]["SigningRole"]["Properties"]["AssumeRolePolicyDocument"]
    signers = [name for name in re.findall(r"(\w+)Role\b", str(trust)) if name in stack.resources]
    return {name: client.get_role(RoleName=stack.resources[f"{name}Role"])["Role"]["Arn"] for name in signers}


def check_storage_roles(storages: Iterable[Storage], stack: DeployedStack) -> Iterator[Finding]:
    """Check that the stack's functions can assume the IAM role of each storage."""
    allowed = stack.list_parameter("StorageRoles")
    for storage in storages:
        if storage.role_arn:
            check, holds = f"can assume the role of storage {storage.name}", storage.role_arn in allowed
            remedy = f"deploy with StorageRoles={','.join([*allowed, storage.role_arn])}"
            yield judge(check, f"{storage.role_arn}, {'' if holds else 'not '}in StorageRoles", remedy, holds=holds)


def check_denials(
    iam: Any, signing_role_arn: str, storages: Iterable[Storage], recipients: Iterable[Recipient]
) -> Iterator[Finding]:
    """Check that each signing role denies exactly the recipients that are cut off; ignores deleted recipients."""
    by_tag = {tag_value(recipient.id): recipient for recipient in recipients}
    marked = {tag for tag, recipient in by_tag.items() if recipient.cut_off_at is not None}
    for role in roles_of(signing_role_arn, storages)[0]:
        check = f"role {role.rsplit('/', 1)[-1]} denies recipients that are cut off"
        try:
            denied_tags = Denials(iam, role).denied_tags() & by_tag.keys()
        except DeltaicError as failure:
            yield not_tried(check, failure.message)
            continue
        commands = [f"deltaic recipient cut-off {by_tag[tag].name}" for tag in sorted(marked - denied_tags)]
        commands += [f"deltaic recipient restore {by_tag[tag].name}" for tag in sorted(denied_tags - marked)]
        counts = f"{len(denied_tags)} denied, {len(marked)} cut off"
        yield advise(check, counts, "; ".join(commands), holds=not commands)
