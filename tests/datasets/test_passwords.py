"""Test passwords from Secrets Manager, and that errors do not contain them."""

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
    """Store two secrets, and set the environment variables of a job."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in embedded_aws.environment.items():
        if name != "AWS_DEFAULT_REGION":  # Lambda sets only AWS_REGION, which boto3 ignores
            monkeypatch.setenv(name, value)
    client = boto3.client("secretsmanager", region_name="us-east-1")
    client.create_secret(Name=f"plain-{request.node.name}", SecretString=SECRET)
    client.create_secret(Name=f"object-{request.node.name}", SecretString=json.dumps({"password": SECRET}))


def test_password_is_a_secret_or_a_field_of_one(request: pytest.FixtureRequest) -> None:
    name = request.node.name
    assert read_password(Password(secret=f"plain-{name}")) == SECRET
    assert read_password(Password(secret=f"object-{name}", field="password")) == SECRET


@pytest.mark.parametrize(
    ("secret", "field", "message"),
    [
        ("none", None, "cannot be read: ResourceNotFoundException"),
        ("plain", "password", "is not a JSON object with a field password"),
        ("object", "word", "is not a JSON object with a field word"),
    ],
)
def test_missing_secret_is_reported_by_name(
    request: pytest.FixtureRequest, secret: str, field: str | None, message: str
) -> None:
    name = f"{secret}-{request.node.name}"
    with pytest.raises(PipelineError, match=message) as refusal:
        read_password(Password(secret=name, field=field))
    assert name in refusal.value.message
    assert SECRET not in refusal.value.message
