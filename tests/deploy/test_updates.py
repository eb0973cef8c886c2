"""Test that updates and rollbacks of the stack do not affect recipients that read in the meantime."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.deploy.sam import SamError
from deltaic_ops.deploy.sam_template import load_template
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy

LOG = logging.getLogger(__name__)
FUNCTIONS = [function.name for function in load_template(parameters={"Stage": "deploytest"}).functions.values()]
LEVEL = "POWERTOOLS_LOG_LEVEL"
LEAST_REQUESTS = 500
PAUSE_SECONDS = 0.5
"""Pause of each reader between requests: the updates take a minute or more, in which these requests are enough."""
REPEATED = {429, 503}
"""Statuses that clients retry (PROTOCOL.md, "REST APIs"): the embedded AWS delays functions while others start."""
AUTHORIZER_STARVED = (500, '{"message":null}')
"""Response of API Gateway if the authorizer fails, which clients also retry."""

TABLE = "/shares/updates/schemas/s/tables/numbers"
WAITS_IN_VAIN = """
  Handle:
    Type: AWS::CloudFormation::WaitConditionHandle
  NeverComes:
    Type: AWS::CloudFormation::WaitCondition
    DependsOn: [QueryTable, GetQuery, ListTableChanges]
    Properties: {Handle: !Ref Handle, Timeout: "1", Count: 1}
"""
"""Resource that makes an update fail after it has changed the signing functions."""


@dataclass
class Readers:
    """Clients of a recipient: one lists, one requests versions, one queries and downloads a byte of each file."""

    endpoint: str
    bearer: str
    answers: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    repeated: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def warm(self) -> None:
        """Send each request once, which starts the functions."""
        with self._client() as client:
            for ask in (self._list, self._version, self._query):
                ask(client)

    def start(self) -> None:
        for ask in (self._list, self._version, self._query):
            self._threads.append(threading.Thread(target=self._loop, args=(ask,)))
            self._threads[-1].start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _client(self) -> httpx.Client:
        return httpx.Client(timeout=120, headers={"Authorization": f"Bearer {self.bearer}"})

    def _loop(self, ask: Callable[[httpx.Client], object]) -> None:
        with self._client() as client:
            while not self._over.wait(PAUSE_SECONDS):
                ask(client)

    def _list(self, client: httpx.Client) -> None:
        self._send_request("list", lambda: client.get(f"{self.endpoint}/shares"))

    def _version(self, client: httpx.Client) -> None:
        self._send_request("version", lambda: client.get(f"{self.endpoint}{TABLE}/version"))

    def _query(self, client: httpx.Client) -> None:
        answer = self._send_request("query", lambda: client.post(f"{self.endpoint}{TABLE}/query", json={}))
        for line in answer.text.splitlines()[2:] if answer else []:
            url = json.loads(line)["file"]["url"]
            self._send_request("byte", lambda url=url: httpx.get(url, headers={"Range": "bytes=0-0"}, timeout=120))  # type: ignore[misc]

    def _send_request(self, kind: str, send: Callable[[], httpx.Response]) -> httpx.Response | None:
        for _ in range(10):
            try:
                answer = send()
            except httpx.HTTPError as error:
                self.failed.append(f"{kind}: {error!r}")
                return None
            if answer.status_code not in REPEATED and (answer.status_code, answer.text) != AUTHORIZER_STARVED:
                break
            self.repeated += 1
            time.sleep(0.5)
        self.answers[kind] += 1
        if answer.is_error:
            self.failed.append(f"{kind}: {answer.status_code} {answer.text[:200]}")
            return None
        return answer


@pytest.fixture
def readers(admin: CatalogAdmin, embedded_aws: EmbeddedAws, endpoint: str, lake: str) -> Iterator[Readers]:
    location = f"s3://{lake}/updates"
    options = {**embedded_aws.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    rows = pa.table({"part": range(8), "number": range(8)})
    write_deltalake(location, rows, partition_by=["part"], storage_options=options)
    admin.shares.create("updates")
    admin.schemas.create("updates", "s")
    admin.tables.create("updates", "s", "numbers", location)
    reader = admin.recipients.create("updates_reader")
    admin.grants.create("updates_reader", "updates")
    running = Readers(endpoint, admin.tokens.create(reader).secret)
    running.warm()
    running.start()
    yield running
    running.stop()


@pytest.fixture
def failing_build(packaged: Path, tmp_path: Path) -> Path:
    """Return the folder of a packaged template with a last resource that is never created."""
    text = (packaged / "template.yaml").read_text(encoding="utf-8")
    assert text.count("\nResources:\n") == 1
    (tmp_path / "template.yaml").write_text(text.replace("\nResources:\n", f"\nResources:{WAITS_IN_VAIN}"))
    return tmp_path


def test_updates_and_rollbacks_fail_no_request(
    readers: Readers, deploy_with: Callable[..., Deployment], failing_build: Path, client: Callable[[Any], Any]
) -> None:
    functions = client("lambda")

    def live() -> dict[str, tuple[int, str]]:
        configurations = [
            functions.get_function_configuration(FunctionName=name, Qualifier="live") for name in FUNCTIONS
        ]
        return {
            configuration["FunctionName"]: (
                int(configuration["Version"]),
                configuration["Environment"]["Variables"][LEVEL],
            )
            for configuration in configurations
        }

    before = live()
    # A parameter of all functions that starts none: with snapshots, all would be unpacked at once (8 GB here).
    deploy_with(LogLevel="DEBUG")
    # A changed parameter reaches the alias with one new version of each function; older versions are deleted.
    after = live()
    assert after == {name: (version + 1, "DEBUG") for name, (version, _) in before.items()}
    for name, (version, _) in after.items():
        versions = functions.list_versions_by_function(FunctionName=name)["Versions"]
        assert [item["Version"] for item in versions] == ["$LATEST", str(version)]
    with pytest.raises(SamError, match=r"NeverComes|UPDATE_ROLLBACK"):
        deploy_with(failing_build, LogLevel="ERROR")
    [stack] = client("cloudformation").describe_stacks(StackName="deltaic-deploytest")["Stacks"]
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert {level for _, level in live().values()} == {"DEBUG"}
    while sum(readers.answers.values()) < LEAST_REQUESTS and not readers.failed:
        time.sleep(0.1)
    readers.stop()
    LOG.info("%s, %d repeated", dict(readers.answers), readers.repeated)
    assert readers.failed == [], readers.answers
    assert min(readers.answers[kind] for kind in ("list", "version", "query", "byte")) > 0
