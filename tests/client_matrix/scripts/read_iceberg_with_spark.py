"""Read with Iceberg's Spark runtime; the argument is `spark`, or `java` for Iceberg's own catalog and reader."""

import sys
from typing import Any

from client_matrix.scripts import reading
from client_matrix.scripts.pyiceberg_tables import snapshot_id
from golden.workbench import as_arrow
from iceberg.spark_with_iceberg import AWS, RUNTIME, spark_with


def row_of(record: Any) -> dict[str, Any]:
    """Return a record of Iceberg's own reader, without the position that it adds under deletion vectors."""
    names = [field.name() for field in record.struct().fields() if field.name() != "_pos"]
    values = {name: record.getField(name) for name in names}
    return {name: row_of(value) if hasattr(value, "struct") else value for name, value in values.items()}


def main() -> None:
    """Start Spark with Iceberg's jars, and read each check."""
    with spark_with(RUNTIME, AWS) as spark:

        def options_of(job: dict[str, Any], check: reading.Check) -> dict[str, str]:
            if check["profile"] == "key":
                raise reading.Unsupported("it signs no assertions")
            client = job["client"]
            secret = {
                "credential": f"{client['clientId']}:{client['clientSecret']}",
                "oauth2-server-uri": client["tokenEndpoint"],
            }
            rights = secret if check["profile"] == "secret" else {"token": job["token"]}
            return {"uri": job["iceberg"], "warehouse": job["share"], **rights}

        def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
            name = f"c_{check['profile']}"
            prefix = f"spark.sql.catalog.{name}"
            spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set(f"{prefix}.type", "rest")
            for key, value in options_of(job, check).items():
                spark.conf.set(f"{prefix}.{key}", value)
            table = f"{name}.{job['schema']}.{check['table']}"
            reader = spark.read
            if check["version"] is not None:
                reader = reader.option("versionAsOf", f"v{check['version']}")
            rows: reading.Rows = as_arrow(reader.table(table)).to_pylist()
            return rows

        def read_generic(job: dict[str, Any], check: reading.Check) -> reading.Rows:
            jvm: Any = spark._jvm
            catalog = jvm.org.apache.iceberg.rest.RESTCatalog()
            options = jvm.java.util.HashMap()
            for key, value in options_of(job, check).items():
                options.put(key, value)
            catalog.initialize("shared", options)
            identifier = jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"{job['schema']}.{check['table']}")
            builder = jvm.org.apache.iceberg.data.IcebergGenerics.read(catalog.loadTable(identifier))
            snapshot = snapshot_id(check)
            scan = (builder if snapshot is None else builder.useSnapshot(snapshot)).build()
            return [row_of(record) for record in scan.iterator()]

        version = str(spark._jvm.org.apache.iceberg.IcebergBuild.version())  # type: ignore[union-attr]
        reading.main(version, read if sys.argv[1] == "spark" else read_generic)


main()
