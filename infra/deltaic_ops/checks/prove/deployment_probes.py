"""Check parts of a deployed stack that recipients' requests do not show: each function yields findings."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from deltaic.storage.locations import Location

from deltaic_ops.checks.prove.probes import Trial
from deltaic_ops.inspection.findings import Finding, judge, not_asked


def check_state_key(trial: Trial) -> Iterator[Finding]:
    """Check that the stack's own KMS key encrypts both tables."""
    key, dynamodb = trial.stack.parameters["StateKey"], trial.target.client("dynamodb")
    for name in (trial.target.catalog_table, trial.target.tokens_table):
        used = dynamodb.describe_table(TableName=name)["Table"].get("SSEDescription", {}).get("KMSMasterKeyArn", "none")
        yield judge(f"your key encrypts {name}", used, f"deploy again with StateKey={key}", holds=used == key)


def check_traces(trial: Trial) -> Iterator[Finding]:
    """Check that X-Ray has traces of the last ten minutes."""
    now = datetime.now(UTC)
    traces = trial.target.client("xray").get_trace_summaries(StartTime=now - timedelta(minutes=10), EndTime=now)
    count, remedy = len(traces["TraceSummaries"]), "look at the traces in CloudWatch, or deploy with Tracing=Disabled"
    yield judge("traces of requests arrive", f"{count} in ten minutes", remedy, holds=count > 0)


def check_rollback(trial: Trial) -> Iterator[Finding]:
    """Check that CodeDeploy watches the alarms for every function, and rolls a version back on an alarm."""
    codedeploy = trial.target.client("codedeploy")
    application = {"applicationName": trial.stack.resources["ServerlessDeploymentApplication"]}
    names = codedeploy.list_deployment_groups(**application)["deploymentGroups"]
    groups = codedeploy.batch_get_deployment_groups(**application, deploymentGroupNames=names)["deploymentGroupsInfo"]
    watched = [group for group in groups if group.get("alarmConfiguration", {}).get("enabled")]
    events = [group.get("autoRollbackConfiguration", {}).get("events", ()) for group in watched]
    count = sum("DEPLOYMENT_STOP_ON_ALARM" in names for names in events)
    holds = 0 < count == len(names)
    yield judge("an alarm rolls a version back", f"{count} of {len(names)} functions", "deploy again", holds=holds)


def check_spark(trial: Trial) -> Iterator[Finding]:
    """Check that the application for Spark jobs exists and can start; runs no job."""
    client, application = trial.target.client("emr-serverless"), trial.stack.outputs["JobsApplicationId"]
    state = client.get_application(applicationId=application)["application"]["state"]
    remedy, holds = "deploy again; then run a small dataset with --on emr", state in {"CREATED", "STARTED", "STOPPED"}
    yield judge("the application for Spark jobs can start", state, remedy, holds=holds)


def check_access_log(trial: Trial) -> Iterator[Finding]:
    """Parse a line of the access log of the trial's bucket, which S3 delivers within hours."""
    from deltaic_pipeline.usage_log.log_lines import UNDERSTOOD, fetch_rows

    check, s3 = "usage can read the access log of S3", trial.target.client("s3")
    settings = s3.get_bucket_logging(Bucket=Location.parse(trial.catalog.location).bucket).get("LoggingEnabled", {})
    bucket, prefix = settings.get("TargetBucket"), settings.get("TargetPrefix")
    logs = s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents") if settings else None
    if not logs:
        yield not_asked(check, "the bucket has no access log, or S3 has not delivered it yet")
        return
    lines = s3.get_object(Bucket=bucket, Key=logs[-1]["Key"])["Body"].read().decode(errors="replace").splitlines()
    verdicts = [row[0] for line in lines for row in fetch_rows(line, "")]
    understood = verdicts.count(UNDERSTOOD)
    remedy = "downloads belong to no recipient; requests are still reported"
    yield judge(check, f"{understood} of {len(verdicts)} lines", remedy, holds=0 < understood == len(verdicts))


def invoking(logical_id: str) -> Callable[[Trial], Iterator[Finding]]:
    """Return a probe that invokes a scheduled function, as its schedule would."""

    def check_invocation(trial: Trial) -> Iterator[Finding]:
        name = trial.stack.resources[logical_id]
        reply = trial.target.client("lambda").invoke(FunctionName=name, Payload=b'{"tell": "endings"}')
        error = reply.get("FunctionError", "")
        yield judge(f"invokes {name}", error or "succeeded", f"check the log of {name}", holds=not error)

    return check_invocation


def check_retained(trial: Trial) -> Iterator[Finding]:
    """Check that both tables and the key outlive the stack."""
    needed = {trial.stack.resources[name] for name in ("Catalog", "Tokens", "TokenKey")}
    missing = needed - trial.stack.retained.keys()
    observed = f"not kept: {', '.join(sorted(missing))}" if missing else f"keeps {', '.join(trial.stack.retained)}"
    yield judge("removal keeps tables and key", observed, "deploy again before you remove the stack", holds=not missing)
