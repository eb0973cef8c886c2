"""Decides whether a dataset file can be run, as far as that is known without Spark, and names every mistake."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from deltaic_pipeline.datasets import model
from deltaic_pipeline.datasets.document import Document, Mistake, Path, Unreadable
from deltaic_pipeline.datasets.model import Dataset, FileSource, JdbcSource
from deltaic_pipeline.failures import PipelineError

FIELDS = sorted(
    {
        field.alias or name
        for part in vars(model).values()
        if isinstance(part, type) and issubclass(part, BaseModel)
        for name, field in part.model_fields.items()
    }
)

SAID: dict[str, str] = {
    "missing": "is required",
    "string_type": "is text: quote it if YAML takes it for something else",
    "list_type": "is a list: write [one, two], or a line with a dash for each",
    "dict_type": "is a mapping of names to values",
    "model_type": "is a mapping of fields to values",
    "model_attributes_type": "is a mapping of fields to values",
    "int_type": "is a whole number",
    "bool_type": "is true or false",
    "union_tag_not_found": "lacks the field {discriminator}, which says what it is",
    "union_tag_invalid": "{discriminator} is {tag!r}: write one of {expected_tags}",
    "literal_error": "write {expected}",
    "too_short": "is empty: name at least one",
    "string_too_short": "is empty",
    "string_pattern_mismatch": "is a name of letters, digits and underscores, which does not begin with a digit",
}
"""Pydantic's findings in the words of whoever wrote the file."""


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


def check(text: str) -> Checked:
    """Read a dataset file and find everything that is wrong with it, in the order of its lines."""
    try:
        document = Document.read(text)
    except Unreadable as unreadable:
        return Checked(None, unreadable.mistakes)
    try:
        dataset = Dataset.model_validate(document.value)
    except ValidationError as refused:
        found = {_mistake(document, error) for error in refused.errors()} | set(_sql(document))
        return Checked(None, sorted(found, key=lambda mistake: (mistake.line, mistake.field)), document)
    findings = list(_sql(document))
    for path, message in _contradictions(dataset):
        place = document.place(path)
        findings.append(Mistake(place.line, place.field, message))
    findings.sort(key=lambda mistake: (mistake.line, mistake.field))
    wrong = any(not mistake.doubtful for mistake in findings)
    return Checked(None if wrong else dataset, findings, document)


def dataset_of(text: str, file: str) -> tuple[Dataset, Document]:
    """Return the dataset of a file; raises WrongFile with every mistake."""
    checked = check(text)
    if checked.dataset is None or checked.document is None:
        raise WrongFile(file, checked.mistakes)
    return checked.dataset, checked.document


def _mistake(document: Document, error: Any) -> Mistake:
    kind, context, path = error["type"], error.get("ctx", {}), [part for part in error["loc"] if part != "[key]"]
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1]), FIELDS, 1)
        message = "is not a field here" + (f": did you mean {near[0]}?" if near else "")
    elif kind == "value_error":
        message = str(context["error"])
    elif kind in SAID:
        message = SAID[kind].format(**{name: _plain(value) for name, value in context.items()})
    else:
        message = error["msg"][0].lower() + error["msg"][1:]
    place = document.place(path)
    return Mistake(place.line, place.field, message)


def _plain(value: Any) -> Any:
    return value.replace("'", "") if isinstance(value, str) else value


def _contradictions(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    """Find what no field by itself shows to be wrong."""
    for name, source in dataset.sources.items():
        if isinstance(source, JdbcSource):
            yield from _jdbc(name, source)
        if isinstance(source, FileSource) and source.ddl is None and dataset.stream and dataset.stream.source == name:
            yield (
                ("sources", name, "schema"),
                "is required for a stream of files, for columns must not change with them",
            )
    if not dataset.steps and len(dataset.sources) > 1:
        yield ("steps",), "are required where there are several sources: the last step's rows are written"
    views = {name.lower() for name in dataset.sources}
    for number, step in enumerate(dataset.steps):
        if step.view.lower() in views:
            yield ("steps", number, "view"), f"'{step.view}' is the name of a source or an earlier step"
        views.add(step.view.lower())
    target, write = dataset.target, dataset.write
    if target.partition_by and target.cluster_by:
        yield ("target", "cluster_by"), "a table is partitioned or clustered, not both"
    if write.mode == "overwrite_partitions" and write.where is None and not target.partition_by:
        yield ("write", "where"), "is required where target.partition_by is not given"
    if write.mode == "scd2":
        names = [write.valid_from, write.valid_to, write.current]
        if len({name.lower() for name in [*names, *write.keys]}) < len(names) + len(write.keys):
            yield ("write",), "keys, valid_from, valid_to and current are columns of their own"
    if dataset.quarantine_location == target.location or dataset.quarantine_location.startswith(f"{target.location}/"):
        yield ("quarantine",), "is a table of its own, outside the target's location"
    yield from _streaming(dataset)
    yield from _expectations(dataset, views)


def _jdbc(name: str, source: JdbcSource) -> Iterator[tuple[Path, str]]:
    if (source.table is None) == (source.query is None):
        yield ("sources", name), "give table or query, one of them"
    password = source.password
    if password is not None and (password.environment is None) == (password.secret is None):
        yield ("sources", name, "password"), "give environment or secret, one of them"
    if password is not None and password.field is not None and password.secret is None:
        yield ("sources", name, "password", "field"), "is a field of a secret"


def _streaming(dataset: Dataset) -> Iterator[tuple[Path, str]]:
    stream = dataset.stream
    if stream is None:
        return
    source = dataset.sources.get(stream.source)
    if source is None:
        yield ("stream", "source"), f"'{stream.source}' is not a source: {', '.join(dataset.sources)}"
    elif isinstance(source, FileSource) and len(source.paths) > 1:
        yield ("sources", stream.source, "paths"), "is one path for a stream: give a glob"
    elif isinstance(source, JdbcSource):
        yield ("stream", "source"), "a database cannot be followed: files and Delta tables can"
    if dataset.write.mode in {"overwrite", "overwrite_partitions"}:
        yield ("write", "mode"), "every batch of a stream would overwrite the one before: append, merge or scd2"


def _expectations(dataset: Dataset, views: set[str]) -> Iterator[tuple[Path, str]]:
    seen: set[str] = set()
    for number, one in enumerate(dataset.expectations):
        here: Path = ("expectations", number)
        if one.title.lower() in seen:
            yield here, f"there is another expectation '{one.title}': give this one a name"
        seen.add(one.title.lower())
        match one:
            case model.Range() | model.RowCount():
                if one.min is None and one.max is None:
                    yield here, "give min, max or both"
            case model.Reference():
                if one.to.lower() not in views:
                    yield (*here, "to"), f"'{one.to}' is neither a source nor a step"
                if one.to_columns and len(one.to_columns) != len(one.columns):
                    yield (*here, "to_columns"), f"are {len(one.to_columns)}, and columns are {len(one.columns)}"


def _sql(document: Document) -> Iterator[Mistake]:
    """Find what is no query, and names that are no view; sqlglot's doubts are told, for Spark knows more SQL."""
    content = document.value if isinstance(document.value, dict) else {}
    sources, steps = content.get("sources"), content.get("steps")
    known = {str(name).lower() for name in sources} if isinstance(sources, dict) else set()
    for number, step in enumerate(steps if isinstance(steps, list) else []):
        if isinstance(step, dict):
            if isinstance(step.get("sql"), str):
                yield from _query(document, ("steps", number, "sql"), step["sql"], known)
            known.add(str(step.get("view")).lower())


def _query(document: Document, path: Path, sql: str, known: set[str]) -> Iterator[Mistake]:
    import sqlglot
    from sqlglot import expressions
    from sqlglot.errors import ParseError, TokenError

    place = document.place(path)
    try:
        parsed = [one for one in sqlglot.parse(sql, dialect="spark") if one is not None]
    except ParseError as doubt:
        said = doubt.errors[0] if doubt.errors else {}
        near = f" near '{said['highlight']}'" if said.get("highlight") else ""
        line = document.line_of_sql(path, int(said.get("line") or 1))
        yield Mistake(line, place.field, f"does not read as SQL{near}; --dry-run asks Spark", doubtful=True)
    except TokenError:
        yield Mistake(place.line, place.field, "a quote or comment has no end; --dry-run asks Spark", doubtful=True)
    else:
        if len(parsed) == 1 and isinstance(parsed[0], expressions.Condition | expressions.Alias):  # SELEC id, TABLE t
            yield Mistake(place.line, place.field, "does not read as SQL; --dry-run asks Spark", doubtful=True)
        elif len(parsed) == 1 and isinstance(parsed[0], expressions.Query):
            for line, message in _unknown_views(parsed[0], known):
                yield Mistake(document.line_of_sql(path, line), place.field, message)
        else:
            yield Mistake(place.line, place.field, "is one query (SELECT ...), and nothing that writes")


def _unknown_views(query: Any, known: set[str]) -> Iterator[tuple[int, str]]:
    """Find tables without a schema that nobody gave; yields the line within the SQL and what is wrong."""
    from sqlglot import expressions

    own = {found.alias.lower() for found in query.find_all(expressions.CTE)}
    for table in query.find_all(expressions.Table):
        plain = isinstance(table.this, expressions.Identifier) and not table.args.get("db")
        if plain and table.name.lower() not in known | own:
            near = difflib.get_close_matches(table.name.lower(), known | own, 1)
            message = f"'{table.name}' is neither a source nor an earlier step"
            yield int(table.this.meta.get("line", 1)), message + (f": did you mean {near[0]}?" if near else "")
