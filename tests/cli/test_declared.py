"""The catalog is exported as files, and drift from them is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from deltaic_ops.declared.declaration import Declaration
from deltaic_ops.declared.declaration_files import read, text_of, write
from deltaic_ops.declared.differences import differences, entries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

LAKE = "s3://deltaic-lake"
SQL = "SELECT id FROM source WHERE country = current_recipient('country')"


@pytest.fixture
def filled_catalog(deltaic: Deltaic, admin: CatalogAdmin) -> Deltaic:
    """Return the command over a catalog with one of everything."""
    admin.storages.create("minio", endpoint="http://minio:9000", path_style=True)
    admin.shares.create("Sales", display_name="All sales", properties={"owner": "lab"})
    admin.shares.create("empty:share")
    admin.schemas.create("sales", "europe", comment="ours")
    admin.schemas.create("sales", "asia")
    path = ("sales", "europe")
    admin.tables.create(*path, "orders", f"{LAKE}/orders", history=True, start_version=3, iceberg="signed")
    admin.tables.create(*path, "mine", f"{LAKE}/mine", storage="minio", hidden_columns=["team"])
    admin.views.create(
        *path, "own", f"{LAKE}/own", source="sales.europe.orders", sql=SQL, properties=["country"], key=["id"]
    )
    admin.volumes.create(*path, "scans", f"{LAKE}/scans", access_modes=["url"])
    admin.skills.create(*path, "read-forms", f"{LAKE}/read-forms", facts={"description": "Reads forms."})
    admin.models.create(*path, "churn", comment="who leaves")
    admin.models.add_version(*path, "churn", 3, f"{LAKE}/churn/3", facts={"run_id": "r"})
    alice = admin.recipients.create("alice", properties={"country": "PL", "teams": '["a","b"]', "plain": "12"})
    admin.recipients.create("bob")
    admin.federation.create(alice, "https://login.test", audience="deltaic", claim="sub", subject="7f3c", comment="own")
    deltaic.done("recipient update alice --address 203.0.113.0/24 --bytes-per-day 5GB --ends 2031-02-01")
    admin.grants.create("alice", "sales")
    deltaic.done("grant update alice sales --ends 2030-01-01")
    return deltaic


def test_an_exported_catalog_has_no_drift(filled_catalog: Deltaic, tmp_path: Path) -> None:
    filled_catalog.done("export declared")
    files = {str(path.relative_to(tmp_path / "declared")) for path in (tmp_path / "declared").rglob("*.yaml")}
    assert files == {"storages.yaml", "recipients.yaml", "shares/Sales.yaml", "shares/empty%3Ashare.yaml"}
    assert filled_catalog.json("drift declared") == []
    sales = yaml.safe_load((tmp_path / "declared" / "shares" / "Sales.yaml").read_text())["shares"]["Sales"]
    assert sales["schemas"]["europe"]["tables"]["orders"] == {
        "location": f"{LAKE}/orders", "history": True, "start_version": 3, "iceberg": "signed",
    }  # fmt: skip
    assert {*sales["schemas"]["europe"]} == {"comment", "tables", "views", "volumes", "skills", "models"}
    alice = yaml.safe_load((tmp_path / "declared" / "recipients.yaml").read_text())["recipients"]["alice"]
    assert alice["properties"] == {"country": "PL", "teams": ["a", "b"], "plain": "12"}
    policy = {"issuer": "https://login.test", "audience": "deltaic", "subject": "7f3c", "comment": "own"}
    assert alice["policies"] == [policy]
    output = filled_catalog.done("export")
    assert yaml.safe_load(output) == filled_catalog.json("export")
    schema = json.loads(filled_catalog.done("schema-file"))
    assert list(Draft202012Validator(schema).iter_errors(filled_catalog.json("export"))) == []
    assert "is not empty" in filled_catalog("export declared").output


def test_drift_reports_differences_and_exits_with_2(filled_catalog: Deltaic, admin: CatalogAdmin) -> None:
    filled_catalog.done("export declared")
    admin.tables.update("sales", "europe", "orders", start_version=5)
    admin.tables.create("sales", "asia", "new", f"{LAKE}/new")
    admin.recipients.delete("bob")
    admin.grants.revoke("alice", "sales")
    admin.models.add_version("sales", "europe", "churn", 4, f"{LAKE}/churn/4")
    result = filled_catalog("drift declared --json")
    assert result.exit_code == 2
    differences_ = {
        (difference["kind"], difference["name"]): (difference["inFiles"], difference["inCatalog"])
        for difference in json.loads(result.stdout)
    }
    assert differences_.pop(("table", "Sales.europe.orders")) == ({"start_version": 3}, {"start_version": 5})
    assert {key: (mine is None, theirs is None) for key, (mine, theirs) in differences_.items()} == {
        ("recipient", "bob"): (False, True),
        ("grant", "alice Sales"): (False, True),
        ("table", "Sales.asia.new"): (True, False),
        ("version", "Sales.europe.churn 4"): (True, False),
    }
    output = filled_catalog("drift declared").output
    assert "~ table Sales.europe.orders" in output
    assert "start_version: 3 in the files, 5 in the catalog" in output
    assert "+ table Sales.asia.new: only in the catalog" in output
    assert "- recipient bob: only in the files" in output


def test_a_trailing_slash_matters_in_texts_but_not_in_locations(tmp_path: Path) -> None:
    def declared(location: str, comment: str) -> Declaration:
        tables = {"t": {"location": location}}
        return Declaration.model_validate({"shares": {"s": {"comment": comment, "schemas": {"a": {"tables": tables}}}}})

    assert differences(declared(f"{LAKE}/t/", "a"), declared(f"{LAKE}/t", "a")) == []
    [difference] = differences(declared(f"{LAKE}/t", "a/"), declared(f"{LAKE}/t", "a"))
    assert (difference.kind, difference.in_files, difference.in_catalog) == (
        "share",
        {"comment": "a/"},
        {"comment": "a"},
    )
    (tmp_path / "f.yaml").write_text(text_of(declared(f"{LAKE}/t/", "")))
    assert read([tmp_path]) == declared(f"{LAKE}/t", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shares:\n  s:\n    schemas:\n      a:\n        tabels: {}\n", "f.yaml:5:9: shares.s.schemas.a.tabels: "),
        ("shares:\n  s:\n    schemas:\n      a:\n        tabels: {}\n", "did you mean tables?"),
        ("shares:\n  s:\n    schemas: {a: {tables: {t: {history: true}}}}\n", "tables.t.location: is required"),
        (
            "recipients:\n  a:\n    requests_per_minute: many\n",
            "f.yaml:3:5: recipients.a.requests_per_minute: is a whole",
        ),
        ("", "f.yaml:1:1: the file is empty: `deltaic schema-file` prints its fields"),
        ("shares: [\n", "f.yaml:2:1: not YAML"),
        ("shares:\n  s: {}\n  s: {}\n", "f.yaml:3:3: shares.s: is written twice"),
        ("recipients:\n  a:\n    properties: {}\n    ends_at: 2027-13-01\n", "f.yaml:4:5: not YAML: month must be"),
        ("shares:\n  s:\n\tcomment: x\n", "f.yaml:3:2: not YAML: while scanning for the next token"),
        ("shares:\n  s:\n\tcomment: x\n", "(indent with spaces)"),
        (
            "recipients:\n  a: {}\n  no: {}\n",
            "f.yaml:3:3: recipients: YAML reads no as another value",
        ),
        ("recipients:\n  a:\n    properties:\n      n: 1\n", "a.properties.n: is text or a list of texts: quote it"),
    ],
)
def test_mistakes_are_reported_with_their_lines(nowhere: Deltaic, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "f.yaml").write_text(text)
    result = nowhere(f"drift {tmp_path}/f.yaml")
    assert (result.exit_code, message in result.output.replace("\n", " ")) == (1, True), result.output


def test_each_mistake_is_printed_on_a_separate_line_that_editors_can_open(nowhere: Deltaic, tmp_path: Path) -> None:
    properties = "\n".join(f"      {name}: 1" for name in "abc")
    (tmp_path / "f.yaml").write_text(f"recipients:\n  a:\n    properties:\n{properties}\n")
    lines = nowhere(f"drift {tmp_path}/f.yaml").stderr.splitlines()
    assert lines[0] == "refused:"
    assert [line.partition(": ")[0] for line in lines[1:]] == [f"{tmp_path}/f.yaml:{line}:7" for line in (4, 5, 6)]


def test_text_in_another_encoding_is_reported_with_its_position(nowhere: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes("shares:\n  s:\n    comment: f\u00fcr\n".encode("latin-1"))
    assert "f.yaml:3:15: not UTF-8: save the file as UTF-8" in nowhere(f"drift {tmp_path}/f.yaml").stderr


def test_repeated_files_are_read_once_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("shares:\n  sales: {}\n")
    (tmp_path / ".github").mkdir()
    for name in (".github/ci.yaml", ".draft.yaml"):
        (tmp_path / name).write_text("on: push\n")
    assert read([tmp_path, tmp_path / "f.yaml"]).shares.keys() == {"sales"}


def test_a_share_is_declared_in_one_file(nowhere: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("shares:\n  sales:\n")
    (tmp_path / "b.yaml").write_text("shares:\n  other:\n  Sales:\n")
    result = nowhere(f"drift {tmp_path}")
    assert "b.yaml:3:3: shares.Sales: is already declared at" in result.output
    assert "a.yaml:2:3" in result.output
    (tmp_path / "none").mkdir()
    assert "no .yaml file in" in nowhere(f"drift {tmp_path}/none").output
    assert "does not exist" in nowhere(f"drift {tmp_path}/c.yaml").output


LETTERS = st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Mn"], exclude_characters="./#")
NAMES = st.text(LETTERS, min_size=1, max_size=8).map(str.lower)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=12)
TABLES = st.fixed_dictionaries(
    {"location": st.just(f"{LAKE}/t")},
    optional={"history": st.booleans(), "checkpoint": st.booleans(), "start_version": st.integers(0, 9)},
)
SCHEMAS = st.fixed_dictionaries({}, optional={"comment": TEXT, "tables": st.dictionaries(NAMES, TABLES, max_size=2)})
SHARES = st.fixed_dictionaries({}, optional={"comment": TEXT, "schemas": st.dictionaries(NAMES, SCHEMAS, max_size=2)})
PROPERTIES = st.dictionaries(NAMES, TEXT | st.lists(TEXT, max_size=2), max_size=2)
RECIPIENTS = st.fixed_dictionaries(
    {}, optional={"properties": PROPERTIES, "grants": st.dictionaries(NAMES, st.just({}), max_size=2)}
)


def granted(content: dict[str, Any]) -> dict[str, Any]:
    """Leave out grants of shares that there are not."""
    for recipient in content.get("recipients", {}).values():
        recipient["grants"] = {share: {} for share in recipient.get("grants", {}) if share in content.get("shares", {})}
    return content


DECLARED = st.fixed_dictionaries(
    {},
    optional={
        "shares": st.dictionaries(NAMES, SHARES, max_size=2),
        "recipients": st.dictionaries(NAMES, RECIPIENTS, max_size=2),
    },
).map(lambda content: Declaration.model_validate(granted(content)))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=DECLARED, second=DECLARED)
def test_written_files_are_read_back_and_differences_name_every_entry(
    tmp_path_factory: pytest.TempPathFactory, first: Declaration, second: Declaration
) -> None:
    assert Declaration.model_validate(yaml.safe_load(text_of(first))) == first
    folder = tmp_path_factory.mktemp("declared")
    if write(first, folder):
        assert read([folder]) == first
    assert differences(first, first) == []
    mine, theirs = ({each.key: dict(each.fields) for each in entries(side)} for side in (first, second))
    by_key: dict[Any, Any] = {each.key: each for each in differences(first, second)}
    assert by_key.keys() == {key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)}
