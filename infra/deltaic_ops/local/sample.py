"""Sample data of the demo: a vaccination register of fictitious patients, with the same rows on every machine.

vaccine_share.acme_vaccine_data.vaccine_patients      partitioned by `site`, change data feed on
    version 0   14 days of vaccinations
    version 1   2 more days are appended
    version 2   corrections and late entries of the last day are merged
    version 3   patients who withdrew their consent are deleted
vaccine_share.acme_vaccine_data.vaccine_ingredients   small, not partitioned
    version 0   ingredients of three vaccines
    version 1   one more vaccine is appended
vaccine_share.acme_vaccine_data.vaccine_deliveries    an Iceberg table in AWS Glue, partitioned by `site`
    version 1   deliveries of 14 days
    version 2   deliveries of 2 more days are appended
site_share.acme_vaccine_data.my_site                  the first table, filtered: each recipient gets the rows of the
                                                      site in their properties
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import deltalake
import numpy as np
import pyarrow as pa
from deltaic.errors import AlreadyExists

if TYPE_CHECKING:
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from numpy.typing import NDArray

SCHEMA = "acme_vaccine_data"
PATIENTS = ("vaccine_share", SCHEMA, "vaccine_patients")
INGREDIENTS = ("vaccine_share", SCHEMA, "vaccine_ingredients")
DELIVERIES = ("vaccine_share", SCHEMA, "vaccine_deliveries")
DATABASE = "vaccine"
"""AWS Glue database of the Iceberg table."""
MY_SITE = ("site_share", SCHEMA, "my_site")
SITE = "site"
"""Recipient property whose value selects the rows of the table `MY_SITE`."""

FIRST_DAY = np.datetime64("2026-03-02")
FIRST_DAYS, MORE_DAYS = 14, 2
A_DAY = 20_000
"""Number of vaccinations per day: 320,000 in total."""

LATE_ENTRIES = 250
CORRECTED_EVERY = 40
WITHDRAWN_EVERY = 997
REACTED_OF_10 = 3

VACCINES = ("Acmevax", "Covalent", "Immunara", "Novashield")
SITES = ("Aarhus", "Bergen", "Gdansk", "Leuven", "Malmo", "Porto", "Tartu", "Turku")
REACTIONS = ("fatigue", "fever", "headache", "sore arm")

Write = Callable[[str, Mapping[str, str]], None]
"""Function that writes the next version of the table at a location, with deltalake's storage options."""

Report = Callable[[str, int], None]
"""Function that receives the description of a written version, and its number."""


def publish(
    admin: "CatalogAdmin", location: str, storage: Mapping[str, str], report: Report, a_day: int = A_DAY
) -> None:
    """Write the tables to folders in `location` (`s3://bucket/prefix`) and share them.

    After an interruption, a second call writes only the missing versions, because step n always writes version n of a
    table. Complete tables are not changed.
    """
    for title, steps in ((PATIENTS, _patients(a_day)), (INGREDIENTS, _ingredients())):
        table_location = f"{location}/{title[2]}"
        existing = _version(table_location, storage)
        for version, (text, write) in enumerate(steps):
            if version > existing:
                write(table_location, storage)
            report(f"{title[2]}: {text}", version)
        _share(admin, title, table_location)
    folder = _write_deliveries(f"{location}/{DELIVERIES[2]}", storage, report)
    entry = {"format": "iceberg", "metadata_location": f"glue://{DATABASE}/{DELIVERIES[2]}", "iceberg": "signed"}
    _share(admin, DELIVERIES, folder, access_modes=("url", "dir"), **entry)
    _share(admin, MY_SITE, f"{location}/{PATIENTS[2]}", partition_filter=f"{SITE} = current_recipient('{SITE}')")


def vaccinations(first: int, count: int, a_day: int = A_DAY) -> pa.Table:
    """Return vaccinations `first` to `first + count - 1`; there are `a_day` per day, beginning with FIRST_DAY."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    days = FIRST_DAY + numbers // a_day
    seconds = 28_800 + _draw(numbers, "second", 36_000)
    decimals = pa.array(450 + _draw(numbers, "weight", 700)).cast(pa.decimal128(19, 0))
    rows: pa.Table = pa.table(
        {
            "patient_id": numbers,
            "date": days,
            "site": _draw_values(numbers, "site", SITES),
            "vaccine": _draw_values(numbers, "vaccine", VACCINES),
            "dose": (_draw(numbers, "dose", 3) + 1).astype(np.int32),
            "age": (_draw(numbers, "age", 73) + 18).astype(np.int32),
            "weight_kg": pa.Array.from_buffers(pa.decimal128(5, 1), count, decimals.buffers()),
            "reaction": _draw_values(numbers, "reaction", REACTIONS, _draw(numbers, "reacted", 10) < REACTED_OF_10),
            "administered_at": pa.array(days.astype("datetime64[us]") + seconds.astype("timedelta64[s]")).cast(
                pa.timestamp("us", "UTC")
            ),
        }
    )
    return rows


def corrections(a_day: int = A_DAY) -> pa.Table:
    """Return the rows to merge: every 40th vaccination of the last day with a corrected dose, and late entries."""
    last_day = (FIRST_DAYS + MORE_DAYS - 1) * a_day
    corrected = vaccinations(last_day, a_day, a_day).take(pa.array(range(0, a_day, CORRECTED_EVERY)))
    doses = corrected["dose"].to_numpy() % 3 + 1
    late = vaccinations(last_day + a_day, LATE_ENTRIES, a_day)
    previous_day = late["date"].to_numpy() - np.timedelta64(1, "D")
    merged_rows: pa.Table = pa.concat_tables(
        [_replace_column(corrected, "dose", doses.astype(np.int32)), _replace_column(late, "date", previous_day)]
    )
    return merged_rows


def ingredients(vaccines: Sequence[str]) -> pa.Table:
    """Return the ingredients of these vaccines, seven rows each."""
    parts = (
        ("active", "mRNA", 30.0),
        ("lipid", "ALC-0315", 430.0),
        ("lipid", "DSPC", 90.0),
        ("lipid", "cholesterol", 200.0),
        ("buffer", "tromethamine", 60.0),
        ("sugar", "sucrose", 31_800.0),
        ("solvent", "water for injection", 268_000.0),
    )
    return pa.Table.from_pylist(
        [
            {
                "vaccine": vaccine,
                "position": position,
                "kind": kind,
                "ingredient": name,
                "micrograms": micrograms * (1 + VACCINES.index(vaccine) / 10),
            }
            for vaccine in vaccines
            for position, (kind, name, micrograms) in enumerate(parts, 1)
        ]
    )


def deliveries(first_day: int, days: int) -> pa.Table:
    """Return the deliveries of `days` days from day `first_day` on: one a day to each site."""
    numbers = np.arange(first_day * len(SITES), (first_day + days) * len(SITES), dtype=np.int64)
    rows: pa.Table = pa.table(
        {
            "delivery_id": numbers,
            "date": FIRST_DAY + numbers // len(SITES),
            "site": pa.array(SITES).take(pa.array(numbers % len(SITES))),
            "vaccine": _draw_values(numbers, "delivered", VACCINES),
            "doses": (_draw(numbers, "doses", 40) + 10) * 100,
        }
    )
    return rows


def _write_deliveries(location: str, storage: Mapping[str, str], report: Report) -> str:
    """Write the missing versions of the Iceberg table, and return its folder."""
    from pyiceberg.catalog.glue import GlueCatalog

    keys = {"access-key-id": "AWS_ACCESS_KEY_ID", "secret-access-key": "AWS_SECRET_ACCESS_KEY", "region": "AWS_REGION"}
    properties = {f"client.{name}": storage[variable] for name, variable in keys.items()}
    properties |= {f"{service}.endpoint": storage["AWS_ENDPOINT_URL"] for service in ("glue", "s3")}
    catalog = GlueCatalog("vaccine", **properties)
    catalog.create_namespace_if_not_exists(DATABASE)
    table = catalog.create_table_if_not_exists(f"{DATABASE}.{DELIVERIES[2]}", deliveries(0, 0).schema, location)
    existing = len(table.snapshots())
    if table.spec().is_unpartitioned():
        with table.update_spec() as update:
            update.add_identity(SITE)
    steps = (("deliveries of 14 days", 0, FIRST_DAYS), ("2 more days are appended", FIRST_DAYS, MORE_DAYS))
    for version, (text, first_day, days) in enumerate(steps, 1):
        if version > existing:
            table.append(deliveries(first_day, days))
        report(f"{DELIVERIES[2]}: {text}", version)
    return table.location()


def _patients(a_day: int) -> Sequence[tuple[str, Write]]:
    first, more = FIRST_DAYS * a_day, MORE_DAYS * a_day
    return (
        (
            f"{first:,} vaccinations of {FIRST_DAYS} days",
            _append(lambda: vaccinations(0, first, a_day), partition_by=[SITE]),
        ),
        (f"{more:,} more are appended", _append(lambda: vaccinations(first, more, a_day), partition_by=[SITE])),
        ("corrections and late entries are merged", lambda location, storage: _merge(location, storage, a_day)),
        ("withdrawn consents are deleted", lambda location, storage: _withdraw(location, storage, a_day)),
    )


def _ingredients() -> Sequence[tuple[str, Write]]:
    return (
        ("ingredients of 3 vaccines", _append(lambda: ingredients(VACCINES[:3]))),
        ("one more vaccine is appended", _append(lambda: ingredients(VACCINES[3:]))),
    )


def _append(rows: Callable[[], pa.Table], **options: Any) -> Write:
    def write(location: str, storage: Mapping[str, str]) -> None:
        properties = {"delta.enableChangeDataFeed": "true"}
        deltalake.write_deltalake(
            location, rows(), mode="append", configuration=properties, storage_options=dict(storage), **options
        )

    return write


def _merge(location: str, storage: Mapping[str, str], a_day: int) -> None:
    table = deltalake.DeltaTable(location, storage_options=dict(storage))
    condition = "known.patient_id = new.patient_id AND known.date = new.date AND known.site = new.site"
    merge = table.merge(corrections(a_day), condition, source_alias="new", target_alias="known")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _withdraw(location: str, storage: Mapping[str, str], a_day: int) -> None:
    table = deltalake.DeltaTable(location, storage_options=dict(storage))
    table.delete(f"patient_id < {2 * a_day} AND patient_id % {WITHDRAWN_EVERY} = 0")


def _version(location: str, storage: Mapping[str, str]) -> int:
    if not deltalake.DeltaTable.is_deltatable(location, storage_options=dict(storage)):
        return -1
    return deltalake.DeltaTable(location, storage_options=dict(storage)).version()


def _share(admin: "CatalogAdmin", title: tuple[str, str, str], location: str, **options: Any) -> None:
    share, schema, table = title
    with suppress(AlreadyExists):
        admin.shares.create(share)
    with suppress(AlreadyExists):
        admin.schemas.create(share, schema)
    with suppress(AlreadyExists):
        admin.tables.create(share, schema, table, location, history=True, **options)


def _draw(numbers: "NDArray[np.int64]", purpose: str, limit: int) -> "NDArray[np.int64]":
    """Return a pseudorandom integer below `limit` for each number, which depends only on number and purpose."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(purpose.encode()[:8]))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(limit)).astype(np.int64)


def _draw_values(
    numbers: "NDArray[np.int64]", purpose: str, values: Sequence[str], mask: "NDArray[np.bool_] | None" = None
) -> pa.Array:
    indexes = pa.array(_draw(numbers, purpose, len(values)), mask=None if mask is None else ~mask)
    return pa.array(values).take(indexes)


def _replace_column(table: pa.Table, column: str, values: Any) -> pa.Table:
    replaced: pa.Table = table.set_column(table.schema.get_field_index(column), table.schema.field(column), [values])
    return replaced
