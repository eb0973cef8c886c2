"""Fixtures that every test may use: the embedded AWS, once a session."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from deltaic_ops.local.embedded import EmbeddedAws


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each folder of tests to one worker: what a folder starts (a server, Spark) is then started once."""
    root = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(root).parts[0]
        item.add_marker(pytest.mark.xdist_group(folder))


@pytest.fixture(scope="session")
def embedded_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAws]:
    """Return one running embedded AWS with `AUTH=true`; tests share it, so they name their own tables and buckets."""
    state: Path = tmp_path_factory.mktemp("aws")
    with EmbeddedAws(state) as aws:
        yield aws


@pytest.fixture(scope="session")
def aws_session(embedded_aws: EmbeddedAws) -> boto3.Session:
    """Return a boto3 session as the embedded AWS's administrator; pass `endpoint_url=embedded_aws.endpoint`."""
    environment = embedded_aws.environment
    return boto3.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )
