"""Where faults are played: the server over a proxy over the embedded AWS, and for every case what no other has touched.

A process remembers tokens, sessions, keys and logs, so each case has a recipient and a token of its own and, where a
store fails, a copy of the table: only what is read for the first time meets a fault.
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
from faults.proxy import Plan, Proxy
from faults.table import Fault
from filled_server import Entry, FilledServer

GOLDEN: Final = "golden"
PARTS: Final = 4
FILES_IN_PART: Final = 1400
OPEN: Final[Mapping[str, Any]] = {"history": True, "access_modes": ["url", "dir"]}
SCHEMA = pa.schema([column("id", pa.int64())])
_DELTA: Final = "responseformat=delta;readerfeatures=deletionvectors"
_PASSING_TEXT = re.compile(r'"(?:expirationTimestamp|minUrlExpirationTimestamp|expirationTime|id)":\s*("[^"]*"|\d+),?')
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
class Outcome:
    """What a recipient saw while a fault was played, and after it."""

    reply: Reply | None
    """None: the answer broke off, as every client of HTTP notices."""
    seconds: float
    played: int
    content: str
    """What was answered, without what differs from case to case."""
    afterwards: str
    """The same of the next request."""


@dataclass(frozen=True)
class Case:
    """One recipient, its share and its table."""

    recipient: Recipient
    recipient_id: str
    name: str
    table_name: str

    @property
    def table(self) -> str:
        return f"/shares/{GOLDEN}/schemas/s/tables/{self.table_name}"

    def with_capabilities(self, capabilities: str) -> Recipient:
        return self.recipient.with_headers(**{CAPABILITIES: capabilities})

    def ask(self, call: str) -> Reply:
        return _ASKED[call](self)

    def content(self, reply: Reply) -> str:
        """Return an answer without addresses, times and what this case is called."""
        text = reply.body.decode().replace(self.name, "CASE").replace(GOLDEN, "CASE")
        if "awsTempCredentials" in text:
            text = json.dumps(sorted(json.loads(text)["credentials"]))
        alike = _PASSING_TEXT.sub("", _URL.sub(r"\1", text))
        return f"{reply.status} {alike}"


_ASKED: Mapping[str, Callable[[Case], Reply]] = {
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
class Place:
    """The server whose AWS fails."""

    proxy: Proxy
    endpoint: str
    admin: CatalogAdmin
    s3: Any
    keys: AccessKeys
    log: Mapping[str, bytes]
    """The log of the golden table, by name."""
    reader: Case
    """A recipient whom the server knows, and the golden table."""

    def case(self, part: str, name: str) -> Case:
        """Make what a fault of this part has to meet for the first time: a table, or a recipient with its token."""
        if part in {"listing", "object", "keys"}:
            return replace(self.reader, name=name, table_name=self._table(part, name))
        account = self.admin.recipients.create(name)
        self.admin.grants.create(name, GOLDEN)
        return Case(Recipient(self.endpoint, self.admin.tokens.create(account).secret), account.id, name, GOLDEN)

    def _table(self, part: str, name: str) -> str:
        location, storage = f"s3://{DATA_BUCKET}/{GOLDEN}", ""
        if part == "keys":
            storage = name
            self.admin.storages.create(name, endpoint=self.proxy.url, path_style=True, access_keys=self.keys)
        else:
            location = f"s3://{DATA_BUCKET}/{name}"
            for file, content in self.log.items():
                self.s3.put_object(Bucket=DATA_BUCKET, Key=f"{name}/_delta_log/{file}", Body=content)
        return self.admin.tables.create(GOLDEN, "s", name, location, storage=storage, **OPEN).name

    def large(self, name: str) -> Case:
        """Make a table whose checkpoint is too large to be read before its answer begins: it has 22 MB in parts."""
        log = TableLog(self.s3, DATA_BUCKET, name, SCHEMA)
        log.create()
        log.commit()
        for number, content in enumerate(_parts(), start=1):
            log.put(f"_delta_log/{1:020d}.checkpoint.{number:010d}.{PARTS:010d}.parquet", content)
        log.put("_delta_log/_last_checkpoint", json.dumps({"version": 1, "size": 1, "parts": PARTS}).encode())
        made = self.admin.tables.create(GOLDEN, "s", name, log.location, **OPEN)
        return replace(self.reader, name=name, table_name=made.name)

    def play(self, case: Case, fault: Fault, call: str) -> Outcome:
        """Send a request during the fault, and the same request after it."""
        token = hashlib.sha256(str(case.recipient.token).encode()).hexdigest()
        named = {"catalog": (case.recipient_id,), "token": (token,), "role": (case.recipient_id,)}
        plan = Plan(_SERVICES[fault.part], named.get(fault.part, (case.name,)), fault.play, fault.times)
        begun = time.monotonic()
        reply: Reply | None
        with self.proxy.playing(plan):
            try:
                reply = case.ask(call)
            except (http.client.HTTPException, OSError):
                reply = None
            seconds = time.monotonic() - begun
        content = "" if reply is None else case.content(reply)
        return Outcome(reply, seconds, plan.played, content, case.content(case.ask(call)))

    def healthy(self, call: str) -> str:
        """Return what is answered when nothing fails."""
        return self.reader.content(self.reader.ask(call))


@contextmanager
def failing(folder: Path) -> Iterator[Place]:
    """Start the server with a proxy before its AWS."""
    with EmbeddedAws(folder / "aws", persistent=False) as aws, Proxy(aws.endpoint).open() as proxy:
        golden = Entry(GOLDEN, "s", GOLDEN, options=OPEN)
        behind = {"AWS_ENDPOINT_URL": proxy.url, "LOG_LEVEL": "CRITICAL"}
        with FilledServer.running(
            folder, [golden], {"reader": [GOLDEN]}, aws=aws.environment, variables=behind
        ) as server:
            s3 = server.client("s3")
            keys = AccessKeys(aws.environment["AWS_ACCESS_KEY_ID"], aws.environment["AWS_SECRET_ACCESS_KEY"])
            reader = Case(server.recipient("reader"), server.readers["reader"].id, "reader", GOLDEN)
            yield Place(proxy, server.endpoint, server.admin, s3, keys, _golden(s3), reader)


@cache
def _parts() -> Sequence[bytes]:
    """Return the parts of a checkpoint, with statistics that no compression makes smaller."""
    random = Random(1)  # noqa: S311 -- filling
    log = TableLog(None, DATA_BUCKET, "large", SCHEMA)
    heads = [log.first_protocol(), log.metadata()]
    parts = []
    for part in range(PARTS):
        adds = [_add(f"{part}-{number}.parquet", random.randbytes(2000).hex()) for number in range(FILES_IN_PART)]
        parts.append(checkpoint_file([*(heads if part == 0 else []), *adds]))
    return parts


def _add(path: str, least: str) -> Action:
    stats = json.dumps({"numRecords": 1, "minValues": {"id": least}, "maxValues": {"id": least}})
    known = {"partitionValues": {}, "size": 1000, "modificationTime": 1_650_000_000_000, "dataChange": True}
    return {"add": {"path": path, "stats": stats, **known}}


def _golden(s3: Any) -> Mapping[str, bytes]:
    log = TableLog(s3, DATA_BUCKET, GOLDEN, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    log.create()
    first, second, third = (log.add([{"id": number}]) for number in range(3))
    log.commit(first, second)
    log.commit(log.remove(first), third, log.cdc([{"id": 0, "_change_type": "delete"}]))
    log.checkpoint(2, [second, third])
    log.commit(log.add([{"id": 3}]))
    found = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=f"{GOLDEN}/_delta_log/")["Contents"]
    keys = [item["Key"] for item in found]
    return {key.rpartition("/")[2]: s3.get_object(Bucket=DATA_BUCKET, Key=key)["Body"].read() for key in keys}
