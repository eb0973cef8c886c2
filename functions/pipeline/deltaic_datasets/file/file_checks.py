"""Check a dataset file without Spark, and report all errors with their lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from types import MappingProxyType

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.ddl import columns_of
from deltaic_pipeline.spark.options import (
    partial_options,
    refused_options,
    unknown_options,
)
from deltaic_pipeline.table.column_names import missing_column
from deltaic_pipeline.table.target import TRANSACTION_RETENTION
from deltaic_terminal.document import Document, Mistake, Path, Unreadable
from deltaic_terminal.validation_errors import mistake_of
from pydantic import BaseModel, ValidationError

from deltaic_datasets.file import dataset_model
from deltaic_datasets.file.dataset_model import Dataset, FileSource, JdbcSource, Keyed
from deltaic_datasets.file.file_text import resolve_path
from deltaic_datasets.file.named_columns import column_mistakes, name_refusal
from deltaic_datasets.file.sql_text import condition_columns, sql_mistakes
from deltaic_datasets.file.variable_binding import RUN_DATE, bind

FIELDS = sorted(
    {
        field.alias or name
        for part in vars(dataset_model).values()
        if isinstance(part, type) and issubclass(part, BaseModel)
        for name, field in part.model_fields.items()
    }
)

OVERWRITING = frozenset({"overwrite", "overwrite_partitions"})

MOST_MISTAKES = 100
"""Maximum number of errors that each stage of a check reports."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check: errors and warnings, and the dataset if the file has no errors."""

    dataset: Dataset | None
    findings: Sequence[Mistake]
    document: Document | None = None

    @property
    def mistakes(self) -> Sequence[Mistake]:
        """The findings of the check that are errors, without its warnings."""
        return [finding for finding in self.findings if not finding.doubtful]


class WrongFile(PipelineError):
    """A dataset file has errors. The message has a line for each of them."""

    code = "WRONG_DATASET"

    def __init__(self, file: str, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(f"{file}:{mistake.line}: {mistake}" for mistake in mistakes))
        self.mistakes = mistakes


def check(text: str, set_values: Mapping[str, str] | None = None) -> Checked:
    """Check the text of a dataset file and return errors and warnings, sorted by line.

    `set_values` maps variables to strings from --set. None means that no run follows: missing values are only warnings.
    """
    try:
        unbound = Document.read(text)
    except Unreadable as unreadable:
        return Checked(None, unreadable.mistakes[:MOST_MISTAKES])
    bound = bind(unbound, set_values)
    document = unbound.with_variables(bound.content, bound.used)
    binding_mistakes = bound.mistakes[:MOST_MISTAKES]
    try:
        dataset = Dataset.model_validate(document.value)
    except ValidationError as error:
        mistakes = {mistake_of(document, detail, FIELDS) for detail in error.errors()[:MOST_MISTAKES]}
        mistakes |= {*sql_mistakes(document), *binding_mistakes}
        return Checked(None, sorted(mistakes, key=lambda mistake: (mistake.line, mistake.field)), document)
    dataset = dataset.model_copy(update={"stream": dataset.effective_stream})
    findings = [*binding_mistakes, *sql_mistakes(document)]
    for path, message in islice(_check_fields(dataset, document), MOST_MISTAKES):
        position = document.position(path)
        findings.append(Mistake(position.line, position.field, message))
    findings += islice(_check_column_names(dataset, document), MOST_MISTAKES)
    findings.sort(key=lambda mistake: (mistake.line, mistake.field))
    wrong = any(not mistake.doubtful for mistake in findings)
    return Checked(None if wrong else dataset, findings, document)


def dataset_of(text: str, file: str, set_values: Mapping[str, str] = MappingProxyType({})) -> tuple[Dataset, Document]:
    """Return the dataset in the text of a file, with relative paths resolved; raises WrongFile with all errors.

    `set_values` maps names of the file's variables to their values as strings, from --set.
    """
    checked = check(text, set_values)
    if checked.dataset is None or checked.document is None:
        raise WrongFile(file, checked.mistakes)
    sources = {
        name: source.model_copy(update={"paths": [resolve_path(file, path) for path in source.paths]})
        if isinstance(source, FileSource)
        else source
        for name, source in checked.dataset.sources.items()
    }
    return checked.dataset.model_copy(update={"sources": sources}), checked.document


def _check_fields(dataset: Dataset, document: Document) -> Iterator[tuple[Path, str]]:
    for name, source in dataset.sources.items():
        if isinstance(source, JdbcSource):
            yield from _check_jdbc(name, source)
            yield from _check_watermark(dataset, name, source, document)
        for option, message in unknown_options(source.format, source.options):
            yield ("sources", name, "options", option), message
        if isinstance(source, FileSource):
            yield from _check_malformed(name, source)
        if isinstance(source, FileSource) and source.ddl is None and dataset.stream and dataset.stream.source == name:
            yield (
                ("sources", name, "schema"),
                "is required for a source of a stream: declare the columns, so that new files cannot change them",
            )
    if not dataset.steps and len(dataset.sources) > 1:
        yield ("steps",), "are required for several sources: add a step that joins them, because its rows are written"
    views = {name.lower() for name in dataset.sources}
    for number, step in enumerate(dataset.steps):
        if step.view.lower() in views:
            yield ("steps", number, "view"), f"'{step.view}' is the name of a source or an earlier step: choose another"
        views.add(step.view.lower())
    yield from _check_write(dataset)
    yield from _check_stream(dataset)
    yield from _check_expectations(dataset, views)
    yield from _check_columns(dataset)


def _check_column_names(dataset: Dataset, document: Document) -> Iterator[Mistake]:
    source = None if dataset.steps else dataset.sources[dataset.last_view]
    if isinstance(source, FileSource) and source.ddl:
        path = ("sources", dataset.last_view, "schema")
        for column in columns_of(source.ddl):
            if message := name_refusal(column.name, dataset.target.properties):
                line = document.line_of_sql(path, column.line)
                yield Mistake(line, document.position(path).field, message)


def _check_malformed(name: str, source: FileSource) -> Iterator[tuple[Path, str]]:
    path: Path = ("sources", name, "malformed")
    if source.format in {"csv", "json"}:
        for option, message in refused_options(source.options):
            yield ("sources", name, "options", option), f"{message}: use the field `malformed` instead"
    if source.malformed == "fail":
        return
    if source.format not in {"csv", "json"}:
        yield path, "is only for CSV and JSON: remove it; an unreadable file of another format ends the run"
    elif source.ddl is None:
        yield path, "compares rows with `schema`, which is missing: declare one"
    elif source.format == "json" and _is_multiline(source.options):
        yield path, "does not work with multiLine, which reads a JSON file as a whole: remove multiLine, or this field"


def _is_multiline(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "multiline" and value.lower() == "true" for name, value in options.items())


def _check_write(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    target, write = dataset.target, dataset.write
    if target.partition_by and target.cluster_by:
        yield ("target", "cluster_by"), "conflicts with partition_by: a table is partitioned or clustered, not both"
    if write.mode == "overwrite_partitions" and write.where is None and not target.partition_by:
        yield ("write", "where"), "is required without target.partition_by: set `where` or target.partition_by"
    if write.mode == "scd2":
        names = [write.valid_from, write.valid_to, write.current]
        if len({name.lower() for name in [*names, *write.keys]}) < len(names) + len(write.keys):
            yield ("write",), "keys, valid_from, valid_to and current must be different columns"
    yield from _check_delete_missing(dataset)
    if dataset.quarantine_location == target.location or dataset.quarantine_location.startswith(f"{target.location}/"):
        yield ("quarantine",), "is within the target: choose a location outside the target's location"
    if dataset.quarantine_location == dataset.runs_location:
        yield ("quarantine",), "is the location of the runs table: choose another"


def _check_delete_missing(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    """Yield an error for each setting with which `delete_missing` would delete keys that are still in the source."""
    path: Path = ("write", "delete_missing")
    write = dataset.write
    if not isinstance(write, Keyed) or not write.delete_missing:
        if isinstance(write, Keyed) and write.at_most is not None:
            yield ("write", "at_most"), "limits delete_missing, which is not set: set it, or remove the limit"
        return
    if dataset.stream is not None:
        yield path, "needs full extracts, but a batch of a stream has only new rows: remove it"
    for name, source in dataset.sources.items():
        for option, message in partial_options(source.options):
            yield ("sources", name, "options", option), f"{message}, which write.delete_missing would delete"
        if isinstance(source, FileSource) and source.malformed != "fail":
            message = "leaves out rows with unknown keys, which write.delete_missing would delete: set it to fail"
            yield ("sources", name, "malformed"), message


def _check_columns(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    declared: dict[str, dict[str, str]] = {}
    for name, source in dataset.sources.items():
        if isinstance(source, FileSource) and source.ddl:
            declared[name.lower()] = {column.name: column.type for column in columns_of(source.ddl)}
    if not dataset.steps and dataset.last_view.lower() in declared:
        evolving = dataset.target.evolve_schema
        rows = declared[dataset.last_view.lower()]
        yield from column_mistakes(dataset, rows, None if evolving else ())
        for column in sorted(condition_columns(getattr(dataset.write, "delete_when", None) or "", dataset.last_view)):
            if message := missing_column(column, rows, "the rows"):
                yield ("write", "delete_when"), message
    for number, rule in enumerate(dataset.expectations):
        if isinstance(rule, dataset_model.Reference) and rule.to.lower() in declared:
            field = "to_columns" if rule.to_columns else "columns"
            for position, column in enumerate(rule.to_columns or rule.columns):
                message = missing_column(column, declared[rule.to.lower()], rule.to)
                if message:
                    yield ("expectations", number, field, position), message


def _check_jdbc(name: str, source: JdbcSource) -> Iterator[tuple[Path, str]]:
    if (source.table is None) == (source.query is None):
        yield ("sources", name), "set either table or query"
    password = source.password
    if password is not None and (password.environment is None) == (password.secret is None):
        yield ("sources", name, "password"), "set either environment or secret"
    if password is not None and password.field is not None and password.secret is None:
        yield ("sources", name, "password", "field"), "is a field of a secret: set `secret` too"


def _check_watermark(dataset: Dataset, name: str, source: JdbcSource, document: Document) -> Iterator[tuple[Path, str]]:
    """Yield an error for each setting that conflicts with a watermark: it needs all rows, or adds rows twice."""
    watermark, path = source.watermark, ("sources", name, "watermark")
    if watermark is None:
        return
    yield from _check_new_rows_only(dataset, path)
    if dataset.stream is not None:
        yield path, "does not work in a dataset with a stream: declare a separate dataset for each"
    if watermark.overlap is not None and dataset.write.mode == "append":
        yield (*path, "overlap"), "reads rows again, which append would add twice: use mode merge or scd2"
    of_time = [isinstance(value, str | date) for value in (watermark.start, watermark.overlap) if value is not None]
    if len(set(of_time)) > 1:
        yield (*path, "overlap"), "must be a number if start is a number, else a duration such as '2 hours'"
    query = getattr(document.position(("sources", name, "query")).node, "value", "") if source.query else ""
    for variable in dataset.variables if isinstance(query, str) else ():
        if variable != RUN_DATE and re.search(rf"\{{\{{\s*{variable}\b", query):
            message = f"would miss rows below the watermark for another '{variable}': write the condition in a step"
            yield ("sources", name, "query"), message
    for property_ in dataset.target.properties:
        if property_.lower() == TRANSACTION_RETENTION.lower():
            message = f"would make the table forget how far '{name}' was read: remove the property"
            yield ("target", "properties", property_), message


def _check_new_rows_only(dataset: Dataset, path: Path) -> Iterator[tuple[Path, str]]:
    if dataset.write.mode in OVERWRITING:
        mode = f"mode {dataset.write.mode} would replace all others with"
        yield path, f"reads only new rows, which {mode}: use mode append, merge or scd2"
    if getattr(dataset.write, "delete_missing", False):
        yield path, "reads only new rows, and write.delete_missing would delete all other keys: remove that field"


def _check_stream(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    stream = dataset.stream
    for number, name in enumerate(dataset.only_new):
        path: Path = ("sources", name, "only_new")
        yield from _check_new_rows_only(dataset, path)
        if number:
            yield path, f"works for one source of a dataset, here '{dataset.only_new[0]}': use a separate dataset"
        elif stream is not None and stream != dataset.model_copy(update={"stream": None}).effective_stream:
            yield path, "does the same as `stream`: remove `stream`"
    if stream is None:
        return
    source = dataset.sources.get(stream.source)
    if source is None:
        yield ("stream", "source"), f"'{stream.source}' is not a source: choose from {', '.join(dataset.sources)}"
    elif isinstance(source, FileSource) and len(source.paths) > 1:
        yield ("sources", stream.source, "paths"), "must be one path for a stream: give a glob"
    elif isinstance(source, JdbcSource):
        yield ("stream", "source"), "is a database, which a stream cannot read: use files or a Delta table"
    if dataset.write.mode in OVERWRITING and stream.source not in dataset.only_new:
        message = "every batch of a stream would overwrite the previous one: use append, merge or scd2"
        yield ("write", "mode"), message


def _check_expectations(dataset: Dataset, views: set[str]) -> Iterator[tuple[Path, str]]:
    titles: set[str] = set()
    for number, rule in enumerate(dataset.expectations):
        path: Path = ("expectations", number)
        if rule.title.lower() in titles:
            yield path, f"another expectation has the name '{rule.title}': set a different `name`"
        titles.add(rule.title.lower())
        if rule.action == "warn" and getattr(rule, "at_most", None) is not None:
            yield (
                (*path, "at_most"),
                "works with fail, drop and quarantine: warn never keeps a run from writing its rows",
            )
        match rule:
            case dataset_model.Range() | dataset_model.RowCount():
                if rule.min is None and rule.max is None:
                    yield path, "set min, max or both"
                elif _is_above(rule.min, rule.max):
                    yield (*path, "min"), f"{rule.min} is above max, {rule.max}: no row can satisfy it"
            case dataset_model.Reference():
                if rule.to.lower() not in views:
                    yield (*path, "to"), f"'{rule.to}' is neither a source nor a step"
                counts = len(rule.to_columns), len(rule.columns)
                if rule.to_columns and counts[0] != counts[1]:
                    yield (*path, "to_columns"), f"has {counts[0]} columns, but `columns` has {counts[1]}: name as many"


def _is_above(lower: dataset_model.Bound | None, upper: dataset_model.Bound | None) -> bool:
    if isinstance(lower, str) or isinstance(upper, str) or lower is None or upper is None:
        return False
    try:
        return bool(lower > upper)  # type: ignore[operator]
    except TypeError:
        return False
