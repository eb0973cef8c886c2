"""EMR Serverless as far as jobs can tell: StartJobRun is taken as AWS's model has it, and becomes a spark-submit.

A part of the tests, in the place of a service that no emulator has. The archive is unpacked into a clean folder, and
the job's Python knows nothing but that archive and the cluster's Spark; all of AWS that the job reaches is reached with
the credentials of the job's role. What EMR's image has of its own is made by `_image`.
"""

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import botocore.session
import pyspark
from botocore.validate import ParamValidator
from brief_spark import write_spark_defaults
from deltaic_ops.deploy.emulated_account import ACCOUNT
from deltaic_pipeline.spark.jars import DELTA, S3A, ensure
from deltaic_pipeline.spark.java import bundled_runtime, find_java
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_terminal.environment import machine

APPLICATION = "00deltaictests"
RELEASE = "emr-spark-8.1.0"
IMAGE_JARS = "/usr/share/aws/delta/lib/"
"""Where the release keeps Delta. The only thing of the parameters that is changed: this machine has it elsewhere."""

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = f"arn:aws:iam::{ACCOUNT}:root"
_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
_ROUTE = re.compile(r"/applications/(\w+)(?:/jobruns(?:/(\w+))?)?")


@dataclass
class Run:
    """One job run."""

    id: str
    request: dict[str, Any]
    created: float = field(default_factory=time.time)
    state: str = "SUBMITTED"
    details: str = "JobRun is submitted"
    started: float | None = None
    ended: float | None = None
    attempt: int = 0
    process: subprocess.Popen[bytes] | None = None

    def answer(self) -> dict[str, Any]:
        """Return the run as GetJobRun does; times in seconds since 1970."""
        times = {"startedAt": self.started, "endedAt": self.ended}
        return {
            "applicationId": APPLICATION,
            "jobRunId": self.id,
            "name": self.request.get("name"),
            "arn": f"arn:aws:emr-serverless:us-east-1:{ACCOUNT}:/applications/{APPLICATION}/jobruns/{self.id}",
            "createdBy": ROOT,
            "createdAt": self.created,
            "updatedAt": self.ended or self.started or self.created,
            **{name: value for name, value in times.items() if value is not None},
            "executionRole": self.request["executionRoleArn"],
            "state": self.state,
            "stateDetails": self.details,
            "releaseLabel": RELEASE,
            "jobDriver": self.request["jobDriver"],
            "attempt": self.attempt,
        }


class StandIn(AbstractContextManager["StandIn"]):
    """The service on a port of this machine; `client` makes clients of the embedded AWS as its administrator."""

    def __init__(self, folder: Path, environment: Mapping[str, str], client: Callable[[Any], Any]) -> None:
        self.runs: dict[str, Run] = {}
        self.tokens: dict[str, str] = {}
        self._folder, self._environment, self._client = folder, environment, client
        self._image = _image(folder / "image", environment)
        self._lock = threading.Lock()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, said = stand_in.answer(self.command, self.path, self.headers, body)
                content = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status >= 400:
                    self.send_header("x-amzn-ErrorType", str(said["__type"]))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 -- the base class's names

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._threads = [threading.Thread(target=self._server.serve_forever, daemon=True)]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for run in self.runs.values():
            self.kill(run)
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        """Answer one request."""
        if "/emr-serverless/aws4_request" not in headers.get("Authorization", ""):
            return 403, {"__type": "AccessDeniedException", "message": "the request is not signed"}
        route = _ROUTE.fullmatch(urlsplit(path).path)
        if route is None or route[1] != APPLICATION:
            return 404, {"__type": "ResourceNotFoundException", "message": f"Resource {path} does not exist"}
        if method == "POST":
            return self._start(json.loads(body))
        if not path.partition("?")[0].endswith("jobruns") and route[2] is None:
            architecture = "X86_64" if os.uname().machine == "x86_64" else "ARM64"
            return 200, {"application": {"applicationId": APPLICATION, "architecture": architecture}}
        if route[2] is None:
            listed = sorted(self.runs.values(), key=lambda run: -run.created)
            return 200, {"jobRuns": [{**run.answer(), "id": run.id} for run in listed]}
        run = self.runs.get(route[2])
        if run is None:
            return 404, {"__type": "ResourceNotFoundException", "message": f"JobRun {route[2]} does not exist"}
        if method == "DELETE":
            run.state = "CANCELLED"
            self.kill(run)
            return 200, {"applicationId": APPLICATION, "jobRunId": run.id}
        return 200, {"jobRun": run.answer()}

    def _start(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        wrong = violations({**request, "applicationId": APPLICATION})
        if wrong:
            return 400, {"__type": "ValidationException", "message": "; ".join(wrong)}
        with self._lock:
            token = request["clientToken"]
            known = self.tokens.get(token)
            run = self.runs[known] if known else Run(f"00f{len(self.runs):09d}", request)
            if not known:
                self.tokens[token], self.runs[run.id] = run.id, run
                self._threads.append(threading.Thread(target=self._run, args=(run,), daemon=True))
                self._threads[-1].start()
        return 200, {"applicationId": APPLICATION, "jobRunId": run.id, "arn": run.answer()["arn"]}

    def _run(self, run: Run) -> None:
        run.state, run.started = "RUNNING", time.time()
        attempts = run.request.get("retryPolicy", {}).get("maxAttempts", 1)
        try:
            while run.attempt < attempts and run.state == "RUNNING":
                run.attempt += 1
                code = self._attempt(run)
                if code == 0:
                    run.state, run.details = "SUCCESS", "Job finished successfully"
                    break
                run.details = (
                    f"Job failed, please check complete logs in configured logging destination. ExitCode: {code}."
                )
        except Exception as error:  # noqa: BLE001 -- a run that cannot begin has failed, for whatever reason
            run.details = f"Job failed before it began: {error!r}"[:256]
        finally:
            run.ended = time.time()
            if run.state == "RUNNING":
                run.state = "FAILED"
                self._client("cloudwatch").put_metric_data(
                    Namespace="AWS/EMRServerless",
                    MetricData=[
                        {
                            "MetricName": "FailedJobs",
                            "Dimensions": [{"Name": "ApplicationId", "Value": APPLICATION}],
                            "Value": 1,
                        }
                    ],
                )

    def _attempt(self, run: Run) -> int:
        """Run spark-submit once in a clean folder, as the job's role; return its exit code."""
        place = self._folder / run.id / str(run.attempt)
        place.mkdir(parents=True)
        role = self._as_role(run)
        submitted = run.request["jobDriver"]["sparkSubmit"]
        parameters = shlex.split(submitted["sparkSubmitParameters"])
        settings = dict(each.split("=", 1) for each in parameters if each != "--conf")
        archive, _, name = settings["spark.archives"].partition("#")
        unpacked = self._folder / archive.rpartition("/")[2]
        with self._lock:
            if not unpacked.exists():
                unpack(role.client("s3", endpoint_url=self._environment["AWS_ENDPOINT_URL"]), archive, unpacked)
        (place / name).symlink_to(unpacked)  # one folder for all runs, so that Python compiles it once
        told = {
            key.removeprefix(_DRIVER_ENVIRONMENT): value
            for key, value in settings.items()
            if key.startswith(_DRIVER_ENVIRONMENT)
        }
        keys = role.get_credentials()
        command = [
            str(SPARK_HOME / "bin" / "spark-submit"),
            *(each.replace(IMAGE_JARS, f"{self._image}/jars/") for each in parameters),
        ]
        run.process = subprocess.Popen(
            [*command, submitted["entryPoint"], *submitted.get("entryPointArguments", [])],
            cwd=place,
            env={
                # Of this machine: its programs, the interpreter without what our environment adds to it, its Java.
                "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin",
                "HOME": str(place),
                "JAVA_HOME": str(find_java(machine(), bundled_runtime()).home),
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_CONF_DIR": str(self._image),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "AWS_ENDPOINT_URL": self._environment["AWS_ENDPOINT_URL"],
                "AWS_ACCESS_KEY_ID": keys.access_key,
                "AWS_SECRET_ACCESS_KEY": keys.secret_key,
                "AWS_SESSION_TOKEN": keys.token,
                **told,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        if run.state != "RUNNING":  # cancelled while it was prepared
            self.kill(run)
        out, err = run.process.communicate()
        self._log(role, run, {"stdout": out, "stderr": err})
        return run.process.returncode

    def _as_role(self, run: Run) -> Any:
        """Return a boto3 session of the job's role, which trusts the service alone."""
        import boto3

        iam = self._client("iam")
        arn = run.request["executionRoleArn"]
        name = arn.rpartition("/")[2]
        trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        [statement] = trust["Statement"]
        if statement["Principal"].get("Service") != "emr-serverless.amazonaws.com":
            raise PermissionError(f"{name} does not trust EMR Serverless")
        if "AWS" not in statement["Principal"]:  # the service's own way to a session is not the embedded AWS's
            statement["Principal"]["AWS"] = ROOT
            statement.pop("Condition")
            iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
        keys = self._client("sts").assume_role(RoleArn=arn, RoleSessionName=run.id)["Credentials"]
        return boto3.Session(
            keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name="us-east-1"
        )

    def _log(self, role: Any, run: Run, printed: Mapping[str, bytes]) -> None:
        """Put what the driver printed where the request says, as the job's role."""
        where = run.request["configurationOverrides"]["monitoringConfiguration"]["cloudWatchLoggingConfiguration"]
        logs = role.client("logs", endpoint_url=self._environment["AWS_ENDPOINT_URL"])
        for kind, content in printed.items():
            of_run = f"{where['logStreamNamePrefix']}/applications/{APPLICATION}/jobs/{run.id}"
            told = {
                "logGroupName": where["logGroupName"],
                "logStreamName": f"{of_run}/SPARK_DRIVER/{run.attempt}/{kind}",
            }
            logs.create_log_stream(**told)
            now = int(time.time() * 1000)
            events = [
                {"timestamp": now, "message": line} for line in content.decode(errors="replace").splitlines() if line
            ]
            if events:
                logs.put_log_events(**told, logEvents=events[-1000:])

    def kill(self, run: Run) -> None:
        """End a run's process as a machine that is lost does."""
        if run.process is not None and run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)


def unpack(s3: Any, archive: str, folder: Path) -> None:
    """Fetch `spark.archives` and unpack it, which must stay inside its folder."""
    bucket, _, key = archive.removeprefix("s3://").partition("/")
    with (
        gzip.open(s3.get_object(Bucket=bucket, Key=key)["Body"]) as packed,
        tarfile.open(fileobj=packed, mode="r|") as tar,
    ):
        tar.extractall(folder, filter="data")


def violations(request: Mapping[str, Any]) -> list[str]:
    """Return what of a StartJobRun is not as AWS's model of it says: kinds, names, lengths and patterns."""
    session: Any = botocore.session.get_session()
    raw = session.get_component("data_loader").load_service_model("emr-serverless", "service-2")["shapes"]
    operation = session.get_service_model("emr-serverless").operation_model("StartJobRun")
    report = ParamValidator().validate(request, operation.input_shape)
    found = [report.generate_report()] if report.has_errors() else []

    def walk(value: Any, shape: str, path: str) -> None:
        said = raw[shape]
        if "pattern" in said and not re.fullmatch(said["pattern"], value, re.DOTALL):
            found.append(f"{path}: {value!r} is not {said['pattern']}")
        if "max" in said and hasattr(value, "__len__") and len(value) > said["max"]:
            found.append(f"{path}: longer than {said['max']}")
        if said["type"] == "structure":
            for name, inner in value.items():
                if name in said["members"]:
                    walk(inner, said["members"][name]["shape"], f"{path}.{name}")
        elif said["type"] == "list":
            for inner in value:
                walk(inner, said["member"]["shape"], f"{path}[]")

    walk(request, "StartJobRunRequest", "StartJobRun")
    return found


def _image(folder: Path, environment: Mapping[str, str]) -> Path:
    """Make what the image has: Delta's jars at a place of its own, s3:// and s3a:// as file systems, one machine."""
    (folder / "jars").mkdir(parents=True)
    here = machine()
    for jar, name in zip(ensure(DELTA, here, lambda _: None), ("delta-spark.jar", "delta-storage.jar"), strict=True):
        shutil.copyfile(jar, folder / "jars" / name)
    access = S3Access(endpoint=environment["AWS_ENDPOINT_URL"])
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in ensure(S3A, here, lambda _: None)),
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        **{f"spark.hadoop.{name}": value for name, value in access.hadoop().items()},
    }
    write_spark_defaults(folder, settings)
    return folder
