"""A database's password comes from Secrets Manager, and what is wrong with it is told without it."""

import json
import os

import boto3
import pytest
from deltaic_datasets.file.dataset_model import Password
from deltaic_datasets.run.database import read_password
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.failures import PipelineError

SECRET = "not in any log"


@pytest.fixture(autouse=True)
def secrets(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Keep two secrets, and let this process's environment lead to them as a job's does."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in embedded_aws.environment.items():
        if name != "AWS_DEFAULT_REGION":  # a function has AWS_REGION alone, which boto3 does not know
            monkeypatch.setenv(name, value)
    client = boto3.client("secretsmanager", region_name="us-east-1")
    client.create_secret(Name=f"plain-{request.node.name}", SecretString=SECRET)
    client.create_secret(Name=f"object-{request.node.name}", SecretString=json.dumps({"password": SECRET}))


def test_a_secret_is_the_password_or_a_field_of_it(request: pytest.FixtureRequest) -> None:
    name = request.node.name
    assert read_password(Password(secret=f"plain-{name}")) == SECRET
    assert read_password(Password(secret=f"object-{name}", field="password")) == SECRET


@pytest.mark.parametrize(
    ("secret", "field", "told"),
    [
        ("none", None, "cannot be read: ResourceNotFoundException"),
        ("plain", "password", "is not a JSON object with a field password"),
        ("object", "word", "is not a JSON object with a field word"),
    ],
)
def test_a_secret_that_is_not_there_is_told_by_its_name(
    request: pytest.FixtureRequest, secret: str, field: str | None, told: str
) -> None:
    name = f"{secret}-{request.node.name}"
    with pytest.raises(PipelineError, match=told) as refusal:
        read_password(Password(secret=name, field=field))
    assert name in refusal.value.message
    assert SECRET not in refusal.value.message
