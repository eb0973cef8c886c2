"""Test actions of the console: plans, their commands, and secrets that are shown once."""

import html
import re
import shlex
import subprocess
from collections.abc import Iterator

import httpx
import pytest
from console.conftest import HOSTILE, Visitor
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.errors import DeltaicError
from filled_server import FilledServer, dynamo_of

pytestmark = pytest.mark.slow

ORDERS = "sales.europe.orders"
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


def plan_action(console: Visitor, action: str, **parameters: str) -> tuple[str, dict[str, str]]:
    """Return the command of a plan, and the form that runs it."""
    page = console.get("/action", action=action, planned="yes", **parameters)
    command = html.unescape(page.partition('<pre tabindex="0">')[2].partition("</pre>")[0])
    form = page.partition("What will happen")[2]
    return command, {name: html.unescape(value) for name, value in _HIDDEN.findall(form)}


def run_action(console: Visitor, action: str, **parameters: str) -> str:
    """Run the command of a plan, and return the result page."""
    return console.post("/action", **plan_action(console, action, **parameters)[1])


@pytest.fixture
def erin(server: FilledServer) -> Iterator[str]:
    """Return a recipient with a token, for one test."""
    name = "erin-o'neil"
    server.admin.tokens.create(server.admin.recipients.create(name))
    yield name
    server.admin.recipients.delete(name)


def tokens_of(server: FilledServer, name: str) -> list[tuple[str, str]]:
    tokens = server.admin.tokens.list(server.admin.recipients.get(name).id)
    return [(token.id, token.state()) for token in tokens]


def test_plan_describes_effects_and_changes_nothing(console: Visitor, server: FilledServer, erin: str) -> None:
    before = tokens_of(server, erin)
    page = console.get("/action", action="rotate", recipient=erin)
    assert 'name="overlap" value="1d"' in page
    command, form = plan_action(console, "rotate", recipient=erin, overlap="0", expires="30d")
    options = ["--link", "--overlap=0", "--expires=30d", f"--endpoint={server.endpoint}"]
    assert shlex.split(command) == ["deltaic", "token", "rotate", *options, "--", erin]
    assert form["recipient"] == erin
    page = console.get("/action", action="rotate", planned="yes", recipient=erin, overlap="0", expires="30d")
    assert f"revoked at once: {before[0][0]}" in page
    assert tokens_of(server, erin) == before
    assert server.admin.invitations.list(server.admin.recipients.get(erin).id) == []


def test_invitation_link_works_and_is_shown_once(console: Visitor, server: FilledServer, erin: str) -> None:
    _, form = plan_action(console, "invite", recipient=erin, expires="1h", token_expires="2d", note=HOSTILE)
    page = console.post("/action", **form)
    assert HOSTILE not in page
    links = re.findall(rf"{re.escape(server.endpoint)}/activate/[\w-]+", page)
    assert len(links) == 1
    assert httpx.get(links[0]).status_code == 200
    assert links[0] not in console.get("/recipient", recipient=erin)
    assert "already carried out" in console.post("/action", 409, **form)
    assert len(server.admin.invitations.list(server.admin.recipients.get(erin).id)) == 1
    assert "already shown" in console.get("/outcome", 404, plan=form["plan"])


def test_token_is_revoked(console: Visitor, server: FilledServer, erin: str) -> None:
    [(token, _)] = tokens_of(server, erin)
    assert f"id={token}" in console.get("/recipient", recipient=erin)
    assert "Done." in run_action(console, "revoke-token", recipient=erin, id=token)
    assert tokens_of(server, erin) == [(token, "revoked")]


def test_changed_plan_is_refused(console: Visitor, server: FilledServer, erin: str) -> None:
    _, form = plan_action(console, "invite", recipient=erin, expires="72h", token_expires="90d")
    page = console.post("/action", 409, **{**form, "action": "cut-off"})
    assert "have changed since the plan was shown" in page
    # A plan is also refused if its effects have changed in the meantime.
    _, form = plan_action(console, "cut-off", recipient=erin)
    server.admin.tokens.create(server.admin.recipients.get(erin))
    assert "have changed since the plan was shown" in console.post("/action", 409, **form)
    assert server.admin.recipients.get(erin).cut_off_at is None


def test_recipient_is_cut_off_and_restored(console: Visitor, server: FilledServer) -> None:
    recipient = server.admin.recipients.create("frank")
    issued = server.admin.tokens.create(recipient)
    assert "Done." in run_action(console, "cut-off", recipient="frank")
    assert server.admin.recipients.get("frank").cut_off_at is not None
    with pytest.raises(DeltaicError):
        TokenStore(server.environment["TOKENS_TABLE"], dynamo_of(server.environment)).authenticate(issued.secret)
    assert "action=restore" in console.get("/recipient", recipient="frank")
    assert "Done." in run_action(console, "restore", recipient="frank")
    assert server.admin.recipients.get("frank").cut_off_at is None


def test_grant_is_created_changed_and_revoked(console: Visitor, server: FilledServer, erin: str) -> None:
    page = console.get("/action", action="grant", planned="yes", recipient=erin, share="SALES", filter="", ends="")
    assert "europe.orders" in page
    parameters = {"recipient": erin, "share": "sales", "filter": "region = current_recipient('region')"}
    assert " sees no rows: missing property region." in console.get(
        "/action", action="grant", planned="yes", **parameters
    )
    assert "Done." in run_action(
        console, "grant", recipient=erin, share="sales", filter="region = 'US'", ends="2099-01-01"
    )
    assert server.admin.grants.get(erin, "sales").partition_filter == "region = 'US'"
    assert "Rows now: region = &#39;US&#39;" in console.get(
        "/action", action="change-grant", planned="yes", recipient=erin, share="sales"
    )
    assert "Done." in run_action(console, "change-grant", recipient=erin, share="sales", ends="never")
    changed = server.admin.grants.get(erin, "sales")
    assert (changed.partition_filter, changed.ends_at) == ("", None)
    page = run_action(console, "change-grant", recipient=erin, share="sales", filter="note = 'x'")
    assert "Not done." in page
    assert "does not match table sales.europe.orders" in page
    assert "Done." in run_action(console, "revoke-grant", recipient=erin, share="sales")
    assert list(server.admin.grants.of_recipient(erin)) == []


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ("region = 'EU'", "\"--partition-filter=region = 'EU'\""),
        ("region = 'a$b'", None),
        ("region = 'it''s \"x\" `!\\\\'", None),
    ],
)
def test_shown_command_works_in_a_shell(console: Visitor, rows: str, shown: str | None) -> None:
    command, _ = plan_action(console, "filter", table=ORDERS, filter=rows)
    assert shlex.split(command)[3] == f"--partition-filter={rows}"
    assert shown is None or shown in command
    result = subprocess.run(["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[3] == f"--partition-filter={rows}"


def test_row_filter_of_table_is_set_and_removed(console: Visitor, server: FilledServer) -> None:
    page = console.get("/action", action="filter", planned="yes", table=ORDERS, filter="region = 'EU'")
    assert "alice" in page
    assert "Done." in run_action(console, "filter", table=ORDERS, filter="region = 'EU'")
    assert server.admin.tables.get("sales", "europe", "orders").partition_filter == "region = 'EU'"
    assert "Done." in run_action(console, "filter", table=ORDERS, filter="")
    assert server.admin.tables.get("sales", "europe", "orders").partition_filter == ""


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        pytest.param({"action": "remove-everything"}, 404, id="no-such-action"),
        pytest.param({"action": "cut-off", "recipient": "nobody"}, 404, id="nobody"),
        pytest.param({"action": "rotate", "recipient": "alice", "overlap": "--json", "expires": "1d"}, 400, id="life"),
        pytest.param({"action": "filter", "table": ORDERS, "filter": "@/etc/passwd"}, 400, id="a-file"),
        pytest.param({"action": "filter", "table": ORDERS, "filter": "region ="}, 400, id="half-a-filter"),
        pytest.param({"action": "grant", "recipient": "bob", "share": "sales", "ends": "soon"}, 400, id="no-date"),
        pytest.param({"action": "grant", "recipient": "alice", "share": "sales"}, 400, id="held-already"),
    ],
)
def test_impossible_plan_is_refused(console: Visitor, parameters: dict[str, str], status: int) -> None:
    assert 'role="alert"' in console.get("/action", status, planned="yes", **parameters)


def test_name_that_looks_like_an_option_is_a_name(console: Visitor, server: FilledServer) -> None:
    server.admin.recipients.create("--json")
    assert "Done." in run_action(console, "grant", recipient="--json", share="hostile")
    assert [grant.share for grant in server.admin.grants.of_recipient("--json")] == ["hostile"]
