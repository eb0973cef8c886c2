"""A server whose AWS plays faults, with a fresh recipient or table for each case.

The server caches tokens, sessions, keys and logs, so that only first reads meet a fault. Therefore each case has its
own recipient and token or, if the store fails, its own copy of the table.
"""

import hashlib
import http.client
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
from contract.logs import Action, TableLog, checkpoint_file, column
from contract.recipient import CAPABILITIES, Recipient, Reply
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.resources import DATA_BUCKET
from faults import table
from faults.proxy import FaultPlan, Proxy
from faults.table import Fault
from filled_server import Entry, FilledServer

GOLDEN: Final = "golden"
PARTS: Final = 4
FILES_IN_PART: Final = 1400
TABLE_OPTIONS: Final[Mapping[str, Any]] = {"history": True, "access_modes": ["url", "dir"]}
SCHEMA = pa.schema([column("id", pa.int64())])
_DELTA: Final = "responseformat=delta;readerfeatures=deletionvectors"
_CHANGING_FIELDS = re.compile(
    r'"(?:expirationTimestamp|minUrlExpirationTimestamp|expirationTime|id)":\s*("[^"]*"|\d+),?'
)
_URL = re.compile(r'http://[^"?]*/([^"/?]+)\?[^"]*')

_SERVICES: Final = {
    "listing": "list",
    "object": "get",
    "catalog": "dynamodb",
    "token": "dynamodb",
    "role": "sts",
    "keys": "secretsmanager",
}


@dataclass(frozen=True)
class FaultResult:
    """Responses to a recipient during a fault and after it."""

    reply: Reply | None
    """None if the response was incomplete, which every HTTP client notices."""
    seconds: float
    played: int
    content: str
    """The response without the parts that differ from case to case."""
    next_content: str
    """The same for the next request."""


@dataclass(frozen=True)
class Case:
    """A recipient, its share and its table."""

    recipient: Recipient
    recipient_id: str
    name: str
    table_name: str

    @property
    def table(self) -> str:
        return f"/shares/{GOLDEN}/schemas/s/tables/{self.table_name}"

    def with_capabilities(self, capabilities: str) -> Recipient:
        return self.recipient.with_headers(**{CAPABILITIES: capabilities})

    def call(self, call: str) -> Reply:
        return _CALLS[call](self)

    def content(self, reply: Reply) -> str:
        """Return a response without addresses, times and the name of this case."""
        text = reply.body.decode().replace(self.name, "CASE").replace(GOLDEN, "CASE")
        if "awsTempCredentials" in text:
            text = json.dumps(sorted(json.loads(text)["credentials"]))
        comparable = _CHANGING_FIELDS.sub("", _URL.sub(r"\1", text))
        return f"{reply.status} {comparable}"


_CALLS: Mapping[str, Callable[[Case], Reply]] = {
    table.SHARES: lambda case: case.recipient.get("/shares"),
    table.VERSION: lambda case: case.recipient.get(f"{case.table}/version"),
    table.METADATA: lambda case: case.recipient.get(f"{case.table}/metadata"),
    table.PARQUET: lambda case: case.recipient.post(f"{case.table}/query", {}),
    table.DELTA: lambda case: case.with_capabilities(_DELTA).post(f"{case.table}/query", {}),
    table.CHANGES: lambda case: case.recipient.get(f"{case.table}/changes?startingVersion=1"),
    table.RANGE: lambda case: case.with_capabilities(_DELTA).post(f"{case.table}/query", {"startingVersion": 1}),
    table.CREDENTIALS: lambda case: case.recipient.post(f"{case.table}/temporary-table-credentials", {}),
}


@dataclass(frozen=True)
class FailingServer:
    """A server with a failing AWS."""

    proxy: Proxy
    endpoint: str
    admin: CatalogAdmin
    s3: Any
    keys: AccessKeys
    log: Mapping[str, bytes]
    """The log of the golden table, by name."""
    reader: Case
    """A recipient that the server has cached, and the golden table."""

    def create_case(self, part: str, name: str) -> Case:
        """Create what the server must read for the first time: a table, or a recipient with a token."""
        if part in {"listing", "object", "keys"}:
            return replace(self.reader, name=name, table_name=self._table(part, name))
        account = self.admin.recipients.create(name)
        self.admin.grants.create(name, GOLDEN)
        return Case(Recipient(self.endpoint, self.admin.tokens.create(account).secret), account.id, name, GOLDEN)

    def _table(self, part: str, name: str) -> str:
        # By signed URLs only: for a folder that recipients read, the catalog would compare all its tables.
        options = {**TABLE_OPTIONS, "access_modes": ["url"]}
        location, storage = f"s3://{DATA_BUCKET}/{GOLDEN}", ""
        if part == "keys":
            storage = name
            self.admin.storages.create(name, endpoint=self.proxy.url, path_style=True, access_keys=self.keys)
        else:
            location = f"s3://{DATA_BUCKET}/{name}"
            for file, content in self.log.items():
                self.s3.put_object(Bucket=DATA_BUCKET, Key=f"{name}/_delta_log/{file}", Body=content)
        return self.admin.tables.create(GOLDEN, "s", name, location, storage=storage, **options).name

    def create_large_table(self, name: str) -> Case:
        """Create a table with a checkpoint of 22 MB, which is not read before the response starts."""
        log = TableLog(self.s3, DATA_BUCKET, name, SCHEMA)
        log.create()
        log.commit()
        for number, content in enumerate(_checkpoint_parts(), start=1):
            log.put(f"_delta_log/{1:020d}.checkpoint.{number:010d}.{PARTS:010d}.parquet", content)
        log.put("_delta_log/_last_checkpoint", json.dumps({"version": 1, "size": 1, "parts": PARTS}).encode())
        table_entry = self.admin.tables.create(GOLDEN, "s", name, log.location, **TABLE_OPTIONS)
        return replace(self.reader, name=name, table_name=table_entry.name)

    def play(self, case: Case, fault: Fault, call: str) -> FaultResult:
        """Send a request during a fault, and the same request after it."""
        token = hashlib.sha256(str(case.recipient.token).encode()).hexdigest()
        names = {"catalog": (case.recipient_id,), "token": (token,), "role": (case.recipient_id,)}
        plan = FaultPlan(_SERVICES[fault.part], names.get(fault.part, (case.name,)), fault.play, fault.times)
        started = time.monotonic()
        reply: Reply | None
        with self.proxy.play_fault(plan):
            try:
                reply = case.call(call)
            except (http.client.HTTPException, OSError):
                reply = None
            seconds = time.monotonic() - started
        content = "" if reply is None else case.content(reply)
        return FaultResult(reply, seconds, plan.played, content, case.content(case.call(call)))

    def healthy_content(self, part: str) -> dict[str, str]:
        """Return the responses without faults to the calls that use a part."""
        case = self.create_case(part, f"healthy{part}")
        return {call: case.content(case.call(call)) for call in table.CALLS[part]}


@contextmanager
def start_failing_server(folder: Path) -> Iterator[FailingServer]:
    """Run a server with a proxy before its AWS."""
    with EmbeddedAws(folder / "aws", persistent=False) as aws, Proxy(aws.endpoint).open() as proxy:
        entry = Entry(GOLDEN, "s", GOLDEN, options=TABLE_OPTIONS)
        variables = {"AWS_ENDPOINT_URL": proxy.url, "LOG_LEVEL": "CRITICAL"}
        with FilledServer.running(
            folder, [entry], {"reader": [GOLDEN]}, aws=aws.environment, variables=variables
        ) as server:
            s3 = server.client("s3")
            keys = AccessKeys(aws.environment["AWS_ACCESS_KEY_ID"], aws.environment["AWS_SECRET_ACCESS_KEY"])
            reader = Case(server.recipient("reader"), server.readers["reader"].id, "reader", GOLDEN)
            yield FailingServer(proxy, server.endpoint, server.admin, s3, keys, _golden(s3), reader)


@cache
def _checkpoint_parts() -> Sequence[bytes]:
    """Return the parts of a checkpoint, with random statistics that cannot be compressed."""
    random = Random(1)  # noqa: S311 -- content of a test file
    log = TableLog(None, DATA_BUCKET, "large", SCHEMA)
    first_actions = [log.first_protocol(), log.metadata()]
    parts = []
    for part in range(PARTS):
        adds = [_add(f"{part}-{number}.parquet", random.randbytes(2000).hex()) for number in range(FILES_IN_PART)]
        parts.append(checkpoint_file([*(first_actions if part == 0 else []), *adds]))
    return parts


def _add(path: str, value: str) -> Action:
    stats = json.dumps({"numRecords": 1, "minValues": {"id": value}, "maxValues": {"id": value}})
    fields = {"partitionValues": {}, "size": 1000, "modificationTime": 1_650_000_000_000, "dataChange": True}
    return {"add": {"path": path, "stats": stats, **fields}}


def _golden(s3: Any) -> Mapping[str, bytes]:
    log = TableLog(s3, DATA_BUCKET, GOLDEN, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    log.create()
    first, second, third = (log.add([{"id": number}]) for number in range(3))
    log.commit(first, second)
    log.commit(log.remove(first), third, log.cdc([{"id": 0, "_change_type": "delete"}]))
    log.checkpoint(2, [second, third])
    log.commit(log.add([{"id": 3}]))
    objects = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=f"{GOLDEN}/_delta_log/")["Contents"]
    keys = [item["Key"] for item in objects]
    return {key.rpartition("/")[2]: s3.get_object(Bucket=DATA_BUCKET, Key=key)["Body"].read() for key in keys}
