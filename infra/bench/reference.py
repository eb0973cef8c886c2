"""Start the reference Delta Sharing server from its jars, over the same object store.

This repository does not contain that server. `--beside` names the folder of a built server of delta-io/delta-sharing on
GitHub (`server/`, built as its README describes), with all its jars in `lib/`, including `delta-standalone` and
`shapeless`. Java 17 must be on the PATH. Memory, caches and paging have their defaults, but requests do not time out.
"""

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from deltaic_ops.local.embedded import free_port

from bench.http_timing import Client
from bench.object_store import REGION
from bench.server_comparison import LARGE, Rival
from bench.serving import Server, wait_until_loaded

NAME = "reference server"
TOKEN = "benchmark-of-both"  # noqa: S105 -- for a server that only this machine can reach
STOP_SECONDS = 10.0
_GOALS = {
    ("fresh process: first byte", 100_000): 100,
    ("fresh process: first byte", LARGE): 500,
    ("fresh process: last byte", 10_000): 10,
    ("fresh process: last byte", 100_000): 10,
    ("fresh process: last byte", LARGE): 10,
    ("warm process: last byte", 100_000): 5,
    ("warm process: peak memory", 100_000): 8,
    ("warm process: peak memory", LARGE): 15,
}
"""Goals by figure and number of files: how many times lower our value must be than the reference server's."""
_UP = 1
"""Bit IFF_UP in the flags of a network interface: enabled. A new namespace also has disabled tunnel interfaces."""
_MAIN = "io.delta.sharing.server.DeltaSharingService"


class Store(NamedTuple):
    """Connection settings of the object store that contains the tables."""

    endpoint: str
    key: str = "bench"
    secret: str = "bench"  # noqa: S105 -- SeaweedFS checks none


def check(folder: Path) -> None:
    """Raise RuntimeError if the reference server cannot be started, or if other machines could connect to it."""
    if not any((folder / "lib").glob("*.jar")):
        raise RuntimeError(f"no jars in {folder / 'lib'}: name the folder of a built reference server")
    if any(name != "lo" and _is_up(name) for _, name in socket.if_nameindex()):
        raise RuntimeError(
            "the reference server always listens on all interfaces: run the benchmark with the loopback interface only,"
            " for example unshare --net sh -c 'ip link set lo up && exec uv run ...'"
        )


def _is_up(interface: str) -> bool:
    flags = Path("/sys/class/net", interface, "flags")
    return not flags.exists() or bool(int(flags.read_text(), 16) & _UP)


def rival(folder: Path, store: Store, locations: Mapping[str, str], state: Path) -> Rival:
    """Return the built reference server in a folder as a competitor; `locations` are the measured tables by name."""
    shares = bench_shares(locations)
    return Rival(
        NAME, lambda: start_server(folder, store, shares, state), lambda name, files: _GOALS.get((name, files))
    )


@contextmanager
def start_server(folder: Path, store: Store, shares: Sequence[Mapping[str, Any]], state: Path) -> Iterator[Server]:
    """Start a server process with shares in its configuration format; yields after its first response."""
    state.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), state / "reference.log"
    for name, text in config_files(store, shares, port).items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(text)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    keys = {"AWS_ACCESS_KEY_ID": store.key, "AWS_SECRET_ACCESS_KEY": store.secret, "AWS_REGION": REGION}
    command = ["java", "-cp", f"{state}:{folder / 'lib'}/*", _MAIN, "--config", str(state / "server.yaml")]
    with log.open("ab") as output:
        running = subprocess.Popen(command, env=inherited | keys, stdout=output, stderr=output)
    try:
        client = Client(f"http://127.0.0.1:{port}/delta-sharing", TOKEN)
        try:
            wait_until_loaded(client)
        except (OSError, RuntimeError) as error:
            raise RuntimeError(f"the {NAME} did not start: read its log {log}") from error
        yield Server(client, running.pid)
    finally:
        running.terminate()
        try:
            running.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def bench_shares(tables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the reference server's configuration of the measured share; `tables` maps names to locations."""
    tables_ = [shared_table(name, location, history=True) for name, location in tables.items()]
    return [{"name": "bench", "schemas": [{"name": "logs", "tables": tables_}]}]


def shared_table(name: str, location: str, *, history: bool) -> dict[str, Any]:
    """Return the reference server's configuration of one table."""
    return {
        "name": name,
        "location": location.replace("s3://", "s3a://", 1),
        "id": name,
        "historyShared": history,
    }


def config_files(store: Store, shares: Sequence[Mapping[str, Any]], port: int) -> dict[str, str]:
    """Return the server's configuration files by name: shares, and credentials of the store for Hadoop and the AWS SDK.

    The SDK signs URLs without a session token, so the reference server has the advantage of shorter URLs.
    """
    server = {
        "version": 1,
        "shares": list(shares),
        "authorization": {"bearerToken": TOKEN},
        "host": "127.0.0.1",
        "port": port,
        "endpoint": "/delta-sharing",
        "requestTimeoutSeconds": 0,
    }
    hadoop = {
        "fs.s3a.endpoint": store.endpoint,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": store.key,
        "fs.s3a.secret.key": store.secret,
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in hadoop.items()
    )
    endpoint = (
        f"<ServiceName>s3</ServiceName><Http>true</Http><Https>false</Https><Hostname>{store.endpoint[7:]}</Hostname>"
    )
    region = f"<Region><Name>{REGION}</Name><Endpoint>{endpoint}</Endpoint></Region>"
    return {
        "server.yaml": json.dumps(server),  # JSON is YAML
        "core-site.xml": f"<configuration>{properties}</configuration>",
        "log4j.properties": "log4j.rootLogger=OFF",  # without this file its libraries format all debug messages
        "com/amazonaws/regions/override/regions.xml": f"<XML><Regions>{region}</Regions></XML>",
    }
