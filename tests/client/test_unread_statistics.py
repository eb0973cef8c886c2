"""Statistics that the Python client never reads are left out for it alone; its rows are the same as with them."""

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
def full(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a gateway beside the provider's that sends what is not read, too, and return a profile for it."""
    folder = tmp_path_factory.mktemp("full")
    known = {name: value for name, value in provider.stack.environment.items() if name != "AWS_SESSION_TOKEN"}
    with gateway_over({**known, "UNREAD_STATISTICS": "enabled", "LOG_LEVEL": "ERROR"}, folder / "state") as stack:
        yield provider.reached_by(stack.endpoint, folder).profile
        stack.check()


def files(profile: Path, agent: str, **headers: str) -> list[dict[str, Any]]:
    """Ask by plain HTTP, in the client's name or another's."""
    told = json.loads(profile.read_text(encoding="utf-8"))
    answer = httpx.post(
        f"{told['endpoint']}/shares/{SHARE}/schemas/{SCHEMA}/tables/measured/query",
        headers={"Authorization": f"Bearer {told['bearerToken']}", "User-Agent": agent, **headers},
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
    provider: Provider, table: str, full: Path, options: dict[str, Any]
) -> None:
    usual = delta_sharing.load_as_pandas(f"{provider.profile}#{table}", **options)
    assert len(usual) == {"limit": 33, "jsonPredicateHints": 20, "version": 40}.get(next(iter(options), ""), 100)
    assert_frame_equal(delta_sharing.load_as_pandas(f"{full}#{table}", **options), usual)


def test_only_its_lines_in_parquet_format_are_without(provider: Provider, table: str, full: Path) -> None:
    assert table
    agent = DataSharingRestClient.USER_AGENT
    assert agent.startswith("Delta-Sharing-Python/1.4.")
    usual, whole = files(provider.profile, agent), files(full, agent)
    assert len(usual) == 10
    for short, long in zip(usual, whole, strict=True):
        assert set(long) - set(short) == {"stats"}
        assert {name: long[name] for name in ("id", "size", "partitionValues")} == {
            name: short[name] for name in ("id", "size", "partitionValues")
        }
    others = (
        "Delta-Sharing-Spark/1.3.10 Spark/4.1.1",
        "Delta-Sharing-Python/1.5.0 pandas/2.3.3",
        "python-requests/2.32.3",
    )
    for other in others:
        assert all("stats" in file for file in files(provider.profile, other)), other
    delta = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}
    assert all("stats" in file["deltaSingleAction"]["add"] for file in files(provider.profile, agent, **delta))
