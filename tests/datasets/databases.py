"""A database for tests: Derby, which Spark brings, within Spark's own process."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


class Database:
    """A database in memory of its own name."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.url = f"jdbc:derby:memory:{name}"
        driver = jvm.org.apache.derby.iapi.jdbc.AutoloadedDriver()
        self._connection = driver.connect(f"{self.url};create=true", jvm.java.util.Properties())

    def run(self, *statements: str) -> None:
        """Run statements; each is committed by itself."""
        statement = self._connection.createStatement()
        for one in statements:
            statement.executeUpdate(one)
        statement.close()

    def insert(self, table: str, *rows: str) -> None:
        """Insert rows, each as SQL has its values: `1, 'a'`."""
        self.run(*(f"INSERT INTO {table} VALUES ({row})" for row in rows))  # noqa: S608 -- a test's own

    def source(self, table: str, **more: Any) -> dict[str, Any]:
        """Return the source that reads one of its tables."""
        return {"format": "jdbc", "url": self.url, "driver": DRIVER, "table": table, **more}
