"""Deploy template.yaml to LocalStack with SAM, and share a small table with a sample recipient.

The deltalake library writes the rows, because starting Spark takes longer than the whole deployment.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltaic.errors import AlreadyExists, Unavailable
from deltaic_terminal.progress import Progress, step

from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.outputs import StackOutputs, stack_outputs
from deltaic_ops.deploy.sam import BuildTarget, SamError, build, deploy, package, translate
from deltaic_ops.local.resources import DATA_BUCKET, session_of
from deltaic_ops.localstack.instance import Running, folder_of

if TYPE_CHECKING:
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

ARTIFACTS: Final = "deltaic-artifacts"
"""Bucket for code that SAM uploads. Otherwise SAM creates a bucket with an additional stack, which takes longer."""
SHARE, SCHEMA, TABLE = "localstack_share", "sample", "doses"
READER: Final = "localstack_reader"
LOCATION: Final = f"s3://{DATA_BUCKET}/sample/doses"
PARAMETERS: Final = {
    "Stage": "local",
    "Architecture": BuildTarget.this_machine().architecture,
    "DeletionProtection": "disabled",
    "DataBuckets": f"arn:aws:s3:::{DATA_BUCKET}",
}
PYTHON: Final = "3.13"
"""Python version of the functions (template.yaml), for which the layer is built."""
_LAYER = re.compile(r"^(?P<before>\s+ContentUri: )(?P<folder>\w+)\s*$", re.MULTILINE)


def deploy_sample(
    state: Path, stack: str, emulator: Running, parameters: Mapping[str, str], progress: Progress
) -> None:
    """Build and deploy the template to LocalStack, and share a sample table; raises Unavailable if SAM fails."""
    with step(progress, "Building the functions and their layer"):
        artifacts = build_artifacts(folder_of(state) / "build")
    with step(progress, f"Deploying the stack {stack}"):
        outputs = deploy_artifacts(artifacts, stack, emulator, parameters)
    with step(progress, f"Sharing a table with {READER}") as update:
        update(f"{publish(outputs, emulator)} rows")


def build_artifacts(folder: Path) -> Path:
    """Run `sam build` for this machine's processor and the functions' Python version; raises Unavailable."""
    if shutil.which("make") is None:
        raise Unavailable("cannot build the layer without make: run `apt-get install make`, or install Xcode's tools")
    try:
        build(folder, BuildTarget(BuildTarget.this_machine().architecture, PYTHON))
    except SamError as error:
        raise Unavailable(str(error)) from error
    pack_layers(folder)
    return folder


def deploy_artifacts(folder: Path, stack: str, running: Running, parameters: Mapping[str, str]) -> StackOutputs:
    """Run `sam deploy` for the built artifacts, and return the stack's outputs; raises Unavailable.

    SAM's transform runs in this process: LocalStack resolves references before it transforms the template, and rejects
    references to resources that the transform creates.
    """
    create_buckets(running)
    transformed = folder / "transformed"
    transformed.mkdir(exist_ok=True)
    try:
        packaged = package(folder, ARTIFACTS, running.environment)
        document = translate(read(packaged), {**PARAMETERS, **parameters})
        (transformed / "template.yaml").write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        deploy(transformed, stack, {**PARAMETERS, **parameters}, running.environment, bucket=ARTIFACTS)
    except SamError as error:
        raise Unavailable(str(error)) from error
    formation = session_of(running.environment).client("cloudformation", endpoint_url=running.endpoint)
    return stack_outputs(formation, stack)


def create_buckets(running: Running) -> None:
    """Create the buckets for SAM's uploads and for tables, unless they exist."""
    client = session_of(running.environment).client("s3", endpoint_url=running.endpoint)
    for bucket in (ARTIFACTS, DATA_BUCKET):
        with suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket=bucket)


def publish(outputs: StackOutputs, running: Running) -> int:
    """Write and share a table with two versions, unless it exists; return the number of rows."""
    admin = catalog(outputs, running)
    rows = write_rows(running)
    with suppress(AlreadyExists):
        admin.shares.create(SHARE, comment="Sample of `deltaic localstack deploy`")
    with suppress(AlreadyExists):
        admin.schemas.create(SHARE, SCHEMA)
    with suppress(AlreadyExists):
        admin.tables.create(SHARE, SCHEMA, TABLE, LOCATION, history=True)
    with suppress(AlreadyExists):
        admin.recipients.create(READER)
    with suppress(AlreadyExists):
        admin.grants.create(READER, SHARE)
    return rows


def catalog(outputs: StackOutputs, running: Running) -> "CatalogAdmin":
    """Return an administration client for the stack's catalog."""
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.dynamo import Dynamo

    client = session_of(running.environment).client("dynamodb", endpoint_url=running.endpoint)
    return CatalogAdmin(outputs.catalog_table, outputs.tokens_table, Dynamo(lambda: client))


def write_rows(running: Running) -> int:
    """Write two versions of the sample table, with a change data feed; return its number of rows."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    options = {**running.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    days = [
        pa.table({"day": [day] * 3, "dose": pa.array([1, 2, 3], pa.int64())}) for day in ("2026-11-21", "2026-11-22")
    ]
    arguments: dict[str, Any] = {"partition_by": ["day"], "storage_options": options}
    if not DeltaTable.is_deltatable(LOCATION, storage_options=options):
        write_deltalake(LOCATION, days[0], configuration={"delta.enableChangeDataFeed": "true"}, **arguments)
        write_deltalake(LOCATION, days[1], mode="append", **arguments)
    return DeltaTable(LOCATION, storage_options=options).to_pyarrow_table().num_rows


def pack_layers(folder: Path) -> None:
    """Pack layers into uncompressed zip files, because SAM would spend half a minute on useless compression."""
    template = folder / "template.yaml"

    def pack(match: re.Match[str]) -> str:
        source, archive = folder / match["folder"], folder / f"{match['folder']}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            for path in sorted(source.rglob("*")):
                packed.write(path, path.relative_to(source))
        return f"{match['before']}{archive.name}"

    template.write_text(_LAYER.sub(pack, template.read_text(encoding="utf-8")), encoding="utf-8")
