"""Decides how a test reads a shared table by the connector, and when what it read is what Spark itself read."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from client.provider import Provider
from golden.workbench import as_arrow

from connector.wire import Exchange, Wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Counter[str]


@dataclass(frozen=True)
class Connector:
    """A Spark session with the connector, and the server that it reads from."""

    spark: "SparkSession"
    provider: Provider
    """Its profile leads by the wire."""
    wire: Wire

    def read(self, name: str, as_format: str | None = None, **options: Any) -> "DataFrame":
        """Return a shared table as the connector gives it; without a format it asks the server which."""
        found: DataFrame = self.reader(as_format, **options).load(self.provider.url(name))
        return found

    def reader(self, as_format: str | None = None, **options: Any) -> Any:
        """Return the reader of shared tables."""
        told = options if as_format is None else {"responseFormat": as_format, **options}
        return self.spark.read.format("deltaSharing").options(**told)

    def stream(self, name: str, folder: Path, as_format: str | None = None, **options: Any) -> Rows:
        """Return what a stream has written in a folder, having run until there was no more; it goes on where it was."""
        told = options if as_format is None else {"responseFormat": as_format, **options}
        source = self.spark.readStream.format("deltaSharing").options(**told).load(self.provider.url(name))
        writer = source.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
        return rows(self.spark.read.schema(source.schema).parquet(str(folder / "rows")))

    def asked(self, *calls: str) -> list[Exchange]:
        """Return the requests of these kinds since the last time; drops the others."""
        return [exchange for exchange in self.wire.take() if exchange.call in calls]

    @contextmanager
    def conf(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Set settings of the session during a block."""
        before: dict[str, Any] = {name: self.spark.conf.get(name, None) for name in settings}
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    self.spark.conf.unset(name)
                else:
                    self.spark.conf.set(name, value)


def rows(table: "DataFrame | pa.Table") -> Rows:
    """Return rows as text, each with how often it is there: NaN is not equal to itself, and -0.0 is equal to 0.0."""
    arrow = table if isinstance(table, pa.Table) else as_arrow(table)
    return Counter(repr(row) for row in arrow.to_pylist())


def told(exchanges: Sequence[Exchange]) -> str:
    """Return what a failing case shows of its requests."""
    return "\n".join(
        f"{sent.method} {sent.call} {json.dumps(sent.body, ensure_ascii=False)}: {sent.status}, {sent.files} files"
        for sent in exchanges
    )
