"""Decides whether a dataset file can be run, as far as that is known without Spark, and names every mistake."""

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
    unknown_properties,
)
from deltaic_pipeline.table.column_names import missing_in
from deltaic_pipeline.table.target import FORGETS
from deltaic_terminal.document import Document, Mistake, Path, Unreadable
from deltaic_terminal.validation_errors import mistake_of
from pydantic import BaseModel, ValidationError

from deltaic_datasets.file import dataset_model
from deltaic_datasets.file.dataset_model import Dataset, FileSource, JdbcSource, Keyed
from deltaic_datasets.file.file_text import beside
from deltaic_datasets.file.named_columns import misnamed, refused_name
from deltaic_datasets.file.sql_text import columns_named, sql_mistakes
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

MOST_TOLD = 100
"""Mistakes of one kind in one file; whoever has put them right is told the others."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was read: the dataset if nothing is wrong with the file, and what was found."""

    dataset: Dataset | None
    findings: Sequence[Mistake]
    document: Document | None = None

    @property
    def mistakes(self) -> Sequence[Mistake]:
        """What refuses the file."""
        return [found for found in self.findings if not found.doubtful]


class WrongFile(PipelineError):
    """A dataset file has mistakes; the message has a line for each."""

    code = "WRONG_DATASET"

    def __init__(self, file: str, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(f"{file}:{mistake.line}: {mistake}" for mistake in mistakes))
        self.mistakes = mistakes


def check(text: str, given: Mapping[str, str] | None = None) -> Checked:
    """Read a dataset file and find everything that is wrong with it, in the order of its lines.

    `given` are the texts of variables of the run that is to come; None: no run is, and what it will need is a doubt.
    """
    try:
        written = Document.read(text)
    except Unreadable as unreadable:
        return Checked(None, unreadable.mistakes[:MOST_TOLD])
    bound = bind(written, given)
    document = written.bound(bound.content, bound.used)
    misplaced = bound.mistakes[:MOST_TOLD]
    try:
        dataset = Dataset.model_validate(document.value)
    except ValidationError as refused:
        found = {mistake_of(document, error, FIELDS) for error in refused.errors()[:MOST_TOLD]}
        found |= {*sql_mistakes(document), *misplaced}
        return Checked(None, sorted(found, key=lambda mistake: (mistake.line, mistake.field)), document)
    dataset = dataset.model_copy(update={"stream": dataset.followed})
    findings = [*misplaced, *sql_mistakes(document)]
    for path, message in islice(_contradictions(dataset, document), MOST_TOLD):
        place = document.place(path)
        findings.append(Mistake(place.line, place.field, message))
    findings += islice(_refused_names(dataset, document), MOST_TOLD)
    findings.sort(key=lambda mistake: (mistake.line, mistake.field))
    wrong = any(not mistake.doubtful for mistake in findings)
    return Checked(None if wrong else dataset, findings, document)


def dataset_of(text: str, file: str, given: Mapping[str, str] = MappingProxyType({})) -> tuple[Dataset, Document]:
    """Return the dataset of a file, whose relative paths lead from its folder; raises WrongFile with every mistake.

    `given` are the texts of its variables.
    """
    checked = check(text, given)
    if checked.dataset is None or checked.document is None:
        raise WrongFile(file, checked.mistakes)
    sources = {
        name: source.model_copy(update={"paths": [beside(file, path) for path in source.paths]})
        if isinstance(source, FileSource)
        else source
        for name, source in checked.dataset.sources.items()
    }
    return checked.dataset.model_copy(update={"sources": sources}), checked.document


def _contradictions(dataset: Dataset, document: Document) -> Iterator[tuple[Path, str]]:
    for name, source in dataset.sources.items():
        if isinstance(source, JdbcSource):
            yield from _jdbc(name, source)
            yield from _watermark(dataset, name, source, document)
        for option, message in unknown_options(source.format, source.options):
            yield ("sources", name, "options", option), message
        if isinstance(source, FileSource):
            yield from _malformed(name, source)
        if isinstance(source, FileSource) and source.ddl is None and dataset.stream and dataset.stream.source == name:
            yield (
                ("sources", name, "schema"),
                "is required where new files are followed, for columns must not change with them",
            )
    if not dataset.steps and len(dataset.sources) > 1:
        yield ("steps",), "are required where there are several sources: the last step's rows are written"
    views = {name.lower() for name in dataset.sources}
    for number, step in enumerate(dataset.steps):
        if step.view.lower() in views:
            yield ("steps", number, "view"), f"'{step.view}' is the name of a source or an earlier step"
        views.add(step.view.lower())
    yield from _writing(dataset)
    yield from _streaming(dataset)
    yield from _expectations(dataset, views)
    yield from _columns(dataset)


def _refused_names(dataset: Dataset, document: Document) -> Iterator[Mistake]:
    """Find columns of a declared schema that go to the table as they are, and that Delta refuses."""
    source = None if dataset.steps else dataset.sources[dataset.last_view]
    if isinstance(source, FileSource) and source.ddl:
        path = ("sources", dataset.last_view, "schema")
        for column in columns_of(source.ddl):
            if message := refused_name(column.name, dataset.target.properties):
                line = document.line_of_sql(path, column.line)
                yield Mistake(line, document.place(path).field, message)


def _malformed(name: str, source: FileSource) -> Iterator[tuple[Path, str]]:
    here: Path = ("sources", name, "malformed")
    if source.format in {"csv", "json"}:
        for option, message in refused_options(source.options):
            yield ("sources", name, "options", option), f"{message}: say where such rows go by the field `malformed`"
    if source.malformed == "fail":
        return
    if source.format not in {"csv", "json"}:
        yield here, "is for CSV and JSON: of other formats a file that cannot be read ends the run"
    elif source.ddl is None:
        yield here, "says where rows go that do not fit the schema: declare one"
    elif source.format == "json" and _whole(source.options):
        yield here, "is for rows, and with multiLine a JSON file is read as a whole: it ends the run"


def _whole(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "multiline" and value.lower() == "true" for name, value in options.items())


def _writing(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    target, write = dataset.target, dataset.write
    if target.partition_by and target.cluster_by:
        yield ("target", "cluster_by"), "a table is partitioned or clustered, not both"
    if write.mode == "overwrite_partitions" and write.where is None and not target.partition_by:
        yield ("write", "where"), "is required where target.partition_by is not given"
    if write.mode == "scd2":
        names = [write.valid_from, write.valid_to, write.current]
        if len({name.lower() for name in [*names, *write.keys]}) < len(names) + len(write.keys):
            yield ("write",), "keys, valid_from, valid_to and current are columns of their own"
    yield from _missing(dataset)
    if dataset.quarantine_location == target.location or dataset.quarantine_location.startswith(f"{target.location}/"):
        yield ("quarantine",), "is a table of its own, outside the target's location"
    if dataset.quarantine_location == dataset.runs_location:
        yield ("quarantine",), "is where each run has a row: give it another name"
    for name, message in unknown_properties(target.properties):
        yield ("target", "properties", name), message


def _missing(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    """Find what deletes keys for want of a row where rows may be lacking that are in the source."""
    here: Path = ("write", "delete_missing")
    write = dataset.write
    if not isinstance(write, Keyed) or not write.delete_missing:
        if isinstance(write, Keyed) and write.at_most is not None:
            yield ("write", "at_most"), "is a limit of delete_missing, which is not there"
        return
    if dataset.stream is not None:
        yield here, "is for full extracts, and a batch of a stream has only what is new"
    for name, source in dataset.sources.items():
        for option, message in partial_options(source.options):
            yield ("sources", name, "options", option), f"{message}, which write.delete_missing would delete"
        if isinstance(source, FileSource) and source.malformed != "fail":
            message = "leaves out rows whose keys nobody has read, and which write.delete_missing would delete"
            yield ("sources", name, "malformed"), message


def _columns(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    """Find columns that a declared schema lacks; what steps give is known to Spark only."""
    declared: dict[str, dict[str, str]] = {}
    for name, source in dataset.sources.items():
        if isinstance(source, FileSource) and source.ddl:
            declared[name.lower()] = {column.name: column.type for column in columns_of(source.ddl)}
    if not dataset.steps and dataset.last_view.lower() in declared:
        evolving = dataset.target.evolve_schema
        rows = declared[dataset.last_view.lower()]
        yield from misnamed(dataset, rows, None if evolving else ())
        for column in sorted(columns_named(getattr(dataset.write, "delete_when", None) or "", dataset.last_view)):
            if message := missing_in(column, rows, "the rows"):
                yield ("write", "delete_when"), message
    for number, one in enumerate(dataset.expectations):
        if isinstance(one, dataset_model.Reference) and one.to.lower() in declared:
            field = "to_columns" if one.to_columns else "columns"
            for position, column in enumerate(one.to_columns or one.columns):
                message = missing_in(column, declared[one.to.lower()], one.to)
                if message:
                    yield ("expectations", number, field, position), message


def _jdbc(name: str, source: JdbcSource) -> Iterator[tuple[Path, str]]:
    if (source.table is None) == (source.query is None):
        yield ("sources", name), "give table or query, one of them"
    password = source.password
    if password is not None and (password.environment is None) == (password.secret is None):
        yield ("sources", name, "password"), "give environment or secret, one of them"
    if password is not None and password.field is not None and password.secret is None:
        yield ("sources", name, "password", "field"), "is a field of a secret"


def _watermark(dataset: Dataset, name: str, source: JdbcSource, document: Document) -> Iterator[tuple[Path, str]]:
    """Find what a watermark does not go with: whatever needs rows that it leaves out, or would add some twice."""
    mark, here = source.watermark, ("sources", name, "watermark")
    if mark is None:
        return
    yield from _partial(dataset, here)
    if dataset.stream is not None:
        yield here, "remembers what a run has read, and this one follows a source: declare a dataset for each"
    if mark.overlap is not None and dataset.write.mode == "append":
        yield (*here, "overlap"), "reads rows again, which append would add twice: merge or scd2"
    of_time = [isinstance(value, str | date) for value in (mark.start, mark.overlap) if value is not None]
    if len(set(of_time)) > 1:
        yield (*here, "overlap"), "is a number where start is one, and else a duration such as '2 hours'"
    written = getattr(document.place(("sources", name, "query")).node, "value", "") if source.query else ""
    for variable in dataset.variables if isinstance(written, str) else ():
        if variable != RUN_DATE and re.search(rf"\{{\{{\s*{variable}\b", written):
            message = (
                f"with another '{variable}' would never give its rows below the mark: put the condition into a step"
            )
            yield ("sources", name, "query"), message
    for property_ in dataset.target.properties:
        if property_.lower() == FORGETS.lower():
            yield ("target", "properties", property_), f"would have the table forget how far '{name}' was read"


def _partial(dataset: Dataset, here: Path) -> Iterator[tuple[Path, str]]:
    """Find what takes the rows that are new for all that there are."""
    if dataset.write.mode in OVERWRITING:
        yield (
            here,
            f"reads what is new, which mode {dataset.write.mode} would put in the place of all: append, merge or scd2",
        )
    if getattr(dataset.write, "delete_missing", False):
        yield here, "reads what is new, and write.delete_missing would delete all other keys"


def _streaming(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    stream = dataset.stream
    for number, name in enumerate(dataset.only_new):
        here: Path = ("sources", name, "only_new")
        yield from _partial(dataset, here)
        if number:
            yield here, f"is for one source of a dataset, which is '{dataset.only_new[0]}'"
        elif stream is not None and stream != dataset.model_copy(update={"stream": None}).followed:
            yield here, "is what `stream` does already: say one of them"
    if stream is None:
        return
    source = dataset.sources.get(stream.source)
    if source is None:
        yield ("stream", "source"), f"'{stream.source}' is not a source: {', '.join(dataset.sources)}"
    elif isinstance(source, FileSource) and len(source.paths) > 1:
        yield ("sources", stream.source, "paths"), "is one path where new files are followed: give a glob"
    elif isinstance(source, JdbcSource):
        yield ("stream", "source"), "a database cannot be followed: files and Delta tables can"
    if dataset.write.mode in OVERWRITING and stream.source not in dataset.only_new:
        yield ("write", "mode"), "every batch of a stream would overwrite the one before: append, merge or scd2"


def _expectations(dataset: Dataset, views: set[str]) -> Iterator[tuple[Path, str]]:
    seen: set[str] = set()
    for number, one in enumerate(dataset.expectations):
        here: Path = ("expectations", number)
        if one.title.lower() in seen:
            yield here, f"there is another expectation '{one.title}': give this one a name"
        seen.add(one.title.lower())
        if one.action == "warn" and getattr(one, "at_most", None) is not None:
            yield (
                (*here, "at_most"),
                "is a limit of fail, drop and quarantine: warn never keeps a run from being written",
            )
        match one:
            case dataset_model.Range() | dataset_model.RowCount():
                if one.min is None and one.max is None:
                    yield here, "give min, max or both"
                elif _above(one.min, one.max):
                    yield (*here, "min"), f"{one.min} is above max, {one.max}: no row can satisfy it"
            case dataset_model.Reference():
                if one.to.lower() not in views:
                    yield (*here, "to"), f"'{one.to}' is neither a source nor a step"
                if one.to_columns and len(one.to_columns) != len(one.columns):
                    yield (*here, "to_columns"), f"are {len(one.to_columns)}, and columns are {len(one.columns)}"


def _above(least: dataset_model.Bound | None, most: dataset_model.Bound | None) -> bool:
    """Tell whether both are numbers, or both days or moments, and the first is the larger; texts are the column's."""
    if isinstance(least, str) or isinstance(most, str) or least is None or most is None:
        return False
    try:
        return bool(least > most)  # type: ignore[operator]
    except TypeError:
        return False
