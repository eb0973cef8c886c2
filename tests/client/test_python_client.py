"""Test that the published Python client lists and reads shared tables."""

from pathlib import Path
from typing import Any

import delta_sharing
import deltalake
import pandas as pd
import pyarrow as pa
import pytest
from client.provider import SCHEMA, SHARE, Provider

NASTY = ["a b", "c%d", "%41", "e+f", "g=h", 'i"j', "k'l", "m&n?o#p", "q/r", "ünï:é", "日本", "😀", " lead", "trail "]
"""Partition values that paths, URLs and JSON each write in another way."""


@pytest.fixture(scope="module")
def partitioned(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("partitioned")
    rows = {"name": [*NASTY, None] * 2, "number": list(range(2 * (len(NASTY) + 1)))}
    deltalake.write_deltalake(str(folder), pa.table(rows), partition_by=["name"])
    deltalake.write_deltalake(str(folder), pa.table({"name": ["a b"], "number": [1000]}), mode="append")
    return provider.put("partitioned", folder, history=True)


@pytest.fixture(scope="module")
def plain_table(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plain")
    properties = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(str(folder), pa.table({"number": list(range(100))}), configuration=properties)
    table = deltalake.DeltaTable(str(folder))
    table.delete("number >= 90")
    table.update(updates={"number": "number + 1000"}, predicate="number = 5")
    return provider.put("Plain", folder, history=True)


def read(url: str, **options: Any) -> pd.DataFrame:
    frame: pd.DataFrame = delta_sharing.load_as_pandas(url, **options)
    return frame


def test_shares_schemas_and_tables_are_listed_in_their_spelling(provider: Provider, plain_table: str) -> None:
    client = delta_sharing.SharingClient(str(provider.profile))
    assert [share.name for share in client.list_shares()] == [SHARE]
    (schema,) = client.list_schemas(delta_sharing.Share(SHARE.lower()))
    assert (schema.name, schema.share) == (SCHEMA, SHARE)
    assert plain_table.endswith(f"{SHARE}.{SCHEMA}.Plain")
    assert "Plain" in [table.name for table in client.list_tables(schema)]
    assert "Plain" in [table.name for table in client.list_all_tables()]


@pytest.mark.parametrize("options", [{}, {"use_delta_format": True}], ids=["parquet", "delta"])
def test_every_partition_value_is_read_unchanged(partitioned: str, options: dict[str, Any]) -> None:
    frame = read(partitioned, **options).sort_values("number")
    assert [None if pd.isna(name) else name for name in frame["name"]] == [*[*NASTY, None] * 2, "a b"]
    assert list(frame["number"]) == [*range(2 * (len(NASTY) + 1)), 1000]


@pytest.mark.parametrize("limit", [0, 1, 3, 29, 1_000_000])
def test_a_limit_returns_that_many_rows(partitioned: str, limit: int) -> None:
    assert len(read(partitioned, limit=limit)) == min(limit, 2 * (len(NASTY) + 1) + 1)


@pytest.mark.parametrize("options", [{}, {"use_delta_format": True}], ids=["parquet", "delta"])
@pytest.mark.parametrize(("version", "rows"), [(0, 100), (1, 90), (2, 90)])
def test_an_earlier_version_is_unchanged(plain_table: str, version: int, rows: int, options: dict[str, Any]) -> None:
    frame = read(plain_table, version=version, **options)
    assert len(frame) == rows
    assert (1005 in set(frame["number"])) is (version == 2)


def test_version_metadata_and_protocol_are_returned(plain_table: str) -> None:
    assert delta_sharing.get_table_version(plain_table) == 2
    assert delta_sharing.get_table_version(plain_table, starting_timestamp="2000-01-01T00:00:00Z") == 0
    metadata = delta_sharing.get_table_metadata(plain_table)
    assert metadata.partition_columns == []
    assert '"name":"number"' in metadata.schema_string
    assert delta_sharing.get_table_protocol(plain_table).min_reader_version == 1


@pytest.mark.parametrize("use_delta_format", [False, True], ids=["parquet", "delta"])
def test_the_change_feed_has_inserts_updates_and_deletes(plain_table: str, use_delta_format: bool) -> None:
    changes = delta_sharing.load_table_changes_as_pandas(plain_table, 0, use_delta_format=use_delta_format)
    counts = changes.groupby(["_commit_version", "_change_type"]).size().to_dict()
    assert counts == {
        (0, "insert"): 100,
        (1, "delete"): 10,
        (2, "update_preimage"): 1,
        (2, "update_postimage"): 1,
    }


def test_a_predicate_hint_never_loses_a_row(partitioned: str) -> None:
    hint = '{"op":"equal","children":[{"op":"column","name":"name","valueType":"string"},{"op":"literal","value":"c%d","valueType":"string"}]}'  # noqa: E501 -- one document
    frame = read(partitioned, jsonPredicateHints=hint)
    assert list(frame["name"].unique()) == ["c%d"]
    assert sorted(frame["number"]) == [1, 1 + len(NASTY) + 1]


def test_an_invalid_token_is_refused(provider: Provider, tmp_path: Path, plain_table: str) -> None:
    forged_profile = tmp_path / "forged.share"
    forged_profile.write_text(provider.profile.read_text().replace('"bearerToken": "dlt_', '"bearerToken": "dlt_x'))
    with pytest.raises(Exception, match="UNAUTHENTICATED"):
        delta_sharing.load_as_pandas(plain_table.replace(str(provider.profile), str(forged_profile)))


def test_an_unknown_table_is_refused(provider: Provider) -> None:
    with pytest.raises(Exception, match="RESOURCE_DOES_NOT_EXIST"):
        delta_sharing.load_as_pandas(provider.url("nothing"))
