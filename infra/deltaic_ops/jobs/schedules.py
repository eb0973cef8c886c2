"""Create, list and delete the schedules of datasets in the stack's schedule group of EventBridge Scheduler."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from deltaic_ops.deploy.outputs import JobsOutputs
from deltaic_ops.jobs.service_errors import translate_errors

if TYPE_CHECKING:
    from deltaic_datasets.file.dataset_model import Schedule
    from mypy_boto3_scheduler import EventBridgeSchedulerClient

SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""Placeholder that EventBridge Scheduler replaces by the scheduled time, so that its retries have the same run id."""

_LONGEST_NAME = 64


class Schedules:
    """Client for the schedules of a stack. Every method translates errors of AWS to a DeltaicError."""

    def __init__(self, outputs: JobsOutputs, client: Callable[[str], Any]) -> None:
        self._outputs = outputs
        self._client: EventBridgeSchedulerClient = client("scheduler")

    def put(self, dataset: str, schedule: "Schedule", request: dict[str, Any]) -> bool:
        """Create or update the schedule of a dataset; return True if it was created."""
        properties: Any = {
            "Name": name_of(dataset),
            "GroupName": self._outputs.schedule_group,
            "Description": f"builds {dataset}",
            "ScheduleExpression": schedule.expression,
            "ScheduleExpressionTimezone": schedule.timezone,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {
                "Arn": self._outputs.submit_arn,
                "RoleArn": self._outputs.schedule_role_arn,
                "Input": json.dumps({**request, "runId": SCHEDULED_TIME}),
            },
        }
        with translate_errors(f"the schedule group {self._outputs.schedule_group}"):
            try:
                self._client.create_schedule(**properties)
            except self._client.exceptions.ConflictException:
                self._client.update_schedule(**properties)
                return False
        return True

    def remove(self, dataset: str) -> None:
        """Delete a dataset's schedule; raises NotFound if it has none."""
        with translate_errors(f"a schedule of {dataset}"):
            self._client.delete_schedule(Name=name_of(dataset), GroupName=self._outputs.schedule_group)

    def all(self) -> Iterator[dict[str, str]]:
        """Yield the properties of each schedule, as `deltaic` prints them with --json."""
        with translate_errors(f"the schedule group {self._outputs.schedule_group}"):
            for page in self._client.get_paginator("list_schedules").paginate(GroupName=self._outputs.schedule_group):
                for name in (schedule["Name"] for schedule in page["Schedules"]):
                    details = self._client.get_schedule(Name=name, GroupName=self._outputs.schedule_group)
                    zone = details.get("ScheduleExpressionTimezone", "UTC")
                    yield {
                        "dataset": name, "expression": details["ScheduleExpression"], "timezone": zone,
                        "state": details["State"],
                    }  # fmt: skip


def name_of(dataset: str) -> str:
    """Return the schedule name of a dataset: its own name, truncated and with a hash if longer than 64 characters."""
    if len(dataset) <= _LONGEST_NAME:
        return dataset
    return f"{dataset[: _LONGEST_NAME - 17]}-{hashlib.sha256(dataset.encode()).hexdigest()[:16]}"
