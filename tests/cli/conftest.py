"""The command line with the embedded AWS; each test has its own tables."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from catalog import schema
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.cli import app
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pathlib import Path

    import boto3
    from deltaic_ops.local.embedded import EmbeddedAws
    from typer.testing import Result

# Whatever the machine's own environment names must not lead a test elsewhere.
CLEAN = (
    "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CATALOG_TABLE",
    "DELTAIC_ENDPOINT",
    "DELTAIC_STACK",
    "DELTAIC_STATE",
    "ICEBERG_BUCKET",
    "TOKENS_TABLE",
    "UV_RUN_RECURSION_DEPTH",
)


@dataclass
class Deltaic:
    """The command, run in this process."""

    variables: dict[str, str]
    options: list[str] = field(default_factory=list)

    def __call__(self, line: str, *, stdin: str | None = None, **variables: str) -> Result:
        arguments = [*self.options, *shlex.split(line)]
        environment = dict.fromkeys(CLEAN) | self.variables | variables | {"AWS_EC2_METADATA_DISABLED": "true"}
        return CliRunner().invoke(app, arguments, input=stdin, env=environment, catch_exceptions=False)

    def done(self, line: str, *, stdin: str | None = None) -> str:
        """Run a command that must succeed; return its text output."""
        result = self(line, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.output

    def json(self, line: str, *, stdin: str | None = None) -> Any:
        """Run a command that must succeed; return its JSON output."""
        result = self(f"{line} --json", stdin=stdin)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return json.loads(result.stdout)


@pytest.fixture
def dynamodb(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Any:
    return aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)


@pytest.fixture
def deltaic(embedded_aws: EmbeddedAws, dynamodb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deltaic:
    """Return the command with an empty catalog, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    unique = uuid4().hex
    tables = {"CATALOG_TABLE": f"catalog-{unique}", "TOKENS_TABLE": f"tokens-{unique}"}
    schema.create(dynamodb, tables["CATALOG_TABLE"], tables["TOKENS_TABLE"])
    return Deltaic({**embedded_aws.environment, **tables, "DELTAIC_ENDPOINT": "https://shares.test/delta-sharing/"})


@pytest.fixture
def nowhere() -> Deltaic:
    """Return the command without an AWS."""
    return Deltaic({})


@pytest.fixture
def admin(deltaic: Deltaic, dynamodb: Any) -> CatalogAdmin:
    """Return the catalog of the command."""
    variables = deltaic.variables
    return CatalogAdmin(variables["CATALOG_TABLE"], variables["TOKENS_TABLE"], Dynamo(lambda: dynamodb))


@pytest.fixture
def filled(deltaic: Deltaic, admin: CatalogAdmin) -> Deltaic:
    """Return the command with a catalog that has one entry of each kind."""
    admin.shares.create("vaccine_share")
    admin.schemas.create("vaccine_share", "acme")
    admin.tables.create("vaccine_share", "acme", "patients", "s3://bucket/patients")
    admin.storages.create("minio", endpoint="http://minio:9000", path_style=True)
    admin.recipients.create("alice")
    admin.grants.create("alice", "vaccine_share")
    return deltaic


@pytest.fixture
def tokens(deltaic: Deltaic, dynamodb: Any) -> TokenStore:
    """Return the tokens as the authorizer sees them."""
    return TokenStore(deltaic.variables["TOKENS_TABLE"], Dynamo(lambda: dynamodb))


@pytest.fixture
def secrets_manager(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Any:
    return aws_session.client("secretsmanager", endpoint_url=embedded_aws.endpoint)
