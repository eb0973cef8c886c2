"""Choose the AWS credentials that sign URLs: a role session per recipient, static keys, or the default credentials.

A URL expires with the session that signed it. If one role assumed another, its session lasts at most one hour (STS:
role chaining). Spark treats an expiry in less than 15 minutes as "in one hour". So a session is renewed after a quarter
of its lifetime: URLs are valid for 45 to 60 minutes, with one STS call per recipient every 15 minutes (decision 24).
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from deltaic.aws_codes import DENIED, SKEWED, THROTTLED
from deltaic.errors import (
    DeltaicError,
    TableRefused,
    TableUnreadable,
    TooManyRequests,
    Unavailable,
    UnsupportedOperation,
)
from deltaic.storage.aws_credentials import Credentials, default_credentials
from deltaic.storage.endpoints import StorageConfig, is_aws

SESSION_SECONDS = 3600
RENEWED_BELOW = 0.75
"""A session is renewed if less than this fraction of its lifetime remains."""
USABLE_MS = 15 * 60_000
"""A session that cannot be renewed is still used if it is valid for at least this many milliseconds."""
SECRET_SECONDS = 300
"""How many seconds static keys are cached."""
RECIPIENT_TAG = "recipient"
"""Name of the session tag: a Deny on `aws:PrincipalTag/recipient` in the role revokes a recipient's signed URLs."""
READER_SESSION = "deltaic"
"""Session name if the server itself reads with the role of a storage."""
POLICY_TOO_LONG = (
    "the path is too long for credentials that read only this path: read it by pre-signed URLs (access mode 'url')"
)

_REFUSED = DENIED | {"MalformedPolicyDocument", "NoSuchEntity", "ResourceNotFoundException", "ValidationError"}
_REFUSED |= {"DecryptionFailure", "InvalidRequestException", "RegionDisabledException"}
_MAX_ENTRIES = 1000


class _Entry(msgspec.Struct, frozen=True):
    credentials: Credentials
    renew_at: float


class SigningSessions:
    """Cache of the credentials that sign recipients' URLs, shared by all threads of a process.

    `signing_role_arn` is assumed for storages without a role and keys; if it is empty, the default credentials sign.
    `endpoint` replaces the endpoint of AWS. `clock` returns seconds since the epoch; `client` creates a botocore client
    for the name of a service.
    """

    def __init__(
        self,
        signing_role_arn: str = "",
        *,
        region: str = "us-east-1",
        endpoint: str = "",
        clock: Callable[[], float] = time.time,
        client: Callable[[str], Any] | None = None,
    ) -> None:
        self._role = signing_role_arn
        self._endpoint = endpoint
        self._clock = clock
        self._client_of = cache(client or (lambda service: _control_client(service, region, endpoint)))
        self._entries: dict[tuple[str, ...], _Entry] = {}
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._readers: dict[tuple[StorageConfig, str], Callable[[], Credentials]] = {}
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Create the STS client, which assumes roles, before the first request needs it."""
        self._client_of("sts")

    def credentials(self, recipient_id: str, storage: StorageConfig) -> Credentials:
        """Return credentials that read `storage` in this recipient's name.

        Raises TableUnreadable if AWS rejects the role or the keys, TooManyRequests if it throttles requests, and
        Unavailable for other transient errors.
        """
        self._check(storage)
        if storage.secret:
            return self._static_keys(storage.secret)
        role = storage.role_arn or self._role
        return self._session(role, recipient_id) if role else default_credentials()

    def name_of(self, recipient_id: str, storage: StorageConfig) -> str | None:
        """Return the session name that S3's access log has for `credentials`; None without a role."""
        role = storage.role_arn or self._role
        return session_name(recipient_id) if role and not storage.secret else None

    def reader(self, storage: StorageConfig) -> Callable[[], Credentials]:
        """Return a function that returns valid credentials to read Delta logs in a storage.

        The same storage gets the same function object, so that callers can share connections.
        """
        self._check(storage)
        if not (storage.secret or storage.role_arn):
            return default_credentials

        return self._reader_function(storage, storage.role_arn, storage.secret)

    def file_reader(self, storage: StorageConfig) -> Callable[[], Credentials]:
        """Return a function that returns valid credentials to read data files in a storage.

        The default credentials can read only Delta logs; the signing role can read data files.
        """
        if storage.secret or storage.role_arn or not self._role:
            return self.reader(storage)
        return self._reader_function(storage, self._role)

    def _reader_function(self, storage: StorageConfig, role: str, secret: str = "") -> Callable[[], Credentials]:
        def read() -> Credentials:
            return self._static_keys(secret) if secret else self._session(role, READER_SESSION)

        with self._lock:
            return self._readers.setdefault((storage, role), read)

    def scoped_down(self, recipient_id: str, storage: StorageConfig, policy: str) -> Credentials:
        """Return a session with only the permissions of both role and session policy (STS, "Session policies").

        If a storage has keys and a role, the session uses the role. Raises UnsupportedOperation for a storage without a
        role (static keys cannot be restricted by a policy) and for a policy that is too long; and the errors of
        `credentials`.
        """
        self._check(storage)
        role = storage.role_arn or ("" if storage.secret else self._role)
        if not role:
            raise UnsupportedOperation(
                "directory access needs a role for temporary credentials, and the storage of this location has none: "
                "read it by pre-signed URLs (access mode 'url')"
            )
        return self._session(role, recipient_id, policy)

    def _check(self, storage: StorageConfig) -> None:
        # Every URL contains the session token: never sign with AWS credentials for another store.
        if storage.secret or storage.role_arn or storage.endpoint in {"", self._endpoint} or is_aws(storage.endpoint):
            return
        raise TableUnreadable("the table's storage has an endpoint but no keys: ask its provider to add keys")

    def _session(self, role: str, recipient_id: str, policy: str = "") -> Credentials:
        def assume() -> _Entry:
            request: dict[str, Any] = {
                "RoleArn": role,
                "RoleSessionName": session_name(recipient_id),
                "DurationSeconds": SESSION_SECONDS,
                "Tags": [{"Key": RECIPIENT_TAG, "Value": tag_value(recipient_id)}],
            }
            if policy:
                request["Policy"] = policy
            subject = "the role that reads this table"
            answer = self._call("sts", "assume_role", request, subject)
            try:
                keys = answer["Credentials"]
                expires_at = keys["Expiration"].timestamp()
                credentials = Credentials(
                    keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], int(expires_at * 1000)
                )
            except (AttributeError, KeyError, TypeError):
                # Without the cause, because its message can contain a key.
                raise _incomplete_answer(subject) from None
            return _Entry(credentials, expires_at - RENEWED_BELOW * (expires_at - self._clock()))

        return self._fetch_cached((role, recipient_id, policy), assume)

    def _static_keys(self, secret: str) -> Credentials:
        def read() -> _Entry:
            subject = "the storage's keys"
            answer = self._call("secretsmanager", "get_secret_value", {"SecretId": secret}, subject)
            if not answer.keys() & {"SecretString", "SecretBinary"}:
                # botocore returns an empty result for invalid JSON.
                raise _incomplete_answer(subject)
            try:
                keys = json.loads(answer["SecretString"])
                credentials = Credentials(str(keys["accessKeyId"]), str(keys["secretAccessKey"]))
            except (KeyError, TypeError, ValueError):
                # Without the cause, because its message contains the secret.
                raise TableUnreadable(
                    'the secret of the table\'s storage must be {"accessKeyId": ..., "secretAccessKey": ...}'
                ) from None
            return _Entry(credentials, self._clock() + SECRET_SECONDS)

        return self._fetch_cached((secret,), read)

    def _fetch_cached(self, key: tuple[str, ...], fetch: Callable[[], _Entry]) -> Credentials:
        """Return cached credentials, or the result of `fetch`, which only one of several threads calls at a time."""
        with self._lock:
            entry = self._entries.get(key)
            lock = self._locks.setdefault(key, threading.Lock())
        if entry is not None and self._clock() < entry.renew_at:
            return entry.credentials
        with lock:
            entry = self._entries.get(key)
            if entry is not None and self._clock() < entry.renew_at:
                return entry.credentials
            try:
                renewed = fetch()
            except (TooManyRequests, Unavailable):
                expires_at_ms = None if entry is None else entry.credentials.expires_at_ms
                if entry is None or (expires_at_ms is not None and expires_at_ms - self._clock() * 1000 < USABLE_MS):
                    raise
                return entry.credentials
            with self._lock:
                if len(self._entries) >= _MAX_ENTRIES:
                    oldest = min(self._entries, key=lambda entry_key: self._entries[entry_key].renew_at)
                    del self._entries[oldest]
                    self._locks.pop(oldest, None)
                self._entries[key] = renewed
            return renewed.credentials

    def _call(self, service: str, operation: str, request: dict[str, Any], subject: str) -> Any:
        try:
            return getattr(self._client_of(service), operation)(**request)
        except Exception as error:
            raise _translate_error(error, subject) from error


def _control_client(service: str, region: str, endpoint: str) -> Any:
    # Imported here, because static keys and default credentials need no client.
    from deltaic.storage.aws_client import control_client

    return control_client(service, region, endpoint)


def _translate_error(error: Exception, subject: str) -> Exception:
    """Translate an exception of an AWS client to `deltaic.errors`; return other exceptions unchanged."""
    # Imported here, because only errors need them.
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    match error:
        case ClientError():
            details = error.response.get("Error", {})
            return _translate_code(str(details.get("Code", "")), str(details.get("Message", "")), subject)
        case ResponseParserError() | AttributeError() | KeyError() | TypeError():
            # botocore's parsers raise the last three for a response in an unexpected form.
            return _incomplete_answer(subject)
        case BotoCoreError():
            return Unavailable(f"AWS did not respond to a request for {subject}; try again")
        case _:
            return error


def _incomplete_answer(subject: str) -> DeltaicError:
    return Unavailable(f"AWS sent an incomplete response to a request for {subject}; try again")


def _translate_code(code: str, message: str, subject: str) -> DeltaicError:
    if code in THROTTLED:
        return TooManyRequests(f"AWS is throttling requests for {subject}; try again")
    if code == "PackedPolicyTooLarge":
        return UnsupportedOperation(POLICY_TOO_LONG)
    if message.startswith(SKEWED):
        return Unavailable("the clock of this server and that of AWS differ too much; try again later")
    if code in _REFUSED:
        return TableRefused(f"the server may not use {subject} ({code}): ask the provider to check the IAM policies")
    return Unavailable(f"AWS failed to process a request for {subject} ({code}); try again")


def session_name(recipient_id: str) -> str:
    """Return the role session name for a recipient, which S3's access log shows; distinct ids get distinct names."""
    return _make_valid(recipient_id, r"[^\w+=,.@-]", 64)


def tag_value(recipient_id: str) -> str:
    """Return the session tag value for a recipient: the id, or a valid replacement for ids that STS rejects."""
    return _make_valid(recipient_id, r"[^\w .:/=+@-]", 256)


def _make_valid(text: str, invalid: str, max_length: int) -> str:
    cleaned = re.sub(invalid, "-", text, flags=re.ASCII)
    if cleaned == text and 2 <= len(text) <= max_length:  # noqa: PLR2004 -- STS: at least two characters
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{cleaned[: max_length - 13]}-{digest}"
