"""Checks of asynchronous queries, which are submitted and then polled."""

import secrets
import time

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import OK, ListedTable
from delta_sharing_conformance.check import CheckSkipped, check_each_table
from delta_sharing_conformance.client import Reply
from delta_sharing_conformance.listings import ABSENT

MAX_WAIT_SECONDS = 60.0


def _submit(table: ListedTable, **fields: object) -> tuple[Reply, str]:
    """Submit an asynchronous query of a table; return the response and queryId (empty for an immediate result)."""
    fields = {"idempotencyKey": secrets.token_hex(16), **fields}
    reply = expect.ok(table.query(f"{table.formats[0][1]};asyncquery=true", **fields))
    status = reply.lines[0].get("queryStatus") if reply.lines else None
    return reply, str(expect.fields("queryStatus", status, {"queryId": str})["queryId"]) if status is not None else ""


def _submit_pending(table: ListedTable, **fields: object) -> str:
    """Submit an asynchronous query and return its queryId; raises CheckSkipped if the first response has the result."""
    _, query = _submit(table, **fields)
    if not query:
        raise CheckSkipped("the server runs all queries synchronously")
    return query


def _poll(table: ListedTable, query: str) -> Reply:
    return table.client.ask("POST", f"{table.path}/queries/{query}", body={}, capabilities=table.formats[0][1])


def _wait_for(table: ListedTable, query: str) -> Reply:
    """Poll a submitted query until it is no longer pending, and return the last response."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while (reply := expect.ok(_poll(table, query))).kinds == ["queryStatus"]:
        status = str((reply.lines or [{}])[0]["queryStatus"].get("status")).lower()
        expect.that(status == "pending", f"{reply} with the status {status!r}")
        expect.that(time.monotonic() < deadline, f"the query is still pending after {MAX_WAIT_SECONDS:.0f} s")
        time.sleep(0.2)
    return reply


@check_each_table("asyncQuery", max_tables=3, id="a query that is submitted says so")
def asyncquery_is_confirmed_in_the_header(table: ListedTable) -> None:
    """Respond to asyncquery=true with the result, or with one queryStatus line and asyncquery=true in the header."""
    reply, query = _submit(table)
    confirmed = reply.capabilities.get("asyncquery") == "true"
    if not query:
        expect.that(not confirmed, f"{reply} with asyncquery=true and no queryStatus")
        expect.same_ids("the synchronous result", expect.ids(reply), table.ids(table.formats[0][0]))
        return
    expect.that(confirmed, f"{reply} with queryStatus and without asyncquery=true in its header")
    expect.that(reply.kinds == ["queryStatus"], f"{reply} with lines {reply.kinds[:3]}")
    status = (reply.lines or [{}])[0]["queryStatus"].get("status")
    expect.that(isinstance(status, str), f"{reply} with a queryStatus without status")


@check_each_table("asyncQuery", max_tables=3, id="a submission sent twice is one")
def same_submission_returns_the_same_query(table: ListedTable) -> None:
    """Return the same queryId for the same idempotencyKey, table and parameters."""
    key = secrets.token_hex(16)
    first, second = _submit_pending(table, idempotencyKey=key), _submit(table, idempotencyKey=key)[1]
    expect.that(first == second, "two submissions with the same idempotencyKey have different queryIds")


@check_each_table("Get Query Info", max_tables=2, id="a submitted query ends as the query")
def async_query_returns_the_same_files(table: ListedTable) -> None:
    """Respond to .../queries/{queryId} with queryStatus until the query ends, then with its result."""
    reply, response_format = _wait_for(table, _submit_pending(table)), table.formats[0][0]
    expect.body(reply, response_format, ["file"])
    expect.same_ids("the asynchronous query", expect.ids(reply), table.ids(response_format))


@check_each_table("Get Query Info", id="a submitted query keeps its parameters")
def async_query_keeps_its_parameters(table: ListedTable) -> None:
    """Return the result for the submitted parameters, for example for an earlier version."""
    if table.first_version is None or table.first_version == table.latest:
        raise CheckSkipped("no shared table has a history of two versions")
    reply = _wait_for(table, _submit_pending(table, version=table.first_version))
    expect.that(reply.version == table.first_version, f"{reply} with version {reply.version}, not the submitted one")


@check_each_table("Get Query Info", max_tables=2, id="a queryId that was never given is not found")
def unknown_queryId_returns_404(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Return 404 and an error body for an unknown queryId."""
    _submit_pending(table)
    reply = _poll(table, ABSENT)
    expect.that(reply.status != OK, f"{reply} for an unknown queryId")
    expect.error(reply, 404)
