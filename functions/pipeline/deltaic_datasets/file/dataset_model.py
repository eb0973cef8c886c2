"""Fields of a dataset file as pydantic models: sources, SQL steps, target, write mode, expectations and schedule."""

import math
import re
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaic.errors import DeltaicError
from deltaic.protocol.names import check_name, split_table_name
from deltaic_pipeline.spark.ddl import WrongDdl, columns_of
from deltaic_pipeline.table.row_limits import LIMIT, check_limit
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from deltaic_datasets.file.schedule import check_schedule
from deltaic_datasets.file.variable_values import Kind

_DURATION = re.compile(r"([1-9]\d*) (second|minute|hour|day)s?")
_PASSWORD_IN_URL = re.compile(r"(?i)(password|passwd|pwd)=|//[^/@]+:[^/@]+@")


def duration(text: str) -> timedelta:
    """Parse a duration such as `5 minutes`; raises ValueError for other strings."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("write a whole number and seconds, minutes, hours or days, such as '5 minutes'")
    return timedelta(**{f"{match[2]}s": int(match[1])})


def _check_duration(text: str) -> str:
    duration(text)
    return text


def _check_start(value: Any) -> int | float | date:
    finite = math.isfinite(value) if isinstance(value, float) else isinstance(value, int | date)
    if isinstance(value, bool) or not finite:
        raise ValueError("write a date, a timestamp or a number, according to the column's type")
    return value  # type: ignore[no-any-return]


def _check_overlap(value: Any) -> int | float | str:
    if isinstance(value, str):
        return _check_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("write a duration such as '2 hours', or for a column of numbers a number above 0")
    return value


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"'{name}' is not a time zone: write a name such as Europe/Berlin") from None
    return name


def _check_share(name: str) -> str:
    try:
        share, schema, table = split_table_name(name)
        return f"{check_name('share', share)}.{check_name('schema', schema)}.{check_name('table', table)}"
    except DeltaicError as refusal:
        raise ValueError(refusal.message) from None


def _check_location(text: str) -> str:
    """Return a location without trailing slash; raises ValueError unless it is a URL or an absolute path."""
    scheme, separator, rest = text.partition("://")
    is_url = separator and scheme in {"s3", "s3a", "file"} and "/" in rest.strip("/") + "/" * (scheme == "file")
    if not is_url and not PurePosixPath(text).is_absolute():
        raise ValueError("write s3://bucket/folder")
    return text.rstrip("/")


def _check_ddl(text: str) -> str:
    try:
        columns_of(text)
    except WrongDdl as wrong:
        raise PydanticCustomError("wrong_ddl", "{message}", {"message": wrong.message, "line": wrong.line}) from None
    return text


def _check_jdbc_url(url: str) -> str:
    if not url.startswith("jdbc:"):
        raise ValueError("a JDBC address begins with jdbc:, such as jdbc:postgresql://host/database")
    if _PASSWORD_IN_URL.search(url):
        raise ValueError("the URL contains a password: use the source's fields user and password instead")
    return url


def _option_text(value: Any) -> Any:

    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return value


def _check_jdbc_options(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if name.lower() in {"user", "password", "url"}:
            raise ValueError(f"'{name}' is not an option: it is a field of the source")
    return options


Action = Literal["fail", "drop", "quarantine"]
MOST_ITEMS = 500
"""Maximum number of sources, of steps and of expectations in a file, which limits the time of its check."""

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
"""Name of a variable, source or step, which SQL accepts without quotes."""

Column = Annotated[str, Field(min_length=1, max_length=255)]
Columns = Annotated[list[Column], Field(min_length=1)]
Duration = Annotated[str, AfterValidator(_check_duration)]
Limit = Annotated[str, Field(json_schema_extra={"pattern": f"^({LIMIT.pattern})$"}), AfterValidator(check_limit)]
Start = Annotated[
    int | float | date | datetime, PlainValidator(_check_start, json_schema_input_type=int | float | date | datetime)
]
Overlap = Annotated[int | float | str, PlainValidator(_check_overlap, json_schema_input_type=int | float | str)]
Options = dict[str, Annotated[str, BeforeValidator(_option_text, json_schema_input_type=str | int | float | bool)]]
Location = Annotated[str, AfterValidator(_check_location)]
Ddl = Annotated[
    str,
    Field(min_length=1, description="Columns in Spark's DDL: id BIGINT NOT NULL, day DATE."),
    AfterValidator(_check_ddl),
]


class Part(BaseModel):
    """Base class for the parts of a dataset file, which rejects unknown fields and values of a wrong type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Variable(Part):
    """A variable of the file. Its value replaces `{{ name }}` in paths, queries and conditions."""

    type: Kind
    default: str | int | float | bool | date | datetime | None = None
    """Default value; without it, each run needs --set name=value. `run_date` is the scheduled day, else today (UTC)."""


class FileSource(Part):
    """A source of files. The run fails if a file is corrupt or its columns differ from the schema."""

    format: Literal["csv", "json", "parquet", "avro"]
    paths: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    """Files, folders or globs. Relative paths are relative to the folder of the dataset file."""

    ddl: Ddl | None = Field(default=None, alias="schema")
    """Columns of the files; NOT NULL is enforced. Without a schema, Spark infers columns and types from the files."""

    only_new: bool = False
    """Read only files that no earlier run has read, each once, even if a file changes later. The folder
    `<location>_checkpoint`, next to the target table, records which files were read."""

    malformed: Action = "fail"
    """Action for rows of CSV and JSON files that do not match the schema. fail: the run fails and writes nothing.
    drop: the rows are left out. quarantine: they are written to the quarantine table as text, with the reason."""

    options: Options = {}
    """Options of Spark's reader for the file format, such as `sep` for CSV."""


class DeltaSource(Part):
    """A Delta table, read at its latest version unless an option selects another one."""

    format: Literal["delta"]
    path: Location
    options: Options = {}
    """Options of Spark's reader for Delta tables, such as `versionAsOf`."""


class Password(Part):
    """Reference to a password in an environment variable or in Secrets Manager. The file contains no passwords."""

    environment: str | None = None
    """Name of the environment variable that contains the password."""

    secret: str | None = None
    """Name or ARN of the secret in Secrets Manager that contains the password."""

    field: str | None = None
    """Name of the field with the password, if the secret is a JSON object."""


class Partitions(Part):
    """Parallel reads of a JDBC source, each of one range of a numeric, date or timestamp column."""

    column: Column
    lower: int | date | datetime
    upper: int | date | datetime
    """`lower` and `upper` only divide the column into ranges: rows below `lower` or above `upper` are read too."""

    count: Annotated[int, Field(ge=1, le=10_000)]


class Watermark(Part):
    """Incremental reads: each run reads only rows above the highest value of a column that earlier runs committed."""

    column: Column
    """Column with growing values, such as `updated_at`: a timestamp, date, integer or decimal that is never null."""

    start: Start | None = None
    """Lowest value of the column that the first run reads; without it, the first run reads all rows."""

    overlap: Overlap | None = None
    """Distance below the watermark from which rows are read again, for late commits: `2 hours`, or a number."""


class JdbcSource(Part):
    """A table or query of a database, read by JDBC."""

    format: Literal["jdbc"]
    url: Annotated[str, Field(max_length=2000), AfterValidator(_check_jdbc_url)]
    table: str | None = None
    query: str | None = None
    user: str | None = None
    password: Password | None = None
    driver: str | None = None
    """Java class of the JDBC driver. Pass the driver's jar to the job with --jar."""

    watermark: Watermark | None = None
    partitions: Partitions | None = None
    fetch_size: Annotated[int, Field(ge=1)] = 10_000
    """Number of rows that the driver fetches per round trip, which limits the memory of a Spark task."""

    options: Annotated[Options, AfterValidator(_check_jdbc_options)] = {}


Source: TypeAlias = Annotated[FileSource | DeltaSource | JdbcSource, Field(discriminator="format")]


class SqlStep(Part):
    """A SQL query of the sources and earlier steps. Later steps can query its result as a view."""

    view: Identifier
    sql: Annotated[str, Field(min_length=1)]


class DatasetTarget(Part):
    """The Delta table that the dataset writes, and the name under which it is shared."""

    location: Location
    share: Annotated[str, AfterValidator(_check_share)] | None = None
    """Name SHARE.SCHEMA.TABLE under which the table is shared; without it, the table is not shared."""

    create_share: bool = False
    """Create the share if it does not exist. Without this setting, an unknown share is an error."""

    storage: str = ""
    """Name of the storage in the catalog through which the server reads the location; AWS S3 if empty."""

    history: bool = True
    """Whether recipients may read earlier versions and the change data feed."""

    comment: str | None = None
    columns: dict[Column, str] = {}
    """Comments on columns of the table, by column name."""

    partition_by: list[Column] = []
    cluster_by: Annotated[list[Column], Field(max_length=4)] = []
    """Columns for liquid clustering, at most four."""

    properties: Options = {}
    """Delta table properties, such as `delta.deletedFileRetentionDuration`."""

    change_data_feed: bool = True
    evolve_schema: bool = False
    """Accept new columns in the table (with mode overwrite, any schema), and Parquet files that lack some columns."""


class Overwrite(Part):
    """Replace all rows of the target table."""

    mode: Literal["overwrite"]


class OverwritePartitions(Part):
    """Replace the table's partitions that the new rows belong to, or its rows that satisfy a condition."""

    mode: Literal["overwrite_partitions"]
    where: str | None = None
    """SQL condition for the rows of the table to replace. All new rows must satisfy it too."""


class Append(Part):
    """Add the new rows to the target table."""

    mode: Literal["append"]


class Keyed(Part):
    """Base class of the write modes that match new rows with the table's rows by key columns."""

    keys: Columns
    delete_when: Annotated[str, Field(min_length=1)] | None = None
    """SQL condition, such as `op = 'D'`: a row that satisfies it deletes its key (scd2: ends its current state).
    Columns of the condition are not written, unless the table has them or `keys`, `at` or `target` name them."""

    delete_missing: bool = False
    """Delete keys of the table that the new rows do not contain (scd2: end their states). Each run must read all the
    data. Keys of rows that expectations leave out do not count as missing. A run without any rows fails."""

    at_most: Limit | None = None
    """Maximum percentage or number of the table's current keys that `delete_missing` deletes, such as `100 rows`; by
    default `5 %`. If more keys are missing, the run fails and writes nothing."""

    @property
    def missing_at_most(self) -> str | None:
        """Maximum number or percentage of missing keys that a run deletes; None if missing keys stay in the table."""
        return (self.at_most or "5 %") if self.delete_missing else None


class Merge(Keyed):
    """Insert rows with new keys, and update the rows of existing keys whose values changed."""

    mode: Literal["merge"]


class Scd2(Keyed):
    """Keep every state of a key with its period of validity (slowly changing dimension, type 2)."""

    mode: Literal["scd2"]
    at: Column | None = None
    """Column with the time from which a row is valid; without it, rows are valid from the time of the run."""

    valid_from: Column = "valid_from"
    valid_to: Column = "valid_to"
    current: Column = "is_current"


Write: TypeAlias = Annotated[Overwrite | OverwritePartitions | Append | Merge | Scd2, Field(discriminator="mode")]


class StreamSettings(Part):
    """Read one source as a stream. Each batch of new rows passes through the steps and is written exactly once."""

    source: Identifier
    checkpoint: Location
    """Spark checkpoint folder, which records what was read. Use a separate folder for each dataset."""


Bound: TypeAlias = int | float | date | datetime | str


class Expectation(Part):
    """A rule that rows must satisfy. As in a CHECK constraint, a null satisfies every rule except `not_null`."""

    name: Identifier | None = None
    action: Literal["fail", "drop", "quarantine", "warn"] = "fail"
    """Action for a row that fails the rule. fail: the run fails and writes nothing. drop: the row is left out.
    quarantine: it is written to the quarantine table with the reason. warn: it is written, counted and reported."""

    @property
    def title(self) -> str:
        """The name of the expectation; without one, its type and columns."""
        return self.name or "_".join([self.expect, *self.about])  # type: ignore[attr-defined]

    @property
    def about(self) -> list[str]:
        """Names of the columns that the expectation checks."""
        return list(getattr(self, "columns", ())) or [column for column in (getattr(self, "column", ""),) if column]


class RowExpectation(Expectation):
    """An expectation that each row satisfies or fails."""

    at_most: Limit | None = None
    """Maximum of failing rows in a run (in a stream, in a batch), such as `1 %` or `100 rows`. Up to this limit, `fail`
    writes the failing rows; `drop` and `quarantine` leave them out. If more rows fail, nothing is written."""


class NotNull(RowExpectation):
    """None of the columns is null in any row."""

    expect: Literal["not_null"]
    columns: Columns


class Unique(RowExpectation):
    """Rows of a run have different values in the columns; drop and quarantine leave out all rows with equal values."""

    expect: Literal["unique"]
    columns: Columns


class Range(RowExpectation):
    """The column's values are neither below `min` nor above `max`."""

    expect: Literal["range"]
    column: Column
    min: Bound | None = None
    max: Bound | None = None


class AcceptedValues(RowExpectation):
    """The column's values are all in a list."""

    expect: Literal["accepted_values"]
    column: Column
    values: Annotated[list[str | int | float | bool | date], Field(min_length=1)]


class Reference(RowExpectation):
    """The values of the columns exist in another source or step, as for a foreign key."""

    expect: Literal["reference"]
    columns: Columns
    to: Identifier
    """Name of the source or step that contains the accepted values."""

    to_columns: list[Column] = []
    """Columns of `to` that correspond to `columns`, in the same order; by default, those with the same names."""


class Condition(RowExpectation):
    """Every row satisfies a SQL condition."""

    expect: Literal["sql"]
    condition: Annotated[str, Field(min_length=1)]


class RowCount(Expectation):
    """The number of rows of a run is between `min` and `max`."""

    expect: Literal["row_count"]
    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None
    action: Literal["fail", "warn"] = "fail"


class FreshnessExpectation(Expectation):
    """The latest value of a time column is not older than the duration `within`."""

    expect: Literal["freshness"]
    column: Column
    within: Duration
    action: Literal["fail", "warn"] = "fail"


AnyExpectation: TypeAlias = Annotated[
    NotNull | Unique | Range | AcceptedValues | Reference | Condition | RowCount | FreshnessExpectation,
    Field(discriminator="expect"),
]


class Schedule(Part):
    """Times at which a stack runs the dataset: an expression of EventBridge Scheduler and its time zone."""

    expression: Annotated[str, AfterValidator(check_schedule)]
    timezone: Annotated[str, AfterValidator(_check_zone)] = "UTC"


class Dataset(Part):
    """A dataset: the sources of its rows, the steps and expectations, and the table that is written."""

    name: Identifier
    variables: Annotated[dict[Identifier, Variable], Field(max_length=MOST_ITEMS)] = {}
    """Variables by name. Every dataset has the variable `run_date`, even if it is not declared."""

    sources: Annotated[dict[Identifier, Source], Field(min_length=1, max_length=MOST_ITEMS)]
    """Sources by name. Steps can query each source as a view with this name."""

    steps: Annotated[list[SqlStep], Field(max_length=MOST_ITEMS)] = []
    """SQL queries, run in this order. The result of the last one is written; without steps, that of the only source."""

    target: DatasetTarget
    write: Write
    stream: StreamSettings | None = None
    expectations: Annotated[list[AnyExpectation], Field(max_length=MOST_ITEMS)] = []
    quarantine: Location | None = None
    """Location of the quarantine table; by default the target's location followed by `_quarantine`."""

    schedule: Schedule | None = None

    @property
    def quarantine_location(self) -> str:
        """Location of the quarantine table, declared or by default."""
        return self.quarantine or f"{self.target.location}_quarantine"

    @property
    def runs_location(self) -> str:
        """Default location of the runs table, which has a row for each run of the dataset."""
        return f"{self.target.location}_runs"

    @property
    def quarantines(self) -> bool:
        """True if a source or an expectation can quarantine rows."""
        actions = {getattr(source, "malformed", "fail") for source in self.sources.values()}
        return "quarantine" in actions | {expectation.action for expectation in self.expectations}

    @property
    def has_watermark(self) -> bool:
        """True if a source has a watermark."""
        return any(getattr(source, "watermark", None) for source in self.sources.values())

    @property
    def only_new(self) -> list[str]:
        """Names of the sources with `only_new`, of which each file is read once."""
        return [name for name, source in self.sources.items() if getattr(source, "only_new", False)]

    @property
    def effective_stream(self) -> StreamSettings | None:
        """Stream settings of the field `stream`, or those that `only_new` of a source implies; None without both."""
        if self.stream is not None or not self.only_new:
            return self.stream
        checkpoint = f"{self.target.location}_checkpoint/{self.name}"
        return StreamSettings(source=self.only_new[0], checkpoint=checkpoint)

    @property
    def last_view(self) -> str:
        """Name of the view whose rows are written to the target: the last step or the only source."""
        return self.steps[-1].view if self.steps else next(iter(self.sources))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of dataset files, with which editors complete and check them."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Dataset.model_json_schema()}
