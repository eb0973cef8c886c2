"""Runs of jobs on EMR Serverless: started by the stack's own function, found by name, watched, read, cancelled."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError, InvalidParameter, NotFound, Unavailable

from deltaic_ops.deploy.outputs import JobsOutputs
from deltaic_ops.jobs.service_errors import asking

if TYPE_CHECKING:
    from mypy_boto3_emr_serverless import EMRServerlessClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient

ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
POLL_SECONDS = 5.0
STREAMS = "jobs"
"""What the names of a job's log streams begin with (functions/pipeline/submit)."""

_REFUSALS: dict[str, type[DeltaicError]] = {"InvalidParameter": InvalidParameter, "NotFound": NotFound}
_EXIT_CODE = re.compile(r"[Ee]xit ?[Cc]ode:? *(\d{1,3})")


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run as EMR Serverless knows it."""

    job_run_id: str
    """EMR's own."""

    name: str
    """Job, what it is about, the run's id; empty for a run that somebody else started."""

    state: str
    details: str
    created: datetime
    seconds: float
    """From its start to its end, or until now."""

    attempt: int

    @property
    def exit_code(self) -> int:
        """What the job would have ended with on this machine; 1 where EMR does not tell."""
        if self.state == "SUCCESS":
            return 0
        told = _EXIT_CODE.search(self.details)
        return int(told[1]) or 1 if told else 1


class JobRuns:
    """The job runs of one stack; every method raises a DeltaicError for what AWS refuses."""

    def __init__(self, where: JobsOutputs, client: Callable[[str], Any]) -> None:
        self._where = where
        self._emr: EMRServerlessClient = client("emr-serverless")
        self._lambda: LambdaClient = client("lambda")
        self._logs: CloudWatchLogsClient = client("logs")

    def start(self, request: dict[str, Any]) -> str:
        """Start a job (functions/pipeline/submit says what a request holds); return the id of its run."""
        with asking("the function that starts jobs"):
            answer = self._lambda.invoke(FunctionName=self._where.submit_arn, Payload=json.dumps(request))
            said = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            message = str(said.get("errorMessage") or "the function that starts jobs failed: see its log")
            raise _REFUSALS.get(str(said.get("errorType")), Unavailable)(message)
        return str(said["jobRunId"])

    def architecture(self) -> str:
        """Return the application's processor, in the template's words."""
        with asking(f"the application {self._where.application_id}"):
            said = self._emr.get_application(applicationId=self._where.application_id)["application"]
        return str(said.get("architecture", "X86_64")).lower()

    def get(self, job_run_id: str) -> JobRun:
        """Return a run by EMR's own id of it."""
        with asking(f"the job run {job_run_id}"):
            return _run(self._emr.get_job_run(applicationId=self._where.application_id, jobRunId=job_run_id)["jobRun"])

    def recent(self, since: timedelta) -> Iterator[JobRun]:
        """Yield the runs that were begun in that time, as EMR lists them."""
        query: dict[str, Any] = {
            "applicationId": self._where.application_id,
            "createdAtAfter": datetime.now(UTC) - since,
        }
        while True:
            with asking(f"the application {self._where.application_id}"):
                page = self._emr.list_job_runs(**query)
            yield from map(_run, page["jobRuns"])
            if not page.get("nextToken"):
                return
            query["nextToken"] = page["nextToken"]

    def find(self, named: str, since: timedelta = timedelta(days=30)) -> JobRun:
        """Return the latest run with this id of EMR, this run id, or this dataset; raises NotFound."""
        called = [run for run in self.recent(since) if named == run.job_run_id or named in run.name.split(" ")]
        if called:
            return self.get(max(called, key=lambda run: run.created).job_run_id)
        raise NotFound(f"no run of the last {since.days} days is called '{named}': see `deltaic pipeline list`")

    def cancel(self, job_run_id: str) -> None:
        """End a run; what it had not committed is not in its table."""
        with asking(f"the job run {job_run_id}"):
            self._emr.cancel_job_run(applicationId=self._where.application_id, jobRunId=job_run_id)

    def lines(self, job_run_id: str) -> Iterator[str | None]:
        """Yield the lines that the run prints, and None whenever there is nothing new at this moment; has no end."""
        prefix = f"{STREAMS}/applications/{self._where.application_id}/jobs/{job_run_id}/"
        asked: dict[str, Any] = {"logGroupName": self._where.log_group, "logStreamNamePrefix": prefix}
        seen: dict[str, int] = {}
        latest = 0
        while True:
            page: dict[str, Any] = dict(asked, startTime=latest)
            while True:
                with asking(f"the log group {self._where.log_group}"):
                    answer = self._logs.filter_log_events(**page)
                for event in answer["events"]:
                    # Emulators leave the id out, and the prefix aside.
                    event_id = (
                        event.get("eventId") or f"{event['logStreamName']} {event['timestamp']} {event['message']}"
                    )
                    if event_id not in seen and event["logStreamName"].startswith(prefix):
                        seen[event_id] = event["timestamp"]
                        latest = max(latest, event["timestamp"])
                        yield event["message"].rstrip("\n")
                if not answer.get("nextToken"):
                    break
                page["nextToken"] = answer["nextToken"]
            seen = {event_id: at for event_id, at in seen.items() if at >= latest}
            yield None

    def follow(self, job_run_id: str, show: Callable[[str], None], pause: float = POLL_SECONDS) -> JobRun:
        """Show what the run prints until it ends, and once more after that; return how it ended."""
        said = self.lines(job_run_id)
        ended: JobRun | None = None
        while True:
            while (line := next(said)) is not None:
                show(line)
            if ended is not None:
                return ended
            now = self.get(job_run_id)
            ended = now if now.state in ENDED else None
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
