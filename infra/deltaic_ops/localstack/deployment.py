"""Deployment to an emulator: template.yaml as SAM builds it, and a small published table with a reader.

The rows are written by deltalake and not by Spark: what is shown here is the server, and Spark's first start takes
longer than all the rest.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltaic.errors import AlreadyExists, Conflict, Unavailable
from deltaic_terminal.progress import Progress, step

from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.outputs import StackOutputs, reachable, stack_outputs
from deltaic_ops.deploy.sam import BuildTarget, SamError, build, deploy, package, translated
from deltaic_ops.local.resources import DATA_BUCKET, session_of
from deltaic_ops.localstack.instance import PROFILE, Deployed, Running, announce, folder_of
from deltaic_ops.rights.profile_file import profile_place

if TYPE_CHECKING:
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

ARTIFACTS: Final = "deltaic-artifacts"
"""The bucket that code is uploaded to. SAM would make one by a stack of its own, and wait for it."""
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
"""The Python of the functions (template.yaml), for which the layer is built."""
_SAID = 700
_LAYER = re.compile(r"^(?P<before>\s+ContentUri: )(?P<folder>\w+)\s*$", re.MULTILINE)


def deploy_sample(
    state: Path, stack: str, emulator: Running, parameters: Mapping[str, str], progress: Progress
) -> Deployed:
    """Build the template, deploy it to an emulator and share a sample table there; record it in the state folder.

    Raises Conflict for a stack that exists, Unavailable for what SAM refuses.
    """
    folder = folder_of(state)
    refuse_update(stack, emulator)
    with step(progress, "Building the functions and their layer"):
        artifacts = built(folder / "build")
    with step(progress, f"Deploying the stack {stack}") as tell:
        outputs = deployed(artifacts, stack, emulator, parameters)
        # The API's address on the emulator, which its output cannot say.
        endpoint = reachable(outputs.endpoint, emulator.endpoint)
        tell(endpoint)
    profile = folder / PROFILE
    with step(progress, f"Publishing a table and writing the profile of {READER}") as tell:
        tell(f"{publish(outputs, emulator, endpoint, profile)} rows, {profile}")
    record = Deployed(stack, endpoint, str(profile.absolute()))
    announce(state, record)
    return record


def built(folder: Path) -> Path:
    """Run `sam build` for this machine's processor and the functions' own Python; raises Unavailable."""
    if shutil.which("make") is None:
        raise Unavailable("make is needed to build the layer: `apt-get install make`, or Xcode's command line tools")
    try:
        build(folder, BuildTarget(BuildTarget.this_machine().architecture, PYTHON))
    except SamError as error:
        raise Unavailable(_said(error)) from error
    _pack_layers(folder)
    return folder


def refuse_update(stack: str, running: Running) -> None:
    """Raise Conflict if the stack is there, whole or not: these emulators replace aliases when they update one."""
    client = session_of(running.environment).client("cloudformation", endpoint_url=running.endpoint)
    with suppress(client.exceptions.ClientError):
        client.describe_stacks(StackName=stack)
        if not running.containers:
            raise Conflict(
                f"the stack '{stack}' is there already, and {running.engine} cannot update one: stop the emulator and "
                "start it again, or choose another stack with --stack and --parameter Stage=NAME"
            )


def deployed(folder: Path, stack: str, running: Running, parameters: Mapping[str, str]) -> StackOutputs:
    """Run `sam deploy` of what was built; raises Unavailable.

    For LocalStack's own image SAM's transform runs here, since it follows references before it transforms and refuses
    those that the transform makes (tests/emulators corrects that for emulators that run as a process).
    """
    client = session_of(running.environment).client("s3", endpoint_url=running.endpoint)
    for bucket in (ARTIFACTS, DATA_BUCKET):
        with suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket=bucket)
    try:
        if running.containers:
            packaged = package(folder, ARTIFACTS, running.environment)
            folder = folder / "transformed"
            folder.mkdir(exist_ok=True)
            document = translated(read(packaged), {**PARAMETERS, **parameters})
            (folder / "template.yaml").write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        deploy(folder, stack, {**PARAMETERS, **parameters}, running.environment, bucket=ARTIFACTS)
    except SamError as error:
        raise Unavailable(_said(error)) from error
    formation = session_of(running.environment).client("cloudformation", endpoint_url=running.endpoint)
    return stack_outputs(formation, stack)


def publish(outputs: StackOutputs, running: Running, endpoint: str, profile: Path) -> int:
    """Write a table of two versions, share it and write its reader's profile; returns its rows.

    What is there stays, but the reader gets a new token.
    """
    admin = catalog(outputs, running)
    rows = write_rows(running)
    with suppress(AlreadyExists):
        admin.shares.create(SHARE, comment="What `deltaic localstack deploy` shares")
    with suppress(AlreadyExists):
        admin.schemas.create(SHARE, SCHEMA)
    with suppress(AlreadyExists):
        admin.tables.create(SHARE, SCHEMA, TABLE, LOCATION, history=True)
    try:
        reader = admin.recipients.create(READER)
    except AlreadyExists:
        reader = admin.recipients.get(READER)
    with suppress(AlreadyExists):
        admin.grants.create(READER, SHARE)
    with profile_place(profile) as place:
        place.write_profile(endpoint, admin.tokens.create(reader, overlap=timedelta(0)))
    return rows


def catalog(outputs: StackOutputs, running: Running) -> "CatalogAdmin":
    """Return the stack's catalog, as its administrator."""
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.dynamo import Dynamo

    client = session_of(running.environment).client("dynamodb", endpoint_url=running.endpoint)
    return CatalogAdmin(outputs.catalog_table, outputs.tokens_table, Dynamo(lambda: client))


def write_rows(running: Running) -> int:
    """Write the sample: two days of doses, a version each, with a change feed."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    options = {**running.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    days = [
        pa.table({"day": [day] * 3, "dose": pa.array([1, 2, 3], pa.int64())}) for day in ("2026-11-21", "2026-11-22")
    ]
    known: dict[str, Any] = {"partition_by": ["day"], "storage_options": options}
    if not DeltaTable.is_deltatable(LOCATION, storage_options=options):
        write_deltalake(LOCATION, days[0], configuration={"delta.enableChangeDataFeed": "true"}, **known)
        write_deltalake(LOCATION, days[1], mode="append", **known)
    return DeltaTable(LOCATION, storage_options=options).to_pyarrow_table().num_rows


def _pack_layers(folder: Path) -> None:
    """Pack layers without compression: SAM's takes half a minute, and nothing is sent anywhere."""
    template = folder / "template.yaml"

    def pack(found: re.Match[str]) -> str:
        source, archive = folder / found["folder"], folder / f"{found['folder']}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            for path in sorted(source.rglob("*")):
                packed.write(path, path.relative_to(source))
        return f"{found['before']}{archive.name}"

    template.write_text(_LAYER.sub(pack, template.read_text(encoding="utf-8")), encoding="utf-8")


def _said(error: SamError) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _SAID else f"... {text[-_SAID:]}"
