"""Checks of the listings: shares, schemas and tables, by pages and by name, and who may not see them."""

from collections.abc import Mapping
from typing import Any

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check
from delta_sharing_conformance.client import BOTH, Reply, segments
from delta_sharing_conformance.shared import Shared, items

ABSENT = "no_such_thing_9f4c1d27"
"""A name that nothing has."""


def page(reply: Reply) -> Mapping[str, Any]:
    """Expect a 200 of JSON whose items and nextPageToken, if there are any, are of their types."""
    expect.answered(reply)
    expect.that(reply.media == "application/json;charset=utf-8", f"{reply} with Content-Type {reply.media or 'none'}")
    found = expect.typed("the answer", reply.json, {})
    for name, kind in (("items", list), ("nextPageToken", str)):
        expect.that(isinstance(found.get(name, kind()), kind), f"{reply} with {name} of another type")
    return found


def paged(shared: Shared, path: str) -> str:
    """Expect pages of one item to be the listing, none of them longer."""
    whole = [item for reply in shared.pages(path) for item in page(reply).get("items", [])]
    single: list[Any] = []
    for reply in shared.pages(path, maxResults=1):
        found = page(reply).get("items", [])
        expect.that(len(found) <= 1, f"{reply} with {len(found)} items for maxResults=1")
        single += found
    expect.that(single == whole, f"GET {path} by pages of 1 gives {len(single)} items, at once {len(whole)}, or others")
    none = page(shared.client.get(path, maxResults=0)).get("items", [])
    expect.that(not none, f"GET {path} with maxResults=0 gives {len(none)} items")
    return f"{len(whole)} items in pages of 1"


def _first_share(shared: Shared) -> str:
    if not shared.shares:
        raise NotTried("the profile sees no share")
    return shared.shares[0]


def _fullest(shared: Shared) -> tuple[str, str]:
    """Return the schema that has the most tables."""
    if not shared.schemas:
        raise NotTried("the profile sees no schema")
    seen = [(table.share, table.schema) for table in shared.tables]
    return max(shared.schemas, key=seen.count)


@check("List Shares")
def lists_shares(shared: Shared) -> str:
    """Answer GET {prefix}/shares with application/json; charset=utf-8 and items that each have a name of their own."""
    names = [
        expect.typed("a share", item, {"name": str})["name"]
        for item in page(shared.client.get("/shares")).get("items", [])
    ]
    expect.that(len({name.lower() for name in names}) == len(names), "two shares have the same name")
    return f"{len(shared.shares)} shares"


@check("List Shares")
def pages_of_shares_are_the_listing(shared: Shared) -> str:
    """Give at most maxResults items a page, none for 0, and by nextPageToken the rest, each once."""
    return paged(shared, "/shares")


@check("List Shares")
def refuses_parameters_of_listings_that_are_wrong(shared: Shared) -> str:
    """Answer 400 with an error body to a negative or non-numeric maxResults and to a pageToken that it never gave."""
    for parameters in ({"maxResults": -1}, {"maxResults": "many"}, {"pageToken": ABSENT}):
        expect.refused(shared.client.ask("GET", "/shares", parameters=parameters), 400)
    return "3 requests"


@check("Get Share")
def gets_a_share_by_its_name(shared: Shared) -> str:
    """Answer GET {prefix}/shares/{share} with {"share": ...}, the same as in the listing."""
    listed = {item["name"]: item for item in shared.listed("/shares")}
    name = _first_share(shared)
    found = page(shared.client.get(segments(name))).get("share")
    expect.that(found == listed[name], f"GET {segments(name)} gives another share than the listing")
    return name


@check("List Schemas in a Share")
def lists_schemas(shared: Shared) -> str:
    """Name each schema and its share."""
    _first_share(shared)
    for share in shared.shares:
        for reply in shared.pages(f"{segments(share)}/schemas"):
            for item in page(reply).get("items", []):
                told = expect.typed("a schema", item, {"name": str, "share": str})
                expect.that(told["share"].lower() == share.lower(), f"a schema of {share} names another share")
    return f"{len(shared.schemas)} schemas"


@check("List Schemas in a Share")
def pages_of_schemas_are_the_listing(shared: Shared) -> str:
    """Give at most maxResults items a page, none for 0, and by nextPageToken the rest, each once."""
    return paged(shared, f"{segments(_fullest(shared)[0])}/schemas")


@check("List Tables in a Schema")
def lists_tables(shared: Shared) -> str:
    """Name each table, its schema and its share; its id, shareId and location are texts."""
    _fullest(shared)
    count = 0
    for share, schema in shared.schemas:
        for reply in shared.pages(f"{segments(share, schema)}/tables"):
            for item in page(reply).get("items", []):
                told = expect.typed("a table", item, {"name": str, "schema": str, "share": str})
                for name in ("id", "shareId", "location"):
                    expect.that(isinstance(told.get(name, ""), str), f"a table has a {name} that is no text")
                place = (told["share"].lower(), told["schema"].lower())
                expect.that(
                    place == (share.lower(), schema.lower()), f"a table of {share}.{schema} names another place"
                )
                count += 1
    return f"{count} tables"


@check("List Tables in a Schema")
def pages_of_tables_are_the_listing(shared: Shared) -> str:
    """Give at most maxResults items a page, none for 0, and by nextPageToken the rest, each once."""
    return paged(shared, f"{segments(*_fullest(shared))}/tables")


@check("List all Tables in a Share")
def all_tables_are_those_of_the_schemas(shared: Shared) -> str:
    """List the tables of all schemas of the share, and no other."""
    _first_share(shared)
    count = 0
    for share in shared.shares:
        everything = {(i["schema"], i["name"]) for i in shared.listed(f"{segments(share)}/all-tables")}
        one_by_one = {
            (schema, item["name"])
            for place, schema in shared.schemas
            if place == share
            for item in shared.listed(f"{segments(share, schema)}/tables")
        }
        expect.that(everything == one_by_one, f"{share}: all-tables has {len(everything)}, schemas {len(one_by_one)}")
        count += len(everything)
    return f"{count} tables"


@check("List all Tables in a Share")
def pages_of_all_tables_are_the_listing(shared: Shared) -> str:
    """Give at most maxResults items a page, none for 0, and by nextPageToken the rest, each once."""
    return paged(shared, f"{segments(_fullest(shared)[0])}/all-tables")


@check("Access Modes")
def names_known_access_modes(shared: Shared) -> str:
    """Say `url`, `dir` or both in accessModes, and a location where `dir` is one of them."""
    tables = [table for table in shared.tables if "accessModes" in table.entry]
    if not tables:
        raise NotTried("no table says accessModes, so all are read by URL")
    for table in tables:
        expect.that({*table.modes} <= {"url", "dir"}, f"{table.name} says {table.modes}")
        if "dir" in table.modes:
            expect.that(isinstance(table.entry.get("location"), str), f"{table.name} offers dir without a location")
    return f"{len(tables)} tables"


@check("REST APIs")
def names_are_case_insensitive(shared: Shared) -> str:
    """Find shares, schemas and tables whatever the case of the letters of their names."""
    swapped = segments(_first_share(shared).swapcase())
    for below in ("", "/schemas", "/all-tables"):
        expect.answered(shared.client.get(f"{swapped}{below}"))
    if not shared.readable:
        return "a share"
    table = shared.readable[0]
    path = segments(table.share.swapcase(), table.schema.swapcase(), table.table.swapcase())
    for below in ("/version", "/metadata"):
        other = expect.answered(shared.client.get(f"{path}{below}", BOTH))
        expect.that(other.version == table.latest, f"{other} with another version than {table.path}")
    return f"a share, {table.name}"


@check("REST APIs")
def answers_404_for_what_does_not_exist(shared: Shared) -> str:
    """Answer 404 with an error body at every endpoint for a share, schema or table that is not there."""
    share, schema = _fullest(shared)
    places = [(ABSENT, schema, ABSENT), (share, ABSENT, ABSENT), (share, schema, ABSENT)]
    paths = [
        segments(ABSENT),
        *(f"{segments(ABSENT)}/{below}" for below in ("schemas", "all-tables", "schemas/a/tables")),
    ]
    paths.append(f"{segments(share, ABSENT)}/tables")
    paths += [f"{segments(*place)}/{below}" for place in places for below in ("version", "metadata")]
    for path in paths:
        expect.refused(shared.client.get(path), 404)
    for place in places:
        expect.refused(shared.client.get(f"{segments(*place)}/changes", startingVersion=0), 404)
        expect.refused(shared.client.ask("POST", f"{segments(*place)}/query", body={}), 404)
    return f"{len(paths) + 2 * len(places)} requests"


@check("REST APIs")
def answers_401_without_a_token(shared: Shared) -> str:
    """Answer 401 to who comes without a bearer token, with a wrong one or with another scheme."""
    return _unauthenticated(shared, shape=False)


@check("REST APIs")
def its_401_has_an_error_body(shared: Shared) -> str:
    """Answer 401 with application/json and a body of errorCode and message."""
    return _unauthenticated(shared, shape=True)


def _unauthenticated(shared: Shared, *, shape: bool) -> str:
    paths = ["/shares", *(f"{table.path}/metadata" for table in shared.tables[:1])]
    headers = ({"Authorization": ""}, {"Authorization": f"Bearer {ABSENT}"}, {"Authorization": "Basic YTpi"})
    for path in paths:
        for header in headers:
            reply = shared.client.ask("GET", path, headers=header)
            expect.that(reply.status == 401, f"{reply}, not 401")  # noqa: PLR2004
            if shape:
                expect.shaped(reply)
    return f"{len(paths) * len(headers)} requests"


@check("List Shares")
def unknown_parameters_are_ignored(shared: Shared) -> str:
    """Ignore query parameters and headers that the protocol does not know."""
    asked = shared.client.ask("GET", "/shares", parameters={ABSENT: "1"}, headers={"X-No-Such-Thing": "1"})
    reply = expect.answered(asked)
    expect.that(len(items(reply)) <= len(shared.shares), f"{reply} with other shares")
    return "1 request"
