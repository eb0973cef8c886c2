"""One deployment of this very template on the embedded AWS, with every function under its own role."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.deploy.sam import BuildTarget, build, deploy
from deltaic_ops.local.embedded import EmbeddedAws
from deploy.deployments import Deployment, described
from deploy.emr import APPLICATION
from deploy.places import Place, localemu, localstack_core


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `sam build`, for this machine's processor and Python."""
    return build(tmp_path_factory.mktemp("sam") / "build", BuildTarget.this_machine())


@pytest.fixture(scope="session")
def lake(embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> str:
    """Return the name of the one bucket that the stack may read."""
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket="deploytest-lake")
    return "deploytest-lake"


@pytest.fixture(scope="session")
def alarm_topic(embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> str:
    """Return the ARN of the topic that alarms notify."""
    topics = aws_session.client("sns", endpoint_url=embedded_aws.endpoint)
    return str(topics.create_topic(Name="deploytest-alarms")["TopicArn"])


@pytest.fixture(scope="session")
def deploy_with(
    built: Path, lake: str, alarm_topic: str, embedded_aws: EmbeddedAws, aws_session: boto3.Session
) -> Callable[..., Deployment]:
    """Return what deploys the stack, anew or once more, with some of the template's parameters."""

    def run(folder: Path = built, **parameters: str) -> Deployment:
        told = {
            "Stage": "deploytest",
            "Architecture": BuildTarget.this_machine().architecture,
            "ResponseStreaming": "disabled",
            "DeletionProtection": "disabled",
            "Checkpoints": "enabled",
            "ClientCredentials": "enabled",
            "CorsOrigins": "*",
            "Follow": "enabled",
            "Iceberg": "enabled",
            "Notices": "14",
            "DataBuckets": f"arn:aws:s3:::{lake}",
            "SparkJobs": APPLICATION,
            "AlarmTopic": alarm_topic,
            **parameters,
        }
        deploy(folder, "deltaic-deploytest", told, embedded_aws.environment)
        return described("deltaic-deploytest", aws_session, embedded_aws.environment)

    return run


@pytest.fixture(scope="session")
def deployment(deploy_with: Callable[..., Deployment]) -> Deployment:
    """Return the running stack."""
    return deploy_with()


@pytest.fixture(scope="session")
def endpoint(deployment: Deployment, embedded_aws: EmbeddedAws) -> str:
    """Return where the embedded AWS answers for the API: what a profile must name as endpoint on this machine."""
    return f"{embedded_aws.endpoint}/restapis/{deployment.api_id}/delta-sharing/_user_request_"


@pytest.fixture(scope="session")
def client(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Callable[[Any], Any]:
    """Return what makes clients as the administrator."""
    return partial(aws_session.client, endpoint_url=embedded_aws.endpoint)


@pytest.fixture(scope="session")
def admin(deployment: Deployment, client: Callable[[Any], Any]) -> CatalogAdmin:
    """Return the stack's catalog, as the administrator changes it."""
    tables = deployment.outputs.catalog_table, deployment.outputs.tokens_table
    return CatalogAdmin(*tables, Dynamo(lambda: client("dynamodb")), lambda: client("secretsmanager"))


@pytest.fixture(scope="session")
def localstack_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state folder of `deltaic localstack`; its build serves both emulators."""
    return tmp_path_factory.mktemp("localstack") / "state"


@pytest.fixture(
    scope="module",
    params=[
        "ministack",
        "localemu",
        pytest.param("localstack-core", marks=[pytest.mark.dynamodb_local, pytest.mark.long]),
    ],
)
def place(
    request: pytest.FixtureRequest, localstack_state: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Return a deployment on one of the three emulators; one after the other is up."""
    if request.param == "localemu":
        with localemu(localstack_state) as emulated:
            yield emulated
    elif request.param == "localstack-core":
        with localstack_core(tmp_path_factory.mktemp("core"), localstack_state / "localstack" / "build") as emulated:
            yield emulated
    else:
        aws: EmbeddedAws = request.getfixturevalue("embedded_aws")
        yield Place(
            "ministack",
            dict(aws.environment),
            request.getfixturevalue("endpoint"),
            request.getfixturevalue("deployment"),
            request.getfixturevalue("client"),
            request.getfixturevalue("lake"),
            streams=False,
            own_errors=False,
            keys=False,
        )
