"""API Gateway on this machine: template.yaml's routes, authorizer, functions and error answers.

It is not a second router: what is served, by which function, behind which authorizer, and what the gateway itself
answers, all stand in the template. A request goes: stage, route, authorizer, function, answer.
"""

import gzip
import json
import logging
import socket
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from deltaic.platform_limits import BUFFERED_SECONDS
from deltaic.storage.aws_credentials import default_credentials

from deltaic_ops.deploy.api import GatewayResponse
from deltaic_ops.deploy.emulated_account import ACCOUNT, REGION
from deltaic_ops.deploy.sam_template import Function, Template
from deltaic_ops.local.authorizer import Refused, TokenAuthorizer
from deltaic_ops.local.aws_limits import Limits
from deltaic_ops.local.exchange import ClientLeft, Exchange, Header
from deltaic_ops.local.functions import Functions, LocalContext, StreamingContext
from deltaic_ops.local.http_server import HttpServer
from deltaic_ops.local.proxy_event import (
    API_ID,
    Answer,
    Call,
    MalformedAnswer,
    proxy_event,
    read_answer,
)
from deltaic_ops.local.request_guard import is_ours, is_signed
from deltaic_ops.local.routes import Match, RouteTable

logger = logging.getLogger(__name__)

OWN_STATUS = {
    "ACCESS_DENIED": 403,
    "AUTHORIZER_CONFIGURATION_ERROR": 500,
    "AUTHORIZER_FAILURE": 500,
    "BAD_REQUEST_BODY": 400,
    "INTEGRATION_TIMEOUT": 504,
    "MISSING_AUTHENTICATION_TOKEN": 403,
    "REQUEST_TOO_LARGE": 413,
    "UNAUTHORIZED": 401,
}
"""What API Gateway answers where the template gives no status."""

INVOCATIONS = "/2015-03-31/functions/"
"""Where functions invoke each other: the beginning of Lambda's own path."""

BAD_GATEWAY = 502
SERVER_ERROR = 500


class Gateway(HttpServer):
    """The template's API on one loopback port, below its stage; the port is open within this context manager."""

    def __init__(
        self,
        template: Template,
        functions: Functions,
        *,
        listener: socket.socket | None = None,
        limits: Limits = "none",
    ) -> None:
        """With `limits` "aws" an answer is held to what AWS lets pass of it."""
        self._template = template
        self._limits = limits
        self._functions = functions
        self._routes = RouteTable(template.routes)
        self._authorizer = TokenAuthorizer(template.authorizer, self._ask_authorizer)
        self._binary = "*/*" in template.binary_media_types
        super().__init__(self._answer, listener)

    @property
    def endpoint(self) -> str:
        """What a profile names as endpoint."""
        host, port = self.address
        return f"http://{host}:{port}/{self._template.prefix}"

    def _answer(self, exchange: Exchange) -> None:
        request_id = str(uuid.uuid4())
        try:
            self._serve(exchange, request_id)
        except Refused as refused:
            self._respond_with(exchange, refused.kind, request_id)
        except ClientLeft:
            raise
        except Exception:
            logger.exception("the function failed or its answer is malformed")
            if not exchange.begun:
                self._respond_with(exchange, "DEFAULT_5XX", request_id, own_status=BAD_GATEWAY)

    def _serve(self, exchange: Exchange, request_id: str) -> None:
        if not is_ours(f"//{exchange.header('host') or ''}"):  # a web page's own name, resolved to 127.0.0.1
            raise Refused("ACCESS_DENIED")
        raw_path, query = _path_and_query(exchange.target)
        stage = f"/{self._template.prefix}"
        path = raw_path.removeprefix(stage)
        if exchange.method == "TRACE":
            exchange.respond(HTTPStatus.METHOD_NOT_ALLOWED, [("Allow", "GET, HEAD, POST")], b"")
            return
        if raw_path.startswith(INVOCATIONS):
            self._invoke(exchange, raw_path, query)
            return
        match = self._routes.match(exchange.method, path) if raw_path.startswith(f"{stage}/") else None
        if match is None:
            raise Refused("MISSING_AUTHENTICATION_TOKEN")
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

    def _buffer(self, exchange: Exchange, match: Match, event: dict[str, Any], request_id: str) -> None:
        function = self._functions[match.route.function]
        context = LocalContext(function, request_id)
        said = self._waited_for(function, lambda: self._functions.call(match.route.function, event, context))
        answer = self._compressed(exchange, read_answer(said, decodes_base64=self._binary))
        exchange.respond(answer.status, [*answer.headers, *_ids(event, request_id)], answer.body)

    def _stream(self, exchange: Exchange, match: Match, event: dict[str, Any], request_id: str) -> None:
        def head(status: int, headers: list[Header]) -> None:
            exchange.start(status, [*headers, *_ids(event, request_id)])

        function = self._functions[match.route.function]
        context = StreamingContext(function, request_id, exchange, head, limits=self._limits)
        said = self._functions.call(match.route.function, event, context)
        if isinstance(said, bytes) and not exchange.begun:
            context.stream.take(said)  # the same bytes, whole
            context.stream.end()
        if not exchange.begun:
            raise MalformedAnswer("the function of a streamed route did not stream")

    def _invoke(self, exchange: Exchange, path: str, query: str) -> None:
        """Start a function for another one, which signs with this process's credentials (Lambda's API, "Invoke")."""
        body = exchange.body()
        signed = is_signed(default_credentials(), exchange.method, path, query, dict(exchange.headers), body)
        if not signed or exchange.header("x-amz-invocation-type") != "Event":
            raise Refused("ACCESS_DENIED")
        arn = unquote(path.removeprefix(INVOCATIONS).partition("/")[0])
        found = self._functions.start(arn, json.loads(body))
        exchange.respond(HTTPStatus.ACCEPTED if found else HTTPStatus.NOT_FOUND, [], b"")

    def _waited_for(self, function: Function, call: Callable[[], Any]) -> Any:
        """Return what a buffered function answers, if it does while AWS would wait for it."""
        if self._limits == "none":
            return call()
        pool = ThreadPoolExecutor(1)
        try:
            return pool.submit(call).result(min(function.timeout, BUFFERED_SECONDS))
        except TimeoutError:
            raise Refused("INTEGRATION_TIMEOUT") from None
        finally:
            pool.shutdown(wait=False)  # nobody waits for the function, as nobody does there

    def _ask_authorizer(self, event: dict[str, Any]) -> Any:
        logical_id = self._template.authorizer.function
        context = LocalContext(self._functions[logical_id], str(uuid.uuid4()))
        return self._functions.call(logical_id, event, context)

    def _compressed(self, exchange: Exchange, answer: Answer) -> Answer:
        least = self._template.minimum_compression_size
        accepted = (exchange.header("accept-encoding") or "").lower()
        encoded = any(name.lower() == "content-encoding" for name, _ in answer.headers)
        if least is None or len(answer.body) < least or encoded or "gzip" not in accepted:
            return answer
        body = gzip.compress(answer.body, compresslevel=1, mtime=0)
        return Answer(answer.status, [*answer.headers, ("Content-Encoding", "gzip")], body)

    def _respond_with(self, exchange: Exchange, kind: str, request_id: str, own_status: int | None = None) -> None:
        """Answer as the template's GatewayResponses say, or as API Gateway does without."""
        own = own_status or OWN_STATUS[kind]
        fallback = "DEFAULT_5XX" if own >= SERVER_ERROR else "DEFAULT_4XX"
        known: Mapping[str, GatewayResponse] = self._template.gateway_responses
        said = known.get(kind) or known.get(fallback)
        if said is None:
            said = GatewayResponse(None, {"Content-Type": "application/json"}, '{"message":null}')
        headers = [*said.headers.items(), ("x-amzn-RequestId", request_id)]
        exchange.respond(said.status or own, headers, said.body.encode())


def _path_and_query(target: str) -> tuple[str, str]:
    """Return what is asked for as it was sent; a proxy's absolute form may name any host."""
    if target.startswith("http"):
        try:
            sent = urlsplit(target)
        except ValueError as error:
            raise Refused("BAD_REQUEST_BODY") from error
        return sent.path, sent.query
    path, _, query = target.partition("?")
    return path, query


def _ids(event: Mapping[str, Any], request_id: str) -> list[Header]:
    return [("x-amzn-RequestId", request_id), ("X-Amzn-Trace-Id", event["headers"]["X-Amzn-Trace-Id"])]
