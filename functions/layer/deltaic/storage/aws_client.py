"""Call a few operations of DynamoDB, STS, Secrets Manager, KMS, Glue, S3 Tables and EventBridge without botocore.

In a cold start, botocore needs more processor time than all modules of the server, for imports and for models of unused
operations (decision 96). These requests need only a signature. This client has the interface of botocore's clients:
the same operations, parameters, results and exceptions (imported only to raise them). It supports the default AWS
endpoints and one explicit endpoint. Operators' commands use botocore, because they support every AWS configuration.
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
MAX_PAUSE_SECONDS: Final = 0.5
"""Longest pause between two attempts of a request."""
_MAX_IDLE: Final = 16
_TRANSIENT_STATUSES: Final = frozenset({
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
})  # fmt: skip


class Timeouts(NamedTuple):
    """Timeouts of one attempt in seconds: to connect, and to receive each part of the response."""

    connect: float
    read: float


CATALOG: Final = Timeouts(1, 2)
"""Timeouts for DynamoDB and KMS: two attempts need at most 6.5 s. API Gateway allows the authorizer 10 s."""
CONTROL: Final = Timeouts(2, 5)
"""Timeouts for other services: two attempts need at most 14.5 s. API Gateway allows a function 29 s."""


class _Service(NamedTuple):
    """Protocol of an AWS service: JSON with a header (`target`), form and XML, or GET of a path."""

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
    "s3tables": _Service(
        "", "", {"get_table_metadata_location": "/tables/{tableBucketARN}/{namespace}/{name}/metadata-location"}
    ),
    "secretsmanager": _Service("secretsmanager", "1.1", {"get_secret_value": "GetSecretValue"}),
    "sts": _Service("", "2011-06-15", {"assume_role": "AssumeRole"}),
}


class _AwsResponse(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


class AwsClient:
    """Client of one AWS service with botocore's interface: `client.get_item(TableName=..., Key=...)`.

    Raises botocore's exceptions: ClientError for an error of AWS, HTTPClientError without a response,
    ResponseParserError for an incomplete response. Also raises the errors of `credentials`. Requests are retried once
    after transient errors. Connections are reused. Safe to share between threads.
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
        """Create a client for a service in a region, or at an `endpoint`; raises the errors of `parse_endpoint`."""
        self._idle: list[HTTPConnection] = []
        url = parse_endpoint(endpoint or f"https://{service}.{region}.{dns_suffix(region)}")
        self.service = service
        self.timeouts = timeouts
        self._region = region
        self._protocol = _SERVICES[service]
        self._tls = url.scheme == "https"
        self.host: Final = url.netloc.rpartition("@")[2]
        self._path = url.path or "/"
        self._credentials = credentials
        self._lock = threading.Lock()
        self._context: SSLContext | None = None

    def __del__(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            connection.close()

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        """Return the function that calls an operation of the service, such as `get_item`."""
        if name not in _SERVICES[self.__dict__["service"]].operations:
            raise AttributeError(f"the client of {self.service} has no operation {name}: add it to _SERVICES")
        return partial(self._call, self._protocol.operations[name])

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        path, headers, body = self._build_request(operation, parameters)
        for attempt in range(1, ATTEMPTS + 1):
            failure: Exception
            try:
                answer = self._send(path, headers, body)
            except (OSError, HTTPException) as error:
                is_transient, failure = True, _connection_error(error)
                self._forget_idle()
            else:
                if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    result = _parse_credentials(answer) if self.service == "sts" else _parse_json(answer)
                    if result is not None:
                        return result
                    is_transient, failure = True, _incomplete_answer()
                else:
                    code, failure = _client_error(operation, answer)
                    is_transient = answer.status in _TRANSIENT_STATUSES or code in THROTTLED
            if attempt == ATTEMPTS or not is_transient:
                raise failure
            # Random, so that clients that failed at the same time do not retry at the same time.
            time.sleep(random.uniform(0, MAX_PAUSE_SECONDS))  # noqa: S311 -- not for security
        raise AssertionError

    def _build_request(self, operation: str, parameters: dict[str, Any]) -> tuple[str, Mapping[str, str], bytes]:
        """Return path, headers and body of a request; only requests by GET have no body."""
        target, version, _ = self._protocol
        if operation.startswith("/"):
            path = operation.format_map({name: quote(value, safe="") for name, value in parameters.items()})
            return self._path.rstrip("/") + path, {}, b""
        if not target:
            form = {"Action": operation, "Version": version, **dict(_form_fields(parameters))}
            text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in form.items())
            headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
            return self._path, headers, text.encode()
        if operation == "TransactWriteItems":
            # The same token in both attempts, so that the second succeeds if the first one was applied.
            parameters = {"ClientRequestToken": f"{random.getrandbits(128):032x}", **parameters}
        headers = {"content-type": f"application/x-amz-json-{version}", "x-amz-target": f"{target}.{operation}"}
        return self._path, headers, json.dumps(parameters).encode()

    def _send(self, path: str, headers: Mapping[str, str], body: bytes) -> _AwsResponse:
        method = "POST" if body else "GET"
        signed_headers = self._sign_headers(method, path, headers, body)
        connection = self._take_connection()
        try:
            try:
                connection.request(method, path, body, signed_headers)
            except ValueError:
                # The message of the ValueError contains the key or the token.
                raise _connection_error(OSError("an AWS credential has characters that HTTP headers forbid")) from None
            response = connection.getresponse()
            answer = _AwsResponse(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if not response.will_close and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return answer
        connection.close()
        return answer

    def _forget_idle(self) -> None:
        """Close all idle connections after one connection has failed, because the others may also be broken."""
        with self._lock:
            connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()

    def _take_connection(self) -> HTTPConnection:
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                return self._connect()
            ready = select.poll()  # select() does not support descriptors above 1023
            ready.register(idle.sock, select.POLLIN)
            if not ready.poll(0):
                return idle
            idle.close()  # readable before a request: the server has closed the connection

    def _connect(self) -> HTTPConnection:
        if self._tls:
            import ssl

            # One context for all connections, because loading the certificates is slow.
            authorities = os.environ.get("AWS_CA_BUNDLE") or None
            self._context = self._context or ssl.create_default_context(cafile=authorities)
            connection: HTTPConnection = HTTPSConnection(
                self.host, timeout=self.timeouts.connect, context=self._context
            )
        else:
            connection = HTTPConnection(self.host, timeout=self.timeouts.connect)
        connection.connect()
        connection.sock.settimeout(self.timeouts.read)
        return connection

    def _sign_headers(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        keys = self._credentials()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {**headers, "host": self.host, "x-amz-date": stamp}
        if keys.session_token:
            signed["x-amz-security-token"] = keys.session_token
        # All services except S3 encode the path twice in the signature.
        line, body_hash = f"{method}\n{quote(path)}", hashlib.sha256(body).hexdigest()
        signed["authorization"] = authorization(keys, self._region, self.service, line, signed, body_hash)
        return signed


def control_client(service: str, region: str, endpoint: str = "", timeouts: Timeouts = CONTROL) -> Any:
    """Return an AwsClient on Lambda or with an endpoint, else a botocore client that uses the AWS configuration."""
    if endpoint or "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        return AwsClient(service, region, endpoint, timeouts=timeouts)
    from deltaic.storage.aws_credentials import make_client

    return make_client(service, region, botocore_config(timeouts))


def botocore_config(timeouts: Timeouts) -> Any:
    """Return a botocore configuration with these timeouts and the number of attempts of AwsClient."""
    from botocore.config import Config

    return Config(
        connect_timeout=timeouts.connect,
        read_timeout=timeouts.read,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        max_pool_connections=_MAX_IDLE,
        tcp_keepalive=True,
    )


def _form_fields(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of a form in AWS's Query protocol, such as `Tags.member.1.Key`."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _form_fields(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, part in enumerate(value, 1):
            yield from _form_fields(part, f"{name}.member.{number}")
    else:
        yield name, str(value)


def _parse_json(answer: _AwsResponse) -> dict[str, Any] | None:
    """Return the JSON object in a response; None if it is incomplete."""
    try:
        # DynamoDB sends a checksum of its responses.
        crc = answer.headers.get("x-amz-crc32")
        content = json.loads(answer.body)
        if isinstance(content, dict) and (crc is None or int(crc) == zlib.crc32(answer.body)):
            return content
    except (ValueError, RecursionError):
        pass
    return None


def _parse_credentials(answer: _AwsResponse) -> dict[str, Any] | None:
    """Return the credentials in a response of STS (XML); None if it is incomplete."""
    texts = _element_texts(answer.body)
    try:
        from datetime import datetime

        keys: dict[str, Any] = {name: texts[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")}
        return {"Credentials": {**keys, "Expiration": datetime.fromisoformat(texts["Expiration"])}}
    except (KeyError, ValueError):
        return None


def _element_texts(text: bytes) -> dict[str, str]:
    """Return the content of XML elements by element name; empty for invalid XML."""
    from pyexpat import ExpatError, ParserCreate

    texts: dict[str, str] = {}
    names: list[str] = []

    def characters(data: str) -> None:
        texts[names[-1]] = texts.get(names[-1], "") + data

    parser = ParserCreate()
    parser.StartElementHandler = lambda name, _: names.append(name)
    parser.EndElementHandler = lambda _: names.pop()
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text, True)  # noqa: FBT003 -- the last part
    except ExpatError:
        return {}
    return texts


def _client_error(operation: str, answer: _AwsResponse) -> tuple[str, Exception]:
    from botocore.exceptions import ClientError

    try:
        content = json.loads(answer.body)
        facts: dict[str, Any] = content if isinstance(content, dict) else {}
    except (ValueError, RecursionError):
        facts = dict(_element_texts(answer.body))
    header = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
    code = str(facts.pop("__type", "") or facts.pop("Code", "") or header or answer.status).rpartition("#")[2]
    message = str(facts.pop("message", "") or facts.pop("Message", ""))
    parts: Any = {
        **facts,
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": answer.status},
    }
    return code, ClientError(parts, operation)


def _connection_error(error: Exception) -> Exception:
    from botocore.exceptions import HTTPClientError

    failure = HTTPClientError(error=error)
    failure.__cause__ = error
    return failure


def _incomplete_answer() -> Exception:
    from botocore.parsers import ResponseParserError

    return ResponseParserError("the response is incomplete")
