"""`deltaic doctor` on a local server without a stack, and for streamed and buffered responses."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from client.provider import SCHEMA, SHARE, Provider, provide
from delta_sharing_conformance.client import SharingClient, segments
from delta_tables.handmade import add, lines, metadata, protocol
from deltaic.catalog import keys
from deltaic.catalog.items import View
from deltaic_ops.checks.doctor.freshness import check_views
from deltaic_ops.checks.doctor.table_reads import MOST_BYTES, check_streaming
from deltaic_ops.cli import app
from deltaic_ops.inspection.findings import Finding, ask
from deltaic_ops.local.resources import DATA_BUCKET
from served import served
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.slow

FILES = 4000
NOW = datetime(2026, 11, 22, tzinfo=UTC)
COLUMNS = {"p": "string", "n": "integer", "x": "long"}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder = tmp_path_factory.mktemp("doctor")
    deltalake.write_deltalake(str(folder / "plain"), pa.table({"number": [1, 2, 3]}))
    (folder / "many" / "_delta_log").mkdir(parents=True)
    actions = [protocol(), metadata(), *(add(f"{number}.parquet") for number in range(FILES))]
    (folder / "many" / "_delta_log" / f"{0:020d}.json").write_bytes(lines(actions))
    with provide(folder) as running:
        running.put("plain", folder / "plain")
        running.put("many", folder / "many")
        yield running


@pytest.fixture
def doctor(provider: Provider) -> Callable[..., Result]:
    environment = {**provider.stack.environment, "DELTAIC_ENDPOINT": provider.stack.endpoint}
    return lambda *arguments: CliRunner().invoke(app, ["doctor", *arguments], env=environment)


def test_on_a_local_server_the_doctor_checks_tables_but_no_stack(
    doctor: Callable[..., Result],
) -> None:
    answer = doctor("--table", f"{SHARE}.{SCHEMA}.plain", "--json")
    findings = {finding["check"]: finding for finding in json.loads(answer.stdout)}
    assert findings["the stack is deployed"]["verdict"] == "not tried"
    for table in ("shares", "tokens"):  # what only AWS has
        assert findings[f"protects the table of {table} from deletion"]["verdict"] == "not tried"
        assert findings[f"can restore the table of {table}"]["verdict"] == "not tried"
    assert (answer.exit_code, [finding for finding in findings.values() if finding["verdict"] == "failed"]) == (0, [])
    assert findings["reaches the table of tokens"]["verdict"] == "ok"
    assert findings[f"signs a URL that reads {SHARE}.{SCHEMA}.plain"]["verdict"] == "ok"
    assert findings[f"the page /explore can read bucket {DATA_BUCKET}"]["verdict"] == "ok"
    assert "too small to decide" in findings[f"streams responses for {SHARE}.{SCHEMA}.plain"]["message"]


def test_the_doctor_does_not_read_as_expired_or_restricted_recipients(
    provider: Provider, doctor: Callable[..., Result]
) -> None:
    admin = provider.admin
    admin.shares.create("elsewhere")
    admin.schemas.create("elsewhere", "s")
    admin.tables.create("elsewhere", "s", "t", admin.tables.get(SHARE, SCHEMA, "plain").location)
    for name in ("a_cut", "b_ended", "c_from_afar", "d_over"):
        admin.recipients.create(name)
        admin.grants.create(name, "elsewhere", ends_at=NOW - timedelta(days=1) if name == "d_over" else None)
    admin.cut_off("a_cut")
    admin.recipients.update("b_ended", ends_at=NOW - timedelta(days=1))
    admin.recipients.update("c_from_afar", add_addresses=["203.0.113.7"])

    def verdicts() -> dict[str, str]:
        findings = json.loads(doctor("--table", "elsewhere.s.t", "--json").stdout)
        return {item["check"]: item["verdict"] for item in findings if "elsewhere.s.t" in item["check"]}

    try:
        assert verdicts()["reads elsewhere.s.t"] == "not tried"
        admin.grants.create("reader", "elsewhere")
        assert verdicts()["signs a URL that reads elsewhere.s.t"] == "ok"
    finally:
        admin.shares.delete("elsewhere", force=True)


def test_the_doctor_names_a_missing_table(doctor: Callable[..., Result]) -> None:
    answer = doctor("--table", f"{SHARE}.{SCHEMA}.nothing")
    assert answer.exit_code == 1
    assert "nothing' not found" in answer.stdout
    assert doctor("--table", "nothing").exit_code == 2


@pytest.fixture
def parted(provider: Provider, tmp_path: Path) -> Iterator[str]:
    """Return the name of a table with columns p (text) and n (integer), a filter and a hidden column."""
    (tmp_path / "_delta_log").mkdir()
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in COLUMNS.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_bytes(
        lines([protocol(), metadata(schema=schema, partitions=("p", "n"))])
    )
    provider.put("parted", tmp_path, partition_filter="p = current_recipient('p')", hidden_columns=["p"])
    provider.admin.recipients.update("reader", add_properties={"p": "a"})
    yield f"{SHARE}.{SCHEMA}.parted"
    provider.admin.tables.delete(SHARE, SCHEMA, "parted")


def test_the_doctor_finds_invalid_filters_and_missing_properties(
    provider: Provider, doctor: Callable[..., Result], parted: str
) -> None:
    def filters() -> list[tuple[str, str, str]]:
        findings = json.loads(doctor("--table", f"{SHARE}.{SCHEMA}.plain", "--json").stdout)
        return [
            (finding["verdict"], finding["message"], finding["remedy"])
            for finding in findings
            if parted in finding["check"]
        ]

    assert filters() == [("ok", "its latest version", ""), ("ok", "1 recipients", "")]
    # What the command would not store, as if the table had been changed since.
    admin = provider.admin
    admin.tables.update(SHARE, SCHEMA, "parted", partition_filter="q = current_recipient('q')", hidden_columns=["x"])
    filter_, hidden, missing = filters()
    assert (filter_[0], "no column q" in filter_[1]) == ("failed", True), filter_
    assert f"deltaic table update {parted} --partition-filter" in filter_[2]
    assert (hidden[0], "cannot hide 'x'" in hidden[1]) == ("failed", True), hidden
    assert missing[:2] == ("warning", "'reader' lacks q: no rows")
    assert missing[2] == "deltaic recipient update reader --property q=..."
    admin.tables.update(SHARE, SCHEMA, "parted", partition_filter="n = current_recipient('p')", hidden_columns=[])
    admin.grants.update("reader", SHARE, partition_filter="x = 1")
    (granted, _) = filters()
    assert (granted[0], "the grant of 'reader': " in granted[1]) == ("failed", True), granted
    assert granted[2].startswith(f"deltaic grant update reader {SHARE}")
    admin.grants.update("reader", SHARE, partition_filter="")
    assert [finding[:2] for finding in filters()] == [
        ("ok", "its latest version"),
        ("warning", "'reader' lacks a value of the column's type: no rows"),
    ]


def test_the_doctor_finds_folders_whose_credentials_open_a_filtered_table(
    provider: Provider, doctor: Callable[..., Result], parted: str
) -> None:
    admin, check = provider.admin, "credentials for a folder never include a filtered table"

    def read_findings() -> list[tuple[str, str, str]]:
        findings = json.loads(doctor("--table", f"{SHARE}.{SCHEMA}.plain", "--json").stdout)
        return [(item["verdict"], item["message"], item["remedy"]) for item in findings if item["check"] == check]

    assert read_findings() == [("ok", "all catalog entries", "")]
    location = admin.tables.get(SHARE, SCHEMA, "parted").location
    admin.tables.create(SHARE, SCHEMA, "below", f"{location}/below")
    key = keys.asset("table", SHARE, SCHEMA, "below")
    # As a backup may bring it, or an entry from before it was refused.
    provider.client("dynamodb").update_item(
        TableName=provider.stack.environment["CATALOG_TABLE"],
        Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}},
        UpdateExpression="SET access_modes = :dir",
        ExpressionAttributeValues={":dir": {"L": [{"S": "dir"}]}},
    )
    (finding,) = read_findings()
    assert (finding[0], f"those of {SHARE}.{SCHEMA}.below include all of {parted}" in finding[1]) == ("failed", True), (
        finding
    )
    assert finding[2].startswith(f"deltaic table update {SHARE}.{SCHEMA}.below --access-mode url")
    admin.tables.delete(SHARE, SCHEMA, "below")


def test_a_streamed_response_is_recognized_by_its_times(provider: Provider) -> None:
    bearer = json.loads(provider.profile.read_text())["bearerToken"]
    with httpx.Client() as client:
        caller = SharingClient(client, provider.stack.endpoint, bearer)
        finding = check_streaming(caller, segments(SHARE, SCHEMA, "many"), "many", {"ResponseStreaming": "enabled"})
        buffered = check_streaming(caller, segments(SHARE, SCHEMA, "many"), "many", {"ResponseStreaming": "disabled"})
    assert finding.verdict == "ok", finding
    assert "first byte after " in finding.message
    assert (buffered.verdict, "buffered" in buffered.message) == ("ok", True)


@contextmanager
def server(status: int, size: int) -> Iterator[SharingClient]:
    """Run a server that holds an answer back until it is whole."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(b"x" * size)

    with served(Handler) as address, httpx.Client() as client:
        yield SharingClient(client, address, "t" * 20)


@pytest.mark.parametrize(
    ("status", "size", "verdict"),
    [
        pytest.param(200, MOST_BYTES // 2, "failed", id="as long as it was announced to be"),
        pytest.param(200, 100, "not tried", id="too small to decide"),
        pytest.param(503, 100, "failed", id="refused"),
    ],
)
def test_the_doctor_finds_a_buffered_response(status: int, size: int, verdict: str) -> None:
    with server(status, size) as caller:
        finding: Finding = check_streaming(caller, "/t", "t", {})
    assert (finding.verdict, bool(finding.remedy)) == (verdict, verdict == "failed"), finding


def a_view(name: str, **more: Any) -> View:
    fields: dict[str, Any] = {"share": "s", "schema_name": "d", "name": name, "table_id": name, "source": "s.d.t"}
    return View(**fields, sql="SELECT 1 FROM source", created_at=NOW - timedelta(days=2), **more)


def test_stale_views_are_reported_with_reason_and_remedy() -> None:
    hour = timedelta(hours=1)
    behind = [
        a_view("never", max_staleness=3600),
        a_view("old", max_staleness=3600, refreshed_at=NOW - hour),
        a_view("unmade"),
        a_view("wanted", requested_at=NOW - hour, last_refresh={"failure": "no column dose"}),
    ]
    right = [
        a_view("new", max_staleness=3600, refreshed_at=NOW - hour / 2),
        a_view("unbound", refreshed_at=NOW - 24 * hour),
        a_view("just_wanted", requested_at=NOW - hour / 2),
    ]
    findings = list(check_views([*behind, *right], NOW))
    assert [finding.check.rpartition(".")[2] for finding in findings] == ["never", "old", "unmade", "wanted"]
    assert {finding.verdict for finding in findings} == {"warning"}
    assert [finding.remedy for finding in findings] == [f"deltaic view refresh s.d.{view.name}" for view in behind]
    assert "no column dose" in findings[-1].message
    assert [finding.verdict for finding in check_views(right, NOW)] == ["ok"]
    assert list(check_views([], NOW)) == []


def _moved(kind: str, name: str) -> str:
    full = f"{SHARE}.{SCHEMA}.{name}"
    return f"deltaic {kind} update {full} --location ..., or deltaic {kind} delete {full}"


SKILL = "---\nname: {name}\ndescription: {said}\n---\n"


def test_the_doctor_finds_missing_folders_and_iceberg_metadata(
    provider: Provider, doctor: Callable[..., Result]
) -> None:
    s3, admin = provider.client("s3"), provider.admin

    def read_findings() -> dict[str, tuple[str, str, str]]:
        result = json.loads(doctor("--table", f"{SHARE}.{SCHEMA}.plain", "--json").stdout)
        expected = ("finds the volume", "finds the skill", "finds the model", "reads the Iceberg", "finds shared")
        items = [item for item in result if item["check"].startswith(expected)]
        return {item["check"]: (item["verdict"], item["message"], item["remedy"]) for item in items}

    def put(key: str, body: str) -> None:
        s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=body.encode())

    for name in ("there", "empty"):
        admin.volumes.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/volumes/{name}")
    for name in ("same", "changed", "gone"):
        location = f"s3://{DATA_BUCKET}/skills/{name}"
        admin.skills.create(SHARE, SCHEMA, name, location, facts={"description": "what it was"})
        put(
            f"skills/{name}/{'README' if name == 'gone' else 'SKILL.md'}",
            SKILL.format(name=name, said="what it was"),
        )
    admin.models.create(SHARE, SCHEMA, "churn")
    for version in (1, 2):
        admin.models.add_version(SHARE, SCHEMA, "churn", version, f"s3://{DATA_BUCKET}/models/{version}")
    put("volumes/there/a.txt", "a")
    put("models/1/model.pkl", "m")
    options: dict[str, Any] = {"format": "iceberg", "iceberg": "signed", "access_modes": ["dir"], "history": True}
    admin.tables.create(SHARE, SCHEMA, "visits", f"s3://{DATA_BUCKET}/visits", **options)
    try:
        put("skills/changed/SKILL.md", SKILL.format(name="changed", said="what it is"))
        findings, name = read_findings(), f"{SHARE}.{SCHEMA}"
        assert {check: (verdict, remedy) for check, (verdict, _, remedy) in findings.items()} == {
            f"finds the volume {name}.empty": ("warning", _moved("volume", "empty")),
            f"finds the skill {name}.changed": ("warning", f"deltaic skill refresh {name}.changed"),
            f"finds the skill {name}.gone": ("failed", _moved("skill", "gone")),
            f"finds the model {name}.churn 2": (
                "warning",
                f"put its files there, or deltaic model version remove {name}.churn 2",
            ),
            f"reads the Iceberg table {name}.visits": ("failed", _moved("table", "visits")),
            "finds shared folders and Iceberg tables": ("ok", ""),
        }
        assert findings[f"finds the volume {name}.empty"][1] == f"s3://{DATA_BUCKET}/volumes/empty is empty"
        assert "differ: description" in findings[f"finds the skill {name}.changed"][1]
        assert "has no SKILL.md" in findings[f"finds the skill {name}.gone"][1]
        assert "set the metadata file" in findings[f"reads the Iceberg table {name}.visits"][1]
        assert findings["finds shared folders and Iceberg tables"][1] == "3 of 8"
    finally:
        for name in ("there", "empty"):
            admin.volumes.delete(SHARE, SCHEMA, name)
        for name in ("same", "changed", "gone"):
            admin.skills.delete(SHARE, SCHEMA, name)
        admin.models.delete(SHARE, SCHEMA, "churn", force=True)
        admin.tables.delete(SHARE, SCHEMA, "visits")


@pytest.mark.parametrize(
    ("code", "verdict"),
    [("AccessDenied", "not tried"), ("NotImplemented", "not tried"), ("InternalError", "failed")],
)
def test_only_denied_and_unsupported_operations_are_not_tried(code: str, verdict: str) -> None:
    def examine() -> Finding:
        raise ClientError({"Error": {"Code": code}}, "GetBucketLocation")

    [finding] = ask("the bucket exists", "check its name", examine)
    assert finding.verdict == verdict
