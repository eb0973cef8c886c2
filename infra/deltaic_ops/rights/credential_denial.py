"""Ends the URLs and credentials that a recipient has already: a Deny on its session tag in the roles that sign.

All who are cut off stand in one policy of each role, which is read, changed and written: inline policies of a role
have 10,240 bytes together, room for about 200 recipients beside what the stack's own role has.
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


class Done(NamedTuple):
    """What became of one role, or of a storage without one."""

    where: str
    failure: str = ""
    """Why URLs that are out live on there; empty: they do not."""


class Denials:
    """Who is denied in one role, by the operator's own rights on it."""

    def __init__(self, iam: Any, role_arn: str) -> None:
        self._iam = iam
        self.role = role_arn.rsplit("/", 1)[-1]

    def denied(self) -> set[str]:
        """Return the tags that are denied; raises what AWS refuses."""
        try:
            document = self._iam.get_role_policy(RoleName=self.role, PolicyName=POLICY)["PolicyDocument"]
        except self._iam.exceptions.NoSuchEntityException:
            self._call("get_role", RoleName=self.role)  # it is the policy that is missing, or the role
            return set()
        except Exception as error:
            raise to_operator_error(error) from error
        read = json.loads(document) if isinstance(document, str) else document
        return set(read["Statement"][0]["Condition"]["StringEquals"][_CONDITION])

    def deny(self, recipient_ids: Iterable[str]) -> bool:
        """Deny these recipients' sessions everything, at once; False if they were denied already."""
        before = self.denied()
        return self._write(before, before | set(map(tag_value, recipient_ids)))

    def allow(self, recipient_id: str, denied: Iterable[str] = ()) -> bool:
        """Take a recipient's Deny away, and keep or add those of others; False if all is so already."""
        before = self.denied()
        return self._write(before, (before | set(map(tag_value, denied))) - {tag_value(recipient_id)})

    def _write(self, before: set[str], after: set[str]) -> bool:
        if after == before:
            return False
        if not after:
            self._call("delete_role_policy", RoleName=self.role, PolicyName=POLICY)
            return True
        statement = {
            "Effect": "Deny",
            "Action": "*",
            "Resource": "*",
            "Condition": {"StringEquals": {_CONDITION: sorted(after)}},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))
        self._call("put_role_policy", RoleName=self.role, PolicyName=POLICY, PolicyDocument=document)
        return True

    def _call(self, operation: str, **request: str) -> None:
        try:
            getattr(self._iam, operation)(**request)
        except self._iam.exceptions.LimitExceededException:
            raise InvalidParameter(
                f"the role {self.role} has no room for another recipient (10,240 bytes of policies): "
                "restore or delete those who are cut off"
            ) from None
        except Exception as error:
            raise to_operator_error(error) from error


def roles_of(signing_role_arn: str, storages: Iterable[Storage]) -> tuple[list[str], list[str]]:
    """Return the roles that sign, and the storages of which static keys do."""
    roles, keyed = [signing_role_arn] if signing_role_arn else [], []
    for storage in storages:
        if storage.secret:
            keyed.append(storage.name)
        elif storage.role_arn:
            roles.append(storage.role_arn)
    return list(dict.fromkeys(roles)), keyed


def in_each(iam: Any, roles: Iterable[str], marked: Iterable[Recipient], allowed: str = "") -> list[Done]:
    """Deny all who are marked as cut off, and allow one, in each role that the operator may change; says why not.

    All, since what IAM answers may be older than the Deny of a moment ago, which writing it back would take away.
    """
    done, ids = [], [one.id for one in marked if one.cut_off_at is not None]
    for role in roles:
        denials = Denials(iam, role)
        try:
            denials.allow(allowed, ids) if allowed else denials.deny(ids)
        except DeltaicError as failure:
            done.append(Done(role, failure.message))
        else:
            done.append(Done(role))
    return done
