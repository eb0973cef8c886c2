"""Clients of the matrix: how each is run, what it cannot do by its nature, and its shortest settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ICEBERG = ("Iceberg vended", "Iceberg signed")
SHARING: Final[Mapping[str, str]] = {
    **dict.fromkeys(ICEBERG, "it is a client of Delta Sharing"),
    "directory access": "it reads by URL",
}
FOLDERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(ICEBERG, "it reads Delta tables"),
    "OAuth profile": "it reads no profile: request a token and the credentials yourself",
}
CATALOGS: Final[Mapping[str, str]] = {
    "change feed": "Iceberg has no change feed",
    "directory access": "it is a client of Iceberg's catalog",
}
"""Abilities that all clients of a kind lack."""


@dataclass(frozen=True)
class Client:
    """A client, and how to run it."""

    name: str
    """Name of its file of results."""

    title: str
    """With `{version}` where the version belongs."""

    script: str
    settings: str
    """The shortest settings that work."""

    language: str = "python"
    """Of the settings."""

    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    """Packages of its own environment; without any, it runs in the developers' environment."""

    node_packages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The same for Node: `dependencies` and `overrides`."""

    starts_more: bool = False
    """Whether it starts Spark, a browser or a process for each read."""

    lacks: Mapping[str, str] = field(default_factory=dict)
    """Abilities that it does not have, and why."""

    environment: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Plain words for errors of this client, as in `REASONS`."""

    note: str = ""
    """What else a reader must know about its run."""

    @property
    def is_cheap(self) -> bool:
        """Whether a test runs it each time."""
        return not (self.packages or self.node_packages or self.starts_more)


REASONS: Final[Mapping[str, str]] = {
    "Unsupported Delta Table Properti": "the server refuses it by name, because the client would misread it",
    "credentials for its folder would allow": "the server gives no credentials, because they open the whole folder",
    "No module named 's3fs'": "it cannot let the server sign its requests",
}
"""Plain words for errors of several clients: a regular expression, and what to write."""

PYICEBERG: Final = (
    'uri, token = profile["icebergEndpoint"], profile["bearerToken"]\n'
    'catalog = RestCatalog("sales", uri=uri, token=token, warehouse="sales_share")\n'
    'catalog.load_table("europe.orders").scan().to_arrow()'
)
S3FS: Final = ("pyiceberg[pyarrow,s3fs]==0.12.0", "s3fs==2026.9.0")
DOWNCAST: Final = {"PYICEBERG_DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE": "true"}
CLIENTS: Final = (
    Client(
        "delta_sharing_1_4",
        "`delta-sharing` {version} for Python",
        "read_with_delta_sharing.py",
        'delta_sharing.load_as_pandas("alice.share#sales_share.europe.orders")',
        arguments=("default",),
        lacks=SHARING,
    ),
    Client(
        "delta_sharing_1_4_delta",
        "`delta-sharing` {version} for Python, delta format",
        "read_with_delta_sharing.py",
        'delta_sharing.load_as_pandas("alice.share#sales_share.europe.orders", use_delta_format=True)',
        arguments=("delta",),
        lacks=SHARING,
    ),
    Client(
        "delta_sharing_1_0",
        "`delta-sharing` {version} for Python",
        "read_with_delta_sharing.py",
        'delta_sharing.load_as_pandas("alice.share#sales_share.europe.orders")',
        packages=("delta-sharing==1.0.*", "pandas<3", "numpy<2", "pyarrow<19"),
        lacks=SHARING,
        reasons={"does not supports": "it reads only profiles with a token"},
    ),
    Client(
        "delta_sharing_0_5",
        "`delta-sharing` {version} for Python",
        "read_with_delta_sharing.py",
        'delta_sharing.load_as_pandas("alice.share#sales_share.europe.orders")',
        packages=("delta-sharing==0.5.*", "pandas<2", "numpy<2", "pyarrow<16"),
        lacks=SHARING,
        reasons={"KeyError: 'bearerToken'": "it reads only profiles with a token"},
    ),
    Client(
        "deltalake",
        "`deltalake` {version}, `QueryBuilder`",
        "read_folder_with_deltalake.py",
        "table = DeltaTable(location, storage_options=options)\n"
        'QueryBuilder().register("orders", table).execute("SELECT * FROM orders").read_all()',
        arguments=("query",),
        lacks=FOLDERS,
    ),
    Client(
        "deltalake_pyarrow",
        "`deltalake` {version}, `to_pyarrow_table` and `to_pandas`",
        "read_folder_with_deltalake.py",
        "DeltaTable(location, storage_options=options).to_pyarrow_table()",
        arguments=("pyarrow",),
        lacks=FOLDERS,
    ),
    Client(
        "polars",
        "`polars` {version}, `scan_delta`",
        "read_folder_with_polars.py",
        "polars.scan_delta(location, storage_options=options).collect()",
        lacks={**FOLDERS, "change feed": "it has no function for it"},
        reasons={
            "column mapping": "`DeltaProtocolError`: it does not support column mapping",
            "not found": "`FileNotFoundError`: it finds no file in a folder whose name Spark encoded (`part=b%20c`)",
        },
    ),
    Client(
        "pyiceberg",
        "pyiceberg {version} with PyArrow",
        "read_iceberg_with_pyiceberg.py",
        PYICEBERG,
        arguments=("pyarrow",),
        lacks=CATALOGS,
        environment=DOWNCAST,
    ),
    Client(
        "pyiceberg_s3fs",
        "pyiceberg {version} with s3fs",
        "read_iceberg_with_pyiceberg.py",
        "# pip install s3fs, and PYICEBERG_MAX_WORKERS=1 in the environment\n" + PYICEBERG,
        packages=S3FS,
        lacks=CATALOGS,
        environment={**DOWNCAST, "PYICEBERG_MAX_WORKERS": "1"},
    ),
    Client(
        "pyiceberg_core",
        "iceberg-rust in pyiceberg-core {version}, with DataFusion",
        "read_iceberg_with_pyiceberg_core.py",
        "provider = IcebergDataFusionTable(\n"
        "    identifier=list(table.name()),\n"
        "    metadata_location=table.metadata_location,\n"
        "    file_io_properties={**table.io.properties, **table.config},\n"
        ")\n"
        'context.register_table("orders", provider)',
        packages=("pyiceberg[pyarrow]==0.12.0", "pyiceberg-core==0.11.0", "datafusion==54.*"),
        lacks=CATALOGS,
        reasons={"reqsign": "it cannot let the server sign its requests"},
    ),
    Client(
        "polars_iceberg",
        "`polars` {version}, `scan_iceberg` with pyiceberg's reader",
        "read_iceberg_with_polars.py",
        'polars.scan_iceberg(catalog.load_table("europe.orders"), reader_override="pyiceberg").collect()',
        arguments=("pyiceberg",),
        packages=("polars==2.1.0", *S3FS),
        lacks=CATALOGS,
        environment={**DOWNCAST, "PYICEBERG_MAX_WORKERS": "1"},
    ),
    Client(
        "polars_iceberg_native",
        "`polars` {version}, `scan_iceberg` with its own reader",
        "read_iceberg_with_polars.py",
        'table = catalog.load_table("europe.orders")\n'
        'names = ("access-key-id", "secret-access-key", "session-token")\n'
        "keys = {f\"aws_{name.replace('-', '_')}\": table.config[f\"s3.{name}\"] for name in names}\n"
        'options = {**keys, "aws_region": table.config["s3.region"]}\n'
        'polars.scan_iceberg(table, reader_override="native", storage_options=options).collect()',
        arguments=("native",),
        lacks=CATALOGS,
        environment=DOWNCAST,
    ),
    Client(
        "daft_delta",
        "`daft` {version}, `read_deltalake`",
        "read_with_daft.py",
        "keys = S3Config(key_id=..., access_key=..., session_token=..., region_name=...)\n"
        "daft.read_deltalake(location, io_config=IOConfig(s3=keys))",
        arguments=("delta",),
        packages=("daft==0.7.26", "deltalake==1.6.6", "pyiceberg[pyarrow]==0.12.0"),
        lacks={**FOLDERS, "change feed": "it has no function for it"},
        reasons={
            "deletion vectors are not yet supported": "`NotImplementedError`: it does not support deletion vectors",
            "no parquet field IDs": "`DaftCoreException`: it reads no files without field ids under column mapping",
        },
    ),
    Client(
        "daft_iceberg",
        "`daft` {version}, `read_iceberg`",
        "read_with_daft.py",
        'daft.read_iceberg(catalog.load_table("europe.orders"))',
        arguments=("iceberg",),
        packages=("daft==0.7.26", "deltalake==1.6.6", "pyiceberg[pyarrow]==0.12.0"),
        lacks=CATALOGS,
        reasons={
            "no parquet field IDs": "`DaftCoreException`: it reads no files without field ids, which Delta files lack",
            "CorruptFile": "`DaftCoreException`: it reads no deletion vectors",
        },
    ),
    Client(
        "duckdb_delta",
        "DuckDB {version}, `delta_scan`",
        "read_with_duckdb.py",
        "CREATE SECRET shares (TYPE s3, KEY_ID '...', SECRET '...', SESSION_TOKEN '...', REGION '...');\n"
        "FROM delta_scan('s3://...');  -- the location that came with the credentials",
        "sql",
        arguments=("delta",),
        packages=("duckdb==1.5.5", "duckdb-extension-delta==1.5.5", "duckdb-extension-httpfs==1.5.5", "pyarrow"),
        lacks={**FOLDERS, "change feed": "it has no function for it"},
    ),
    Client(
        "duckdb_iceberg",
        "DuckDB {version}, extension `iceberg`",
        "read_with_duckdb.py",
        "CREATE SECRET shares (TYPE iceberg, TOKEN '...');\n"
        "ATTACH 'sales_share' AS sales (TYPE iceberg, SECRET shares, ENDPOINT '...');  -- icebergEndpoint\n"
        "FROM sales.europe.orders;",
        "sql",
        arguments=("iceberg",),
        packages=(
            "duckdb==1.5.5",
            *(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "httpfs", "iceberg")),
            "pyarrow",
        ),
        lacks=CATALOGS,
        reasons={"403 Forbidden": "it cannot let the server sign its requests (403 from the store)"},
    ),
    Client(
        "clickhouse_delta",
        "ClickHouse {version} in chdb, `deltaLake()`",
        "read_with_chdb.py",
        "SELECT * FROM deltaLake('https://...', 'KEY', 'SECRET', 'SESSION_TOKEN');",
        "sql",
        arguments=("delta",),
        packages=("chdb==4.4.0",),
        lacks={**FOLDERS, "change feed": "it has no function for it"},
    ),
    Client(
        "clickhouse_iceberg",
        "ClickHouse {version} in chdb, `DataLakeCatalog`",
        "read_with_chdb.py",
        "SET allow_database_iceberg = 1;\n"
        "CREATE DATABASE sales ENGINE = DataLakeCatalog('https://.../iceberg/v1') SETTINGS\n"
        "    catalog_type = 'rest', warehouse = 'sales_share', vended_credentials = true,\n"
        "    auth_header = 'Authorization: Bearer ...';\n"
        "SELECT * FROM sales.`europe.orders`;",
        "sql",
        arguments=("iceberg",),
        packages=("chdb==4.4.0",),
        lacks=CATALOGS,
        reasons={
            "response code: 403": "it cannot let the server sign its requests (403 from the store)",
            "only for parquet format": "it reads no deletion vectors (`supported only for parquet format`)",
        },
        note="It was run behind a proxy that removes the store's address (`s3.endpoint`) from the catalog's answers. "
        "On AWS the server leaves it out. Elsewhere ClickHouse takes it for the bucket's address, and fails.",
    ),
    Client(
        "delta_sharing_npm",
        "`delta-sharing` {version} for Node",
        "read_with_node.cjs",
        "const table = new Table('orders', 'sales_share', 'europe');\n"
        "new DeltaSharingReader(table, new DataSharingRestClient(profile)).createDataArray()",
        "javascript",
        arguments=("delta-sharing",),
        node_packages={
            "dependencies": {"delta-sharing": "0.0.2", "request": "2.88.2"},
            "overrides": {"xlsx": "0.18.5", "@tensorflow/tfjs-node": "npm:@tensorflow/tfjs@3.18.0"},
        },
        lacks=SHARING,
        reasons={
            "ZSTD|RLE_DICTIONARY": "it reads neither Zstandard nor `RLE_DICTIONARY`, which writers use",
            "status code 400": "the server refuses it by name, because the client would misread it",
            "too new": "it reads only profiles with a token",
        },
    ),
    Client(
        "iceberg_js",
        "iceberg-js {version} for Node",
        "read_with_node.cjs",
        "const auth = { type: 'bearer', token };\n"
        "new IcebergRestCatalog({ baseUrl: icebergEndpoint, warehouse: 'sales_share', auth })",
        "javascript",
        arguments=("iceberg-js",),
        node_packages={"dependencies": {"iceberg-js": "1.0.0"}},
        lacks=CATALOGS,
        reasons={"loads the table's metadata": "it loads the table's metadata, but reads no rows"},
    ),
    Client(
        "pull",
        "`deltaic pull` {version}",
        "read_with_pull.py",
        "deltaic pull alice.share#sales_share.europe.orders orders.parquet",
        "shell",
        starts_more=True,
        lacks={**SHARING, "change feed": "it copies versions: `--follow` keeps a copy up to date"},
    ),
    Client(
        "explorer",
        "the page at `/explore` {version}",
        "read_with_explorer.py",
        "{endpoint}/explore",
        "text",
        starts_more=True,
        lacks=SHARING,
    ),
    Client(
        "spark_connector_4_2",
        "Spark's connector 4.2.0 with its client {version}, Spark 4.1.1",
        "read_with_spark_connector.py",
        'orders = spark.read.format("deltaSharing").load("alice.share#sales_share.europe.orders")\n'
        'options = {"readChangeFeed": True, "startingVersion": 0, "responseFormat": "delta"}\n'
        'changes = spark.read.format("deltaSharing").options(**options).load(...)',
        arguments=("4.2",),
        starts_more=True,
        lacks=SHARING,
        reasons={"Unknown profile type": "it does not know such profiles"},
    ),
    Client(
        "spark_connector_4_4",
        "Spark's connector 4.4.0 with its client {version}, Spark 4.2.1",
        "read_with_spark_connector.py",
        'orders = spark.read.format("deltaSharing").load("alice.share#sales_share.europe.orders")\n'
        'options = {"readChangeFeed": True, "startingVersion": 0, "responseFormat": "delta"}\n'
        'changes = spark.read.format("deltaSharing").options(**options).load(...)',
        arguments=("4.4",),
        packages=("pyspark==4.2.1", "pyarrow", "pandas<3"),
        starts_more=True,
        lacks=SHARING,
        reasons={"Unknown profile type": "it does not know such profiles"},
    ),
    Client(
        "spark_iceberg",
        "Spark 4.1.1 with Iceberg {version}",
        "read_iceberg_with_spark.py",
        "ICEBERG_RUNTIME=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0\n"
        "ICEBERG_AWS_BUNDLE=org.apache.iceberg:iceberg-aws-bundle:1.11.0\n"
        "spark-sql --packages $ICEBERG_RUNTIME,$ICEBERG_AWS_BUNDLE \\\n"
        "    --conf spark.sql.catalog.sales=org.apache.iceberg.spark.SparkCatalog \\\n"
        "    --conf spark.sql.catalog.sales.type=rest \\\n"
        "    --conf spark.sql.catalog.sales.uri=$ICEBERG_ENDPOINT \\\n"
        "    --conf spark.sql.catalog.sales.token=$TOKEN \\\n"
        "    --conf spark.sql.catalog.sales.warehouse=sales_share",
        "shell",
        arguments=("spark",),
        starts_more=True,
        lacks=CATALOGS,
    ),
    Client(
        "iceberg_java",
        "Iceberg's Java catalog {version} with its generic reader",
        "read_iceberg_with_spark.py",
        "var catalog = new RESTCatalog();\n"
        'var options = Map.of("uri", icebergEndpoint, "token", token, "warehouse", "sales_share");\n'
        'catalog.initialize("sales", options);\n'
        "// not IcebergGenerics.read(table): it applies no name mapping, and Delta's files have no field ids\n"
        "// unless columns are mapped. Read with an engine.",
        "java",
        arguments=("java",),
        starts_more=True,
        lacks=CATALOGS,
    ),
)
