"""`deltaic lint` finds problems for recipients in a table's log before it is shared."""

from __future__ import annotations

import io
import json
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.handmade import add, lines, metadata, protocol, stats

if TYPE_CHECKING:
    import boto3
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "linted-lake"
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {**FEED, "delta.columnMapping.mode": "name"}
WITH_MAPPING: dict[str, Any] = {
    "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"]}
}
FINE = [protocol(), metadata(FEED), add("f.parquet", size=100, stats=stats())]
DECIMALS = ["1.5", "1.50", None, "2", "-3.25"]


def column(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def mapped_column(name: str, kind: str, number: int) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
    return {**column(name, kind), "metadata": mapping}


LOGS: dict[str, list[list[Any]]] = {
    "fine": [FINE],
    "mapped": [
        [
            WITH_MAPPING,
            metadata(
                MAPPED,
                json.dumps(
                    {"type": "struct", "fields": [mapped_column("p", "string", 1), mapped_column("x", "long", 2)]}
                ),
            ),
        ]
    ],
    "untold": [[protocol(), metadata(FEED), add("f.parquet", stats=None), add("g.parquet", stats=stats())]],
    "small": [[protocol(), metadata(FEED), *(add(f"{number}.parquet", stats=stats()) for number in range(101))]],
    "long": [FINE, *([] for _ in range(101))],
    "hasty": [[protocol(), metadata({**FEED, "delta.deletedFileRetentionDuration": "interval 2 hours"})]],
    "wrong": [[protocol(), metadata({**FEED, "delta.deletedFileRetentionDuration": "soon"})]],
    "misspelled": [[protocol(), metadata(FEED, partitions=("P",))]],
    "orc": [[protocol(), {"metaData": {**metadata(FEED)["metaData"], "format": {"provider": "orc"}}}]],
    "unscaled": [
        [
            protocol(),
            metadata(
                FEED, json.dumps({"type": "struct", "fields": [column("p", "decimal(10,2)"), column("x", "long")]})
            ),
            *(add(f"{number}.parquet", p=value, stats=stats()) for number, value in enumerate(DECIMALS)),
        ]
    ],
    "mit Umlaut \u00fc": [FINE],
    "unfed": [[protocol(), metadata()]],
    "odd": [[*FINE[:2], add("p=a%20b/f.parquet", stats=stats()), add("p=%C3%A9/f.parquet", stats=stats())]],
    "viewed": [[*FINE[:2], add("views.parquet", stats=stats())]],
    "lost": [[*FINE[:2], add("gone.parquet", stats=stats())]],
}


def parquet(kind: pa.DataType) -> bytes:
    """Return a small file with a column of a type."""
    file = io.BytesIO()
    pq.write_table(pa.table({"p": pa.array(["a"], kind), "x": [1]}), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def lake(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> str:
    """Return a bucket with a log of each kind."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    for name, commits in LOGS.items():
        for version, actions in enumerate(commits):
            s3.put_object(Bucket=BUCKET, Key=f"{name}/_delta_log/{version:020d}.json", Body=lines(actions))
            for path in (unquote(action["add"]["path"]) for action in actions if "add" in action):
                if path != "gone.parquet":
                    kind = pa.string_view() if path == "views.parquet" else pa.string()
                    s3.put_object(Bucket=BUCKET, Key=f"{name}/{path}", Body=parquet(kind))
    return f"s3://{BUCKET}"


def warned(deltaic: Deltaic, target: str) -> dict[str, str]:
    """Return the messages of the checks that warn."""
    findings = deltaic.json(f"lint {target}")["findings"]
    assert {finding["verdict"] for finding in findings} <= {"ok", "warning"}
    assert all(
        finding["remedy"]
        for finding in findings
        if finding["verdict"] == "warning" and finding["check"] not in REMEDY_SAID
    )
    return {finding["check"]: finding["message"] for finding in findings if finding["verdict"] == "warning"}


REMEDY_SAID = {"partition values", "folder", "folder alone", "Iceberg", "history"}
"""Their sentences, which `table create` warns with too, hold the remedy."""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fine", {}),
        ("mapped", {"formats": "columnMapping: only delta format"}),
        ("untold", {"statistics": "1 of 2 files have none"}),
        ("small", {"file sizes": "1 bytes on average"}),
        ("long", {"checkpoint": "102 commits, no checkpoint"}),
        ("hasty", {"removed files": "VACUUM keeps them for 2 hours"}),
        ("unscaled", {"partition values": "p=2 does not have the number of decimals of its type"}),
        ("unfed", {"history": "the table has no change data feed"}),
        ("odd", {"paths": "2 files have a path with a space"}),
        ("viewed", {"string views": "columns stored as Arrow views: p"}),
    ],
)
def test_lint_warns_of_problems_for_recipients(
    deltaic: Deltaic, lake: str, name: str, expected: dict[str, str]
) -> None:
    warnings_ = warned(deltaic, f"{lake}/{name}")
    # Text columns can put non-ASCII letters into paths, so each table has the warning for this column.
    relevant = {
        check: message
        for check, message in warnings_.items()
        if check not in {"folder", "Iceberg"} or check in expected
    }
    assert relevant.keys() == expected.keys()
    assert all(relevant[check].startswith(message) for check, message in expected.items())


def test_an_unreadable_table_fails_and_exits_with_1(deltaic: Deltaic, lake: str) -> None:
    locations = {
        "nothing": "no Delta log",
        "wrong": "is not an interval",
        "lost": "a data file of this table does not exist (gone.parquet)",
        "misspelled": "partitionColumns has 'P', which the schema spells 'p'",
        "orc": "are in the format 'orc'",
    }
    for location, message in locations.items():
        result = deltaic(f"lint {lake}/{location}")
        assert (result.exit_code, message in result.output) == (1, True), result.output
    assert deltaic(f"lint {lake}/fine --storage unknown").exit_code == 1
    assert json.loads(deltaic(f"lint {lake}/nothing --json").stdout)["clients"] == []


def test_lint_lists_which_clients_can_read_the_table(deltaic: Deltaic, lake: str) -> None:
    output = deltaic.done(f"lint {lake}/mapped").splitlines()
    clients = output[next(index for index, line in enumerate(output) if line.startswith("CLIENTS")) + 1 :][:4]
    assert [line.partition(":")[0] for line in clients] == [
        "delta format",
        "parquet format",
        "credentials for the folder",
        "Iceberg",
    ]
    assert [" no " in line or line.endswith(" no") for line in clients[:2]] == [False, True]
    clients_ = deltaic.json(f"lint {lake}/mapped")["clients"]
    assert [(client["clients"].partition(":")[0], client["reads"]) for client in clients_[:2]] == [
        ("delta format", True),
        ("parquet format", False),
    ]


@pytest.mark.parametrize(
    ("name", "clients"),
    [("fine", {"iceberg-rust"}), ("mapped", {"iceberg-rust", "ClickHouse", "delta_scan of DuckDB"})],
)
def test_clients_that_return_nulls_without_an_error_are_named(
    deltaic: Deltaic, lake: str, name: str, clients: set[str]
) -> None:
    output = deltaic.json(f"lint {lake}/{name}")
    findings = [finding["message"] for finding in output["findings"]]
    remarks = "; ".join(client["remark"] for client in output["clients"])
    for client in ("iceberg-rust", "ClickHouse", "delta_scan of DuckDB"):
        warned_of = any(finding.startswith(client) and "silently returns nulls in" in finding for finding in findings)
        assert (warned_of, client in remarks) == (client in clients, client in clients)


def test_a_folder_that_contains_a_filtered_table_cannot_be_shared(
    filled: Deltaic, admin: CatalogAdmin, lake: str
) -> None:
    assert "folder alone" not in warned(filled, f"{lake}/fine")
    admin.tables.create("vaccine_share", "acme", "part", f"{lake}/fine/part", hidden_columns=["p"])
    assert warned(filled, f"{lake}/fine")["folder alone"] == (
        f"the folder cannot be shared: it contains {lake}/fine/part of 'vaccine_share.acme.part', which is filtered"
    )
    admin.tables.create("vaccine_share", "acme", "whole", f"{lake}/long", history=True, access_modes=["dir"])
    filled.done(f"table create vaccine_share.acme.below --location {lake}/long/below --unchecked")
    assert "folder alone" not in warned(filled, "vaccine_share.acme.whole")


def test_clients_that_refuse_decimals_of_another_scale_are_listed_separately(deltaic: Deltaic, lake: str) -> None:
    delta, _, folder, _ = deltaic.json(f"lint {lake}/unscaled")["clients"]
    assert (delta["reads"], delta["remark"]) == (True, "except Python, which rejects p=1.5")
    assert folder["reads"] is False


def test_a_location_that_folder_clients_cannot_read_causes_a_warning(filled: Deltaic, lake: str) -> None:
    message = "deltalake and polars get 403"
    location, name = shlex.quote(f"{lake}/mit Umlaut \u00fc"), "vaccine_share.acme.umlaut"
    assert [
        finding["check"] for finding in filled.json(f"lint {location}")["findings"] if message in finding["message"]
    ] == ["folder"]
    assert "warnings" not in filled.json(f"table create {name} --location {location} --history")
    assert message in filled.json(f"table update {name} --access-mode url --access-mode dir")["warnings"][0]
    for line in (f"table show {name}", f"lint {name}"):
        assert message in filled.done(line)
    folder = next(
        finding for finding in filled.json(f"table show {name}")["latest"]["clients"] if "folder" in finding["clients"]
    )
    assert (folder["reads"], message in folder["remark"]) == (False, True)
    created = filled.json(f"table create {name}2 --location {location} --history --access-mode dir")
    assert any(message in text for text in created["warnings"])


def test_new_ways_of_sharing_a_table_print_the_matching_lint_warnings(filled: Deltaic, lake: str) -> None:
    new = "table create vaccine_share.acme"
    assert "warnings" not in filled.json(f"{new}.fine --location {lake}/fine --history")
    [few] = filled.json(f"{new}.untold --location {lake}/untold")["warnings"]
    assert few.startswith("1 of 2 files have none: predicates cannot skip these files")
    [lost] = filled.json(f"{new}.lost --location {lake}/lost")["warnings"]
    assert "a data file of this table does not exist (gone.parquet): no client can read the file" in lost
    assert "warnings" not in filled.json(f"{new}.viewed --location {lake}/viewed")
    by_folder = filled.json(f"{new}.folder --location {lake}/viewed --history --access-mode dir")["warnings"]
    assert any(text.startswith("columns stored as Arrow views: p") for text in by_folder)
    assert "warnings" not in filled.json(f"{new}.unseen --location {lake}/lost --unchecked")


def test_lint_accepts_the_name_of_a_shared_table(filled: Deltaic, admin: CatalogAdmin, lake: str) -> None:
    admin.tables.create("vaccine_share", "acme", "long", f"{lake}/long")
    assert "checkpoint" in warned(filled, "vaccine_share.acme.long")
    assert "did you mean" in filled("lint vaccine_share.acme.lon").output
