"""The data that the demo shares: a vaccination register of invented people, the same rows on every machine.

Two tables of one schema, `vaccine_share.acme_vaccine_data`:

    vaccine_patients      partitioned by `date`, change data feed on
        version 0   14 days of vaccinations
        version 1   2 more days are appended
        version 2   corrections and late entries of the last day are merged
        version 3   people who withdrew their consent are deleted
    vaccine_ingredients   small, not partitioned
        version 0   what the vaccines are made of
        version 1   one more vaccine is appended

And a view of the first, `my_site`, in which a recipient finds the vaccinations of the site that is its property.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from deltaic_pipeline.lease import hold, holder_name
from deltaic_pipeline.register import Catalog, TableName
from deltaic_pipeline.sources import catalog_location, spark_path
from deltaic_pipeline.steps import Progress, silent, step
from deltaic_pipeline.target import Target
from deltaic_pipeline.writing import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARE = "vaccine_share"
SCHEMA = "acme_vaccine_data"
PATIENTS = TableName(SHARE, SCHEMA, "vaccine_patients")
INGREDIENTS = TableName(SHARE, SCHEMA, "vaccine_ingredients")
MY_SITE = TableName("site_share", SCHEMA, "my_site")
"""In a share of its own: who holds it reaches nothing of the tables that it is made of."""

SITE = "site"
"""The property of recipients that the view asks for."""

MY_SITE_SQL = """SELECT patient_id, date, site, vaccine, dose, reaction
FROM source
WHERE site = current_recipient('site')"""

FIRST_DAY = "2026-03-02"
FIRST_DAYS = 14
MORE_DAYS = 2
A_DAY = 20_000
"""Vaccinations a day: 320,000 in all."""

CORRECTED_EVERY = 40
WITHDRAWN_EVERY = 997
LATE_ENTRIES = 250
"""No more than there are vaccinations a day."""
WAIT = timedelta(seconds=90)

VACCINES = ("Acmevax", "Covalent", "Immunara", "Novashield")
SITES = ("Aarhus", "Bergen", "Gdansk", "Leuven", "Malmo", "Porto", "Tartu", "Turku")
REACTIONS = ("fatigue", "fever", "headache", "sore arm")


@dataclass(frozen=True, slots=True)
class Shared:
    """One table of the sample, as it stands after the last step."""

    name: TableName
    location: str
    version: int


def patients(spark: "SparkSession", first: int, count: int, a_day: int = A_DAY) -> "DataFrame":
    """Return the vaccinations numbered `first` to `first + count - 1`: `a_day` a day from `FIRST_DAY` on."""
    number = "id"

    def drawn(what: str, among: int) -> str:
        """Draw a whole number below `among`: always the same for one person and purpose."""
        return f"pmod(xxhash64({number}, '{what}'), {among})"

    def one_of(what: str, values: Sequence[str]) -> str:
        listed = ", ".join(f"'{value}'" for value in values)
        return f"element_at(array({listed}), int({drawn(what, len(values))}) + 1)"

    return spark.range(first, first + count, numPartitions=2).selectExpr(
        "id AS patient_id",
        f"date_add(DATE'{FIRST_DAY}', int(id div {a_day})) AS date",
        f"{one_of('site', SITES)} AS site",
        f"{one_of('vaccine', VACCINES)} AS vaccine",
        f"int({drawn('dose', 3)}) + 1 AS dose",
        f"int({drawn('age', 73)}) + 18 AS age",
        f"CAST(45 + {drawn('weight', 700)} / 10 AS DECIMAL(5, 1)) AS weight_kg",
        f"CASE WHEN {drawn('reacted', 10)} < 3 THEN {one_of('reaction', REACTIONS)} END AS reaction",
        f"timestamp_seconds(unix_seconds(timestamp(date_add(DATE'{FIRST_DAY}', int(id div {a_day}))))"
        f" + 28800 + {drawn('second', 36_000)}) AS administered_at",
    )


def corrections(spark: "SparkSession", a_day: int = A_DAY) -> "DataFrame":
    """Return what is merged: every 40th vaccination of the last day with its dose put right, and late entries."""
    last_day = (FIRST_DAYS + MORE_DAYS - 1) * a_day
    corrected = patients(spark, last_day, a_day, a_day).where(f"patient_id % {CORRECTED_EVERY} = 0")
    corrected = corrected.selectExpr("* EXCEPT (dose)", "dose % 3 + 1 AS dose").select(*corrected.columns)
    late = patients(spark, last_day + a_day, LATE_ENTRIES, a_day).selectExpr(
        "* EXCEPT (date)", "date_sub(date, 1) AS date"
    )
    return corrected.unionByName(late)


def ingredients(spark: "SparkSession", vaccines: Sequence[str]) -> "DataFrame":
    """Return the ingredients of some vaccines, seven rows each."""
    parts = (
        ("active", "mRNA", 30.0),
        ("lipid", "ALC-0315", 430.0),
        ("lipid", "DSPC", 90.0),
        ("lipid", "cholesterol", 200.0),
        ("buffer", "tromethamine", 60.0),
        ("sugar", "sucrose", 31_800.0),
        ("solvent", "water for injection", 268_000.0),
    )
    rows = [
        (vaccine, position, kind, name, micrograms * (1 + VACCINES.index(vaccine) / 10))
        for vaccine in vaccines
        for position, (kind, name, micrograms) in enumerate(parts, 1)
    ]
    schema = "vaccine string, position int, kind string, ingredient string, micrograms double"
    return spark.createDataFrame(rows, schema).coalesce(1)


def publish_sample(
    spark: "SparkSession", location: str, catalog: Catalog, progress: Progress = silent, a_day: int = A_DAY
) -> tuple[Shared, ...]:
    """Write both tables below `location` (`s3://bucket/prefix`), register them, and return them.

    Every step is a run with a name of its own, so an interrupted publication is completed by calling this again, and a
    complete one commits nothing. Raises as `publish` does.
    """
    own = spark.newSession()
    shared = []
    for name, place, steps in _plan(own, location, a_day):
        where = catalog_location(place)
        catalog.register.check(name, where)
        with ExitStack() as stack:
            held = stack.enter_context(hold(catalog.leases, where, holder_name("sample"), wait=WAIT))
            held.on_loss(spark.sparkContext.cancelAllJobs)
            version = -1
            for text, run in steps:
                with step(progress, f"{name.table}: {text}") as tell:
                    version = run()
                    held.confirm()
                    tell(f"version {version}")
            catalog.register.register(name, where, history=True)
        shared.append(Shared(name, where, version))
    return tuple(shared)


Plan: TypeAlias = Sequence[tuple[TableName, str, Sequence[tuple[str, Callable[[], int]]]]]
"""For each table its name, its location and its runs: what one says of itself, and what writes a version."""


def _plan(own: "SparkSession", location: str, a_day: int) -> Plan:
    big = Target(f"{location}/{PATIENTS.table}", mode="append", partition_by=("date",))
    merged = Target(big.location, mode="merge", keys=("patient_id", "date"))
    small = Target(f"{location}/{INGREDIENTS.table}", mode="append")
    first, more = FIRST_DAYS * a_day, MORE_DAYS * a_day

    def written(rows: "DataFrame", target: Target, run: str) -> Callable[[], int]:
        return lambda: write(own, rows, target, f"sample-{run}").version

    return (
        (
            PATIENTS,
            big.location,
            (
                (
                    f"{first:,} vaccinations of {FIRST_DAYS} days",
                    written(patients(own, 0, first, a_day), big, "initial"),
                ),
                (
                    f"{more:,} more are appended",
                    written(patients(own, first, more, a_day), big, "append"),
                ),
                ("corrections and late entries are merged", written(corrections(own, a_day), merged, "corrections")),
                ("withdrawn consents are deleted", lambda: _withdraw(own, big.location)),
            ),
        ),
        (
            INGREDIENTS,
            small.location,
            (
                ("ingredients of 3 vaccines", written(ingredients(own, VACCINES[:3]), small, "initial")),
                ("one more vaccine is appended", written(ingredients(own, VACCINES[3:]), small, "append")),
            ),
        ),
    )


def _withdraw(spark: "SparkSession", location: str) -> int:
    """Delete those who withdrew; deleting them again finds nobody and commits nothing."""
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, spark_path(location))
    first_days = f"date < date_add(DATE'{FIRST_DAY}', 2)"  # few files are rewritten
    table.delete(f"{first_days} AND patient_id % {WITHDRAWN_EVERY} = 0")
    latest = table.history(1).select("version").first()
    return int(latest["version"]) if latest is not None else -1
