"""Where the template is deployed to and asked: MiniStack, LocalEmu and LocalStack's open source, each a `Place`.

What differs between the three is said here, once; docs/local.md has it as a table.
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
from deltaic_ops.deploy.outputs import reachable
from deltaic_ops.local.resources import DATA_BUCKET, session_of
from deltaic_ops.localstack import deployment
from deltaic_ops.localstack.instance import deployed_stack, running_emulator
from deploy.deployments import Deployment, described
from emulators import starting
from emulators.engines import LOCALEMU, LOCALSTACK_CORE, Engine, install


@dataclass(frozen=True, slots=True)
class Place:
    """One deployment, and what holds of its emulator."""

    name: str
    environment: dict[str, str]
    """The AWS variables of its administrator."""
    endpoint: str
    """What a profile names."""
    deployment: Deployment
    client: Callable[[Any], Any]
    lake: str
    state: Path | None = None
    """The state folder of an emulator that `emulators` has started."""
    streams: bool = True
    """Streamed routes stream; else the template's ResponseStreaming is off."""
    own_errors: bool = True
    """The gateway's own errors are those of the template."""
    roles: bool = True
    """A function cannot do what its role does not allow."""
    private: bool = True
    """S3 refuses who has no signature at all."""
    keys: bool = True
    """The keys that a grant is bound to (`dynamodb:LeadingKeys`) bind."""

    @property
    def catalog(self) -> CatalogAdmin:
        """The stack's catalog."""
        outputs = self.deployment.outputs
        return CatalogAdmin(outputs.catalog_table, outputs.tokens_table, Dynamo(lambda: self.client("dynamodb")))


@contextmanager
def localemu(state: Path) -> Iterator[Place]:
    """Start LocalEmu by its commands, deploy the template there, and stop it in the end."""
    fetched(LOCALEMU)
    try:
        run_emulators("up", "--port", "0", state=state)
        there = running_emulator(state)
        assert there is not None
        run_emulators("deploy", state=state)
        stack = deployed_stack(state)
        assert stack is not None
        client = partial(session_of(there.environment).client, endpoint_url=there.endpoint)
        record = described(stack.stack, session_of(there.environment), there.environment)
        yield Place("localemu", dict(there.environment), stack.endpoint, record, client, DATA_BUCKET, state)
    finally:
        run_emulators("down", state=state)
        assert running_emulator(state) is None


@contextmanager
def localstack_core(folder: Path, build: Path) -> Iterator[Place]:
    """Run LocalStack's open source over a DynamoDB Local, and deploy there what was built for LocalEmu, if it was."""
    fetched(LOCALSTACK_CORE)
    built = build if (build / "template.yaml").exists() else deployment.build_artifacts(build)
    with started(folder) as dynamodb:
        there = starting.start(LOCALSTACK_CORE, folder, 0, dynamodb)
        try:
            deployment.deploy_artifacts(built, "deltaic", there, {})
            record = described("deltaic", session_of(there.environment), there.environment)
            endpoint = reachable(record.outputs.endpoint, there.endpoint)
            client = partial(session_of(there.environment).client, endpoint_url=there.endpoint)
            lake = DATA_BUCKET
            yield Place(
                *("localstack-core", dict(there.environment), endpoint, record, client, lake),
                roles=False,
                private=False,
                keys=False,
            )
        finally:
            starting.end(there.pid)


def fetched(engine: Engine) -> None:
    """Have the software, or skip (fail in the pipeline) with the reason."""
    try:
        install(engine)
    except Unavailable as error:
        unavailable(error.message)


def run_emulators(*command: str, state: Path) -> None:
    """Run `python -m emulators`."""
    done = subprocess.run(
        [sys.executable, "-m", "emulators", *command, "--state", str(state)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
