"""A stand-in for EMR Serverless: it validates StartJobRun with AWS's model and runs spark-submit.

No emulator has this service. The stand-in unpacks the archive into a clean folder. The job's Python has only this
archive and the cluster's Spark, and the job uses AWS with the credentials of its role. `_image` creates what the image
of EMR contains.
"""

import gzip
import itertools
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
from class_archive import archive_path
from deltaic_ops.deploy.emulated_account import ACCOUNT
from deltaic_pipeline.spark.jars import DELTA, NEEDED, ensure_jars
from deltaic_pipeline.spark.java import bundled_runtime, find_java
from deltaic_pipeline.spark.session import JVM_BRIEF
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_terminal.environment import machine

APPLICATION = "00deltaictests"
RELEASE = "emr-spark-8.1.0"
IMAGE_JARS = "/usr/share/aws/delta/lib/"
"""Folder of Delta's jars in the release. The stand-in replaces it in the parameters with a folder of this machine."""

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = f"arn:aws:iam::{ACCOUNT}:root"
_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
_ROUTE = re.compile(r"/applications/(\w+)(?:/jobruns(?:/(\w+))?)?")


@dataclass
class Run:
    """A job run."""

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
        """Return the run like GetJobRun, with times in seconds since 1970."""
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
    """The service on a port of this machine; `client` creates administrator clients of the embedded AWS."""

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
                status, result = stand_in.answer(self.command, self.path, self.headers, body)
                content = json.dumps(result).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status >= 400:
                    self.send_header("x-amzn-ErrorType", str(result["__type"]))
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
        """Return status and body of the response to a request."""
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
            runs = sorted(self.runs.values(), key=lambda run: -run.created)
            return 200, {"jobRuns": [{**run.answer(), "id": run.id} for run in runs]}
        run = self.runs.get(route[2])
        if run is None:
            return 404, {"__type": "ResourceNotFoundException", "message": f"JobRun {route[2]} does not exist"}
        if method == "DELETE":
            run.state = "CANCELLED"
            self.kill(run)
            return 200, {"applicationId": APPLICATION, "jobRunId": run.id}
        return 200, {"jobRun": run.answer()}

    def _start(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        mistakes = violations({**request, "applicationId": APPLICATION})
        if mistakes:
            return 400, {"__type": "ValidationException", "message": "; ".join(mistakes)}
        with self._lock:
            token = request["clientToken"]
            existing = self.tokens.get(token)
            run = self.runs[existing] if existing else Run(f"00f{len(self.runs):09d}", request)
            if not existing:
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
        except Exception as error:  # noqa: BLE001 -- every error before the start is a failed run
            run.details = f"Job failed before it started: {error!r}"[:256]
        finally:
            failed = run.state == "RUNNING"
            if failed:
                run.state = "FAILED"
            run.ended = time.time()
            if failed:
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
        """Run spark-submit once in a clean folder, with the job's role; return its exit code."""
        folder = self._folder / run.id / str(run.attempt)
        folder.mkdir(parents=True)
        role = self._assume_role(run)
        submitted = run.request["jobDriver"]["sparkSubmit"]
        parameters = shlex.split(submitted["sparkSubmitParameters"])
        settings = dict(parameter.split("=", 1) for parameter in parameters if parameter != "--conf")
        package, _, name = settings["spark.archives"].partition("#")
        unpacked = self._folder / package.rpartition("/")[2]
        with self._lock:
            if not unpacked.exists():
                unpack(role.client("s3", endpoint_url=self._environment["AWS_ENDPOINT_URL"]), package, unpacked)
        (folder / name).symlink_to(unpacked)  # all runs share one folder, so that Python compiles it once
        variables = {
            key.removeprefix(_DRIVER_ENVIRONMENT): value
            for key, value in settings.items()
            if key.startswith(_DRIVER_ENVIRONMENT)
        }
        credentials = role.get_credentials()
        jars = [jar for jar in settings["spark.jars"].split(",") if jar.startswith(IMAGE_JARS)]
        for jar in jars:
            if not (self._image / "jars" / jar.removeprefix(IMAGE_JARS)).exists():
                raise FileNotFoundError(f"the image has no file {jar}")
        # A session of another folder has usually archived its classes by now.
        archive_option = f"-XX:SharedArchiveFile={archive}" if (archive := archive_path()).exists() else ""
        command = [
            str(SPARK_HOME / "bin" / "spark-submit"),
            "--properties-file",
            str(self._image / "spark.conf"),
            "--conf",
            f"spark.driver.defaultJavaOptions={' '.join([*JVM_BRIEF, archive_option])}",
            *itertools.chain.from_iterable(
                ("--conf", parameter.replace(IMAGE_JARS, f"{self._image}/jars/"))
                for parameter in parameters
                # Spark would unpack the archive once more for each run.
                if parameter != "--conf" and not parameter.startswith("spark.archives=")
            ),
        ]
        run.process = subprocess.Popen(
            [*command, submitted["entryPoint"], *submitted.get("entryPointArguments", [])],
            cwd=folder,
            env={
                # From this machine: programs, the interpreter without our environment's packages, and Java.
                "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin",
                "HOME": str(folder),
                "JAVA_HOME": str(find_java(machine(), bundled_runtime()).home),
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "AWS_ENDPOINT_URL": self._environment["AWS_ENDPOINT_URL"],
                "AWS_ACCESS_KEY_ID": credentials.access_key,
                "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
                "AWS_SESSION_TOKEN": credentials.token,
                **variables,
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

    def _assume_role(self, run: Run) -> Any:
        """Return a boto3 session of the job's role, which must trust only the service."""
        import boto3

        iam = self._client("iam")
        arn = run.request["executionRoleArn"]
        name = arn.rpartition("/")[2]
        trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        [statement] = trust["Statement"]
        if statement["Principal"].get("Service") != "emr-serverless.amazonaws.com":
            raise PermissionError(f"{name} does not trust EMR Serverless")
        if "AWS" not in statement["Principal"]:  # the embedded AWS has no sessions for services
            statement["Principal"]["AWS"] = ROOT
            statement.pop("Condition")
            iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
        keys = self._client("sts").assume_role(RoleArn=arn, RoleSessionName=run.id)["Credentials"]
        return boto3.Session(
            keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name="us-east-1"
        )

    def _log(self, role: Any, run: Run, printed: Mapping[str, bytes]) -> None:
        """Write the driver's output to the log group in the request, with the job's role."""
        destination = run.request["configurationOverrides"]["monitoringConfiguration"]["cloudWatchLoggingConfiguration"]
        logs = role.client("logs", endpoint_url=self._environment["AWS_ENDPOINT_URL"])
        for kind, content in printed.items():
            prefix = f"{destination['logStreamNamePrefix']}/applications/{APPLICATION}/jobs/{run.id}"
            stream = {
                "logGroupName": destination["logGroupName"],
                "logStreamName": f"{prefix}/SPARK_DRIVER/{run.attempt}/{kind}",
            }
            logs.create_log_stream(**stream)
            now = int(time.time() * 1000)
            events = [
                {"timestamp": now, "message": line} for line in content.decode(errors="replace").splitlines() if line
            ]
            if events:
                logs.put_log_events(**stream, logEvents=events[-1000:])

    def kill(self, run: Run) -> None:
        """Kill the process of a run, like the loss of its machine."""
        if run.process is not None and run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)


def unpack(s3: Any, archive: str, folder: Path) -> None:
    """Download `spark.archives` and unpack it; members must stay inside the folder."""
    bucket, _, key = archive.removeprefix("s3://").partition("/")
    with (
        gzip.open(s3.get_object(Bucket=bucket, Key=key)["Body"]) as packed,
        tarfile.open(fileobj=packed, mode="r|") as tar,
    ):
        tar.extractall(folder, filter="data")


def violations(request: Mapping[str, Any]) -> list[str]:
    """Return the violations of AWS's model of StartJobRun: types, names, lengths and patterns."""
    session: Any = botocore.session.get_session()
    raw = session.get_component("data_loader").load_service_model("emr-serverless", "service-2")["shapes"]
    operation = session.get_service_model("emr-serverless").operation_model("StartJobRun")
    report = ParamValidator().validate(request, operation.input_shape)
    mistakes = [report.generate_report()] if report.has_errors() else []

    def walk(value: Any, shape: str, path: str) -> None:
        definition = raw[shape]
        if "pattern" in definition and not re.fullmatch(definition["pattern"], value, re.DOTALL):
            mistakes.append(f"{path}: {value!r} is not {definition['pattern']}")
        if "max" in definition and hasattr(value, "__len__") and len(value) > definition["max"]:
            mistakes.append(f"{path}: longer than {definition['max']}")
        if definition["type"] == "structure":
            for name, element in value.items():
                if name in definition["members"]:
                    walk(element, definition["members"][name]["shape"], f"{path}.{name}")
        elif definition["type"] == "list":
            for element in value:
                walk(element, definition["member"]["shape"], f"{path}[]")

    walk(request, "StartJobRunRequest", "StartJobRun")
    return mistakes


def _image(folder: Path, environment: Mapping[str, str]) -> Path:
    """Create the content of the image: Delta's jars, and Spark settings for S3 on one machine."""
    (folder / "jars").mkdir(parents=True)
    this_machine = machine()
    names = ("delta-spark.jar", "delta-storage.jar")
    for jar, name in zip(ensure_jars(DELTA, this_machine, lambda _: None), names, strict=True):
        shutil.copyfile(jar, folder / "jars" / name)
    access = S3Access(endpoint=environment["AWS_ENDPOINT_URL"])
    settings = {
        # The class path of the tests' sessions, which has Delta's jars too, because their class archive needs it.
        "spark.driver.extraClassPath": os.pathsep.join(
            str(jar) for jar in ensure_jars(NEEDED, this_machine, lambda _: None)
        ),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        **{f"spark.hadoop.{name}": value for name, value in access.hadoop().items()},
    }
    write_spark_defaults(folder / "spark.conf", settings)
    return folder
