"""Fixtures for all tests: the embedded AWS, once per session."""

import atexit
import gc
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from cached_reads import cache_reads
from deltaic_ops.local.embedded import EmbeddedAws
from hypothesis import HealthCheck, settings
from laws import USUAL
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["pipeline.fixtures"]
"""Spark's, which two folders share; what a folder starts is its worker's own."""


settings.register_profile("usual", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("brief", settings.get_profile("ci"), max_examples=USUAL // 10)
settings.register_profile("long", settings.get_profile("usual"), max_examples=USUAL * 10)
settings.load_profile("usual")
"""Every run has one of these, `usual` unless `--hypothesis-profile` names another. None measures time:
a first example may import what it tests, and a busy machine is not a failure."""

cache_reads()
gc.disable()  # until all tests are collected

QUICK = "not slow and not spark and not deploy and not dynamodb_local and not connector and not browser"
"""The marks of what a bare `pytest` leaves out, and `--quick` where folders are named."""

LONGEST = ("deploy", "pipeline", "views", "faults", "cli", "pull", "datasets", "iceberg_clients", "catalog", "contract")
"""Folders that take longest start first, so that no worker runs one of them alone at the end.

Folders that share a Spark session come before those of Iceberg, which replace it.
"""

BY_FILE = ("datasets", "template")
"""Folders whose files start nothing but what all folders share: spread over the workers."""

ON_ONE_WORKER = "deploy"
"""Folder whose files never run at the same time, because each worker would build the stack in this checkout."""


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Assign each folder of tests to one worker, so that its server or Spark session starts once.

    The files of a folder that is tested alone are spread over the workers, except those of `ON_ONE_WORKER`. Those of
    `BY_FILE` are always spread.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        is_spread = folder in BY_FILE or (self._one_folder and folder != ON_ONE_WORKER)
        return nodeid.partition("::")[0] if is_spread else folder

    @cached_property
    def _one_folder(self) -> bool:
        return len(set(map(folder_of, self.collection))) == 1


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, or its file if it is in no folder."""
    return nodeid.partition("::")[0].removeprefix("tests/").partition("/")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options --all and --quick; by default, tests with Spark and emulators do not run."""
    parser.addoption("--all", action="store_true", help="every test, also those that start Spark, servers, emulators")
    parser.addoption("--quick", action="store_true", help="the quick part of the folders that are named")


def pytest_configure(config: pytest.Config) -> None:
    """Deselect heavy tests unless files or marks were given; the controller passes this to the workers."""
    if hasattr(config, "workerinput"):
        config.option.markexpr = config.workerinput["markexpr"]
        return
    has_paths = config.args_source is pytest.Config.ArgsSource.ARGS
    if not config.option.markexpr and (config.option.quick or not (has_paths or config.option.all)):
        config.option.markexpr = QUICK


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker which marks are played: of the options it knows those alone that were typed."""
    node.workerinput["markexpr"] = node.config.option.markexpr


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest folders first, each in its order; skip long tests without DELTAIC_LONG=1."""
    ranks = {folder: rank for rank, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(folder_of(item.nodeid), len(LONGEST)))
    if "DELTAIC_LONG" not in os.environ:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="runs only with DELTAIC_LONG=1"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude all tests and their modules from garbage collection, which takes a quarter of a second otherwise."""
    gc.freeze()
    if not hasattr(session.config, "workerinput"):
        atexit.register(gc.unfreeze)  # otherwise libraries report leaks at the end
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder:
    """Choose how tests are spread over the workers."""
    return ByFolder(config, log)


@pytest.fixture(scope="session")
def embedded_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAws]:
    """Return one running embedded AWS with `AUTH=true`; tests share it, so they name their own tables and buckets."""
    state: Path = tmp_path_factory.mktemp("aws")
    with EmbeddedAws(state, persistent=False) as aws:
        # A service is loaded at its first call, which on a busy machine outlasts the product's patience.
        environment = aws.environment
        session = boto3.Session(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            region_name=environment["AWS_REGION"],
        )
        session.client("dynamodb", endpoint_url=aws.endpoint).list_tables()
        session.client("sts", endpoint_url=aws.endpoint).get_caller_identity()
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
