"""API Gateway authorizer: checks bearer tokens, as the only function that reads the token table.

The returned policy allows every route of the stage, because API Gateway caches it by token for all routes. The
endpoints check the recipient's grants.
"""

from typing import Any

from deltaic.errors import Unauthenticated
from deltaic.sign_in.bearer import authenticate


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001 -- Lambda passes a context
    """Return an IAM policy, and `{recipientId, tokenId, recipient}` as context for the endpoints.

    Raises an exception with the message `Unauthorized` for an invalid token; API Gateway then responds with 401.
    """
    scheme, _, secret = event["authorizationToken"].partition(" ")
    try:
        # RFC 6750, section 2.1: `Bearer <token>`.
        token = authenticate(secret.strip() if scheme.lower() == "bearer" else "")
    except Unauthenticated:
        # API Gateway responds with 401 only for this exact message.
        raise Exception("Unauthorized") from None  # noqa: TRY002 -- the message is the interface
    # arn:aws:execute-api:eu-west-1:123456789012:api/stage/GET/shares
    stage = "/".join(event["methodArn"].split("/")[:2])
    return {
        "principalId": token.recipient_id,
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": [f"{stage}/*/*"]}],
        },
        "context": {"recipientId": token.recipient_id, "tokenId": token.id, "recipient": token.recipient},
    }
