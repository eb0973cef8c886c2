"""A client for the few calls that functions make: DynamoDB, STS, Secrets Manager, KMS, EventBridge; without botocore.

botocore costs a cold start more processor time than all our own modules: imports, and models of operations that no
function asks for (decision 96). What a request needs is one POST with a signature. This client takes the place of
botocore's: the same names of operations and parameters, the same answers, and botocore's own exceptions, imported when
there is one to raise. It knows AWS's ordinary endpoints and the one that it is told; operators' commands, which may
have any configuration, keep botocore.
"""

import hashlib
import json
import os
import random
import select
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from deltaic.aws_codes import THROTTLED
from deltaic.storage.aws_credentials import Credentials, default_credentials
from deltaic.storage.endpoints import dns_suffix
from deltaic.storage.signing import authorization
from deltaic.urls import parse_endpoint

if TYPE_CHECKING:
    from ssl import SSLContext

ATTEMPTS: Final = 2
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Between two attempts."""
_MOST_IDLE: Final = 16
_PASSING: Final = frozenset({
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
})  # fmt: skip


class Timeouts(NamedTuple):
    """How many seconds one attempt waits: for a connection, and for each part of the answer."""

    connect: float
    read: float


CATALOG: Final = Timeouts(1, 2)
"""At worst 6.5 s of the 10 s that API Gateway gives the authorizer."""
CONTROL: Final = Timeouts(2, 5)
"""At worst 14.5 s of a function's 29 s."""


class _Service(NamedTuple):
    """How a service is spoken to: in JSON, with the operation in a header, or (STS) by a form that XML answers."""

    target: str
    version: str
    operations: Mapping[str, str]


_SERVICES: Final = {
    "dynamodb": _Service(
        "DynamoDB_20120810",
        "1.0",
        {
            "batch_get_item": "BatchGetItem",
            "get_item": "GetItem",
            "query": "Query",
            "scan": "Scan",
            "transact_write_items": "TransactWriteItems",
            "update_item": "UpdateItem",
        },
    ),
    "events": _Service("AWSEvents", "1.1", {"put_events": "PutEvents"}),
    "glue": _Service("AWSGlue", "1.1", {"get_table": "GetTable", "get_tables": "GetTables"}),
    "kms": _Service("TrentService", "1.1", {"get_public_key": "GetPublicKey", "sign": "Sign"}),
    "secretsmanager": _Service("secretsmanager", "1.1", {"get_secret_value": "GetSecretValue"}),
    "sts": _Service("", "2011-06-15", {"assume_role": "AssumeRole"}),
}


class _AwsResponse(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


class AwsClient:
    """Calls one service as botocore's client does: `client.get_item(TableName=..., Key=...)`.

    Raises botocore's exceptions: ClientError for what AWS refuses, HTTPClientError where nobody answers,
    ResponseParserError for an answer that is not whole; and what the credentials raise. What fails in passing is tried
    once more. Safe to share between threads; connections are kept for later calls.
    """

    def __init__(
        self,
        service: str,
        region: str,
        endpoint: str = "",
        *,
        timeouts: Timeouts,
        credentials: Callable[[], Credentials] = default_credentials,
    ) -> None:
        """Prepare to call a service in its region, or at `endpoint`; raises as `parse_endpoint` does."""
        self._idle: list[HTTPConnection] = []
        place = parse_endpoint(endpoint or f"https://{service}.{region}.{dns_suffix(region)}")
        self.service = service
        self.timeouts = timeouts
        self._region = region
        self._spoken = _SERVICES[service]
        self._tls = place.scheme == "https"
        self.host: Final = place.netloc.rpartition("@")[2]
        self._path = place.path or "/"
        self._credentials = credentials
        self._lock = threading.Lock()
        self._context: SSLContext | None = None

    def __del__(self) -> None:
        """Close what is kept, with the last who holds the client."""
        for connection in self._idle:
            connection.close()

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        """Return the function that calls an operation."""
        if name not in _SERVICES[self.__dict__["service"]].operations:
            raise AttributeError(f"{self.service} is not asked for {name} here")
        return partial(self._call, self._spoken.operations[name])

    def _call(self, operation: str, **request: Any) -> dict[str, Any]:
        headers, body = self._written(operation, request)
        for attempt in range(1, ATTEMPTS + 1):
            failure: Exception
            try:
                answer = self._exchanged(headers, body)
            except (OSError, HTTPException) as error:
                passing, failure = True, _unreached(error)
                self._forget_idle()
            else:
                if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    found = _json_read(answer) if self._spoken.target else _form_read(answer)
                    if found is not None:
                        return found
                    passing, failure = True, _half()
                else:
                    code, failure = _refusal(operation, answer)
                    passing = answer.status in _PASSING or code in THROTTLED
            if attempt == ATTEMPTS or not passing:
                raise failure
            # Anywhere below a bound, so that many who failed at the same moment part.
            time.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))  # noqa: S311 -- spread
        raise AssertionError

    def _written(self, operation: str, request: dict[str, Any]) -> tuple[dict[str, str], bytes]:
        target, version, _ = self._spoken
        if not target:
            form = {"Action": operation, "Version": version, **dict(_flat(request))}
            text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in form.items())
            return {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}, text.encode()
        if operation == "TransactWriteItems":
            # The same for both attempts, so that the second does not fail for what the first has done.
            request = {"ClientRequestToken": f"{random.getrandbits(128):032x}", **request}
        headers = {"content-type": f"application/x-amz-json-{version}", "x-amz-target": f"{target}.{operation}"}
        return headers, json.dumps(request).encode()

    def _exchanged(self, headers: Mapping[str, str], body: bytes) -> _AwsResponse:
        sent = self._signed(headers, body)
        connection = self._connection()
        try:
            try:
                connection.request("POST", self._path, body, sent)
            except ValueError:
                # Its text would hold the key or the token.
                raise _unreached(OSError("an AWS credential holds characters that no header may hold")) from None
            response = connection.getresponse()
            answer = _AwsResponse(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if not response.will_close and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return answer
        connection.close()
        return answer

    def _forget_idle(self) -> None:
        """Close what is kept: where one connection broke, others of its age may have, too."""
        with self._lock:
            gone, self._idle = self._idle, []
        for connection in gone:
            connection.close()

    def _connection(self) -> HTTPConnection:
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                return self._connected()
            ready = select.poll()  # not select(), which knows no descriptor above 1023
            ready.register(idle.sock, select.POLLIN)
            if not ready.poll(0):
                return idle
            idle.close()  # there is something to read before anything was asked: the other side has closed it

    def _connected(self) -> HTTPConnection:
        if self._tls:
            import ssl

            # One for all connections: reading the authorities is most of what the first one costs.
            authorities = os.environ.get("AWS_CA_BUNDLE") or None
            self._context = self._context or ssl.create_default_context(cafile=authorities)
            made: HTTPConnection = HTTPSConnection(self.host, timeout=self.timeouts.connect, context=self._context)
        else:
            made = HTTPConnection(self.host, timeout=self.timeouts.connect)
        made.connect()
        made.sock.settimeout(self.timeouts.read)
        return made

    def _signed(self, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        keys = self._credentials()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {**headers, "host": self.host, "x-amz-date": stamp}
        if keys.session_token:
            signed["x-amz-security-token"] = keys.session_token
        body_hash = hashlib.sha256(body).hexdigest()
        line = f"POST\n{self._path}"
        signed["authorization"] = authorization(keys, self._region, self.service, line, signed, body_hash)
        return signed


def control_client(service: str, region: str, endpoint: str = "", timeouts: Timeouts = CONTROL) -> Any:
    """Return a client of a service: this one, or botocore's for an AWS that a user of this machine has configured.

    On Lambda nobody has, and an endpoint that is told leaves nothing to find out.
    """
    if endpoint or "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        return AwsClient(service, region, endpoint, timeouts=timeouts)
    from deltaic.storage.aws_credentials import make_client

    return make_client(service, region, botocore_config(timeouts))


def botocore_config(timeouts: Timeouts) -> Any:
    """Return the same timeouts and attempts for a client of botocore's."""
    from botocore.config import Config

    return Config(
        connect_timeout=timeouts.connect,
        read_timeout=timeouts.read,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        max_pool_connections=_MOST_IDLE,
        tcp_keepalive=True,
    )


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of a form as AWS's Query protocol names them: `Tags.member.1.Key`."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, part in enumerate(value, 1):
            yield from _flat(part, f"{name}.member.{number}")
    else:
        yield name, str(value)


def _json_read(answer: _AwsResponse) -> dict[str, Any] | None:
    """Return what an answer holds; None if it is not whole."""
    try:
        # DynamoDB tells the checksum of its answers.
        told = answer.headers.get("x-amz-crc32")
        content = json.loads(answer.body)
        if isinstance(content, dict) and (told is None or int(told) == zlib.crc32(answer.body)):
            return content
    except (ValueError, RecursionError):
        pass
    return None


def _form_read(answer: _AwsResponse) -> dict[str, Any] | None:
    """Return the keys that an answer holds; None if it is not whole."""
    found = _leaves(answer.body)
    try:
        from datetime import datetime

        keys: dict[str, Any] = {name: found[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")}
        return {"Credentials": {**keys, "Expiration": datetime.fromisoformat(found["Expiration"])}}
    except (KeyError, ValueError):
        return None


def _leaves(text: bytes) -> dict[str, str]:
    """Return the texts of an XML document's elements by name; of what is no XML, none."""
    from pyexpat import ExpatError, ParserCreate

    leaves: dict[str, str] = {}
    names: list[str] = []

    def characters(data: str) -> None:
        leaves[names[-1]] = leaves.get(names[-1], "") + data

    parser = ParserCreate()
    parser.StartElementHandler = lambda name, _: names.append(name)
    parser.EndElementHandler = lambda _: names.pop()
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text, True)  # noqa: FBT003 -- is all there is
    except ExpatError:
        return {}
    return leaves


def _refusal(operation: str, answer: _AwsResponse) -> tuple[str, Exception]:
    from botocore.exceptions import ClientError

    try:
        told = json.loads(answer.body)
        facts: dict[str, Any] = told if isinstance(told, dict) else {}
    except (ValueError, RecursionError):
        facts = dict(_leaves(answer.body))
    code = str(facts.pop("__type", "") or facts.pop("Code", "") or answer.status).rpartition("#")[2]
    message = str(facts.pop("message", "") or facts.pop("Message", ""))
    parts: Any = {
        **facts,
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": answer.status},
    }
    return code, ClientError(parts, operation)


def _unreached(error: Exception) -> Exception:
    from botocore.exceptions import HTTPClientError

    failure = HTTPClientError(error=error)
    failure.__cause__ = error
    return failure


def _half() -> Exception:
    from botocore.parsers import ResponseParserError

    return ResponseParserError("the answer is not whole")
