"""Test that statistics are omitted for the Python client alone, and that its rows do not change."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import delta_sharing
import deltalake
import httpx
import pyarrow as pa
import pytest
from client.provider import SCHEMA, SHARE, Provider
from delta_sharing.rest_client import DataSharingRestClient
from deltaic_ops.local.stack import gateway_over
from pandas.testing import assert_frame_equal

pytestmark = pytest.mark.slow

HINT = json.dumps(
    {
        "op": "lessThan",
        "children": [
            {"op": "column", "name": "number", "valueType": "long"},
            {"op": "literal", "value": "20", "valueType": "long"},
        ],
    }
)


@pytest.fixture(scope="module")
def table(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Share ten files with statistics, of ten rows each."""
    folder = tmp_path_factory.mktemp("measured")
    for start in range(0, 100, 10):
        rows = {"number": list(range(start, start + 10)), "site": [f"site {start}"] * 10}
        deltalake.write_deltalake(str(folder), pa.table(rows), mode="append", partition_by=["site"])
    return provider.put("measured", folder, history=True).partition("#")[2]


@pytest.fixture(scope="module")
def full_profile(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a second gateway that sends all statistics, and return a profile for it."""
    folder = tmp_path_factory.mktemp("full")
    environment = {name: value for name, value in provider.stack.environment.items() if name != "AWS_SESSION_TOKEN"}
    with gateway_over({**environment, "UNREAD_STATISTICS": "enabled", "LOG_LEVEL": "ERROR"}, folder / "state") as stack:
        yield provider.reached_by(stack.endpoint, folder).profile
        stack.check()


def files(profile: Path, agent: str, **headers: str) -> list[dict[str, Any]]:
    """Send a query by plain HTTP with a User-Agent, and return the files."""
    profile_fields = json.loads(profile.read_text(encoding="utf-8"))
    answer = httpx.post(
        f"{profile_fields['endpoint']}/shares/{SHARE}/schemas/{SCHEMA}/tables/measured/query",
        headers={"Authorization": f"Bearer {profile_fields['bearerToken']}", "User-Agent": agent, **headers},
        json={},
        timeout=30,
    )
    answer.raise_for_status()
    return [line["file"] for text in answer.text.splitlines() if "file" in (line := json.loads(text))]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="the whole"),
        pytest.param({"limit": 33}, id="a limit, which is counted by the server"),
        pytest.param({"jsonPredicateHints": HINT}, id="a hint, by which the server prunes"),
        pytest.param({"version": 3}, id="a version"),
        pytest.param({"use_delta_format": True}, id="delta format"),
    ],
)
def test_the_published_client_reads_the_same_rows(
    provider: Provider, table: str, full_profile: Path, options: dict[str, Any]
) -> None:
    published = delta_sharing.load_as_pandas(f"{provider.profile}#{table}", **options)
    assert len(published) == {"limit": 33, "jsonPredicateHints": 20, "version": 40}.get(next(iter(options), ""), 100)
    assert_frame_equal(delta_sharing.load_as_pandas(f"{full_profile}#{table}", **options), published)


def test_statistics_are_omitted_only_for_this_client_in_parquet_format(
    provider: Provider, table: str, full_profile: Path
) -> None:
    assert table
    agent = DataSharingRestClient.USER_AGENT
    assert agent.startswith("Delta-Sharing-Python/1.4.")
    published, full_files = files(provider.profile, agent), files(full_profile, agent)
    assert len(published) == 10
    for short_line, long_line in zip(published, full_files, strict=True):
        assert set(long_line) - set(short_line) == {"stats"}
        assert {name: long_line[name] for name in ("id", "size", "partitionValues")} == {
            name: short_line[name] for name in ("id", "size", "partitionValues")
        }
    agents = (
        "Delta-Sharing-Spark/1.3.10 Spark/4.1.1",
        "Delta-Sharing-Python/1.5.0 pandas/2.3.3",
        "python-requests/2.32.3",
    )
    for other_agent in agents:
        assert all("stats" in file for file in files(provider.profile, other_agent)), other_agent
    delta = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}
    assert all("stats" in file["deltaSingleAction"]["add"] for file in files(provider.profile, agent, **delta))
