"""S3-compatible store for the measured tables: SeaweedFS on the loopback interface, which counts its requests."""

import http.client
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
from deltaic_ops.local.embedded import free_port

BUCKET = "bench"
REGION = "us-east-1"
START_SECONDS = 60.0
_PORTS = ("master", "volume", "filer", "s3")
_COUNTED = re.compile(rf'^SeaweedFS_s3_request_total\{{bucket="{BUCKET}".*\}} (\S+)$', re.MULTILINE)


class ObjectStore:
    """Context manager for a SeaweedFS process with one bucket, whose data is in `folder`.

    It does not check signatures, so that URLs can have session tokens from the embedded AWS that are as long as on AWS.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._metrics = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="bench",
            aws_secret_access_key="bench",  # noqa: S106 -- nothing checks it
        )

    @property
    def endpoint(self) -> str:
        """URL at which the store accepts S3 requests."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        data = self._folder / "objects"
        data.mkdir(parents=True, exist_ok=True)
        ports = [f"-{name}.port.grpc={free_port()}" for name in _PORTS]
        ports += [f"-{name}.port={free_port()}" for name in _PORTS if name != "s3"]
        program = str(Path(sys.executable).with_name("weed"))
        with (self._folder / "seaweedfs.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "server", f"-dir={data}", *self._flags(), *ports],
                stdout=log,
                stderr=log,
            )
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def put_table(self, folder: Path) -> str:
        """Upload missing files of a table's log, delete files that are not in it, and return the table's location."""
        files = {f"{folder.name}/_delta_log/{path.name}": path for path in (folder / "_delta_log").iterdir()}
        listing = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder.name}/_delta_log/")
        existing = {item["Key"]: item["Size"] for item in listing.get("Contents", ())}
        for key in existing.keys() - files.keys():
            self.client.delete_object(Bucket=BUCKET, Key=key)
        # Commits first: readers ignore a version checksum that is older than its commit.
        for key, path in sorted(files.items(), key=lambda item: (item[1].suffix == ".crc", item[0])):
            if existing.get(key) != path.stat().st_size:
                self.client.upload_file(str(path), BUCKET, key)
        return f"s3://{BUCKET}/{folder.name}"

    def requests(self) -> int:
        """Return how many S3 requests the store has processed since its start."""
        connection = http.client.HTTPConnection("127.0.0.1", self._metrics, timeout=10)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return sum(int(float(count)) for count in _COUNTED.findall(text))

    def _flags(self) -> list[str]:
        flags = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.port={self._port}"]
        flags += [f"-metricsPort={self._metrics}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        return [*flags, "-volume.max=20", "-master.volumeSizeLimitMB=1024"]

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.client.create_bucket(Bucket=BUCKET)
            except Exception as error:
                code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
                if code in {"BucketAlreadyExists", "BucketAlreadyOwnedByYou"}:
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"SeaweedFS did not start: read its log in {self._folder}") from error
                time.sleep(0.3)
            else:
                return
