"""The model of a dataset file: sources, SQL steps, a target, how it is written, what is expected of the rows, when."""

import math
import re
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaic.errors import DeltaicError
from deltaic.protocol.names import check_name, split_table_name
from deltaic_pipeline.spark.ddl import WrongDdl, columns_of
from deltaic_pipeline.table.row_limits import LIMIT, limit
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from deltaic_datasets.file.schedule import check_schedule
from deltaic_datasets.file.variable_values import Kind

_DURATION = re.compile(r"([1-9]\d*) (second|minute|hour|day)s?")
_PASSWORD_IN_URL = re.compile(r"(?i)(password|passwd|pwd)=|//[^/@]+:[^/@]+@")


def duration(text: str) -> timedelta:
    """Read `5 minutes`; raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("write a whole number and seconds, minutes, hours or days, such as '5 minutes'")
    return timedelta(**{f"{found[2]}s": int(found[1])})


def _duration(text: str) -> str:
    duration(text)
    return text


def _start(value: Any) -> int | float | date:
    finite = math.isfinite(value) if isinstance(value, float) else isinstance(value, int | date)
    if isinstance(value, bool) or not finite:
        raise ValueError("write a date, a timestamp or a number, as the column has them")
    return value  # type: ignore[no-any-return]


def _overlap(value: Any) -> int | float | str:
    if isinstance(value, str):
        return _duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("write a duration such as '2 hours', or for a column of numbers a number above 0")
    return value


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"'{name}' is not a time zone: write a name such as Europe/Berlin") from None
    return name


def _share(name: str) -> str:
    try:
        share, schema, table = split_table_name(name)
        return f"{check_name('share', share)}.{check_name('schema', schema)}.{check_name('table', table)}"
    except DeltaicError as refusal:
        raise ValueError(refusal.message) from None


def _location(text: str) -> str:
    """Take `s3://bucket/folder` and absolute paths: a relative one would be another folder for every caller."""
    scheme, separator, rest = text.partition("://")
    named = separator and scheme in {"s3", "s3a", "file"} and "/" in rest.strip("/") + ("/" if scheme == "file" else "")
    if not named and not PurePosixPath(text).is_absolute():
        raise ValueError("write s3://bucket/folder")
    return text.rstrip("/")


def _ddl(text: str) -> str:
    try:
        columns_of(text)
    except WrongDdl as wrong:
        raise PydanticCustomError("wrong_ddl", "{told}", {"told": wrong.message, "line": wrong.line}) from None
    return text


def _jdbc_url(url: str) -> str:
    if not url.startswith("jdbc:"):
        raise ValueError("a JDBC address begins with jdbc:, such as jdbc:postgresql://host/database")
    if _PASSWORD_IN_URL.search(url):
        raise ValueError("a password does not belong into the file: give user and password of the source instead")
    return url


def _scalar(value: Any) -> Any:
    """Write YAML's plain scalars as Spark's options are written."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return value


def _without_password(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if name.lower() in {"user", "password", "url"}:
            raise ValueError(f"'{name}' is not an option: it is a field of the source")
    return options


Action = Literal["fail", "drop", "quarantine"]
MOST = 500
"""Of sources, of steps and of expectations, which bounds what it takes to check a file."""

Word = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
"""A name that SQL takes without quotes."""

Column = Annotated[str, Field(min_length=1, max_length=255)]
Columns = Annotated[list[Column], Field(min_length=1)]
Duration = Annotated[str, AfterValidator(_duration)]
Limit = Annotated[str, Field(json_schema_extra={"pattern": f"^({LIMIT.pattern})$"}), AfterValidator(limit)]
Start = Annotated[
    int | float | date | datetime, PlainValidator(_start, json_schema_input_type=int | float | date | datetime)
]
Overlap = Annotated[int | float | str, PlainValidator(_overlap, json_schema_input_type=int | float | str)]
Options = dict[str, Annotated[str, BeforeValidator(_scalar, json_schema_input_type=str | int | float | bool)]]
Location = Annotated[str, AfterValidator(_location)]
Ddl = Annotated[
    str,
    Field(min_length=1, description="Columns in Spark's DDL: id BIGINT NOT NULL, day DATE."),
    AfterValidator(_ddl),
]


class Part(BaseModel):
    """A part of the file: unknown fields are refused, and nothing is converted silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Variable(Part):
    """A value that a run is given, or has by default; `{{ name }}` stands for it in paths, queries and conditions."""

    type: Kind
    default: str | int | float | bool | date | datetime | None = None
    """Without it every run names a value: --set name=value. `run_date` is the schedule's day, by hand today's (UTC)."""


class FileSource(Part):
    """Files found by globs; a broken file, or one with other columns than the schema's, ends the run."""

    format: Literal["csv", "json", "parquet", "avro"]
    paths: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    """Files, folders or globs; relative ones lead from the folder of the dataset file."""

    ddl: Ddl | None = Field(default=None, alias="schema")
    """What the files hold; NOT NULL is enforced. Without it columns and types are found out by reading the files."""

    only_new: bool = False
    """Files that no run has read yet, each once, whatever becomes of it later. What was read is remembered beside the
    target, in `<location>_checkpoint`."""

    malformed: Action = "fail"
    """Rows of CSV and JSON that do not fit the schema. fail: nothing is written. drop: they are left out. quarantine:
    they go to the side table as text, with the reason."""

    options: Options = {}
    """Options of Spark's reader, such as `sep`."""


class DeltaSource(Part):
    """A Delta table, as it is now or at a version."""

    format: Literal["delta"]
    path: Location
    options: Options = {}
    """Options of Delta's reader, such as `versionAsOf`."""


class Password(Part):
    """Where a password is: never in this file."""

    environment: str | None = None
    """The name of an environment variable."""

    secret: str | None = None
    """The name or ARN of a secret in Secrets Manager."""

    field: str | None = None
    """The secret is a JSON object, and the password this field of it."""


class Partitions(Part):
    """How a JDBC source is read in parallel: by ranges of a numeric, date or timestamp column."""

    column: Column
    lower: int | date | datetime
    upper: int | date | datetime
    """Bounds of the ranges, not of the rows: rows beyond them are read too."""

    count: Annotated[int, Field(ge=1, le=10_000)]


class Watermark(Part):
    """Of a table or query only rows are read that lie above the highest value that a run has committed."""

    column: Column
    """A column that grows, such as `updated_at`: a timestamp, a date, an integer or a decimal, and never null."""

    start: Start | None = None
    """Where the first run begins, this value with it; without it, with the first row."""

    overlap: Overlap | None = None
    """So far below the mark rows are read again, since some become visible late: `2 hours`, or a number."""


class JdbcSource(Part):
    """A table or query of a database."""

    format: Literal["jdbc"]
    url: Annotated[str, Field(max_length=2000), AfterValidator(_jdbc_url)]
    table: str | None = None
    query: str | None = None
    user: str | None = None
    password: Password | None = None
    driver: str | None = None
    """The driver's Java class; its jar is given to the job with --jar."""

    watermark: Watermark | None = None
    partitions: Partitions | None = None
    fetch_size: Annotated[int, Field(ge=1)] = 10_000
    """Rows per round trip, which bounds what a task holds."""

    options: Annotated[Options, AfterValidator(_without_password)] = {}


Source: TypeAlias = Annotated[FileSource | DeltaSource | JdbcSource, Field(discriminator="format")]


class Step(Part):
    """A query over the sources and earlier steps, whose answer later steps see as a view."""

    view: Word
    sql: Annotated[str, Field(min_length=1)]


class Target(Part):
    """The Delta table that is written, and the name under which it is shared."""

    location: Location
    share: Annotated[str, AfterValidator(_share)] | None = None
    """SHARE.SCHEMA.TABLE; without it nothing is shared."""

    create_share: bool = False
    """Make the share if there is none; else a share that is not there is taken for a typo."""

    storage: str = ""
    """The catalog's storage that the location lies in; AWS S3 if none is named."""

    history: bool = True
    """Recipients may read earlier versions and the change feed."""

    comment: str | None = None
    columns: dict[Column, str] = {}
    """Comments on columns."""

    partition_by: list[Column] = []
    cluster_by: Annotated[list[Column], Field(max_length=4)] = []
    """Liquid clustering; Delta takes four columns at most."""

    properties: Options = {}
    """Table properties, such as `delta.deletedFileRetentionDuration`."""

    change_data_feed: bool = True
    evolve_schema: bool = False
    """Accept new columns (with mode overwrite any other schema), and Parquet files that lack columns of others."""


class Overwrite(Part):
    """The rows become the whole table."""

    mode: Literal["overwrite"]


class OverwritePartitions(Part):
    """The rows replace the partitions that they fall into, or all rows that a condition names."""

    mode: Literal["overwrite_partitions"]
    where: str | None = None
    """Rows of the table for which this holds are replaced; new rows must all satisfy it."""


class Append(Part):
    """The rows are added."""

    mode: Literal["append"]


class Keyed(Part):
    """Rows are found by their keys."""

    keys: Columns
    delete_when: Annotated[str, Field(min_length=1)] | None = None
    """A condition in SQL, such as `op = 'D'`: a row for which it holds deletes its key (scd2: ends its state). Columns
    that it names are not written, unless the table has them or `keys`, `at` or `target` names them."""

    delete_missing: bool = False
    """The rows are all that there are: keys of the table that are not among them are deleted (scd2: their states end).
    Rows that expectations leave out are there. A run that has no rows at all is refused."""

    at_most: Limit | None = None
    """So many of the table's current keys may be missing, such as `5 %`, which it is if nothing is said, or `100 rows`;
    where more are, nothing is written."""

    @property
    def missing_at_most(self) -> str | None:
        """The limit of missing keys; None: they stay."""
        return (self.at_most or "5 %") if self.delete_missing else None


class Merge(Keyed):
    """New keys are inserted, known ones updated where something changed."""

    mode: Literal["merge"]


class Scd2(Keyed):
    """Every state of a key is kept with the time for which it held (slowly changing dimension, type 2)."""

    mode: Literal["scd2"]
    at: Column | None = None
    """The column that says since when a row holds; without it a row holds since the run."""

    valid_from: Column = "valid_from"
    valid_to: Column = "valid_to"
    current: Column = "is_current"


Write: TypeAlias = Annotated[Overwrite | OverwritePartitions | Append | Merge | Scd2, Field(discriminator="mode")]


class Stream(Part):
    """One source is followed: every batch of it goes through the steps and is written exactly once."""

    source: Word
    checkpoint: Location
    """The folder that remembers what was read. It belongs to this dataset alone."""


Bound: TypeAlias = int | float | date | datetime | str


class Expectation(Part):
    """What is expected of the rows. A null satisfies everything but `not_null`, as in a CHECK constraint."""

    name: Word | None = None
    action: Literal["fail", "drop", "quarantine", "warn"] = "fail"
    """fail: nothing is written. drop: the row is left out. quarantine: it goes to the side table, with the reason.
    warn: it is written, counted and told."""

    @property
    def title(self) -> str:
        """The name, or what it expects of which columns."""
        return self.name or "_".join([self.expect, *self.about])  # type: ignore[attr-defined]

    @property
    def about(self) -> list[str]:
        """The columns that it speaks of."""
        return list(getattr(self, "columns", ())) or [column for column in (getattr(self, "column", ""),) if column]


class RowExpectation(Expectation):
    """What a row satisfies or not."""

    at_most: Limit | None = None
    """Of a run's rows (a stream: of a batch's) so many may fail, as `1 %` or `100 rows`: with `fail` they are written,
    with `drop` and `quarantine` they go there. Where more fail nothing is written."""


class NotNull(RowExpectation):
    """No column is null."""

    expect: Literal["not_null"]
    columns: Columns


class Unique(RowExpectation):
    """No two rows of this run have the same values; with drop or quarantine all rows that share them go."""

    expect: Literal["unique"]
    columns: Columns


class Range(RowExpectation):
    """The value is neither below `min` nor above `max`."""

    expect: Literal["range"]
    column: Column
    min: Bound | None = None
    max: Bound | None = None


class AcceptedValues(RowExpectation):
    """The value is one of these."""

    expect: Literal["accepted_values"]
    column: Column
    values: Annotated[list[str | int | float | bool | date], Field(min_length=1)]


class Reference(RowExpectation):
    """The values are found in another source or step."""

    expect: Literal["reference"]
    columns: Columns
    to: Word
    """A source or step."""

    to_columns: list[Column] = []
    """Its columns, in the same order; the same names if none are given."""


class Condition(RowExpectation):
    """A condition in SQL holds for every row."""

    expect: Literal["sql"]
    condition: Annotated[str, Field(min_length=1)]


class RowCount(Expectation):
    """The run has so many rows."""

    expect: Literal["row_count"]
    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None
    action: Literal["fail", "warn"] = "fail"


class Freshness(Expectation):
    """The latest value of a time column is not older than this."""

    expect: Literal["freshness"]
    column: Column
    within: Duration
    action: Literal["fail", "warn"] = "fail"


AnyExpectation: TypeAlias = Annotated[
    NotNull | Unique | Range | AcceptedValues | Reference | Condition | RowCount | Freshness,
    Field(discriminator="expect"),
]


class Schedule(Part):
    """When the dataset is built, in the words of EventBridge Scheduler."""

    expression: Annotated[str, AfterValidator(check_schedule)]
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"


class Dataset(Part):
    """A dataset: where its rows come from, what they become, and what must be true of them."""

    name: Word
    variables: Annotated[dict[Word, Variable], Field(max_length=MOST)] = {}
    """By name; `{{ run_date }}` is there without being declared."""

    sources: Annotated[dict[Word, Source], Field(min_length=1, max_length=MOST)]
    """By name; steps see each as a view."""

    steps: Annotated[list[Step], Field(max_length=MOST)] = []
    """Queries in order; the last one's answer is written. Without steps the only source is."""

    target: Target
    write: Write
    stream: Stream | None = None
    expectations: Annotated[list[AnyExpectation], Field(max_length=MOST)] = []
    quarantine: Location | None = None
    """The side table of quarantined rows; the target's location with `_quarantine` if none is named."""

    schedule: Schedule | None = None

    @property
    def quarantine_location(self) -> str:
        """Where quarantined rows go."""
        return self.quarantine or f"{self.target.location}_quarantine"

    @property
    def runs_location(self) -> str:
        """Where each run has a row, unless another table is named."""
        return f"{self.target.location}_runs"

    @property
    def quarantines(self) -> bool:
        """Whether rows may go to the side table."""
        actions = {getattr(source, "malformed", "fail") for source in self.sources.values()}
        return "quarantine" in actions | {one.action for one in self.expectations}

    @property
    def marked(self) -> bool:
        """Whether runs remember how far they have read a database."""
        return any(getattr(source, "watermark", None) for source in self.sources.values())

    @property
    def only_new(self) -> list[str]:
        """The sources whose files are read once."""
        return [name for name, source in self.sources.items() if getattr(source, "only_new", False)]

    @property
    def followed(self) -> Stream | None:
        """What is followed: as `stream` says, or a source whose files are read once."""
        if self.stream is not None or not self.only_new:
            return self.stream
        checkpoint = f"{self.target.location}_checkpoint/{self.name}"
        return Stream(source=self.only_new[0], checkpoint=checkpoint)

    @property
    def last_view(self) -> str:
        """The view whose rows are written."""
        return self.steps[-1].view if self.steps else next(iter(self.sources))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a dataset file, by which editors complete and check it."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Dataset.model_json_schema()}
