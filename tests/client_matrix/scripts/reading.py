"""Run the reads of one client, in its own environment, and print what it returned.

The job is JSON on standard input (`client_matrix.tables`). The last line of output is JSON: the version of the client,
and the rows or the error of each check. It imports the standard library alone, because any environment runs it.
"""

import json
import math
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

Check = dict[str, Any]
"""A read: its name, table, version, change feed and access."""
Rows = Iterable[Mapping[str, Any]]


class Unsupported(Exception):
    """The client has no function for a check; the message says so."""


def main(version: str, read: Callable[[dict[str, Any], Check], Rows]) -> None:
    """Read each check of the job."""
    job = json.load(sys.stdin)
    results = {check["name"]: attempt(partial(read, job, check)) for check in job["checks"]}
    sys.stdout.write("\n" + json.dumps({"version": version, "results": results}) + "\n")
    sys.stdout.flush()


def attempt(read: Callable[[], Rows]) -> dict[str, Any]:
    """Return the rows of a read, or its error."""
    try:
        return {"rows": comparable(read())}
    except Unsupported as missing:
        return {"unsupported": str(missing)}
    except BaseException as error:  # noqa: BLE001 -- whatever a client raises, panics too
        return {"error": f"{type(error).__name__}: {error}"}


def comparable(rows: Rows) -> list[str]:
    """Return rows as sorted texts, whatever the order of rows and columns."""
    return sorted(json.dumps(plain_value(dict(row)), sort_keys=True, ensure_ascii=False) for row in rows)


def plain_value(value: Any) -> Any:
    """Return a value as JSON, where 1 and 1.0 are equal, and null and NaN, which data frames do not distinguish."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return (
        plain_value(value.item()) if hasattr(value, "item") else None if str(value) in {"<NA>", "NaT"} else str(value)
    )


def credentials(job: dict[str, Any], table: str) -> tuple[str, dict[str, str]]:
    """Request temporary credentials for a table; return its location, and the storage options to read it."""
    url = f"{job['endpoint']}/shares/{job['share']}/schemas/{job['schema']}/tables/{table}/temporary-table-credentials"
    headers = {"Authorization": f"Bearer {job['token']}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, b"{}", headers)  # noqa: S310 -- the server under test
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            answer = json.load(response)["credentials"]
    except urllib.error.HTTPError as error:
        message = json.load(error)["message"]
        raise Unsupported(f"the server refuses credentials ({error.code}): {message}") from None
    keys = answer["awsTempCredentials"]
    return answer["location"], {
        "AWS_ACCESS_KEY_ID": keys["accessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["secretAccessKey"],
        "AWS_SESSION_TOKEN": keys["sessionToken"],
        "AWS_REGION": answer["region"],
        "AWS_ENDPOINT_URL": answer["endpoint"],
        "AWS_ALLOW_HTTP": "true",
    }
