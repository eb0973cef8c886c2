"""The declared schedules of datasets, as EventBridge Scheduler keeps them in the stack's group."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from deltaic_ops.deploy.outputs import JobsOutputs
from deltaic_ops.jobs.service_errors import asking

if TYPE_CHECKING:
    from deltaic_datasets.file.dataset_model import Schedule
    from mypy_boto3_scheduler import EventBridgeSchedulerClient

WHEN = "<aws.scheduler.scheduled-time>"
"""Scheduler writes the time here for which it fires: a firing that is repeated has the same run id."""

_LONGEST_NAME = 64


class Schedules:
    """The schedules of one stack; every method raises a DeltaicError for what AWS refuses."""

    def __init__(self, where: JobsOutputs, client: Callable[[str], Any]) -> None:
        self._where = where
        self._client: EventBridgeSchedulerClient = client("scheduler")

    def put(self, dataset: str, schedule: "Schedule", request: dict[str, Any]) -> bool:
        """Let a dataset be built as its schedule says; tell whether it had none before."""
        wanted: Any = {
            "Name": name_of(dataset),
            "GroupName": self._where.schedule_group,
            "Description": f"builds {dataset}",
            "ScheduleExpression": schedule.expression,
            "ScheduleExpressionTimezone": schedule.timezone,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {
                "Arn": self._where.submit_arn,
                "RoleArn": self._where.schedule_role_arn,
                "Input": json.dumps({**request, "runId": WHEN}),
            },
        }
        with asking(f"the schedule group {self._where.schedule_group}"):
            try:
                self._client.create_schedule(**wanted)
            except self._client.exceptions.ConflictException:
                self._client.update_schedule(**wanted)
                return False
        return True

    def remove(self, dataset: str) -> None:
        """Take a dataset's schedule away; raises NotFound when it has none."""
        with asking(f"a schedule of {dataset}"):
            self._client.delete_schedule(Name=name_of(dataset), GroupName=self._where.schedule_group)

    def all(self) -> Iterator[dict[str, str]]:
        """Yield the schedules by name, as scripts see them."""
        with asking(f"the schedule group {self._where.schedule_group}"):
            for page in self._client.get_paginator("list_schedules").paginate(GroupName=self._where.schedule_group):
                for name in (one["Name"] for one in page["Schedules"]):
                    said = self._client.get_schedule(Name=name, GroupName=self._where.schedule_group)
                    zone = said.get("ScheduleExpressionTimezone", "UTC")
                    yield {
                        "dataset": name, "expression": said["ScheduleExpression"], "timezone": zone,
                        "state": said["State"],
                    }  # fmt: skip


def name_of(dataset: str) -> str:
    """Return the name of a dataset's schedule: its own, cut and made unique where it is longer than Scheduler takes."""
    if len(dataset) <= _LONGEST_NAME:
        return dataset
    return f"{dataset[: _LONGEST_NAME - 17]}-{hashlib.sha256(dataset.encode()).hexdigest()[:16]}"
