"""Trino for tests: the server from Maven Central, downloaded once, with its Iceberg plugin."""

import re
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
import pyarrow as pa
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
        """Return the rows of a query as Trino's client protocol encodes them."""
        return [row for page in self._pages(query) for row in page.get("data", [])]

    def table(self, query: str) -> pa.Table:
        """Return the rows of a query with their types."""
        columns: list[dict[str, Any]] = []
        rows: list[list[Any]] = []
        for page in self._pages(query):
            columns = page.get("columns", columns)
            rows += page.get("data", [])
        kinds = [column["typeSignature"] for column in columns]
        arrays = [pa.array([_value(row[at], kind) for row in rows], _arrow_type(kind)) for at, kind in enumerate(kinds)]
        return pa.Table.from_arrays(arrays, [column["name"] for column in columns])

    def _pages(self, query: str) -> Iterator[dict[str, Any]]:
        sent = {"X-Trino-User": "test", "X-Trino-Catalog": "lent", "X-Trino-Schema": "default"}
        sent["X-Trino-Client-Capabilities"] = "PARAMETRIC_DATETIME"  # otherwise timestamps have milliseconds
        page = httpx.post(f"{self.url}/v1/statement", content=query, headers=sent, timeout=60).json()
        while True:
            if "error" in page:
                raise TrinoRefused(page["error"]["message"])
            yield page
            if "nextUri" not in page:
                return
            page = httpx.get(page["nextUri"], timeout=60).json()


_TYPES: Final = {
    "boolean": pa.bool_(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "varchar": pa.string(),
    "varbinary": pa.binary(),
    "uuid": pa.binary(),
}
_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "real": float,
    "double": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp with time zone": lambda text: datetime.fromisoformat(text.replace(" UTC", "+00:00")),
    "varbinary": b64decode,
    "uuid": lambda text: UUID(text).bytes,
}


def _arguments(kind: Mapping[str, Any]) -> list[Any]:
    return [argument["value"] for argument in kind["arguments"]]


def _arrow_type(kind: Mapping[str, Any]) -> pa.DataType:
    """Return the Arrow type of a type signature in the client protocol."""
    arguments = _arguments(kind)
    match kind["rawType"]:
        case "decimal":
            return pa.decimal128(*arguments)
        case "array":
            return pa.list_(_arrow_type(arguments[0]))
        case "map":
            return pa.map_(*map(_arrow_type, arguments))
        case "row":
            return pa.struct([(part["fieldName"]["name"], _arrow_type(part["typeSignature"])) for part in arguments])
    return _TYPES[kind["rawType"]]


def _value(value: Any, kind: Mapping[str, Any]) -> Any:
    """Return a value of the client protocol as a Python value."""
    arguments = _arguments(kind)
    if value is None:
        return None
    match kind["rawType"]:
        case "array":
            return [_value(item, arguments[0]) for item in value]
        case "map":
            return [(key, _value(item, arguments[1])) for key, item in value.items()]
        case "row":
            parts = zip(value, arguments, strict=True)
            return {part["fieldName"]["name"]: _value(item, part["typeSignature"]) for item, part in parts}
    return _VALUES.get(kind["rawType"], lambda same: same)(value)


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
        "node.bind-ip": "127.0.0.1",
        "node.internal-address": "127.0.0.1",
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
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        with suppress(httpx.HTTPError, TrinoRefused):
            if httpx.get(f"{url}/v1/info").json()["starting"] is False:
                # Queries fail until the discovery service has registered the node.
                Trino(url).rows("SELECT count(*) FROM system.runtime.nodes")
                return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])
