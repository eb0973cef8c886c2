"""Bearer token -> recipient, or 401: the only function that reads the tokens.

The answer allows every route of the stage, because API Gateway caches it for a token across routes; what a recipient
may see is decided by the endpoints, by its grants.
"""

from typing import Any

from aws_lambda_powertools.utilities.data_classes.api_gateway_authorizer_event import (
    APIGatewayAuthorizerResponse,
    APIGatewayAuthorizerTokenEvent,
)
from deltaic.errors import Unauthenticated
from deltaic.http.runtime import tokens


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001 -- Lambda passes a context
    """Answer with a policy and `{recipientId, tokenId, recipient}`.

    Raises `Unauthorized`, which API Gateway answers with 401.
    """
    request = APIGatewayAuthorizerTokenEvent(event)
    scheme, _, secret = request.authorization_token.partition(" ")
    try:
        # RFC 6750, section 2.1: `Bearer <token>`; anything else is no token.
        token = tokens().authenticate(secret.strip() if scheme.lower() == "bearer" else "")
    except Unauthenticated:
        # API Gateway knows this very message, and only this one, as a 401.
        raise Exception("Unauthorized") from None  # noqa: TRY002 -- the message is the interface
    answer = APIGatewayAuthorizerResponse.from_route_arn(
        request.method_arn,
        principal_id=token.recipient_id,
        context={"recipientId": token.recipient_id, "tokenId": token.id, "recipient": token.recipient},
    )
    answer.allow_all_routes()
    return answer.asdict()
