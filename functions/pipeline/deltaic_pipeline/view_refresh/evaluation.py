"""Run a view's SQL over its source tables, for many audiences (recipients' property values) at once (decision 86)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.errors import InvalidParameter
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.sql_rules import check_reads_views, without_paths
from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.view_sql import RECIPIENT, SOURCE, SPECIAL_TIME, RequestedProperty, TableRef, ViewSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AUDIENCES, OTHER = "_deltaic_audiences", "_deltaic_other"
LONGEST_LIST = 100
"""Maximum length of a property's list for one pass over the source; longer lists need a SELECT per audience."""

ALONE = frozenset({"Project", "Filter"})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """View's SQL in one Spark session; the first result column names the audience (recipients' property values)."""

    spark: "SparkSession"
    sql: ViewSql
    others: Mapping[str, "DataFrame"]

    def rows(self, source: "DataFrame", audiences: Sequence[Audience]) -> "DataFrame":
        """Return the rows of all audiences (lazily), in one pass over the source if the SQL allows it.

        An audience (recipients' property values) that lacks a property, or has a list for a single value, gets no rows.
        """
        from pyspark.errors import AnalysisException

        complete = [audience for audience in audiences if self._has_all(audience)]
        with self._tables(source):
            if not complete:
                return self._rows_of(None).where("false")
            lists = (
                len(_values(audience, requested))
                for audience in complete
                for requested in self.sql.requested_properties()
            )
            if self.sql.one_pass and all(length <= LONGEST_LIST for length in lists):
                try:
                    return check_reads_views(self._rows_in_one_pass(complete))
                except AnalysisException:
                    # Spark cannot decorrelate part of the SQL; or the SQL is wrong, and the next statement fails too.
                    pass
            rows = check_reads_views(self._rows_of(complete[0]))
            for audience in complete[1:]:
                rows = rows.unionAll(self._rows_of(audience))
            return rows

    def columns(self, source: "DataFrame") -> "DataFrame":
        """Return a DataFrame without rows that has the SQL's columns; raises InvalidParameter for invalid columns."""
        with self._tables(source):
            rows = self._rows_of(None).where("false")
        if _session_functions(rows)[1]:
            raise InvalidParameter(
                "the view's SQL depends on who runs the refresh, or where (current_user, current_database()). "
                f"Use a recipient's property instead: {RECIPIENT}('...')."
            )
        names = [name.lower() for name in rows.columns]
        if AUDIENCE_COLUMN in names[1:]:
            raise InvalidParameter(
                "the view's source is itself a view, with separate rows for each audience. Use the source of that view."
            )
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise InvalidParameter(f"the view's SQL has two columns named {duplicate}. Rename one with AS.")
        return rows

    def has_independent_rows(self, source: "DataFrame") -> bool:
        """Return whether the SQL has only columns and a WHERE; raises InvalidParameter if it is not deterministic."""
        with self._tables(source):
            rows: Any = self.spark.sql(self._render(_null_text))
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 -- pyspark has no public way to the plan
        while plan.nodeName() in ALONE:
            if not plan.deterministic():
                raise InvalidParameter(
                    "the view's SQL is not deterministic, so that every refresh would change rows. "
                    "Remove functions that return another value at each call."
                )
            plan = plan.children().apply(0)
        return bool(plan.nodeName() == "SubqueryAlias")

    def asks_for_time(self, source: "DataFrame", audiences: Sequence[Audience]) -> bool:
        """Return whether the result depends on the current time, by the SQL or by a property value such as `today`."""

        def special_values(requested: RequestedProperty) -> str:
            complete = [audience for audience in audiences if self._has_all(audience)]
            values = (value for audience in complete for value in _values(audience, requested))
            times = [literal(value) for value in values if SPECIAL_TIME.match(value)]
            return ", ".join(times if requested.of_list else times[:1]) or _null_text(requested)

        with self._tables(source):
            return _session_functions(self.spark.sql(self._render(special_values)))[0]

    def _has_all(self, audience: Audience) -> bool:
        for requested in self.sql.requested_properties():
            value = audience.values.get(requested.property)
            if value is None or value == () or (isinstance(value, tuple) and not requested.of_list):
                return False
        return True

    def _rows_of(self, audience: Audience | None) -> "DataFrame":
        """Run the SQL for one audience, with its properties as literals; None: with null for all properties."""
        name = literal(audience.name) if audience else "CAST(NULL AS STRING)"
        query = self._render(_null_text if audience is None else _literals(audience))
        return self.spark.sql(f"SELECT {name} AS {AUDIENCE_COLUMN}, rows.* FROM (\n{query}\n) AS rows")  # noqa: S608

    def _rows_in_one_pass(self, audiences: Sequence[Audience]) -> "DataFrame":
        properties = list(self.sql.requested_properties())
        texts = sorted({requested.property for requested in properties if not requested.of_list})
        lists = {
            requested.property: max(len(_values(audience, requested)) for audience in audiences)
            for requested in properties
            if requested.of_list
        }
        rows = []
        for audience in audiences:
            values = [audience.name, *(str(audience.values[name]) for name in texts)]
            for name, length in sorted(lists.items()):
                items = _values(audience, RequestedProperty(name, of_list=True))
                values += [*items, *[items[0]] * (length - len(items))]
            rows.append(f"({', '.join(map(literal, values))})")
        names = [AUDIENCE_COLUMN, *(f"_deltaic_value{number}" for number in range(len(texts)))]
        list_columns: dict[str, list[str]] = {}
        for number, (name, length) in enumerate(sorted(lists.items())):
            list_columns[name] = [f"_deltaic_list{number}_{position}" for position in range(length)]
            names += list_columns[name]

        def columns_of(requested: RequestedProperty) -> str:
            if requested.of_list:
                return ", ".join(f"{AUDIENCES}.{column}" for column in list_columns[requested.property])
            return f"{AUDIENCES}._deltaic_value{texts.index(requested.property)}"

        table = f"SELECT * FROM VALUES {', '.join(rows)} AS audiences({', '.join(names)})"  # noqa: S608 -- literals
        self.spark.sql(table).createOrReplaceTempView(AUDIENCES)
        query = f"LATERAL (\n{self._render(columns_of)}\n) AS rows"
        return self.spark.sql(f"SELECT {AUDIENCES}.{AUDIENCE_COLUMN}, rows.* FROM {AUDIENCES} CROSS JOIN {query}")  # noqa: S608

    def _render(self, property_sql: Callable[[RequestedProperty], str]) -> str:
        names = list(self.others)

        def table_sql(table: TableRef) -> str:
            name = SOURCE if table.table == SOURCE else f"{OTHER}{names.index(table.table.lower())}"
            return f"{name} AS {quoted(table.alias)}" if table.alias and table.alias != name else name

        return self.sql.render(property_sql, table_sql)

    @contextmanager
    def _tables(self, source: "DataFrame") -> Iterator[None]:
        source.createOrReplaceTempView(SOURCE)
        for number, rows in enumerate(self.others.values()):
            rows.createOrReplaceTempView(f"{OTHER}{number}")
        with without_paths(self.spark):
            yield


def _session_functions(rows: "DataFrame") -> tuple[bool, bool]:
    """Return whether the SQL uses the current time, and whether it uses the user or database of the session."""
    spark, plan = rows.sparkSession, rows._jdf.queryExecution().analyzed()  # noqa: SLF001 -- as above
    java: Any = spark._jsparkSession  # noqa: SLF001 -- as above
    subqueries = plan.subqueriesAll()

    def rule(name: str) -> Any:
        return java_class(f"org.apache.spark.sql.catalyst.optimizer.{name}")

    # Subqueries are optimized separately, after functions are replaced by their implementations.
    plans = [
        rule("ReplaceExpressions").apply(logical_plan)
        for logical_plan in (plan, *map(subqueries.apply, range(subqueries.size())))
    ]

    def changed(*transformations: Any) -> bool:
        return any(
            not transformation.apply(logical_plan).fastEquals(logical_plan)
            for transformation in transformations
            for logical_plan in plans
        )

    return (
        changed(rule("ComputeCurrentTime"), rule("SpecialDatetimeValues")),
        changed(rule("ReplaceCurrentLike")(java.sessionState().catalogManager())),
    )


def property_at_fault(message: str, audiences: Sequence[Audience]) -> str | None:
    """Return the recipient property whose value Spark's message says it cannot cast; None for other messages."""
    if "CAST" not in message:
        return None
    for audience in audiences:
        for name, value in audience.values.items():
            if any(f"'{item}'" in message for item in ((value,) if isinstance(value, str) else value)):
                return name
    return None


def _values(audience: Audience, requested: RequestedProperty) -> tuple[str, ...]:
    value = audience.values[requested.property]
    return (value,) if isinstance(value, str) else value


def _literals(audience: Audience) -> Callable[[RequestedProperty], str]:
    def literals(requested: RequestedProperty) -> str:
        if requested.of_list:
            return ", ".join(map(literal, _values(audience, requested)))
        return f"({literal(str(audience.values[requested.property]))})"

    return literals


def _null_text(_: RequestedProperty) -> str:
    return "CAST(NULL AS STRING)"
