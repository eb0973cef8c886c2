"""A buffered function that answers with its event, or with the answer it is sent."""

import json
import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> Any:
    if event["resource"] == "/answer":
        wanted = json.loads(event["body"])
        if wanted == "raise":
            raise OSError("secret-of-the-function")
        if isinstance(wanted, dict) and "repeat" in wanted:
            wanted["body"] *= wanted.pop("repeat")
        if isinstance(wanted, dict) and "seconds" in wanted:
            time.sleep(wanted.pop("seconds"))
        return wanted
    known = {"event": event, "request_id": context.aws_request_id, "left": context.get_remaining_time_in_millis()}
    return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(known)}
