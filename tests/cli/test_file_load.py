"""`deltaic table load` against the embedded AWS: what it creates, shows and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from deltalake import DeltaTable

if TYPE_CHECKING:
    import boto3
    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws


@pytest.fixture
def bucket(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> str:
    name = f"load-{uuid4().hex[:12]}"
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket=name)
    return name


def test_a_file_becomes_a_shared_table(deltaic: Deltaic, bucket: str) -> None:
    Path("verkauf.csv").write_text("Region;Umsatz (€)\nNord;1.234,50\n", encoding="utf-8")
    line = f"table load sales.eu.orders verkauf.csv --to s3://{bucket}/orders"
    assert "use --yes" in deltaic(line).output
    assert "no shares yet" in deltaic.done("share list")
    output = deltaic.done(f"{line} --yes")
    assert "umsatz_eur  DOUBLE  Umsatz (€)  1234.5" in output
    assert "loaded 1 row into" in output
    assert "--append" in deltaic(f"{line} --yes").output
    added = deltaic.json("table load sales.eu.orders verkauf.csv --append --yes")
    assert (added["rows"], added["version"], added["location"]) == (1, 1, f"s3://{bucket}/orders")
    assert added["columns"][1] == {"name": "umsatz_eur", "type": "DOUBLE", "original": "Umsatz (€)"}
    options = {**deltaic.variables, "AWS_ALLOW_HTTP": "true"}
    assert DeltaTable(f"s3://{bucket}/orders", storage_options=options).to_pyarrow_table().num_rows == 2


def test_yes_does_not_answer_questions(deltaic: Deltaic, bucket: str) -> None:
    Path("a.csv").write_text("day\n03/04/2026\n")
    refused = deltaic(f"table load s.d.t a.csv --to s3://{bucket}/t --yes")
    assert refused.exit_code == 1
    assert "--dates month-first ('03/04/2026' is 2026-03-04)" in refused.output
    deltaic.done(f"table load s.d.t a.csv --to s3://{bucket}/t --yes --dates day-first")


def test_rejected_rows_leave_no_share_and_no_object(deltaic: Deltaic, bucket: str) -> None:
    Path("a.csv").write_text("a,b\n1,2\n3\n")
    refused = deltaic(f"table load s.d.t a.csv --to s3://{bucket}/t --yes")
    assert "nothing was loaded: 1 row does not fit, first line 3 of a.csv: missing columns" in refused.output
    assert "no shares yet" in deltaic.done("share list")
    assert Path("a.csv.rejected.csv").read_text() == "line,reason,a,b\n3,missing columns,3\n"


def test_a_view_is_not_loaded_into(filled: Deltaic) -> None:
    filled.done("view create vaccine_share.acme.mine --from vaccine_share.acme.patients --sql 'SELECT id FROM source'")
    Path("a.csv").write_text("id\n1\n")
    for option in ("--append", "--replace"):
        assert "is a view" in filled(f"table load vaccine_share.acme.mine a.csv {option} --yes").output
