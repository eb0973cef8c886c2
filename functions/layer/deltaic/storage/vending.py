"""Decides what a recipient with credentials may do itself, for an hour at most: read below locations, and list one.

The read-only role is assumed in the recipient's name and narrowed by a session policy: what both allow holds. The
policy is built as JSON, and IAM's wildcards in a folder's name are written so that they stand for themselves
(decision 27).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from deltaic.errors import InvalidParameter, UnsupportedOperation
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig, arn_partition
from deltaic.storage.locations import Location, TableLocations, access_point, follow
from deltaic.storage.sessions import POLICY_TOO_LONG, SigningSessions

OUTSIDE = "The requested location must be the same as or under this table's configured storage location."

_LONGEST_POLICY = 2048
"""Characters that STS takes (AssumeRole, "Policy")."""

_DECRYPTION: Final = {
    "Effect": "Allow",
    "Action": "kms:Decrypt",
    "Resource": "*",
    "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
}

# IAM User Guide, "Policy variables": ${*}, ${?} and ${$} are these characters themselves.
_LITERAL = str.maketrans({"*": "${*}", "?": "${?}", "$": "${$}"})


class TableCredentials(msgspec.Struct, frozen=True):
    """Temporary credentials for one location; they end when STS says so."""

    location: Location
    credentials: Credentials


def vend(
    sessions: SigningSessions, recipient_id: str, storage: StorageConfig, locations: TableLocations, requested: str = ""
) -> TableCredentials:
    """Return credentials for the table's root, or for the `requested` location at or below one of the table's.

    Raises InvalidParameter for a location that is not the table's, UnsupportedOperation for a storage without a role
    and for a path too long for a policy, and what the sessions raise.
    """
    location = requested_location(locations, requested)
    policy = session_policy(location, arn_partition(storage.region))
    return TableCredentials(location, sessions.scoped_down(recipient_id, storage, policy))


def requested_location(locations: TableLocations, requested: str = "") -> Location:
    """Return the location that a request means: the root, or one at or below the root or an auxiliary location.

    s3, s3a and s3n are the same; repeated slashes and dot segments are followed before the comparison, so that
    neither a sibling (`table1x`) nor `..` gets out. Raises InvalidParameter for anything else.
    """
    if not requested:
        return locations.root
    scheme, separator, rest = requested.partition("://")
    bucket, _, path = rest.partition("/")
    followed = follow(path)
    if followed is None:
        raise InvalidParameter(OUTSIDE)
    try:
        location = Location.parse(f"{scheme}{separator}{bucket}/{followed}")
    except InvalidParameter:
        raise InvalidParameter(OUTSIDE) from None
    if not any(each.contains(location) for each in locations):
        raise InvalidParameter(OUTSIDE)
    return location


def vend_files(
    sessions: SigningSessions,
    recipient_id: str,
    storage: StorageConfig,
    locations: TableLocations,
    beside: Sequence[Location],
) -> Credentials:
    """Return credentials that read the files of a table and those of `beside`, and neither list nor read its log.

    Raises what `vend` does, but for the location.
    """
    return sessions.scoped_down(recipient_id, storage, files_policy(locations, beside, arn_partition(storage.region)))


def files_policy(locations: TableLocations, beside: Sequence[Location], partition: str = "aws") -> str:
    """Return the session policy that allows reading below a table's locations and `beside`, except the table's log.

    Raises UnsupportedOperation where paths make the policy longer than STS takes.
    """
    logs = [Location(one.bucket, f"{one.key_prefix}_delta_log") for one in locations]
    return _policy(
        [
            {"Effect": "Allow", **_reading([*locations, *beside], partition)},
            {"Effect": "Deny", **_reading(logs, partition)},
            _DECRYPTION,
        ]
    )


def session_policy(location: Location, partition: str = "aws") -> str:
    """Return the session policy that allows reading and listing below `location` and nothing else.

    Listing without the folder's last slash is not allowed: it would name siblings that begin alike. Decryption is
    allowed through S3 alone, and only where the role allows it too. Raises UnsupportedOperation where the path makes
    the policy longer than STS takes.
    """
    listing: dict[str, Any] = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": _arn(location, partition)}
    if location.prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": _pattern(location)}}
    return _policy([{"Effect": "Allow", **_reading([location], partition)}, listing, _DECRYPTION])


def _pattern(location: Location) -> str:
    return f"{location.key_prefix.translate(_LITERAL)}*"


def _arn(location: Location, partition: str) -> str:
    """Return what IAM calls a location's bucket, or its access point; of an alias nobody can tell which that is."""
    if location.bucket.endswith("-s3alias"):
        raise UnsupportedOperation(
            "the location is the alias of an access point, for which no credentials can be made; read it through "
            "pre-signed URLs (access mode 'url'), or ask its provider to write the location with the access point's ARN"
        )
    return location.bucket if access_point(location.bucket) else f"arn:{partition}:s3:::{location.bucket}"


def _reading(locations: Sequence[Location], partition: str) -> dict[str, Any]:
    below = [
        f"{_arn(one, partition)}/{'object/' if access_point(one.bucket) else ''}{_pattern(one)}" for one in locations
    ]
    return {"Action": "s3:GetObject", "Resource": below if len(below) > 1 else below[0]}


def _policy(statements: Sequence[Mapping[str, Any]]) -> str:
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > _LONGEST_POLICY:
        raise UnsupportedOperation(POLICY_TOO_LONG)
    return policy
