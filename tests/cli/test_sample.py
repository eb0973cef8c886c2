"""The demo's data: the same rows everywhere, in several versions, complete after an interruption, shared at the end."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import deltalake
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.cli.local.demo import first_rows
from deltaic_ops.local import sample
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.sample import publish, vaccinations

if TYPE_CHECKING:
    import boto3

ROWS_PER_DAY = 400


class Interrupted(Exception):
    """An exception that interrupts a publication."""


@pytest.fixture
def folder(aws_session: "boto3.Session", embedded_aws: EmbeddedAws) -> str:
    bucket = f"sample-{uuid4().hex}"
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket=bucket)
    with suppress(ClientError):  # the Iceberg table of an earlier test
        glue = aws_session.client("glue", endpoint_url=embedded_aws.endpoint)
        glue.delete_table(DatabaseName=sample.DATABASE, Name=sample.DELIVERIES[2])
    return f"s3://{bucket}/vaccine"


@pytest.fixture
def storage(embedded_aws: EmbeddedAws) -> Mapping[str, str]:
    return {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true"}


def publish_until(
    admin: CatalogAdmin, folder: str, storage: Mapping[str, str], stop_at: int = 99
) -> list[tuple[str, int]]:
    """Publish the sample and return what it tells; after `stop_at` versions it is interrupted."""
    versions: list[tuple[str, int]] = []

    def report(text: str, version: int) -> None:
        versions.append((text.partition(":")[0], version))
        if len(versions) == stop_at:
            raise Interrupted

    publish(admin, folder, storage, report, ROWS_PER_DAY)
    return versions


def test_the_sample_tables_are_shared_and_one_is_filtered_by_site(
    admin: CatalogAdmin, folder: str, storage: Mapping[str, str]
) -> None:
    publish_until(admin, folder, storage)
    shared = {share: list(admin.tables.list(share)) for share in ("vaccine_share", "site_share")}
    assert shared["vaccine_share"][0].metadata_location == "glue://vaccine/vaccine_deliveries"
    assert [(table.name, table.location) for table in shared["vaccine_share"]] == [
        ("vaccine_deliveries", f"{folder}/vaccine_deliveries"),
        ("vaccine_ingredients", f"{folder}/vaccine_ingredients"),
        ("vaccine_patients", f"{folder}/vaccine_patients"),
    ]
    [mine] = shared["site_share"]
    assert (mine.name, mine.location) == ("my_site", f"{folder}/vaccine_patients")
    assert mine.partition_filter == "site = current_recipient('site')"


def test_each_version_has_its_rows_and_the_feed_its_changes(
    admin: CatalogAdmin, folder: str, storage: Mapping[str, str]
) -> None:
    publish_until(admin, folder, storage)
    table = deltalake.DeltaTable(f"{folder}/vaccine_patients", storage_options=dict(storage))
    feeds = [pa.table(table.load_cdf(starting_version=v, ending_version=v)) for v in range(4)]
    corrected = ROWS_PER_DAY // sample.CORRECTED_EVERY
    assert [Counter(feed["_change_type"].to_pylist()) for feed in feeds] == [
        {"insert": 14 * ROWS_PER_DAY},
        {"insert": 2 * ROWS_PER_DAY},
        {"insert": sample.LATE_ENTRIES, "update_preimage": corrected, "update_postimage": corrected},
        {"delete": 1},
    ]
    assert table.to_pyarrow_table().num_rows == 16 * ROWS_PER_DAY + sample.LATE_ENTRIES - 1


def test_the_demo_shows_the_rows_of_the_readme_for_any_order_of_files(
    admin: CatalogAdmin, folder: str, storage: Mapping[str, str]
) -> None:
    publish_until(admin, folder, storage)
    table = deltalake.DeltaTable(f"{folder}/vaccine_patients", storage_options=dict(storage))
    shuffled = table.to_pandas().sample(frac=1)
    page = (Path(__file__).parents[2] / "README.md").read_text()
    assert f"```\n{first_rows(shuffled, 3)}\n```" in page


@pytest.mark.parametrize("stop_at", [1, 4, 5, 7])
def test_an_interrupted_publication_is_completed_by_the_next_one(
    admin: CatalogAdmin, folder: str, storage: Mapping[str, str], stop_at: int
) -> None:
    with pytest.raises(Interrupted):
        publish_until(admin, folder, storage, stop_at)
    complete = [("vaccine_patients", version) for version in range(4)]
    complete += [("vaccine_ingredients", version) for version in range(2)]
    complete += [("vaccine_deliveries", version) for version in (1, 2)]
    assert publish_until(admin, folder, storage) == complete
    for name, versions in (("vaccine_patients", 4), ("vaccine_ingredients", 2)):
        table = deltalake.DeltaTable(f"{folder}/{name}", storage_options=dict(storage))
        assert table.version() == versions - 1


def test_the_rows_are_the_same_on_every_machine() -> None:
    assert vaccinations(0, 3).slice(1, 1).to_pylist() == [
        {
            "patient_id": 1,
            "date": dt.date(2026, 3, 2),
            "site": "Porto",
            "vaccine": "Acmevax",
            "dose": 1,
            "age": 67,
            "weight_kg": Decimal("91.1"),
            "reaction": "fever",
            "administered_at": dt.datetime(2026, 3, 2, 11, 3, 22, tzinfo=dt.UTC),
        }
    ]
    assert vaccinations(1, 2) == vaccinations(0, 3).slice(1)
