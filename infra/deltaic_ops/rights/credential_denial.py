"""Block signed URLs and temporary credentials of recipients: IAM policies deny their session tags.

One inline policy of each signing role lists all recipients that are cut off. IAM limits the inline policies of a role
to 10,240 bytes in total, which is enough for about 200 recipients in the stack's role.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from deltaic.catalog.aws_errors import to_operator_error
from deltaic.catalog.items import Recipient, Storage
from deltaic.errors import DeltaicError, InvalidParameter
from deltaic.storage.sessions import RECIPIENT_TAG, tag_value

POLICY: Final = "DeltaicCutOff"
_CONDITION: Final = f"aws:PrincipalTag/{RECIPIENT_TAG}"


class RoleResult(NamedTuple):
    """Result of an update of one signing role's policy."""

    role: str
    failure: str = ""
    """Why the update failed, so that URLs signed by the role still work; empty if it succeeded."""


class Denials:
    """Client for the inline policy with which one signing role denies recipients."""

    def __init__(self, iam: Any, role_arn: str) -> None:
        self._iam = iam
        self.role = role_arn.rsplit("/", 1)[-1]

    def denied_tags(self) -> set[str]:
        """Return the session tags that the role's policy denies; raises errors of AWS as DeltaicError."""
        try:
            document = self._iam.get_role_policy(RoleName=self.role, PolicyName=POLICY)["PolicyDocument"]
        except self._iam.exceptions.NoSuchEntityException:
            self._call("get_role", RoleName=self.role)  # raises NotFound if the role itself is missing
            return set()
        except Exception as error:
            raise to_operator_error(error) from error
        read = json.loads(document) if isinstance(document, str) else document
        return set(read["Statement"][0]["Condition"]["StringEquals"][_CONDITION])

    def update(self, denied: Iterable[str], allowed: str = "") -> None:
        """Deny all actions to the sessions of recipients, by id, and allow them to one recipient again."""
        before = self.denied_tags()
        after = (before | set(map(tag_value, denied))) - {tag_value(allowed)}
        if after and after != before:
            condition = {"StringEquals": {_CONDITION: sorted(after)}}
            statement = {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": condition}
            document = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))
            self._call("put_role_policy", RoleName=self.role, PolicyName=POLICY, PolicyDocument=document)
        elif before and not after:
            self._call("delete_role_policy", RoleName=self.role, PolicyName=POLICY)

    def _call(self, operation: str, **request: str) -> None:
        try:
            getattr(self._iam, operation)(**request)
        except self._iam.exceptions.LimitExceededException:
            raise InvalidParameter(
                f"role {self.role} cannot deny another recipient: its inline policies reach the limit of 10,240 bytes. "
                "Restore or delete recipients that are cut off"
            ) from None
        except Exception as error:
            raise to_operator_error(error) from error


def roles_of(signing_role_arn: str, storages: Iterable[Storage]) -> tuple[list[str], list[str]]:
    """Return the ARNs of roles that sign URLs, and the names of storages with static access keys instead."""
    roles, with_static_keys = [signing_role_arn] if signing_role_arn else [], []
    for storage in storages:
        if storage.secret:
            with_static_keys.append(storage.name)
        elif storage.role_arn:
            roles.append(storage.role_arn)
    return list(dict.fromkeys(roles)), with_static_keys


def deny_in_roles(
    iam: Any, roles: Iterable[str], recipients: Iterable[Recipient], allowed: str = ""
) -> list[RoleResult]:
    """Let each role's policy deny every recipient that was cut off, but not the one with the id `allowed`.

    Each call writes all these recipients again: IAM can return an outdated policy, which lacks recent denials.
    """
    results, ids = [], [recipient.id for recipient in recipients if recipient.cut_off_at is not None]
    for role in roles:
        denials = Denials(iam, role)
        try:
            denials.update(ids, allowed)
        except DeltaicError as error:
            results.append(RoleResult(role, error.message))
        else:
            results.append(RoleResult(role))
    return results
