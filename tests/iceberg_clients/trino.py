"""Trino for tests: the server from Maven Central, downloaded once, with its Iceberg plugin."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
from catalog.dynamodb_local import unavailable
from deltaic_ops.local.embedded import free_port
from deltaic_terminal.environment import machine

VERSION: Final = "476"
"""Newest version in Maven Central."""
JAVA: Final = 24
ARCHIVE: Final = machine().cache / f"trino-server-{VERSION}.tar.gz"
PLUGINS: Final = ("geospatial", "iceberg")
_JVM: Final = """
-Xmx1500M
-XX:+UseSerialGC
-Djdk.attach.allowAttachSelf=true
-XX:TieredStopAtLevel=1
--add-modules=jdk.incubator.vector
--enable-native-access=ALL-UNNAMED
--sun-misc-unsafe-memory-access=allow
"""


class TrinoRefused(Exception):
    """Error of a failed query, with Trino's message."""


@dataclass(frozen=True)
class Trino:
    """Running server with one catalog."""

    url: str

    def rows(self, query: str) -> list[list[Any]]:
        """Return the rows of a query, page by page (Trino's client protocol)."""
        sent = {"X-Trino-User": "test", "X-Trino-Catalog": "lent", "X-Trino-Schema": "default"}
        page, rows = httpx.post(f"{self.url}/v1/statement", content=query, headers=sent, timeout=60).json(), []
        while True:
            if "error" in page:
                raise TrinoRefused(page["error"]["message"])
            rows += page.get("data", [])
            if "nextUri" not in page:
                return rows
            page = httpx.get(page["nextUri"], timeout=60).json()


@contextmanager
def run_trino(folder: Path, catalog: dict[str, str]) -> Iterator[Trino]:
    """Run Trino with a catalog until the block ends; skip the test if Trino is unavailable."""
    java, maven = _java(), shutil.which("mvn")
    if java is None or (maven is None and not ARCHIVE.is_file()):
        unavailable(f"Trino needs Java {JAVA} in /usr/lib/jvm, and Maven on the first run")
    if not ARCHIVE.is_file():
        _download(str(maven))
    home, port = folder / f"trino-server-{VERSION}", free_port()
    subprocess.run(["tar", "-xzf", ARCHIVE, "-C", folder], check=True)
    for plugin in (home / "plugin").iterdir():
        if plugin.name not in PLUGINS:
            shutil.rmtree(plugin)
    _configure(home, port, catalog)
    log = folder / "log"
    with log.open("wb") as sink:
        config = f"-Dconfig={home}/etc/config.properties"
        process = subprocess.Popen(
            [java, *_JVM.split(), "-cp", f"{home}/lib/*", config, "io.trino.server.TrinoServer"],
            cwd=home, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, url, log)
        yield Trino(url)
    finally:
        process.terminate()
        process.wait(60)


def _java() -> str | None:
    """Return the path of a Java that is new enough, or None."""
    for release in Path("/usr/lib/jvm").glob("*/release"):
        match = re.search(r'JAVA_VERSION="(\d+)', release.read_text(encoding="utf-8"))
        if match and int(match[1]) >= JAVA:
            return str(release.parent / "bin" / "java")
    return None


def _configure(home: Path, port: int, catalog: dict[str, str]) -> None:
    config = {
        "node.environment": "test",
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": port,
        "discovery.uri": f"http://127.0.0.1:{port}",
        "query.max-memory-per-node": "300MB",
        "memory.heap-headroom-per-node": "200MB",
    }
    files: dict[str, Mapping[str, Any]] = {"config": config, "catalog/lent": catalog}
    for name, properties in files.items():
        path = home / "etc" / f"{name}.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def _download(maven: str) -> None:
    """Download the distribution (0.8 GB) to the cache atomically."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    partial = ARCHIVE.with_name(f"{ARCHIVE.name}.{uuid4().hex}")
    artifact = f"-Dartifact=io.trino:trino-server:{VERSION}:tar.gz"
    try:
        command = [maven, "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={partial}"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if process.returncode != 0:
            unavailable(f"Trino could not be downloaded from Maven Central:\n{process.stdout[-2000:]}")
        (partial / ARCHIVE.name).replace(ARCHIVE)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        with suppress(httpx.HTTPError, TrinoRefused):
            if httpx.get(f"{url}/v1/info").json()["starting"] is False:
                # Queries fail until the discovery service has registered the node.
                Trino(url).rows("SELECT count(*) FROM system.runtime.nodes")
                return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])
