"""Deployments of the template on MiniStack, LocalEmu and LocalStack's open source edition.

This module defines how the three emulators differ; docs/local.md has a table of it.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from catalog.dynamodb_local import started, unavailable
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.errors import Unavailable
from deltaic_ops.deploy.outputs import reachable_endpoint
from deltaic_ops.local.resources import DATA_BUCKET, session_of
from deltaic_ops.localstack.instance import running_emulator
from deploy.deployments import Deployment, describe_deployment
from emulators import starting
from emulators.deploying import deploy_built
from emulators.engines import LOCALEMU, LOCALSTACK_CORE, Engine, install


@dataclass(frozen=True, slots=True)
class EmulatedDeployment:
    """A deployment, and the abilities of its emulator."""

    name: str
    environment: dict[str, str]
    """AWS variables of the administrator."""
    endpoint: str
    """Endpoint for profiles."""
    deployment: Deployment
    client: Callable[[Any], Any]
    lake: str
    state: Path | None = None
    """State folder of an emulator that `emulators` has started."""
    streams: bool = True
    """Whether routes stream; if not, the template's ResponseStreaming is off."""
    own_errors: bool = True
    """Whether the gateway returns the template's error responses."""
    roles: bool = True
    """Whether the emulator enforces the roles of functions."""
    private: bool = True
    """Whether S3 refuses requests without a signature."""
    keys: bool = True
    """Whether the emulator enforces `dynamodb:LeadingKeys`."""

    @property
    def catalog(self) -> CatalogAdmin:
        """The stack's catalog."""
        outputs = self.deployment.outputs
        return CatalogAdmin(outputs.catalog_table, outputs.tokens_table, Dynamo(lambda: self.client("dynamodb")))


@contextmanager
def localemu(state: Path, build: Path) -> Iterator[EmulatedDeployment]:
    """Start LocalEmu with its commands, deploy a build of the template, and stop it at the end."""
    install_or_skip(LOCALEMU)
    try:
        run_emulators("up", "--port", "0", state=state)
        instance = running_emulator(state)
        assert instance is not None
        run_emulators("deploy", "--built", str(build), state=state)
        client = partial(session_of(instance.environment).client, endpoint_url=instance.endpoint)
        record = describe_deployment("deltaic", session_of(instance.environment), instance.environment)
        endpoint = reachable_endpoint(record.outputs.endpoint, instance.endpoint)
        yield EmulatedDeployment("localemu", dict(instance.environment), endpoint, record, client, DATA_BUCKET, state)
    finally:
        run_emulators("down", state=state)
        assert running_emulator(state) is None


@contextmanager
def localstack_core(folder: Path, build: Path) -> Iterator[EmulatedDeployment]:
    """Run LocalStack's open source edition with DynamoDB Local, and deploy the template."""
    install_or_skip(LOCALSTACK_CORE)
    with started(folder) as dynamodb:
        instance, pid = starting.start(LOCALSTACK_CORE, folder, 0, dynamodb)
        try:
            deploy_built(build, "deltaic", instance)
            record = describe_deployment("deltaic", session_of(instance.environment), instance.environment)
            endpoint = reachable_endpoint(record.outputs.endpoint, instance.endpoint)
            client = partial(session_of(instance.environment).client, endpoint_url=instance.endpoint)
            lake = DATA_BUCKET
            yield EmulatedDeployment(
                *("localstack-core", dict(instance.environment), endpoint, record, client, lake),
                roles=False,
                private=False,
                keys=False,
            )
        finally:
            starting.end(pid)


def install_or_skip(engine: Engine) -> None:
    """Install an emulator, or skip the test; in CI, fail instead."""
    try:
        install(engine)
    except Unavailable as error:
        unavailable(error.message)


def run_emulators(*command: str, state: Path) -> None:
    """Run `python -m emulators`."""
    result = subprocess.run(
        [sys.executable, "-m", "emulators", *command, "--state", str(state)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
