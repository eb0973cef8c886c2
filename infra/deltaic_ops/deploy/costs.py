"""What a stack costs: infra/costs.md, which `python -m deltaic_ops.deploy.costs` prints.

Computed from AWS's list prices, the template and the benchmark. Prices are those of us-east-1 without free tiers and
discounts; whoever relies on a figure looks them up.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from deltaic_ops.deploy.template import ROOT, load_template
from deltaic_ops.deploy.transform import transformed

PRICES_OF = "2026-11-22"
MONTH_SECONDS = 730 * 3600
_PRICES = "https://aws.amazon.com/{}/pricing/"

REQUESTS = 1_000_000
"""Half of them for metadata, half queries that are answered by FILES files."""
FILES = 1_000
AWAY_SECONDS = 0.05
"""What the benchmark does not have, since its store is on the same machine: two reads of DynamoDB and one of S3."""
STARTS = 0.01
"""The part of all requests that meets a function which must start first."""
LOG_BYTES = 2_500
"""Of a request: the endpoint's event, its metrics, Lambda's own lines and the gateway's."""
LINE_BYTES = 1_900
"""Of a file in an answer, with its signed URL."""
READ_UNITS = 3
"""Of a request: token, grant and table, each below 4 KB and read consistently."""
METRICS = 6
"""Two for each endpoint that is used and two for all, in every hour of the month."""
SHARED_GB = 1000
FILE_GB = 0.128


@dataclass(frozen=True, slots=True)
class Price:
    """One list price in USD: what it is of, and AWS's page that has it."""

    what: str
    usd: float
    page: str


PRICES = {
    "gateway": Price("a million requests of a REST API", 3.50, "api-gateway"),
    "invocations": Price("a million invocations of functions", 0.20, "lambda"),
    "compute": Price("a GB-second of functions on arm64", 0.0000133334, "lambda"),
    "snapshot": Price("a GB-second of a SnapStart snapshot that is kept", 0.0000015046, "lambda"),
    "restore": Price("a GB restored from a snapshot", 0.0001397998, "lambda"),
    "reads": Price("a million read units of DynamoDB on demand", 0.125, "dynamodb/on-demand"),
    "lists": Price("a thousand listings of S3", 0.005, "s3"),
    "gets": Price("a thousand GETs of S3", 0.0004, "s3"),
    "out": Price("a GB that leaves AWS for the internet", 0.09, "ec2/on-demand"),
    "logs": Price("a GB of logs taken in", 0.50, "cloudwatch"),
    "metric": Price("a metric for a month", 0.30, "cloudwatch"),
    "alarm": Price("an alarm for a month", 0.10, "cloudwatch"),
    "secret": Price("a secret for a month", 0.40, "secrets-manager"),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """What the benchmark measured (infra/bench/figures.json), in seconds and bytes."""

    metadata: float
    query: float
    loading: float
    """What a function's start takes: its imports."""
    listings: float
    """Of S3, by a query."""
    smaller: float
    """How many times smaller gzip makes an answer."""

    @classmethod
    def read(cls) -> "Figures":
        """Read the figures of a table of 1,000 files."""
        said = json.loads((ROOT / "infra" / "bench" / "figures.json").read_text())["figures"]
        value = {(one["subject"], one["name"]): float(one["value"]) for one in said}
        return cls(
            metadata=value["1k files", "warm: metadata"] / 1000,
            query=value["1k files", "warm: last byte"],
            loading=value["imports", "query_table"] / 1000,
            listings=value["1k files", "warm: S3 requests of a query"],
            smaller=value["1k files", "warm, gzip: times smaller"],
        )


def costs() -> dict[str, tuple[float, float, float]]:
    """Return USD by what is paid for: an idle month, a million requests in it, and a terabyte that recipients fetch."""
    usd = {name: price.usd for name, price in PRICES.items()}
    figures, memory = Figures.read(), _memory()
    half = REQUESTS / 2
    seconds = {"GetTableMetadata": figures.metadata, "QueryTable": figures.query}
    compute = sum(
        half * memory[name] * (spent + AWAY_SECONDS + STARTS * figures.loading) for name, spent in seconds.items()
    )
    answers = half * FILES * LINE_BYTES / figures.smaller / 1e9
    files = SHARED_GB / FILE_GB
    return {
        "alarms, the secret": (_alarms() * usd["alarm"] + usd["secret"], 0, 0),
        "API Gateway": (0, REQUESTS / 1e6 * usd["gateway"], 0),
        "functions": (0, REQUESTS / 1e6 * usd["invocations"] + compute * usd["compute"], 0),
        "DynamoDB": (0, REQUESTS * READ_UNITS / 1e6 * usd["reads"], 0),
        "S3, what the server asks": (0, REQUESTS * figures.listings / 1000 * usd["lists"], 0),
        "logs and metrics": (0, REQUESTS * LOG_BYTES / 1e9 * usd["logs"] + METRICS * usd["metric"], 0),
        "S3, what recipients fetch": (0, 0, files / 1000 * usd["gets"]),
        "traffic to the internet": (0, answers * usd["out"], SHARED_GB * usd["out"]),
    }


def snapstart() -> tuple[float, float, float]:
    """Return what SnapStart adds: for as long as snapshots are kept, and for each start from one."""
    memory = _memory(SnapStart="enabled")
    kept = sum(memory.values()) * MONTH_SECONDS * PRICES["snapshot"].usd
    started = (memory["GetTableMetadata"] + memory["QueryTable"]) / 2 * REQUESTS * STARTS * PRICES["restore"].usd
    return kept, started, 0


def _memory(**parameters: str) -> Mapping[str, float]:
    """Return the GB of each function that is deployed with these parameters and else by default."""
    functions = load_template(parameters=_LEAST | parameters).functions
    return {name: function.memory / 1024 for name, function in functions.items()}


_LEAST = {"DataBuckets": "arn:aws:s3:::lake"}


def _deployed(kind: str) -> set[str]:
    return {name for name, said in transformed(parameters=_LEAST).items() if said["Type"] == kind}


@cache
def _alarms() -> int:
    return len(_deployed("AWS::CloudWatch::Alarm"))


_PAGE = """\
# What a stack costs

Computed by `python -m deltaic_ops.deploy.costs` from list prices of us-east-1, as known on {date} and to be
checked before you rely on them; without free tiers (which cover an idle stack), discounts and taxes. USD.

| paid for | an idle month | a million requests | a terabyte fetched |
|---|---|---|---|
{table}

The columns add up: a month in which a million requests were answered and a terabyte was fetched costs the three.
Within the bucket's region a terabyte costs its GETs alone.

What stands behind the figures:

* idle: {alarms} alarms and one secret; tables, functions and the API cost nothing by themselves, and a catalog has
  kilobytes. Each part that a parameter adds comes on top (a dashboard 3, a web ACL with three rules 8 and 0.60 a
  million requests, a key 1, traces 5 a million).
* a million requests: half for metadata, half queries that are answered by {files:,} files, gzipped; the function has
  read the table before ({metadata:.0f} and {query:.0f} ms by [the benchmark](bench/report.md), and {away:.0f} ms for
  DynamoDB and S3, which is assumed); one of {starts:.0f} meets a function that must start first; {logs:,} bytes of
  logs, {reads} read units and {listings:.0f} listing each; {metrics} metrics.
* a terabyte: {shared:,} GB in files of {file:.0f} MB, each fetched by one GET over the internet; the query that signs
  their URLs is one request.

| list price of | USD | page |
|---|---|---|
{prices}
"""


def page() -> str:
    """Return infra/costs.md."""
    figures = Figures.read()
    return _PAGE.format(
        date=PRICES_OF,
        table="\n".join(_table()),
        alarms=_alarms(),
        files=FILES,
        metadata=figures.metadata * 1000,
        query=figures.query * 1000,
        away=AWAY_SECONDS * 1000,
        starts=1 / STARTS,
        logs=LOG_BYTES,
        reads=READ_UNITS,
        listings=figures.listings,
        metrics=METRICS,
        shared=SHARED_GB,
        file=FILE_GB * 1000,
        prices="\n".join(
            f"| {price.what} | {f'{price.usd:.10f}'.rstrip('0')} | {_PRICES.format(price.page)} |"
            for price in PRICES.values()
        ),
    )


def _table() -> Iterator[str]:
    table = costs()
    without = tuple(sum(column) for column in zip(*table.values(), strict=True))
    more = snapstart()
    together = tuple(plain + added for plain, added in zip(without, more, strict=True))
    for what, amounts in table.items():
        yield f"| {what} | {' | '.join(map(_money, amounts))} |"
    yield f"| **together, SnapStart off** | {' | '.join(f'**{_money(amount)}**' for amount in without)} |"
    yield f"| SnapStart on adds | {' | '.join(map(_money, more))} |"
    yield f"| **together, SnapStart on** | {' | '.join(f'**{_money(amount)}**' for amount in together)} |"


def _money(amount: float) -> str:
    return "0" if amount == 0 else f"{amount:.2f}" if amount >= 0.005 else "below 0.01"  # noqa: PLR2004 -- half a cent


if __name__ == "__main__":
    print(page(), end="")
