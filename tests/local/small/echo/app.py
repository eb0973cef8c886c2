"""A buffered function that answers with its event, or with the answer it is sent."""

import json
import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> Any:
    if event["resource"] == "/answer":
        request = json.loads(event["body"])
        if request == "raise":
            raise OSError("secret-of-the-function")
        if isinstance(request, dict) and "repeat" in request:
            request["body"] *= request.pop("repeat")
        if isinstance(request, dict) and "seconds" in request:
            time.sleep(request.pop("seconds"))
        return request
    details = {"event": event, "request_id": context.aws_request_id, "left": context.get_remaining_time_in_millis()}
    return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(details)}
