"""Start, find, follow and cancel runs of jobs on EMR Serverless."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError, InvalidParameter, NotFound, Unavailable

from deltaic_ops.deploy.outputs import JobsOutputs
from deltaic_ops.jobs.service_errors import translate_errors

if TYPE_CHECKING:
    from mypy_boto3_emr_serverless import EMRServerlessClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient

ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
POLL_SECONDS = 5.0
STREAMS = "jobs"
"""Prefix of the names of the jobs' CloudWatch log streams, which functions/pipeline/submit sets."""

_REFUSALS: dict[str, type[DeltaicError]] = {"InvalidParameter": InvalidParameter, "NotFound": NotFound}
_EXIT_CODE = re.compile(r"[Ee]xit ?[Cc]ode:? *(\d{1,3})")


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job on EMR Serverless."""

    job_run_id: str
    """Id that EMR Serverless assigned to the run."""

    name: str
    """Job type, dataset or table, and run id, separated by spaces; empty if the stack did not start the run."""

    state: str
    details: str
    created: datetime
    seconds: float
    """Seconds from the start of the run to its end, or until now if it has not ended."""

    attempt: int

    @property
    def exit_code(self) -> int:
        """Exit code of the job; 1 if the run failed and EMR Serverless does not report an exit code."""
        if self.state == "SUCCESS":
            return 0
        match = _EXIT_CODE.search(self.details)
        return int(match[1]) or 1 if match else 1


class JobRuns:
    """Client for the job runs of a stack. Every method translates errors of AWS to a DeltaicError."""

    def __init__(self, outputs: JobsOutputs, client: Callable[[str], Any]) -> None:
        self._outputs = outputs
        self._emr: EMRServerlessClient = client("emr-serverless")
        self._lambda: LambdaClient = client("lambda")
        self._logs: CloudWatchLogsClient = client("logs")

    def start(self, request: dict[str, Any]) -> str:
        """Invoke the Lambda function that starts jobs (functions/pipeline/submit); return the id of the new run."""
        with translate_errors("the function that starts jobs"):
            answer = self._lambda.invoke(FunctionName=self._outputs.submit_arn, Payload=json.dumps(request))
            content = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            message = str(content.get("errorMessage") or "the function that starts jobs failed: read its log")
            raise _REFUSALS.get(str(content.get("errorType")), Unavailable)(message)
        return str(content["jobRunId"])

    def architecture(self) -> str:
        """Return the processor architecture of the EMR application, `arm64` or `x86_64`."""
        with translate_errors(f"the application {self._outputs.application_id}"):
            application = self._emr.get_application(applicationId=self._outputs.application_id)["application"]
        return str(application.get("architecture", "X86_64")).lower()

    def get(self, job_run_id: str) -> JobRun:
        """Return a run by the id that EMR Serverless assigned."""
        with translate_errors(f"the job run {job_run_id}"):
            return _run(
                self._emr.get_job_run(applicationId=self._outputs.application_id, jobRunId=job_run_id)["jobRun"]
            )

    def recent(self, since: timedelta) -> Iterator[JobRun]:
        """Yield the runs that were created within the last `since`, in the order in which EMR Serverless lists them."""
        query: dict[str, Any] = {
            "applicationId": self._outputs.application_id,
            "createdAtAfter": datetime.now(UTC) - since,
        }
        while True:
            with translate_errors(f"the application {self._outputs.application_id}"):
                page = self._emr.list_job_runs(**query)
            yield from map(_run, page["jobRuns"])
            if not page.get("nextToken"):
                return
            query["nextToken"] = page["nextToken"]

    def find(self, name: str, since: timedelta = timedelta(days=30)) -> JobRun:
        """Return the latest run with this job run id, run id or dataset name; raises NotFound if there is none."""
        matches = [run for run in self.recent(since) if name == run.job_run_id or name in run.name.split(" ")]
        if matches:
            return self.get(max(matches, key=lambda run: run.created).job_run_id)
        raise NotFound(f"'{name}' has no run in the last {since.days} days: `deltaic pipeline list` shows the runs")

    def cancel(self, job_run_id: str) -> None:
        """Cancel a run. Rows that it has not yet committed are not written to its table."""
        with translate_errors(f"the job run {job_run_id}"):
            self._emr.cancel_job_run(applicationId=self._outputs.application_id, jobRunId=job_run_id)

    def lines(self, job_run_id: str) -> Iterator[str | None]:
        """Yield the log lines of a run, and None whenever there are no new lines; the iterator never ends."""
        prefix = f"{STREAMS}/applications/{self._outputs.application_id}/jobs/{job_run_id}/"
        query: dict[str, Any] = {"logGroupName": self._outputs.log_group, "logStreamNamePrefix": prefix}
        event_times: dict[str, int] = {}
        latest = 0
        while True:
            page: dict[str, Any] = dict(query, startTime=latest)
            while True:
                with translate_errors(f"the log group {self._outputs.log_group}"):
                    answer = self._logs.filter_log_events(**page)
                for event in answer["events"]:
                    # Emulators send no event id, and ignore the prefix.
                    event_id = (
                        event.get("eventId") or f"{event['logStreamName']} {event['timestamp']} {event['message']}"
                    )
                    if event_id not in event_times and event["logStreamName"].startswith(prefix):
                        event_times[event_id] = event["timestamp"]
                        latest = max(latest, event["timestamp"])
                        yield event["message"].rstrip("\n")
                if not answer.get("nextToken"):
                    break
                page["nextToken"] = answer["nextToken"]
            event_times = {event_id: at for event_id, at in event_times.items() if at >= latest}
            yield None

    def follow(self, job_run_id: str, show: Callable[[str], None], pause: float = POLL_SECONDS) -> JobRun:
        """Pass the log lines of a run to `show` until it has ended, and return the ended run."""
        lines = self.lines(job_run_id)
        ended: JobRun | None = None
        while True:
            while (line := next(lines)) is not None:
                show(line)
            if ended is not None:
                return ended
            run = self.get(job_run_id)
            ended = run if run.state in ENDED else None
            time.sleep(pause)


def _run(run: Any) -> JobRun:
    created = run["createdAt"]
    ended = run.get("endedAt") or (run["updatedAt"] if run["state"] in ENDED else datetime.now(UTC))
    return JobRun(
        job_run_id=run.get("jobRunId") or run["id"],
        name=run.get("name", ""),
        state=run["state"],
        details=run.get("stateDetails", ""),
        created=created,
        seconds=round(max((ended - (run.get("startedAt") or created)).total_seconds(), 0.0), 1),
        attempt=run.get("attempt") or 1,
    )
