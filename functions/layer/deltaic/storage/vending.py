"""Vend temporary credentials that can list a location and read its objects, for at most an hour.

The server assumes the read-only role for the recipient with a session policy: AWS allows only what both allow. The
policy is built as JSON, and characters of a folder's name that are wildcards in IAM are escaped (decision 27).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from deltaic.errors import InvalidParameter, UnsupportedOperation
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig, arn_partition
from deltaic.storage.locations import Location, TableLocations, access_point, normalize_path
from deltaic.storage.sessions import POLICY_TOO_LONG, SigningSessions

OUTSIDE = "The requested location must be the same as or under this table's configured storage location."

_MAX_POLICY = 2048
"""Maximum length of a session policy in characters (STS AssumeRole, "Policy")."""

_DECRYPTION: Final = {
    "Effect": "Allow",
    "Action": "kms:Decrypt",
    "Resource": "*",
    "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
}

# IAM User Guide, "Policy variables": ${*}, ${?} and ${$} are these literal characters.
_LITERAL = str.maketrans({"*": "${*}", "?": "${?}", "$": "${$}"})


class TableCredentials(msgspec.Struct, frozen=True):
    """Temporary credentials, and the location that they can read."""

    location: Location
    credentials: Credentials


def vend(
    sessions: SigningSessions, recipient_id: str, storage: StorageConfig, locations: TableLocations, requested: str = ""
) -> TableCredentials:
    """Return credentials for the table's root, or for the `requested` location in one of the table's locations.

    Raises InvalidParameter for a location outside the table, UnsupportedOperation for a storage without a role or a
    path that is too long for a policy, and the errors of SigningSessions.
    """
    location = requested_location(locations, requested)
    policy = session_policy(location, arn_partition(storage.region))
    return TableCredentials(location, sessions.scoped_down(recipient_id, storage, policy))


def requested_location(locations: TableLocations, requested: str = "") -> Location:
    """Return the requested location in the table, by default its root.

    The schemes s3, s3a and s3n are equivalent. Repeated slashes and dot segments are resolved before the comparison, so
    that neither a sibling (`table1x`) nor `..` is accepted. Raises InvalidParameter for locations outside the table.
    """
    if not requested:
        return locations.root
    scheme, separator, rest = requested.partition("://")
    bucket, _, path = rest.partition("/")
    normalized = normalize_path(path)
    if normalized is None:
        raise InvalidParameter(OUTSIDE)
    try:
        location = Location.parse(f"{scheme}{separator}{bucket}/{normalized}")
    except InvalidParameter:
        raise InvalidParameter(OUTSIDE) from None
    if not any(table_location.contains(location) for table_location in locations):
        raise InvalidParameter(OUTSIDE)
    return location


def vend_files(
    sessions: SigningSessions,
    recipient_id: str,
    storage: StorageConfig,
    locations: TableLocations,
    additional: Sequence[Location],
) -> Credentials:
    """Return credentials that read a table's data files and `additional` folders, but not its log or listings.

    Raises the same errors as `vend`, except InvalidParameter.
    """
    policy = files_policy(locations, additional, arn_partition(storage.region))
    return sessions.scoped_down(recipient_id, storage, policy)


def files_policy(locations: TableLocations, additional: Sequence[Location], partition: str = "aws") -> str:
    """Return the session policy to read a table's locations and `additional`, except the table's Delta log.

    Raises UnsupportedOperation if the policy exceeds the limit of STS.
    """
    logs = [Location(location.bucket, f"{location.key_prefix}_delta_log") for location in locations]
    return _policy(
        [
            {"Effect": "Allow", **_read_statement([*locations, *additional], partition)},
            {"Effect": "Deny", **_read_statement(logs, partition)},
            _DECRYPTION,
        ]
    )


def session_policy(location: Location, partition: str = "aws") -> str:
    """Return the session policy that allows only reading and listing `location`.

    Listing requires a prefix with the folder's final slash: otherwise it would return siblings such as `table1x`.
    Decryption is allowed only through S3, and only if the role allows it, too. Raises UnsupportedOperation if the
    policy exceeds the limit of STS.
    """
    listing: dict[str, Any] = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": _arn(location, partition)}
    if location.prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": _pattern(location)}}
    return _policy([{"Effect": "Allow", **_read_statement([location], partition)}, listing, _DECRYPTION])


def _pattern(location: Location) -> str:
    return f"{location.key_prefix.translate(_LITERAL)}*"


def _arn(location: Location, partition: str) -> str:
    """Return the ARN of a location's bucket or access point; raises UnsupportedOperation for an access point alias."""
    if location.bucket.endswith("-s3alias"):
        raise UnsupportedOperation(
            "the location is the alias of an access point, for which the server cannot vend credentials: read it by "
            "pre-signed URLs (access mode 'url'), or ask its provider to use the ARN of the access point"
        )
    return location.bucket if access_point(location.bucket) else f"arn:{partition}:s3:::{location.bucket}"


def _read_statement(locations: Sequence[Location], partition: str) -> dict[str, Any]:
    resources = [
        f"{_arn(folder, partition)}/{'object/' if access_point(folder.bucket) else ''}{_pattern(folder)}"
        for folder in locations
    ]
    return {"Action": "s3:GetObject", "Resource": resources if len(resources) > 1 else resources[0]}


def _policy(statements: Sequence[Mapping[str, Any]]) -> str:
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > _MAX_POLICY:
        raise UnsupportedOperation(POLICY_TOO_LONG)
    return policy
