"""Read shared tables with the connector, and compare rows."""

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
    """Its profile has the endpoint of the proxy."""
    wire: Wire

    def read(self, name: str, as_format: str | None = None, **options: Any) -> "DataFrame":
        """Read a shared table with the connector; by default in the format that the server selects."""
        frame: DataFrame = self.reader(as_format, **options).load(self.provider.url(name))
        return frame

    def reader(self, as_format: str | None = None, **options: Any) -> Any:
        """Return a reader of shared tables."""
        reader_options = options if as_format is None else {"responseFormat": as_format, **options}
        return self.spark.read.format("deltaSharing").options(**reader_options)

    def stream(self, name: str, folder: Path, as_format: str | None = None, **options: Any) -> Rows:
        """Run a stream into a folder until no data remains, and return all rows; a later run continues."""
        reader_options = options if as_format is None else {"responseFormat": as_format, **options}
        source = self.spark.readStream.format("deltaSharing").options(**reader_options).load(self.provider.url(name))
        writer = source.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
        return rows(self.spark.read.schema(source.schema).parquet(str(folder / "rows")))

    def requests(self, *calls: str) -> list[Exchange]:
        """Return the recorded requests of some kinds, and clear the record."""
        return [exchange for exchange in self.wire.take() if exchange.call in calls]

    @contextmanager
    def conf(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Change settings of the session while the block runs."""
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
    """Count rows by their text, because NaN is not equal to itself, and -0.0 is equal to 0.0."""
    arrow = table if isinstance(table, pa.Table) else as_arrow(table)
    return Counter(repr(row) for row in arrow.to_pylist())


def describe(exchanges: Sequence[Exchange]) -> str:
    """Describe requests in the message of a failed test."""
    return "\n".join(
        f"{each.method} {each.call} {json.dumps(each.body, ensure_ascii=False)}: {each.status}, {each.files} files"
        for each in exchanges
    )
