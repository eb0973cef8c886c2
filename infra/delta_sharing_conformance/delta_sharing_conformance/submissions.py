"""Checks of asynchronous queries: submitted once, asked for until they are done."""

import secrets
import time

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check_each_table
from delta_sharing_conformance.client import Reply
from delta_sharing_conformance.listings import ABSENT
from delta_sharing_conformance.shared import OK, ListedTable

PATIENCE_SECONDS = 60.0


def _submit(table: ListedTable, **fields: object) -> tuple[Reply, str]:
    """Submit a query; return the answer and its queryId, empty where it was answered at once."""
    fields = {"idempotencyKey": secrets.token_hex(16), **fields}
    reply = expect.answered(table.query(f"{table.formats[0][1]};asyncquery=true", **fields))
    told = reply.lines[0].get("queryStatus") if reply.lines else None
    return reply, str(expect.typed("queryStatus", told, {"queryId": str})["queryId"]) if told is not None else ""


def _submitted(table: ListedTable, **fields: object) -> str:
    """Submit a query and return its queryId; raises NotTried where it was answered at once."""
    _, query = _submit(table, **fields)
    if not query:
        raise NotTried("the server answers every query at once")
    return query


def _poll(table: ListedTable, query: str) -> Reply:
    return table.client.ask("POST", f"{table.path}/queries/{query}", body={}, capabilities=table.formats[0][1])


def _ended(table: ListedTable, query: str) -> Reply:
    """Ask for a submitted query until it is no longer pending."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (reply := expect.answered(_poll(table, query))).kinds == ["queryStatus"]:
        status = str((reply.lines or [{}])[0]["queryStatus"].get("status")).lower()
        expect.that(status == "pending", f"{reply} with the status {status!r}")
        expect.that(time.monotonic() < until, f"the query is pending after {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.2)
    return reply


@check_each_table("asyncQuery", most=3)
def a_query_that_is_submitted_says_so(table: ListedTable) -> None:
    """Answer asyncquery=true with the whole, or with one queryStatus line and asyncquery=true in the header."""
    reply, query = _submit(table)
    agreed = reply.capabilities.get("asyncquery") == "true"
    if not query:
        expect.that(not agreed, f"{reply} with asyncquery=true and no queryStatus")
        expect.same("the whole at once", expect.ids(reply), table.ids(table.formats[0][0]))
        return
    expect.that(agreed, f"{reply} with queryStatus, without asyncquery=true in its header")
    expect.that(reply.kinds == ["queryStatus"], f"{reply} with lines {reply.kinds[:3]}")
    status = (reply.lines or [{}])[0]["queryStatus"].get("status")
    expect.that(isinstance(status, str), f"{reply} with a queryStatus without status")


@check_each_table("asyncQuery", most=3)
def a_submission_sent_twice_is_one(table: ListedTable) -> None:
    """Give the same queryId to the same idempotencyKey, table and parameters."""
    key = secrets.token_hex(16)
    first, second = _submitted(table, idempotencyKey=key), _submit(table, idempotencyKey=key)[1]
    expect.that(first == second, "the same submission twice has two queryIds")


@check_each_table("Get Query Info", most=2)
def a_submitted_query_ends_as_the_query(table: ListedTable) -> None:
    """Answer .../queries/{queryId} with queryStatus until the query is done, then as the query itself would be."""
    reply, response_format = _ended(table, _submitted(table)), table.formats[0][0]
    expect.body(reply, response_format, ["file"])
    expect.same("the submitted query", expect.ids(reply), table.ids(response_format))


@check_each_table("Get Query Info")
def a_submitted_query_keeps_its_parameters(table: ListedTable) -> None:
    """End a submitted query with what was submitted: its version, not the latest."""
    if table.first is None or table.first == table.latest:
        raise NotTried("no table that the profile sees shares the history of two versions")
    reply = _ended(table, _submitted(table, version=table.first))
    expect.that(reply.version == table.first, f"{reply} for version {table.first} with version {reply.version}")


@check_each_table("Get Query Info", most=2)
def a_queryId_that_was_never_given_is_not_found(table: ListedTable) -> None:  # noqa: N802 -- the protocol's word
    """Answer 404 with an error body to a queryId that is not known."""
    _submitted(table)
    reply = _poll(table, ABSENT)
    expect.that(reply.status != OK, f"{reply} for a queryId that it never gave")
    expect.refused(reply, 404)
