"""Deploy the template to a running emulator as it is: the emulator applies SAM's transform."""

from contextlib import suppress
from pathlib import Path

from deltaic.errors import Conflict, NotFound, Unavailable
from deltaic_ops.deploy import sam
from deltaic_ops.deploy.outputs import StackOutputs, stack_outputs
from deltaic_ops.local.resources import session_of
from deltaic_ops.localstack import deployment, instance


def deploy(state: Path, folder: Path, built: Path | None) -> None:
    """Deploy the build `built`, or else one that is created in `folder`, and share a sample table."""
    emulator = instance.running_emulator(state)
    if emulator is None:
        raise NotFound(f"no emulator is up in {state}: start it with `up`")
    refuse_update("deltaic", emulator)
    outputs = deploy_built(built or deployment.build_artifacts(folder), "deltaic", emulator)
    deployment.publish(outputs, emulator)


def refuse_update(stack: str, emulator: instance.Running) -> None:
    """Raise Conflict if the stack exists: these emulators cannot update stacks that have function aliases."""
    client = session_of(emulator.environment).client("cloudformation", endpoint_url=emulator.endpoint)
    with suppress(client.exceptions.ClientError):
        client.describe_stacks(StackName=stack)
        raise Conflict(f"the stack '{stack}' exists, and the emulator cannot update stacks: restart the emulator")


def deploy_built(build: Path, stack: str, emulator: instance.Running) -> StackOutputs:
    """Run `sam deploy` for a built template, and return the stack's outputs."""
    deployment.create_buckets(emulator)
    try:
        sam.deploy(build, stack, deployment.PARAMETERS, emulator.environment, bucket=deployment.ARTIFACTS)
    except sam.SamError as error:
        raise Unavailable(str(error)) from error
    formation = session_of(emulator.environment).client("cloudformation", endpoint_url=emulator.endpoint)
    return stack_outputs(formation, stack)
