"""Database for tests: Derby, which is part of Spark, in Spark's process."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"


class Database:
    """An in-memory database with a name."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.url = f"jdbc:derby:memory:{name}"
        driver = jvm.org.apache.derby.iapi.jdbc.AutoloadedDriver()
        self._connection = driver.connect(f"{self.url};create=true", jvm.java.util.Properties())

    def run(self, *statements: str) -> None:
        """Run statements and commit each one."""
        statement = self._connection.createStatement()
        for statement_text in statements:
            statement.executeUpdate(statement_text)
        statement.close()

    def insert(self, table: str, *rows: str) -> None:
        """Insert rows in SQL syntax: `1, 'a'`."""
        self.run(*(f"INSERT INTO {table} VALUES ({row})" for row in rows))  # noqa: S608 -- a test's own

    def source(self, table: str, **more: Any) -> dict[str, Any]:
        """Return a dataset's source for one of the tables."""
        return {"format": "jdbc", "url": self.url, "driver": DRIVER, "table": table, **more}
