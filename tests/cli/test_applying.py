"""`plan` and `apply`: what people read before the catalog is made what files say, and what is refused."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from deltaic.catalog.catalog_lock import locked
from deltaic.catalog.dynamo import Dynamo
from deltaic.errors import NotFound

if TYPE_CHECKING:
    from typing import Any

    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

pytestmark = pytest.mark.slow

LAKE = "s3://deltaic-lake"
UNSEEN = "--unchecked"
ALL_LOSE = (
    "loses 1 table: sales.europe.stock; sees 2 columns fewer of sales.europe.orders; "
    "sees earlier versions of sales.europe.returns"
)
WIDER = "recipients will see more (requires confirmation or --allow-wider)"


@pytest.fixture
def files(deltaic: Deltaic, admin: CatalogAdmin, tmp_path: Path) -> Path:
    """Return the files of a catalog with a share that three recipients hold."""
    admin.shares.create("sales")
    admin.schemas.create("sales", "europe")
    for name in ("orders", "returns", "stock"):
        admin.tables.create("sales", "europe", name, f"{LAKE}/{name}")
    for recipient in ("alice", "bob", "carol"):
        admin.recipients.create(recipient)
        admin.grants.create(recipient, "sales")
    deltaic.done("export declared")
    return tmp_path / "declared"


def change(file: Path, *way: str, to: Any = None) -> None:
    """Set a value of a file; None takes it away."""
    content = yaml.safe_load(file.read_text())
    node = content
    for part in way[:-1]:
        if node.get(part) is None:
            node[part] = {}
        node = node[part]
    node.pop(way[-1], None)
    if to is not None:
        node[way[-1]] = to
    file.write_text(yaml.safe_dump(content))


@pytest.mark.usefixtures("files")
def test_an_exported_catalog_needs_no_changes(deltaic: Deltaic) -> None:
    assert deltaic.json("plan declared") == {"steps": [], "means": [], "remarks": [], "deleted": 0}
    assert "nothing to do" in deltaic.done("plan declared")
    assert deltaic.json("apply declared") == {"done": [], "left": [], "warnings": []}


def test_a_plan_shows_its_effects_for_recipients(deltaic: Deltaic, files: Path) -> None:
    share = files / "shares" / "sales.yaml"
    europe = ("shares", "sales", "schemas", "europe", "tables")
    change(share, *europe, "stock")
    change(share, *europe, "orders", "hidden_columns", to=["team", "site"])
    change(share, *europe, "returns", "history", to=True)
    change(share, "shares", "partners", "schemas", "own", "tables", "daily", "location", to=f"{LAKE}/daily")
    people = files / "recipients.yaml"
    change(people, "recipients", "alice", "grants", "partners", to={})
    change(people, "recipients", "bob", "grants", "sales")
    change(people, "recipients", "dora", to={"properties": {"country": "PL"}, "addresses": ["203.0.113.7"]})
    output = deltaic.done("plan declared")
    assert output.splitlines() == [
        "- grant bob sales",
        "- table sales.europe.stock",
        "+ share partners",
        "+ schema partners.own",
        "~ table sales.europe.orders",
        '    hidden_columns: [] becomes ["team", "site"]',
        "~ table sales.europe.returns",
        "    history: false becomes true",
        "+ table partners.own.daily",
        f'    location: "{LAKE}/daily"',
        "+ recipient dora",
        '    properties: {"country": "PL"}',
        '    addresses: ["203.0.113.7/32"]',
        "+ grant alice partners",
        f"alice gains 1 table: partners.own.daily; {ALL_LOSE}",
        "bob loses 3 tables: sales.europe.orders, sales.europe.returns, sales.europe.stock",
        f"carol {ALL_LOSE}",
        "dora is new, and needs a token to read",
        f"5 to create; 2 to update; 2 to delete (--prune); {WIDER}",
    ]
    plan_ = deltaic.json("plan declared")
    assert [(step["action"], step["name"]) for step in plan_["steps"] if step["widens"]] == [
        ("update", "sales.europe.returns"), ("create", "partners.own.daily"), ("create", "alice partners"),
    ]  # fmt: skip


def test_deletions_and_wider_access_need_an_option(deltaic: Deltaic, files: Path, admin: CatalogAdmin) -> None:
    share = files / "shares" / "sales.yaml"
    change(share, "shares", "sales", "schemas", "europe", "tables", "stock")
    change(share, "shares", "sales", "schemas", "europe", "tables", "returns", "location", to=f"{LAKE}/all")
    before = deltaic.json("export")
    for options, message in (
        ("", "entries of the catalog are not in the files: table sales.europe.stock. Use --prune"),
        ("--prune", "changes let recipients see more: table sales.europe.returns. Use --allow-wider"),
    ):
        refused = deltaic(f"apply declared {UNSEEN} {options}")
        assert (refused.exit_code, message in refused.stderr) == (1, True), refused.output
        assert deltaic.json("export") == before
    output = deltaic.done(f"apply declared {UNSEEN} --prune --allow-wider")
    assert "1/2 deleted table sales.europe.stock" in output
    assert "2/2 updated table sales.europe.returns" in output
    assert deltaic.json("drift declared") == []
    assert admin.tables.get("sales", "europe", "returns").location == f"{LAKE}/all"


def typed(deltaic: Deltaic, line: str, answer: str) -> tuple[int, str]:
    """Run a command at a terminal; return its exit code and output."""
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [str(Path(sys.executable).with_name("deltaic")), *shlex.split(line)]
    environment = {**os.environ, **deltaic.variables, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        output = b""
        with suppress(OSError):  # the terminal is closed
            while part := os.read(ours, 65536):
                output += part
    os.close(ours)
    return running.returncode, output.decode()


def test_at_a_terminal_a_plan_is_colored_and_asks_about_wider_access(deltaic: Deltaic, files: Path) -> None:
    share = files / "shares" / "sales.yaml"
    change(share, "shares", "sales", "schemas", "europe", "tables", "returns", "history", to=True)
    change(share, "shares", "sales", "schemas", "europe", "tables", "stock")
    before = deltaic.json("export")
    refused, output = typed(deltaic, f"apply declared --prune {UNSEEN}", "n")
    assert refused == 1
    assert "\x1b[31m- table sales.europe.stock" in output
    assert "\x1b[33m~ table sales.europe.returns" in output
    assert "\\u001b" not in output
    assert deltaic.json("export") == before
    _, output = typed(deltaic, "drift declared", "")
    assert "\x1b[33m~ table sales.europe.returns" in output
    done, output = typed(deltaic, f"apply declared --prune {UNSEEN}", "y")
    assert (done, "the catalog matches the files" in output) == (0, True), output
    assert deltaic.json("drift declared") == []


@pytest.mark.usefixtures("files")
def test_an_export_can_be_applied_to_an_empty_catalog(deltaic: Deltaic) -> None:
    deltaic.done("share delete sales --force")
    for recipient in ("alice", "bob", "carol"):
        deltaic.done(f"recipient delete {recipient} --yes")
    result = deltaic.json(f"apply declared {UNSEEN} --allow-wider")
    assert [step["kind"] for step in result["done"]] == [
        "share",
        "schema",
        *["table"] * 3,
        *["recipient"] * 3,
        *["grant"] * 3,
    ]
    assert result["left"] == []
    assert deltaic.json("drift declared") == []


def test_files_can_declare_federation_policies(deltaic: Deltaic, files: Path, admin: CatalogAdmin) -> None:
    people = files / "recipients.yaml"
    ada = {"issuer": "https://login.test", "audience": "deltaic", "subject": "ada"}
    change(people, "recipients", "alice", "policies", to=[ada])
    line = "alice can sign in with JWTs of https://login.test for deltaic with sub ada"
    assert line in deltaic.done("plan declared").splitlines()
    assert "recipients see more: policy alice " in deltaic("apply declared").stderr
    deltaic.done("apply declared --allow-wider")
    [policy] = deltaic.json("recipient policies alice")
    assert (policy["issuer"], policy["subject"], policy["subjectClaim"]) == ("https://login.test", "ada", "sub")
    # A changed note updates the policy. A changed recipient creates another policy, after the first one is removed.
    change(people, "recipients", "alice", "policies", to=[{**ada, "comment": "ours"}])
    assert [step["action"] for step in deltaic.json("apply declared")["done"]] == ["update"]
    assert admin.federation.list(admin.recipients.get("alice").id)[0].comment == "ours"
    change(people, "recipients", "alice", "policies")
    change(people, "recipients", "bob", "policies", to=[ada])
    output = deltaic.done("plan declared")
    assert "alice can no longer sign in with JWTs of https://login.test for deltaic with sub ada" in output.splitlines()
    steps = deltaic.json("apply declared --prune --allow-wider")["done"]
    assert [(step["action"], step["name"]) for step in steps] == [
        ("delete", f"alice {policy['id']}"), ("create", f"bob {policy['id']}"),
    ]  # fmt: skip
    assert deltaic.json("drift declared") == []
    for wrong, reason in (
        ([ada], "policies[0]: repeats a policy of alice"),
        ([{**ada, "subject": ""}], "policies[0].subject: must have 1 to 512 printable characters"),
        ([{**ada, "issuer": "http://login.test"}], "policies[0].issuer: 'http://login.test' is not an issuer URL"),
    ):
        change(people, "recipients", "alice", "policies", to=[ada])
        change(people, "recipients", "bob", "policies", to=wrong)
        assert reason in deltaic("plan declared").stderr.replace("\n", " ")


def test_deleting_a_share_deletes_its_entries_in_one_step(deltaic: Deltaic, files: Path) -> None:
    (files / "shares" / "sales.yaml").unlink()
    for recipient in ("alice", "bob", "carol"):
        change(files / "recipients.yaml", "recipients", recipient, "grants")
    assert "- share sales, with 7 entries in it" in deltaic.done("plan declared")
    assert [step["name"] for step in deltaic.json("apply declared --prune")["done"]] == ["sales"]
    assert deltaic.json("share list") == []


def test_a_refused_step_is_reported_with_the_completed_steps(deltaic: Deltaic, files: Path) -> None:
    share = files / "shares" / "sales.yaml"
    change(share, "shares", "sales", "schemas", "europe", "tables", "new", to={"location": "s3://no-such-lake/t"})
    change(share, "shares", "sales", "comment", to="c")
    refused = deltaic("apply declared --allow-wider --json")
    assert refused.exit_code == 1
    result = json.loads(refused.stdout)
    assert ([step["name"] for step in result["done"]], [step["name"] for step in result["left"]]) == (
        ["sales"], ["sales.europe.new"],
    )  # fmt: skip
    assert "table sales.europe.new: s3://no-such-lake/t cannot be read" in json.loads(refused.stderr)["message"]
    assert "then run apply again to continue" in refused.stderr


def test_only_one_process_applies_files_at_a_time(deltaic: Deltaic, files: Path, dynamodb: Any) -> None:
    change(files / "shares" / "sales.yaml", "shares", "sales", "comment", to="c")
    with locked(Dynamo(lambda: dynamodb), deltaic.variables["CATALOG_TABLE"], "ann@host (1)"):
        refused = deltaic("apply declared")
        assert (refused.exit_code, "the catalog is being written by ann@host (1)" in refused.stderr) == (1, True)
        assert deltaic.json("plan declared")["steps"]
    deltaic.done("apply declared")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "recipients: {a: {grants: {saels: }}}\nshares: {sales: }",
            "f.yaml:1:27: recipients.a.grants.saels: names a share that is not in these files",
        ),
        ("recipients: {a: {grants: {saels: }}}\nshares: {sales: }", "did you mean sales?"),
        (
            "storages: {minio: }\nshares: {s: {schemas: {a: {tables: {t: {location: s3://abc,\n storage: minoi}}}}}}",
            (
                "f.yaml:3:2: shares.s.schemas.a.tables.t.storage: "
                "names a storage that is not in these files: did you mean minio?"
            ),
        ),
        ("shares:\n  s:\n    schemas: {a: , A: }", "has 'a' and 'A', which are the same name: names ignore case"),
        ("shares:\n  a b: ", "f.yaml:2:3: shares.a b: the share name 'a b' contains a space"),
        (
            "recipients:\n  a:\n    addresses:\n    - 1.2.3",
            "f.yaml:3:5: recipients.a.addresses: '1.2.3' is not a network",
        ),
        (
            "recipients: {a: {properties: {k: " + "v" * 1001 + "}}}",
            "f.yaml:1:14: recipients.a: the value of property 'k' has 1001 characters",
        ),
    ],
)
def test_invalid_entries_are_reported_with_their_line(
    nowhere: Deltaic, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "f.yaml").write_text(text)
    result = nowhere(f"plan {tmp_path}/f.yaml")
    assert (result.exit_code, message in result.output.replace("\n", " ")) == (1, True), result.output


def test_a_view_keeps_its_location(deltaic: Deltaic, files: Path, admin: CatalogAdmin) -> None:
    admin.views.create(
        "sales",
        "europe",
        "own",
        f"{LAKE}/own",
        source="sales.europe.orders",
        sql="SELECT id FROM source",
        properties=[],
    )
    share = files / "shares" / "sales.yaml"
    view = {"location": f"{LAKE}/elsewhere", "source": "Sales.europe.Orders", "sql": "SELECT id FROM source\n"}
    change(share, "shares", "sales", "schemas", "europe", "views", "own", to=view)
    refused = deltaic("plan declared")
    assert f"view sales.europe.own: cannot change its location {LAKE}/own" in refused.stderr
    change(share, "shares", "sales", "schemas", "europe", "views", "own", "location", to=f"{LAKE}/own/")
    assert deltaic.json("plan declared")["steps"] == []
    change(
        share, "shares", "sales", "schemas", "europe", "views", "own", "sql", to="SELECT id, id + 1 AS x FROM source"
    )
    change(share, "shares", "sales", "schemas", "europe", "views", "own", "history", to=True)
    each = "3 recipients (alice, bob, carol): each sees earlier versions of sales.europe.own; sees sales.europe.own "
    each += "with other SQL"
    assert each in deltaic.done("plan declared")
    # A refused step still reports the recipients who lack a property.
    change(share, "shares", "sales", "schemas", "europe", "tables", "new", to={"location": "s3://no-such-lake/t"})
    refused = deltaic("apply declared --allow-wider")
    assert (refused.exit_code, "missing from 'sales.europe.own'" in refused.stderr) == (1, True), refused.output
    change(share, "shares", "sales", "schemas", "europe", "tables", "new")
    assert deltaic.json("drift declared") == []
    assert admin.views.get("sales", "europe", "own").requested_at is not None


def test_a_model_version_is_updated_in_place(deltaic: Deltaic, files: Path, admin: CatalogAdmin) -> None:
    admin.models.create("sales", "europe", "churn")
    before = admin.models.add_version("sales", "europe", "churn", 3, f"{LAKE}/churn/3")
    deltaic.done("export again")
    share = Path(files.parent, "again", "shares", "sales.yaml")
    version = ("shares", "sales", "schemas", "europe", "models", "churn", "versions", "3")
    change(share, *version, "comment", to="the third")
    change(share, *version, "run_id", to="r")
    deltaic.done("apply again --allow-wider")
    after = admin.models.version("sales", "europe", "churn", 3)
    assert (after.id, after.comment, after.run_id) == (before.id, "the third", "r")
    change(share, *version, "location", to="s3://no-such-lake/churn")
    refused = deltaic("apply again --allow-wider")
    assert (refused.exit_code, "no-such-lake" in refused.stderr) == (1, True), refused.output
    assert admin.models.version("sales", "europe", "churn", 3) == after


def test_a_view_whose_sql_is_refused_shows_no_history(deltaic: Deltaic, files: Path, admin: CatalogAdmin) -> None:
    path = ("sales", "europe", "own")
    source = "sales.europe.orders"
    admin.views.create(*path, f"{LAKE}/own", source=source, sql="SELECT id FROM source", properties=[])
    share = files / "shares" / "sales.yaml"
    view = {"location": f"{LAKE}/own", "source": source, "sql": "SELECT id FROM nowhere.a.b", "history": True}
    change(share, "shares", "sales", "schemas", "europe", "views", "own", to=view)
    assert deltaic("apply declared --allow-wider").exit_code == 1
    assert not admin.tables.get(*path).history


def test_a_file_can_filter_a_followed_table(deltaic: Deltaic, files: Path, admin: CatalogAdmin) -> None:
    admin.follows.put("sales", "europe", f"{LAKE}/")
    admin.tables.create("sales", "europe", "brought", f"{LAKE}/brought", followed=True)
    deltaic.done("export again")
    share = Path(files.parent, "again", "shares", "sales.yaml")
    europe = ("shares", "sales", "schemas", "europe")
    schema = yaml.safe_load(share.read_text())["shares"]["sales"]["schemas"]["europe"]
    assert (schema["follow"], "brought" in schema["tables"]) == ({"source": LAKE}, False)
    change(
        share,
        *europe,
        "tables",
        "brought",
        to={"location": f"{LAKE}/brought", "history": True},
    )
    [step] = deltaic.json("plan again")["steps"]
    assert (step["action"], step["after"]) == ("update", {"history": True})
    deltaic.done(f"apply again --allow-wider {UNSEEN}")
    assert not admin.tables.get("sales", "europe", "brought").followed
    assert deltaic.json("drift again") == []
    change(share, *europe, "follow")
    assert "not in the files: schema sales.europe. Use --prune" in deltaic("apply again").stderr
    deltaic.done("apply again --prune")
    assert list(admin.follows.list("sales")) == []


def test_a_recreated_share_is_not_deleted_by_an_old_plan(deltaic: Deltaic, admin: CatalogAdmin) -> None:
    deltaic.done("share create s")
    with pytest.raises(NotFound):
        admin.shares.delete("s", force=True, resume=True)
    assert admin.shares.get("s").name == "s"


def test_names_that_files_cannot_contain_are_reported(deltaic: Deltaic, files: Path, tmp_path: Path) -> None:
    (tmp_path / "UPPER.YAML").write_text("shares:\nstorages:\nrecipients:\n  dora:\n")
    plan_ = deltaic.json(f"plan {files} UPPER.YAML")
    assert [step["name"] for step in plan_["steps"]] == ["dora"]
    files.joinpath("MORE.YML").write_text("recipients: {eve: }\n")
    assert [step["name"] for step in deltaic.json("plan declared")["steps"]] == ["eve"]
