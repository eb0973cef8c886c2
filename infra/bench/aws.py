"""Figures as on AWS: whole answers at Lambda's pace, by clients that page and by those that do not.

The gateway plays Lambda's limits (`deltaic serve --limits aws`); what AWS adds to each request (network, API Gateway,
a cold start) is not played, nor a function's share of a processor. Clients accept gzip, as the real ones do, and the
time a client takes to read its lines is not counted.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from bench import tables
from bench.client import Client, unzipped
from bench.figures import Figure, files_named
from bench.serving import Service

SPARK = "Delta-Sharing-Spark/1.3.10 Hadoop/3.4.2 Spark/4.1.1 Scala/2.13 Java/17"
PANDAS = "Delta-Sharing-Python/1.3.4 pandas/2.3.3 PyArrow/23.0.1 Python/3.11"
FOLLOW_UP_FILES = 100_000
"""What Spark's connector sends as `maxFiles` with each token (its client at 1.3.10)."""

_SPARK_BARS = {100_000: 2.0, 1_000_000: 20.0}
_WHOLE_BARS = {100_000: 11.0}
_WITHOUT_STATISTICS_BARS = {100_000: 5.0}
_REFUSAL_SECONDS = 0.2
_REFUSED = 1_000_000


def as_on_aws(service: Service, files: int) -> Iterator[Figure]:
    """Measure whole answers of one table under Lambda's limits."""
    subject, name = f"{files_named(files)}, as on AWS", tables.name(files)
    with service.fresh(limits="aws") as server:
        client = replace(server.client, gzip=True)
        client.query(tables.name(100))
        if files >= _REFUSED:
            refusals = [client.query(name, status=400).last for _ in range(3)]
            yield Figure(
                subject, "a client that cannot page: refused after", min(refusals) * 1000, "ms", _REFUSAL_SECONDS * 1000
            )
            whole = None
        else:
            told = client.query(name)
            whole = told.last
            yield Figure(subject, "a client that cannot page: last byte", whole, "s", _WHOLE_BARS.get(files))
            yield Figure(subject, "a client that cannot page: wire bytes a line", told.nbytes / files, "B")
            brief = replace(client, agent=PANDAS).query(name)
            bar = _WITHOUT_STATISTICS_BARS.get(files)
            yield Figure(subject, "without statistics: last byte", brief.last, "s", bar, "with them", whole)
            yield Figure(subject, "without statistics: wire bytes a line", brief.nbytes / files, "B")
        pages = min((_by_pages(replace(client, agent=SPARK), name) for _ in range(3)), key=sum)
        rival = "" if whole is None else "in one answer"
        yield Figure(subject, "Spark's connector: last byte", sum(pages), "s", _SPARK_BARS.get(files), rival, whole)
        yield Figure(subject, "Spark's connector: pages", len(pages), "")


def _by_pages(client: Client, name: str) -> list[float]:
    """Ask as Spark's connector does, to the last page; returns the seconds of each request."""
    seconds: list[float] = []
    body: dict[str, object] = {"includeRefreshToken": True}
    while True:
        answer = client.query(name, json.dumps(body).encode(), keep=True)
        seconds.append(answer.last)
        end = json.loads(unzipped(answer.body).rstrip(b"\n").rpartition(b"\n")[2])["endStreamAction"]
        if end.get("errorMessage"):
            raise RuntimeError(f"an answer ended as failed: {end['errorMessage']}")
        if not end.get("nextPageToken"):
            return seconds
        body = {"maxFiles": FOLLOW_UP_FILES, "pageToken": end["nextPageToken"]}
