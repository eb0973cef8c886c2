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


def error_at(page: str) -> str:
    """Return the field of a form that shows the error; empty if the form shows it at the top."""
    match = re.search(r'id="(\w+)-error" role="alert"', page)
    return match[1] if match else ""


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
    assert 'value="1d"' in page
    command, form = plan_action(console, "rotate", recipient=erin, overlap="0", expires="30d")
    options = ["--link", "--overlap=0", "--expires=30d", f"--endpoint={server.endpoint}"]
    assert shlex.split(command) == ["deltaic", "token", "rotate", *options, "--", erin]
    assert form["recipient"] == erin
    page = console.get("/action", action="rotate", planned="yes", recipient=erin, overlap="0", expires="30d")
    assert "Tokens that are live then are revoked at once." in page
    assert before[0][0] in page
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
    assert "sees no rows of sales.europe.orders: missing property region" in console.get(
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
    wrong = {"recipient": erin, "share": "sales", "filter": "note = 'x'"}
    page = console.get("/action", 400, action="change-grant", planned="yes", **wrong)
    assert error_at(page) == "filter"
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


IN_EUROPE = {"share": "sales", "schema": "europe"}
AT_ORDERS = {**IN_EUROPE, "location": "s3://deltaic-lake/orders"}


@pytest.mark.parametrize(
    ("parameters", "status", "field"),
    [
        pytest.param({"action": "remove-everything"}, 404, "", id="no-such-action"),
        pytest.param({"action": "cut-off", "recipient": "nobody"}, 404, "", id="nobody"),
        pytest.param(
            {"action": "rotate", "recipient": "alice", "overlap": "--json", "expires": "1d"}, 400, "overlap", id="life"
        ),
        pytest.param({"action": "filter", "table": ORDERS, "filter": "@/etc/passwd"}, 400, "filter", id="a-file"),
        pytest.param({"action": "filter", "table": ORDERS, "filter": "region ="}, 400, "filter", id="half-a-filter"),
        pytest.param({"action": "filter", "table": ORDERS, "filter": "regoin = 'EU'"}, 400, "filter", id="no-column"),
        pytest.param(
            {"action": "grant", "recipient": "bob", "share": "sales", "ends": "soon"}, 400, "ends", id="no-date"
        ),
        pytest.param({"action": "grant", "recipient": "alice", "share": "sales"}, 409, "share", id="held-already"),
        pytest.param({"action": "grant", "recipient": "bob", "share": "salse"}, 404, "share", id="misspelled"),
        pytest.param({"action": "grant", "recipient": "bob", "share": ""}, 400, "share", id="empty"),
        pytest.param({"action": "create-share", "name": "Sales"}, 409, "name", id="share-exists"),
        pytest.param({"action": "create-share", "name": "a/b"}, 400, "name", id="no-share-name"),
        pytest.param({"action": "create-schema", "share": "sales", "name": "a.b"}, 400, "name", id="period"),
        pytest.param({"action": "create-table", **AT_ORDERS, "name": "ORDERS"}, 409, "name", id="table-exists"),
        pytest.param(
            {"action": "create-table", **IN_EUROPE, "name": "new", "location": "s3://deltaic-lake/none"},
            400, "location", id="no-log",
        ),
        pytest.param(
            {"action": "create-table", **IN_EUROPE, "name": "new", "location": "orders"}, 400, "location", id="no-url"
        ),
        pytest.param(
            {"action": "create-table", **AT_ORDERS, "name": "n", "storage": "aws"}, 404, "storage", id="storage"
        ),
        pytest.param(
            {"action": "create-view", **IN_EUROPE, "name": "v", "source": ORDERS, "sql": "SELECT regoin FROM source"},
            400, "sql", id="view-column",
        ),
        pytest.param(
            {"action": "create-volume", **AT_ORDERS, "name": "all"}, 400, "location", id="volume-over-filtered-table"
        ),
        pytest.param({"action": "create-recipient", "name": "bob"}, 409, "name", id="recipient-exists"),
        pytest.param(
            {"action": "create-recipient", "name": "x", "properties": "region"}, 400, "properties", id="no-property"
        ),
    ],
)  # fmt: skip
def test_impossible_plan_is_refused_at_its_field(
    console: Visitor, server: FilledServer, parameters: dict[str, str], status: int, field: str
) -> None:
    before = (
        [share.name for share in server.admin.shares.list()],
        [item.name for item in server.admin.recipients.list()],
    )
    page = console.get("/action", status, planned="yes", **parameters)
    message = re.search(r'role="alert">([^<]*)', page)
    assert message is not None
    assert "--" not in message[1].replace("--json", ""), "the form names its fields by their labels"
    assert error_at(page) == field
    assert before == (
        [s.name for s in server.admin.shares.list()],
        [item.name for item in server.admin.recipients.list()],
    )


def test_refusal_suggests_the_nearest_name_and_keeps_the_form(console: Visitor) -> None:
    page = console.get("/action", 404, action="grant", planned="yes", recipient="bob", share="salse", ends="2099-01-01")
    assert "did you mean sales?" in page
    assert 'value="2099-01-01"' in page


def test_failed_command_leads_back_to_the_form_with_its_values(console: Visitor, server: FilledServer) -> None:
    fields = {"name": "taken", "comment": "a & b"}
    _, form = plan_action(console, "create-share", **fields)
    server.admin.shares.create("taken")  # by another operator, after the plan
    page = console.post("/action", **form)
    assert "Not done." in page
    link = re.search('href="([^"]+)">Back to the form</a>', page)
    assert link is not None
    page = console.http.get(html.unescape(link[1])).text
    assert 'value="taken"' in page
    assert 'value="a &amp; b"' in page
    assert error_at(page) == ""


def test_everything_is_created_from_a_share_to_a_reader(console: Visitor, server: FilledServer) -> None:
    admin = server.admin
    named = {"share": "made", "schema": "here"}
    location = "s3://deltaic-lake/made"
    for folder in ("made", "files"):
        server.upload(server.folder / "orders", folder)
    plans: list[tuple[str, dict[str, str]]] = [
        ("create-share", {"name": "made", "comment": HOSTILE}),
        ("create-schema", {"share": "made", "name": "here"}),
        (
            "create-table",
            {**named, "name": "orders", "location": location, "history": "yes", "filter": "region = 'EU'"},
        ),
        ("create-volume", {**named, "name": "files", "location": "s3://deltaic-lake/files"}),
        (
            "create-view",
            {**named, "name": "seen", "source": ORDERS, "sql": "SELECT * FROM source", "keys": "id\nregion"},
        ),
        ("create-recipient", {"name": "reader", "comment": "new", "properties": "region=EU\nregion=US"}),
        ("grant", {"recipient": "reader", "share": "made"}),
    ]
    for action, parameters in plans:
        page = run_action(console, action, **parameters)
        assert "Done." in page, page
        link = re.search(r'<a class="button primary" href="([^"]+)"', page)
        assert link is not None
        assert console.http.get(html.unescape(link[1])).status_code == 200
    table = admin.tables.get("made", "here", "orders")
    assert (table.location, table.history, table.partition_filter) == (location, True, "region = 'EU'")
    assert admin.shares.get("made").comment == HOSTILE
    assert admin.volumes.get("made", "here", "files").location == "s3://deltaic-lake/files"
    assert admin.views.get("made", "here", "seen").key == ("id", "region")
    assert admin.recipients.get("reader").properties == {"region": '["EU","US"]'}


def upload(console: Visitor, share: str, schema: str, name: str, content: str) -> tuple[int, str, dict[str, str]]:
    """Drop a file into the form, and return status, text and parameters of the plan."""
    fields = {"share": share, "schema": schema}
    response = console.http.post("/load", data=fields, files={"file": (name, content.encode("utf-8"))})
    assert response.status_code == 303
    parameters = dict(httpx.URL(response.headers["location"]).params)
    response = console.http.get("/action", params=parameters)
    while "refresh" in response.headers:
        response = console.http.get("/action", params=parameters)
    return response.status_code, response.text, parameters


def test_dropped_file_becomes_a_shared_table(console: Visitor, server: FilledServer) -> None:
    server.admin.shares.create("dropped")
    server.admin.schemas.create("dropped", "files")
    content = "Kunde;Umsatz (€);Datum\nMüller;1.234,50;03.04.2026\nSchmidt;99,90;28.02.2026\n"
    status, page, parameters = upload(console, "dropped", "files", "Umsatz 2026.csv", content)
    assert status == 200, page
    assert "umsatz_eur</td>" in page
    assert "1234.5</td>" in page
    assert list(server.admin.tables.list("dropped")) == []
    page = run_action(console, **{key: value for key, value in parameters.items() if key != "planned"})
    assert "Done." in page
    assert "loaded 2 rows" in page
    assert server.admin.tables.get("dropped", "files", "umsatz_2026").location.startswith("s3://")


def test_file_is_refused_at_the_field_before_it_is_loaded(console: Visitor, server: FilledServer) -> None:
    dates = "id,day\n1,03/04/2026\n2,05/06/2026\n"
    status, page, _ = upload(console, "sales", "empty", "dates.csv", dates)
    assert status == 400
    assert "has a row filter" in page
    server.admin.shares.create("asked")
    server.admin.schemas.create("asked", "files")
    status, page, _ = upload(console, "asked", "files", "dates.csv", dates)
    assert (status, error_at(page)) == (400, "dates")
    assert "day-first" in page


def test_plan_of_creation_changes_nothing_and_warns(console: Visitor, server: FilledServer) -> None:
    server.admin.recipients.create("warned")
    form = {"recipient": "warned", "share": "sales", "filter": "region = current_recipient('region')"}
    page = console.get("/action", action="grant", planned="yes", **form)
    assert "sees no rows of sales.europe.orders: missing property region" in page
    page = console.get("/action", action="create-share", planned="yes", name="dotted.name")
    assert "clients that split share.schema.table at periods cannot read it" in page
    assert "dotted.name" not in [share.name for share in server.admin.shares.list()]
    assert list(server.admin.grants.of_recipient("warned")) == []


def test_name_that_looks_like_an_option_is_a_name(console: Visitor, server: FilledServer) -> None:
    server.admin.recipients.create("--json")
    assert "Done." in run_action(console, "grant", recipient="--json", share="hostile")
    assert [grant.share for grant in server.admin.grants.of_recipient("--json")] == ["hostile"]
