"""API Gateway: the authorizer with its cache, the template's gateway responses, and streamed responses.

LocalStack's open source calls no authorizer. LocalEmu does not cache policies and returns 401 for a denial. Both ignore
the GatewayResponses of a template and `responseTransferMode`.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deltaic_ops.deploy.api import Authorizer
from deltaic_ops.local.authorizer import GatewayRefusal, TokenAuthorizer
from deltaic_ops.local.proxy_event import MalformedResponse, read_prelude

from emulators.parts.emulator import Emulator
from emulators.parts.streams import Broken, Stream, Streams

EXECUTE_API = "services.apigateway.next_gen.execute_api"
RESPONSES = "x-amazon-apigateway-gateway-responses"
STREAMING = "/response-streaming-invocations"
DEFAULT_TTL = 300
_FUNCTION = re.compile(r"functions/(arn:[^/]+)/")
_CONTEXT = re.compile(r"\$context\.([A-Za-z0-9_.-]*[A-Za-z0-9_-])")

BAD_GATEWAY = 502


def install(emulator: Emulator, streams: Streams) -> None:
    """Install all three parts."""
    authorizers = _Authorizers(emulator)
    before = emulator.module(f"{EXECUTE_API}.handlers").preprocess_request
    before.handlers[:] = [
        *(each for each in before.handlers if type(each).__name__ != "AuthorizerHandler"),
        authorizers,
    ]
    provider = emulator.module("services.apigateway.legacy.provider")
    provider.import_api_from_openapi_spec = _importing(emulator, provider.import_api_from_openapi_spec)
    handler = emulator.module(f"{EXECUTE_API}.handlers.gateway_exception").GatewayExceptionHandler
    handler.create_exception_response = _answering(emulator)
    proxy = emulator.module(f"{EXECUTE_API}.integrations.aws").RestApiAwsProxyIntegration
    proxy.invoke = _streaming(emulator, proxy.invoke, streams)


# ------------------------------------------------------------------------------------------------------ authorizers
class _Authorizers:
    """The TOKEN authorizers of all deployments, each with its cache; other kinds are refused."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._known: dict[tuple[str, str, str], TokenAuthorizer] = {}

    def __call__(self, chain: Any, context: Any, response: Any) -> None:  # noqa: ARG002 -- the emulator's signature
        """Accept the request with the authorizer's context, or raise the gateway's error."""
        method = context.resource_method
        if method.get("authorizationType", "NONE") == "NONE":
            return
        try:
            authorizer = self._authorizer_for(context, context.deployment.rest_api.authorizers[method["authorizerId"]])
            request = context.invocation_request
            token = request["headers"].get(authorizer.header)
            context_ = authorizer.authorize(token, _method_arn(context))
        except GatewayRefusal as refused:
            raise _gateway_error(self._emulator, refused.kind) from refused
        context.context_variables["authorizer"] = dict(context_)

    def _authorizer_for(self, context: Any, authorizer_: Mapping[str, Any]) -> TokenAuthorizer:
        key = (context.api_id, context.deployment_id, authorizer_["id"])
        if key not in self._known:
            if authorizer_["type"] != "TOKEN":
                raise GatewayRefusal("AUTHORIZER_CONFIGURATION_ERROR")
            self._known[key] = TokenAuthorizer(
                token_authorizer(authorizer_), self._invoke(context, authorizer_["authorizerUri"])
            )
        return self._known[key]

    def _invoke(self, context: Any, uri: str) -> Callable[[dict[str, Any]], Any]:
        source = f"arn:aws:execute-api:{context.region}:{context.account_id}:{context.api_id}/authorizers/*"

        def invoke(event: dict[str, Any]) -> Any:
            answer = json.loads(_call(self._emulator, uri, event, source) or b"null")
            if isinstance(answer, dict) and "errorMessage" in answer:
                raise RuntimeError(answer["errorMessage"])
            return answer

        return invoke


def token_authorizer(description: Mapping[str, Any]) -> Authorizer:
    """Return a TOKEN authorizer, read from its description in API Gateway."""
    ttl = description.get("authorizerResultTtlInSeconds")
    return Authorizer(
        function=description["authorizerUri"],
        header=str(description.get("identitySource") or "method.request.header.Authorization").rpartition(".")[2],
        validation=re.compile(description.get("identityValidationExpression") or ""),
        ttl=DEFAULT_TTL if ttl is None else int(ttl),
    )


def _method_arn(context: Any) -> str:
    request = context.invocation_request
    api = f"arn:aws:execute-api:{context.region}:{context.account_id}:{context.api_id}"
    return f"{api}/{context.stage}/{request['http_method']}{request['path']}"


def _call(emulator: Emulator, uri: str, event: Mapping[str, Any], source_arn: str) -> bytes:
    """Call the function of an integration's or authorizer's URI as API Gateway; its permission must allow that."""
    match = _FUNCTION.search(uri)
    if match is None:
        raise GatewayRefusal("API_CONFIGURATION_ERROR")
    proxy = emulator.module(f"{EXECUTE_API}.integrations.aws").RestApiAwsProxyIntegration
    body = json.dumps(event).encode()
    answer: bytes = proxy.call_lambda(function_arn=match[1], event=body, source_arn=source_arn, credentials=None)
    return answer


# -------------------------------------------------------------------------------------------------- gateway responses
def _importing(emulator: Emulator, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return an import of an API's body that also keeps its GatewayResponses."""

    def run(rest_api: Any, context: Any, open_api_spec: Mapping[str, Any], mode: Any) -> Any:
        imported = original(rest_api, context=context, open_api_spec=open_api_spec, mode=mode)
        stores = emulator.module("services.apigateway.models").apigateway_stores
        container = stores[context.account_id][context.region].rest_apis[rest_api.id]
        for kind, response in open_api_spec.get(RESPONSES, {}).items():
            container.gateway_responses[kind] = {
                "responseType": kind,
                "statusCode": str(response["statusCode"]) if response.get("statusCode") else None,
                "responseParameters": response.get("responseParameters", {}),
                "responseTemplates": response.get("responseTemplates", {}),
                "defaultResponse": False,
            }
        return imported

    return run


def _gateway_error(emulator: Emulator, kind: str) -> Exception:
    """Return the emulator's exception for a gateway error type."""
    kinds = vars(emulator.module(f"{EXECUTE_API}.gateway_response")).values()
    raised = next(each for each in kinds if isinstance(each, type) and getattr(each, "type", None) == kind)
    error: Exception = raised(None)
    return error


def _answering(emulator: Emulator) -> Callable[[Any, Any, Any], Any]:
    """Return a handler that renders gateway errors as the API defines them."""
    find = emulator.module(f"{EXECUTE_API}.gateway_response").get_gateway_response_or_default

    def answer(_: Any, exception: Any, context: Any) -> Any:
        from rolo import Response  # type: ignore[import-not-found]  # the emulator's environment has it

        configured = find(exception.type, context.deployment.rest_api.gateway_responses)
        template = (configured.get("responseTemplates") or {}).get("application/json")
        variables = dict(context.context_variables)
        variables["error"] = {**variables.get("error", {}), "messageString": json.dumps(exception.message)}
        status = int(configured.get("statusCode") or exception.status_code or 500)
        body = rendered(template or '{"message":$context.error.messageString}', variables)
        response = Response(response=body, status=status, headers={"Content-Type": "application/json"})
        for name, value in (configured.get("responseParameters") or {}).items():
            response.headers[name.removeprefix("gatewayresponse.header.")] = value.strip("'")
        return response

    return answer


def rendered(template: str, variables: Mapping[str, Any]) -> str:
    """Render `$context.x.y` in a response template; API Gateway evaluates nothing else in them."""

    def value(match: re.Match[str]) -> str:
        result: Any = variables
        for name in match[1].split("."):
            result = result.get(name) if isinstance(result, Mapping) else None
        return "" if result is None else str(result)

    return _CONTEXT.sub(value, template)


# ---------------------------------------------------------------------------------------------------- streamed answers
def _streaming(emulator: Emulator, original: Callable[[Any, Any], Any], streams: Streams) -> Callable[[Any, Any], Any]:
    """Return an integration that passes on chunks for routes that stream."""
    helpers = emulator.module(f"{EXECUTE_API}.helpers")

    def invoke(self: Any, context: Any) -> Any:
        uri = context.integration_request["uri"]
        if not uri.endswith(STREAMING):
            return original(self, context)
        request_id = context.context_variables["requestId"]
        stream = streams.open(request_id)
        event, source = self.create_lambda_input_event(context), helpers.get_source_arn(context)

        def call() -> None:
            try:
                _call(emulator, uri, event, source)
            except Exception:  # noqa: BLE001 -- any failure must reach the client
                stream.end(failed=True)
            finally:
                streams.close(request_id)

        threading.Thread(target=call, daemon=True).start()
        try:
            status, headers, body = read_head(stream)
        except (Broken, MalformedResponse) as error:
            stream.leave()
            failure = emulator.module(f"{EXECUTE_API}.gateway_response").InternalServerError
            raise failure("Internal server error", status_code=BAD_GATEWAY) from error
        from werkzeug.datastructures import Headers

        return {"status_code": status, "headers": Headers(headers), "body": body}

    return invoke


def read_head(stream: Stream) -> tuple[int, list[tuple[str, str]], Iterator[bytes]]:
    """Return status, headers and the rest of a streamed response; raises Broken or MalformedResponse."""
    chunks, received = iter(stream), b""
    for chunk in chunks:
        received += chunk
        if (read := read_prelude(received)) is not None:
            status, headers, first = read
            return status, headers, _rest(stream, chunks, first)
    raise MalformedResponse("the answer has no prelude")


def _rest(stream: Stream, chunks: Iterator[bytes], first: bytes) -> Iterator[bytes]:
    try:
        if first:
            yield first
        yield from chunks
    finally:
        stream.leave()
