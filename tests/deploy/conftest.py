"""Fixtures of the deployment tests: the template on the embedded AWS, each function with its own role."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.deploy.sam import BuildTarget, build, deploy, package
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.localstack.deployment import PYTHON, build_artifacts, pack_layers
from deploy.deployments import Deployment, describe_deployment
from deploy.emr import APPLICATION
from deploy.places import EmulatedDeployment, localemu, localstack_core
from supply import stack_release


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `sam build` for this machine's processor and Python."""
    return build(tmp_path_factory.mktemp("sam") / "build", BuildTarget.this_machine())


@pytest.fixture(scope="session")
def small_build(built: Path) -> Path:
    """Return the build with only our own package in the shared layer.

    The embedded AWS unpacks layers for each process of a function, and runs it with this interpreter, which has all
    other packages. test_layer.py tests the complete layer, and LocalEmu runs functions with it.
    """
    folder, package_folder = built.parent / "small", Path("DeltaicLayer", "python", "deltaic")
    shutil.copytree(built / package_folder, folder / package_folder, copy_function=os.link)
    (folder / "DeltalakeLayer").symlink_to(built / "DeltalakeLayer")
    shutil.copyfile(built / "template.yaml", folder / "template.yaml")
    return folder


@pytest.fixture(scope="session")
def packaged(small_build: Path, embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> Path:
    """Return a folder with the template of a build whose code is uploaded, so that no deployment packs it again."""
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket="deploytest-code")
    folder = small_build.parent / "packaged"
    shutil.copytree(small_build, folder, symlinks=True)
    pack_layers(folder)
    package(folder, "deploytest-code", embedded_aws.environment).replace(folder / "template.yaml")
    return folder


@pytest.fixture(scope="session")
def release(small_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the release for this machine's processor, with the layers of the small build."""
    target = tmp_path_factory.mktemp("release") / "deltaic-stack"
    stack_release.write_stack(target, {BuildTarget.this_machine().architecture: small_build})
    return target


@pytest.fixture(scope="session")
def lake(embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> str:
    """Return the name of the bucket that the stack can read."""
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).create_bucket(Bucket="deploytest-lake")
    return "deploytest-lake"


@pytest.fixture(scope="session")
def alarm_topic(embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> str:
    """Return the ARN of the topic that alarms notify."""
    topics = aws_session.client("sns", endpoint_url=embedded_aws.endpoint)
    return str(topics.create_topic(Name="deploytest-alarms")["TopicArn"])


@pytest.fixture(scope="session")
def deploy_with(
    packaged: Path, lake: str, alarm_topic: str, embedded_aws: EmbeddedAws, aws_session: boto3.Session
) -> Callable[..., Deployment]:
    """Return a function that deploys or updates the stack with parameters of the template."""

    def run(folder: Path = packaged, **parameters: str) -> Deployment:
        values = {
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
        deploy(folder, "deltaic-deploytest", values, embedded_aws.environment)
        return describe_deployment("deltaic-deploytest", aws_session, embedded_aws.environment)

    return run


@pytest.fixture(scope="session")
def deployment(deploy_with: Callable[..., Deployment]) -> Deployment:
    """Return the running stack."""
    return deploy_with()


@pytest.fixture(scope="session")
def endpoint(deployment: Deployment, embedded_aws: EmbeddedAws) -> str:
    """Return the endpoint of the API on the embedded AWS, for profiles."""
    return f"{embedded_aws.endpoint}/restapis/{deployment.api_id}/delta-sharing/_user_request_"


@pytest.fixture(scope="session")
def client(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Callable[[Any], Any]:
    """Return a function that creates clients of the administrator."""
    return partial(aws_session.client, endpoint_url=embedded_aws.endpoint)


@pytest.fixture(scope="session")
def admin(deployment: Deployment, client: Callable[[Any], Any]) -> CatalogAdmin:
    """Return the stack's catalog, with the rights of the administrator."""
    tables = deployment.outputs.catalog_table, deployment.outputs.tokens_table
    return CatalogAdmin(*tables, Dynamo(lambda: client("dynamodb")), lambda: client("secretsmanager"))


@pytest.fixture(scope="session")
def emulator_build(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a build for the Python of functions, with packed layers, which LocalEmu and LocalStack deploy."""
    folder = tmp_path_factory.mktemp("emulators") / "build"
    if BuildTarget.this_machine().python != PYTHON:
        return build_artifacts(folder)
    shutil.copytree(built, folder)
    pack_layers(folder)
    return folder


@pytest.fixture(
    scope="module",
    params=[
        "ministack",
        "localemu",
        pytest.param("localstack-core", marks=[pytest.mark.dynamodb_local, pytest.mark.long]),
    ],
)
def emulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedDeployment]:
    """Return a deployment on one of the three emulators, which run one after the other."""
    if request.param == "localemu":
        with localemu(tmp_path_factory.mktemp("localemu"), request.getfixturevalue("emulator_build")) as emulated:
            yield emulated
    elif request.param == "localstack-core":
        with localstack_core(tmp_path_factory.mktemp("core"), request.getfixturevalue("emulator_build")) as emulated:
            yield emulated
    else:
        aws: EmbeddedAws = request.getfixturevalue("embedded_aws")
        yield EmulatedDeployment(
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
