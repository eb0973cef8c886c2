"""JSON of shares, schemas and tables in listings."""

from datetime import UTC, datetime

from deltaic.catalog.items import Schema, Share, Table
from deltaic.protocol import json_bodies
from deltaic.sharing import catalog_listing

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = {
    "name": "vaccine_patients",
    "schema": "acme_vaccine_data",
    "share": "vaccine_share",
    "shareId": "edacc4a7-6600-4fbb-85f3-a62a5ce6761f",
    "id": "c48f3e19-2c29-4ea3-b6f7-3899e53338fa",
}


def table(*access_modes: str) -> Table:
    return Table.read({
        "name": TABLE["name"],
        "schema_name": TABLE["schema"],
        "share": TABLE["share"],
        "share_id": TABLE["shareId"],
        "id": TABLE["id"],
        "location": "s3://deltasharing/vaccine_share/acme_vaccine_data/vaccine_patients",
        "auxiliary_locations": ["s3://deltasharing/more"],
        "access_modes": access_modes,
        "created_at": CREATED,
    })  # fmt: skip


def test_a_share_with_all_its_fields() -> None:
    share = Share(
        name="vaccine_share",
        id="edacc4a7-6600-4fbb-85f3-a62a5ce6761f",
        display_name="Vaccine Share",
        comment="d\u00e9mo\u2028",
        properties={"owner": "vaccine-team"},
        created_at=CREATED,
    )
    assert json_bodies.encode({"share": catalog_listing._share(share)}) == (
        b'{"share":{"name":"vaccine_share","id":"edacc4a7-6600-4fbb-85f3-a62a5ce6761f","displayName":"Vaccine Share",'
        b'"comment":"d\\u00e9mo\\u2028","properties":{"owner":"vaccine-team"}}}'
    )


def test_absent_fields_are_omitted() -> None:
    assert catalog_listing._share(Share(name="s", id="", created_at=CREATED)) == {"name": "s"}
    assert catalog_listing._schema(Schema(name="d", share="s", share_id="", created_at=CREATED)) == {
        "name": "d",
        "share": "s",
    }


def test_table_equals_the_example_of_the_protocol() -> None:
    assert catalog_listing._table(table("url", "dir")) == {
        **TABLE,
        "location": "s3://deltasharing/vaccine_share/acme_vaccine_data/vaccine_patients",
        "auxiliaryLocations": ["s3://deltasharing/more"],
        "accessModes": ["url", "dir"],
    }


def test_only_directory_access_shows_the_location() -> None:
    assert catalog_listing._table(table("url")) == {**TABLE, "accessModes": ["url"]}
