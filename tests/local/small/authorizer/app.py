"""An authorizer that returns what its token contains, with a count of its calls in the context."""

from itertools import count
from typing import Any

CALLS = count(1)


def handler(event: dict[str, Any], _: Any) -> Any:
    token = event["authorizationToken"].removeprefix("Bearer ")
    number = next(CALLS)
    resource = event["methodArn"].split("/")[0] + "/small/*/*"
    allow = {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": [resource]}
    deny = {"Action": "execute-api:*", "Effect": "Deny", "Resource": resource.replace("/*/*", "/GET/echo/fixed")}
    statements = {"narrow": [{**allow, "Resource": event["methodArn"]}], "deny": [allow, deny], "silent": []}
    if token == "unknown":
        raise Exception("Unauthorized")  # noqa: TRY002 -- the message that API Gateway knows
    if token == "broken":
        raise RuntimeError("no table")
    if token == "malformed":
        return {"principalId": "alice"}
    return {
        "principalId": "alice",
        "policyDocument": {"Version": "2012-10-17", "Statement": statements.get(token, [allow])},
        "context": {"recipientId": token, "calls": number, "first": number == 1},
    }
