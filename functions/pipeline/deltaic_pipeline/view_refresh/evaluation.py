"""A view's SQL over the rows of its tables, for many audiences at once (decision 86)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.errors import InvalidParameter
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.spark.jvm import java_class
from deltaic_pipeline.spark.quoting import literal, quoted
from deltaic_pipeline.spark.sql_rules import no_files, of_views
from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.view_sql import RECIPIENT, SOURCE, SPECIAL_MOMENT, Asked, Read, ViewSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AUDIENCES, OTHER = "_deltaic_audiences", "_deltaic_other"
LONGEST_LIST = 100
"""A list of more values than this is a literal of a SELECT of its own, and no columns of the audiences."""

ALONE = frozenset({"Project", "Filter"})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A view's SQL in one session; every answer has the audience as its first column."""

    spark: "SparkSession"
    sql: ViewSql
    others: Mapping[str, "DataFrame"]

    def rows(self, source: "DataFrame", audiences: Sequence[Audience]) -> "DataFrame":
        """Return the rows of all audiences (lazily); in one pass over the source where the SQL allows.

        An audience that lacks a property, or has a list where one value is wanted, has no rows.
        """
        from pyspark.errors import AnalysisException

        whole = [audience for audience in audiences if self._has_all(audience)]
        with self._tables(source):
            if not whole:
                return self._one(None).where("false")
            lists = (len(_listed(audience, asked)) for audience in whole for asked in self.sql.asked())
            if self.sql.one_pass and all(length <= LONGEST_LIST for length in lists):
                try:
                    return of_views(self._at_once(whole))
                except AnalysisException:
                    # Spark cannot move some part of the SQL out of a LATERAL; or the SQL is wrong, which comes out now.
                    pass
            rows = of_views(self._one(whole[0]))
            for audience in whole[1:]:
                rows = rows.unionAll(self._one(audience))
            return rows

    def columns(self, source: "DataFrame") -> "DataFrame":
        """Return no rows, of the columns that the SQL gives; refuses those that a view cannot have."""
        with self._tables(source):
            rows = self._one(None).where("false")
        if _asked_of_session(rows)[1]:
            raise InvalidParameter(
                "the view's SQL asks who runs the refresh, or where (current_user, current_database()): "
                f"ask for a property with {RECIPIENT}('...')."
            )
        names = [name.lower() for name in rows.columns]
        if AUDIENCE_COLUMN in names[1:]:
            raise InvalidParameter(
                "the view's source is a view itself, whose rows are made for each audience: "
                "name that view's own source."
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidParameter(f"the view's SQL gives two columns named {twice}: rename one with AS.")
        return rows

    def stands_alone(self, source: "DataFrame") -> bool:
        """Tell whether Spark, too, finds nothing but columns and a WHERE; raises where the SQL is not deterministic."""
        with self._tables(source):
            rows: Any = self.spark.sql(self._written(_nothing))
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 -- pyspark has no public way to the plan
        while plan.nodeName() in ALONE:
            if not plan.deterministic():
                raise InvalidParameter(
                    "the view's SQL is not deterministic, so that every refresh would change rows: "
                    "leave functions out that give another answer each time."
                )
            plan = plan.children().apply(0)
        return bool(plan.nodeName() == "SubqueryAlias")

    def asks_for_time(self, source: "DataFrame", audiences: Sequence[Audience]) -> bool:
        """Tell whether Spark would put the time of the query into the SQL, or into some audience's values in it."""

        def said(asked: Asked) -> str:
            values = (value for audience in audiences if self._has_all(audience) for value in _listed(audience, asked))
            moments = [literal(value) for value in values if SPECIAL_MOMENT.match(value)]
            return ", ".join(moments if asked.of_list else moments[:1]) or _nothing(asked)

        with self._tables(source):
            return _asked_of_session(self.spark.sql(self._written(said)))[0]

    def _has_all(self, audience: Audience) -> bool:
        for asked in self.sql.asked():
            value = audience.values.get(asked.property)
            if value is None or value == () or (isinstance(value, tuple) and not asked.of_list):
                return False
        return True

    def _one(self, audience: Audience | None) -> "DataFrame":
        """Return one audience's rows, its properties written as literals; for None the columns alone."""
        name = literal(audience.name) if audience else "CAST(NULL AS STRING)"
        said = _nothing if audience is None else _literals(audience)
        written = self._written(said)
        return self.spark.sql(f"SELECT {name} AS {AUDIENCE_COLUMN}, rows.* FROM (\n{written}\n) AS rows")  # noqa: S608

    def _at_once(self, audiences: Sequence[Audience]) -> "DataFrame":
        texts = sorted({asked.property for asked in self.sql.asked() if not asked.of_list})
        lists = {
            asked.property: max(len(_listed(audience, asked)) for audience in audiences)
            for asked in self.sql.asked()
            if asked.of_list
        }
        rows = []
        for audience in audiences:
            values = [audience.name, *(str(audience.values[name]) for name in texts)]
            for name, length in sorted(lists.items()):
                listed = _listed(audience, Asked(name, of_list=True))
                values += [*listed, *[listed[0]] * (length - len(listed))]
            rows.append(f"({', '.join(map(literal, values))})")
        names = [AUDIENCE_COLUMN, *(f"_deltaic_one{number}" for number in range(len(texts)))]
        of_list: dict[str, list[str]] = {}
        for number, (name, length) in enumerate(sorted(lists.items())):
            of_list[name] = [f"_deltaic_list{number}_{place}" for place in range(length)]
            names += of_list[name]

        def said(asked: Asked) -> str:
            if asked.of_list:
                return ", ".join(f"{AUDIENCES}.{column}" for column in of_list[asked.property])
            return f"{AUDIENCES}._deltaic_one{texts.index(asked.property)}"

        given = f"SELECT * FROM VALUES {', '.join(rows)} AS given({', '.join(names)})"  # noqa: S608 -- literals
        self.spark.sql(given).createOrReplaceTempView(AUDIENCES)
        each = f"LATERAL (\n{self._written(said)}\n) AS rows"
        return self.spark.sql(f"SELECT {AUDIENCES}.{AUDIENCE_COLUMN}, rows.* FROM {AUDIENCES} CROSS JOIN {each}")  # noqa: S608

    def _written(self, text_of: Callable[[Asked], str]) -> str:
        names = list(self.others)

        def read(table: Read) -> str:
            name = SOURCE if table.table == SOURCE else f"{OTHER}{names.index(table.table.lower())}"
            return f"{name} AS {quoted(table.alias)}" if table.alias and table.alias != name else name

        return self.sql.written(text_of, read)

    @contextmanager
    def _tables(self, source: "DataFrame") -> Iterator[None]:
        source.createOrReplaceTempView(SOURCE)
        for number, rows in enumerate(self.others.values()):
            rows.createOrReplaceTempView(f"{OTHER}{number}")
        with no_files(self.spark):
            yield


def _asked_of_session(rows: "DataFrame") -> tuple[bool, bool]:
    """Tell whether the SQL asks for the time of the query, and for who runs it: the optimizer writes both into it."""
    spark, plan = rows.sparkSession, rows._jdf.queryExecution().analyzed()  # noqa: SLF001 -- as above
    java: Any = spark._jsparkSession  # noqa: SLF001 -- as above
    within = plan.subqueriesAll()

    def rule(name: str) -> Any:
        return java_class(f"org.apache.spark.sql.catalyst.optimizer.{name}")

    # Queries within are optimized for themselves, and functions are what they stand for by then.
    plans = [rule("ReplaceExpressions").apply(each) for each in (plan, *map(within.apply, range(within.size())))]

    def changed(*by: Any) -> bool:
        return any(not applied.apply(each).fastEquals(each) for applied in by for each in plans)

    return (
        changed(rule("ComputeCurrentTime"), rule("SpecialDatetimeValues")),
        changed(rule("ReplaceCurrentLike")(java.sessionState().catalogManager())),
    )


def at_fault(message: str, audiences: Sequence[Audience]) -> str | None:
    """Return the property whose value is what Spark could not cast, by Spark's own words; None if it was another."""
    if "CAST" not in message:
        return None
    for audience in audiences:
        for name, value in audience.values.items():
            if any(f"'{one}'" in message for one in ((value,) if isinstance(value, str) else value)):
                return name
    return None


def _listed(audience: Audience, asked: Asked) -> tuple[str, ...]:
    value = audience.values[asked.property]
    return (value,) if isinstance(value, str) else value


def _literals(audience: Audience) -> Callable[[Asked], str]:
    def said(asked: Asked) -> str:
        if asked.of_list:
            return ", ".join(map(literal, _listed(audience, asked)))
        return f"({literal(str(audience.values[asked.property]))})"

    return said


def _nothing(_: Asked) -> str:
    return "CAST(NULL AS STRING)"
