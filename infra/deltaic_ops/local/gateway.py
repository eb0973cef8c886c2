"""Serve the API of template.yaml as API Gateway does, with its routes, authorizer and functions.

For each request: check the stage, find the route, call the authorizer and the function, and send the response.
"""

import gzip
import json
import logging
import socket
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from deltaic.storage.aws_credentials import default_credentials

from deltaic_ops.deploy.api import GatewayResponse
from deltaic_ops.deploy.emulated_account import ACCOUNT, REGION
from deltaic_ops.deploy.sam_template import Template
from deltaic_ops.local.authorizer import GatewayRefusal, TokenAuthorizer
from deltaic_ops.local.exchange import ClientDisconnected, Header, HttpExchange
from deltaic_ops.local.functions import Functions, LocalContext, StreamingContext
from deltaic_ops.local.http_server import HttpServer
from deltaic_ops.local.proxy_event import (
    API_ID,
    BufferedResponse,
    Call,
    MalformedResponse,
    proxy_event,
    read_response,
)
from deltaic_ops.local.request_guard import is_ours, is_signed
from deltaic_ops.local.routes import Match, RouteTable

logger = logging.getLogger(__name__)

OWN_STATUS = {
    "ACCESS_DENIED": 403,
    "AUTHORIZER_CONFIGURATION_ERROR": 500,
    "AUTHORIZER_FAILURE": 500,
    "BAD_REQUEST_BODY": 400,
    "MISSING_AUTHENTICATION_TOKEN": 403,
    "REQUEST_TOO_LARGE": 413,
    "UNAUTHORIZED": 401,
}
"""Default status of API Gateway's own responses, by response type."""

INVOCATIONS = "/2015-03-31/functions/"
"""Path prefix of Lambda's Invoke API, which functions use to call each other."""

BAD_GATEWAY = 502
SERVER_ERROR = 500


class Gateway(HttpServer):
    """Server for the template's API on a loopback port, which is open while the context manager is active."""

    def __init__(self, template: Template, functions: Functions, *, listener: socket.socket | None = None) -> None:
        """Create the server on a bound socket, or on a free port."""
        self._template = template
        self._functions = functions
        self._routes = RouteTable(template.routes)
        self._authorizer = TokenAuthorizer(template.authorizer, self._call_authorizer)
        self._binary = "*/*" in template.binary_media_types
        super().__init__(self._handle, listener)

    @property
    def endpoint(self) -> str:
        """Delta Sharing endpoint for recipients' profiles."""
        host, port = self.address
        return f"http://{host}:{port}/{self._template.prefix}"

    def _handle(self, exchange: HttpExchange) -> None:
        request_id = str(uuid.uuid4())
        try:
            self._serve(exchange, request_id)
        except GatewayRefusal as refused:
            self._respond_with(exchange, refused.kind, request_id)
        except ClientDisconnected:
            raise
        except Exception:
            logger.exception("the function failed or returned a malformed response")
            if not exchange.has_started:
                self._respond_with(exchange, "DEFAULT_5XX", request_id, own_status=BAD_GATEWAY)

    def _serve(self, exchange: HttpExchange, request_id: str) -> None:
        if not is_ours(f"//{exchange.header('host') or ''}"):  # a foreign host name that resolves to 127.0.0.1
            raise GatewayRefusal("ACCESS_DENIED")
        raw_path, _, query = exchange.target.partition("?")
        stage = f"/{self._template.prefix}"
        path = raw_path.removeprefix(stage)
        if raw_path.startswith(INVOCATIONS):
            self._invoke(exchange, raw_path, query)
            return
        match = self._routes.match(exchange.method, path) if raw_path.startswith(f"{stage}/") else None
        if match is None:
            raise GatewayRefusal("MISSING_AUTHENTICATION_TOKEN")
        arn = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{API_ID}{stage}/{exchange.method}{path}"
        context = (
            {} if match.route.public else self._authorizer.authorize(exchange.header(self._authorizer.header), arn)
        )
        call = Call(match, self._template.prefix, path, query, context, request_id)
        event = proxy_event(exchange, call, binary=self._binary)
        if match.route.streamed:
            self._stream(exchange, match, event, request_id)
        else:
            self._buffer(exchange, match, event, request_id)

    def _buffer(self, exchange: HttpExchange, match: Match, event: dict[str, Any], request_id: str) -> None:
        function = self._functions[match.route.function]
        context = LocalContext(function, request_id)
        result = self._functions.call(match.route.function, event, context)
        response = self._compress(exchange, read_response(result, decodes_base64=self._binary))
        exchange.respond(response.status, [*response.headers, *_ids(event, request_id)], response.body)

    def _stream(self, exchange: HttpExchange, match: Match, event: dict[str, Any], request_id: str) -> None:
        def head(status: int, headers: list[Header]) -> None:
            exchange.start(status, [*headers, *_ids(event, request_id)])

        function = self._functions[match.route.function]
        context = StreamingContext(function, request_id, exchange, head)
        result = self._functions.call(match.route.function, event, context)
        if isinstance(result, bytes) and not exchange.has_started:
            context.stream.take(result)  # the same bytes, whole
            context.stream.end()
        if not exchange.has_started:
            raise MalformedResponse("the function of a streamed route returned no streamed response")

    def _invoke(self, exchange: HttpExchange, path: str, query: str) -> None:
        """Start a function asynchronously (Lambda's Invoke API), if the request is signed with this process's keys."""
        body = exchange.body()
        signed = is_signed(default_credentials(), exchange.method, path, query, dict(exchange.headers), body)
        if not signed or exchange.header("x-amz-invocation-type") != "Event":
            raise GatewayRefusal("ACCESS_DENIED")
        arn = unquote(path.removeprefix(INVOCATIONS).partition("/")[0])
        is_function = self._functions.start(arn, json.loads(body))
        exchange.respond(HTTPStatus.ACCEPTED if is_function else HTTPStatus.NOT_FOUND, [], b"")

    def _call_authorizer(self, event: dict[str, Any]) -> Any:
        logical_id = self._template.authorizer.function
        context = LocalContext(self._functions[logical_id], str(uuid.uuid4()))
        return self._functions.call(logical_id, event, context)

    def _compress(self, exchange: HttpExchange, response: BufferedResponse) -> BufferedResponse:
        least = self._template.minimum_compression_size
        accepted = (exchange.header("accept-encoding") or "").lower()
        encoded = any(name.lower() == "content-encoding" for name, _ in response.headers)
        if least is None or len(response.body) < least or encoded or "gzip" not in accepted:
            return response
        body = gzip.compress(response.body, compresslevel=1, mtime=0)
        return BufferedResponse(response.status, [*response.headers, ("Content-Encoding", "gzip")], body)

    def _respond_with(self, exchange: HttpExchange, kind: str, request_id: str, own_status: int | None = None) -> None:
        """Send the template's GatewayResponse of this type, or API Gateway's default response."""
        status = own_status or OWN_STATUS[kind]
        fallback = "DEFAULT_5XX" if status >= SERVER_ERROR else "DEFAULT_4XX"
        configured: Mapping[str, GatewayResponse] = self._template.gateway_responses
        response = configured.get(kind) or configured.get(fallback)
        if response is None:
            response = GatewayResponse(None, {"Content-Type": "application/json"}, '{"message":null}')
        headers = [*response.headers.items(), ("x-amzn-RequestId", request_id)]
        exchange.respond(response.status or status, headers, response.body.encode())


def _ids(event: Mapping[str, Any], request_id: str) -> list[Header]:
    return [("x-amzn-RequestId", request_id), ("X-Amzn-Trace-Id", event["headers"]["X-Amzn-Trace-Id"])]
