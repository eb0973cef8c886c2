"""Decides whose credentials sign: one session of the read-only role per recipient, static keys, or the function's own.

A URL dies with the session that signed it, and a role assumed from a role lives one hour at most (STS: role
chaining). Spark takes an expiry closer than 15 minutes for "in one hour". So a session is renewed as soon as a
quarter of its life is gone: URLs then live 45 to 60 minutes, for one STS call per recipient every 15 minutes
(decision 24).
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
"""Share of a session's life below which it is renewed."""
USABLE_MS = 15 * 60_000
"""A session that cannot be renewed still serves while it has this long to live."""
SECRET_SECONDS = 300
"""How long static keys are kept before Secrets Manager is asked again."""
RECIPIENT_TAG = "recipient"
"""Session tag: one Deny on `aws:PrincipalTag/recipient` in the role ends URLs that are already issued."""
READER_SESSION = "deltaic"
"""Session name under which this server itself reads logs with a storage's role."""
POLICY_TOO_LONG = (
    "the path is too long for credentials that read it alone; read it through pre-signed URLs (access mode 'url')"
)

_REFUSED = DENIED | {"MalformedPolicyDocument", "NoSuchEntity", "ResourceNotFoundException", "ValidationError"}
_REFUSED |= {"DecryptionFailure", "InvalidRequestException", "RegionDisabledException"}
_MOST_ENTRIES = 1000


class _Entry(msgspec.Struct, frozen=True):
    credentials: Credentials
    renew_at: float


class SigningSessions:
    """Gives the credentials that sign one recipient's URLs; one per process, safe to use from several threads.

    `signing_role_arn` is assumed where a storage names no role and no keys; without it the function's own credentials
    sign. `endpoint` is where AWS is, if not AWS itself. `clock` gives seconds since the epoch; `client` makes a
    botocore client from a service's name.
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
        """Make the client that assumes roles, ahead of the first call; nothing is called."""
        self._client_of("sts")

    def credentials(self, recipient_id: str, storage: StorageConfig) -> Credentials:
        """Return credentials that read `storage` in this recipient's name.

        Raises TableUnreadable when the role or the keys are refused, TooManyRequests when AWS throttles, Unavailable
        when it fails in passing.
        """
        self._check(storage)
        if storage.secret:
            return self._static_keys(storage.secret)
        role = storage.role_arn or self._role
        return self._session(role, recipient_id) if role else default_credentials()

    def name_of(self, recipient_id: str, storage: StorageConfig) -> str | None:
        """Return the name of the session that `credentials` gives, as S3's access log has it; None if it is none."""
        role = storage.role_arn or self._role
        return session_name(recipient_id) if role and not storage.secret else None

    def reader(self, storage: StorageConfig) -> Callable[[], Credentials]:
        """Return a function that gives the credentials with which this server reads logs, renewed when called.

        It is the same function for the same storage, so that connections can be shared by it.
        """
        self._check(storage)
        if not (storage.secret or storage.role_arn):
            return default_credentials

        return self._reading(storage, storage.role_arn, storage.secret)

    def file_reader(self, storage: StorageConfig) -> Callable[[], Credentials]:
        """Return a function like `reader`'s that gives credentials for files beside the log.

        The functions' own role reads logs only; files are read by the role that signs for them.
        """
        if storage.secret or storage.role_arn or not self._role:
            return self.reader(storage)
        return self._reading(storage, self._role)

    def _reading(self, storage: StorageConfig, role: str, secret: str = "") -> Callable[[], Credentials]:
        def read() -> Credentials:
            return self._static_keys(secret) if secret else self._session(role, READER_SESSION)

        with self._lock:
            return self._readers.setdefault((storage, role), read)

    def scoped_down(self, recipient_id: str, storage: StorageConfig, policy: str) -> Credentials:
        """Return a session whose rights are the role's and the session policy's together (STS, "Session policies").

        Of a storage with keys and a role it is the role's. Raises UnsupportedOperation where no role stands behind the
        storage, also because it has static keys: those can be neither narrowed nor given away, and for a policy
        that is too long; and what `credentials` raises.
        """
        self._check(storage)
        role = storage.role_arn or ("" if storage.secret else self._role)
        if not role:
            raise UnsupportedOperation(
                "credentials for directory access need a role that can be narrowed, and the storage here has none; "
                "read it through pre-signed URLs (access mode 'url')"
            )
        return self._session(role, recipient_id, policy)

    def _check(self, storage: StorageConfig) -> None:
        # The session token stands in every URL: never sign with AWS credentials for somebody else's store.
        if storage.secret or storage.role_arn or storage.endpoint in {"", self._endpoint} or is_aws(storage.endpoint):
            return
        raise TableUnreadable("the table's storage has an endpoint but no keys: the provider must give it some")

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
            what = "the role that reads this table"
            answer = self._call("sts", "assume_role", request, what)
            try:
                keys = answer["Credentials"]
                ends = keys["Expiration"].timestamp()
                credentials = Credentials(
                    keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], int(ends * 1000)
                )
            except (AttributeError, KeyError, TypeError):
                # Without the cause: its text might hold a key.
                raise _half(what) from None
            return _Entry(credentials, ends - RENEWED_BELOW * (ends - self._clock()))

        return self._keep((role, recipient_id, policy), assume)

    def _static_keys(self, secret: str) -> Credentials:
        def read() -> _Entry:
            what = "the storage's keys"
            answer = self._call("secretsmanager", "get_secret_value", {"SecretId": secret}, what)
            if not answer.keys() & {"SecretString", "SecretBinary"}:
                # botocore makes an empty answer of one that is no JSON.
                raise _half(what)
            try:
                keys = json.loads(answer["SecretString"])
                credentials = Credentials(str(keys["accessKeyId"]), str(keys["secretAccessKey"]))
            except (KeyError, TypeError, ValueError):
                # Without the cause: its text would hold the secret.
                raise TableUnreadable(
                    'the secret of the table\'s storage must be {"accessKeyId": ..., "secretAccessKey": ...}'
                ) from None
            return _Entry(credentials, self._clock() + SECRET_SECONDS)

        return self._keep((secret,), read)

    def _keep(self, key: tuple[str, ...], fetch: Callable[[], _Entry]) -> Credentials:
        """Return what is kept under `key` while it is fresh; of several callers one fetches, the others wait."""
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
                ends = None if entry is None else entry.credentials.expires_at_ms
                if entry is None or (ends is not None and ends - self._clock() * 1000 < USABLE_MS):
                    raise
                return entry.credentials
            with self._lock:
                if len(self._entries) >= _MOST_ENTRIES:
                    oldest = min(self._entries, key=lambda each: self._entries[each].renew_at)
                    del self._entries[oldest]
                    self._locks.pop(oldest, None)
                self._entries[key] = renewed
            return renewed.credentials

    def _call(self, service: str, operation: str, request: dict[str, Any], what: str) -> Any:
        try:
            return getattr(self._client_of(service), operation)(**request)
        except Exception as error:
            raise _translated(error, what) from error


def _control_client(service: str, region: str, endpoint: str) -> Any:
    # Imported here: with static keys or the function's own, nobody is called to sign.
    from deltaic.storage.aws_client import control_client

    return control_client(service, region, endpoint)


def _translated(error: Exception, what: str) -> Exception:
    """Return what is raised for an exception out of a client; any other exception comes back as it is."""
    # Imported here: where all goes well nobody needs them.
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    match error:
        case ClientError():
            told = error.response.get("Error", {})
            return _failure(str(told.get("Code", "")), str(told.get("Message", "")), what)
        case ResponseParserError() | AttributeError() | KeyError() | TypeError():
            # The latter ones are what botocore's parsers make of an answer in another form than they know.
            return _half(what)
        case BotoCoreError():
            return Unavailable(f"AWS did not answer when asked for {what}; try again")
        case _:
            return error


def _half(what: str) -> DeltaicError:
    return Unavailable(f"AWS gave half an answer when asked for {what}; try again")


def _failure(code: str, message: str, what: str) -> DeltaicError:
    if code in THROTTLED:
        return TooManyRequests(f"AWS is throttling requests for {what}; try again")
    if code == "PackedPolicyTooLarge":
        return UnsupportedOperation(POLICY_TOO_LONG)
    if message.startswith(SKEWED):
        return Unavailable("the clock of this server and that of AWS differ too much; try again later")
    if code in _REFUSED:
        return TableRefused(f"the server may not use {what} ({code}): the provider must check its role and trust")
    return Unavailable(f"AWS failed when asked for {what} ({code}); try again")


def session_name(recipient_id: str) -> str:
    """Return a RoleSessionName of the recipient's id: S3's access log shows it. Distinct ids stay distinct."""
    return _fitted(recipient_id, r"[^\w+=,.@-]", 64)


def tag_value(recipient_id: str) -> str:
    """Return the value of the session tag for a recipient: the id itself, unless STS would refuse it."""
    return _fitted(recipient_id, r"[^\w .:/=+@-]", 256)


def _fitted(text: str, refused: str, longest: int) -> str:
    fitted = re.sub(refused, "-", text, flags=re.ASCII)
    if fitted == text and 2 <= len(text) <= longest:  # noqa: PLR2004 -- STS: at least two characters
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{fitted[: longest - 13]}-{digest}"
