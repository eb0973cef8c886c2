"""Checks of listings of shares, schemas and tables: pages, names, errors and authentication."""

from collections.abc import Callable, Mapping
from typing import Any

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog, items
from delta_sharing_conformance.check import Check, CheckSkipped, check
from delta_sharing_conformance.client import BOTH, Reply, segments

ABSENT = "no_such_thing_9f4c1d27"
"""Name that no share, schema or table has."""


def listing_page(reply: Reply) -> Mapping[str, Any]:
    """Expect a valid page of a listing, and return the fields of its JSON object."""
    expect.ok(reply)
    expect.that(reply.media == "application/json;charset=utf-8", f"{reply} with Content-Type {reply.media or 'none'}")
    page = expect.fields("the response", reply.json, {})
    for name, kind in (("items", list), ("nextPageToken", str)):
        expect.that(isinstance(page.get(name, kind()), kind), f"{reply} with {name} of the wrong type")
    return page


def check_pages(catalog: Catalog, path: str) -> str:
    """Expect pages with one item each to contain the same items as the complete listing at a path."""
    expected = [item for reply in catalog.pages(path) for item in listing_page(reply).get("items", [])]
    actual: list[Any] = []
    for reply in catalog.pages(path, maxResults=1):
        page_items = listing_page(reply).get("items", [])
        expect.that(len(page_items) <= 1, f"{reply} with {len(page_items)} items for maxResults=1")
        actual += page_items
    message = f"GET {path} lists {len(actual)} items in pages of 1, and {len(expected)} or others without maxResults"
    expect.that(actual == expected, message)
    empty = listing_page(catalog.client.get(path, maxResults=0)).get("items", [])
    expect.that(not empty, f"GET {path} with maxResults=0 lists {len(empty)} items")
    return f"{len(expected)} items in pages of 1"


def _first_share(catalog: Catalog) -> str:
    if not catalog.shares:
        raise CheckSkipped("no shares")
    return catalog.shares[0]


def _largest_schema(catalog: Catalog) -> tuple[str, str]:
    """Return the names of the share and schema that have the most tables."""
    if not catalog.schemas:
        raise CheckSkipped("no shared schemas")
    schemas = [(table.share, table.schema) for table in catalog.tables]
    return max(catalog.schemas, key=schemas.count)


def _page_check(section: str, name: str, path: Callable[[Catalog], str]) -> Check:
    first_title, title = f"pages of {name} are the listing", f"pages of {name} equal the listing"
    remedy = "Return at most maxResults items per page, none for 0, and each item once on all pages."
    return Check(first_title, title, section, remedy, lambda catalog: check_pages(catalog, path(catalog)))


@check("List Shares")
def lists_shares(catalog: Catalog) -> str:
    """Respond to GET {prefix}/shares with application/json; charset=utf-8 and items with unique names."""
    names = [
        expect.fields("a share", item, {"name": str})["name"]
        for item in listing_page(catalog.client.get("/shares")).get("items", [])
    ]
    expect.that(len({name.lower() for name in names}) == len(names), "two shares have the same name")
    return f"{len(catalog.shares)} shares"


share_pages_equal_the_listing = _page_check("List Shares", "shares", lambda _: "/shares")


@check("List Shares", id="refuses parameters of listings that are wrong")
def invalid_listing_parameters_are_rejected(catalog: Catalog) -> str:
    """Return 400 and an error body for a negative or non-numeric maxResults and for an unknown pageToken."""
    for parameters in ({"maxResults": -1}, {"maxResults": "many"}, {"pageToken": ABSENT}):
        expect.error(catalog.client.ask("GET", "/shares", parameters=parameters), 400)
    return "3 requests"


@check("Get Share")
def gets_a_share_by_its_name(catalog: Catalog) -> str:
    """Respond to GET {prefix}/shares/{share} with {"share": ...}, with the same content as in the listing."""
    shares = {item["name"]: item for item in catalog.list_items("/shares")}
    name = _first_share(catalog)
    share = listing_page(catalog.client.get(segments(name))).get("share")
    expect.that(share == shares[name], f"GET {segments(name)} differs from the listing")
    return name


@check("List Schemas in a Share")
def lists_schemas(catalog: Catalog) -> str:
    """List each schema with its name and share."""
    _first_share(catalog)
    for share in catalog.shares:
        for reply in catalog.pages(f"{segments(share)}/schemas"):
            for item in listing_page(reply).get("items", []):
                entry = expect.fields("a schema", item, {"name": str, "share": str})
                expect.that(entry["share"].lower() == share.lower(), f"a schema of {share} has the wrong share")
    return f"{len(catalog.schemas)} schemas"


schema_pages_equal_the_listing = _page_check(
    "List Schemas in a Share", "schemas", lambda catalog: f"{segments(_largest_schema(catalog)[0])}/schemas"
)


@check("List Tables in a Schema")
def lists_tables(catalog: Catalog) -> str:
    """List each table with its name, schema and share. The values of id, shareId and location are strings."""
    _largest_schema(catalog)
    count = 0
    for share, schema in catalog.schemas:
        for reply in catalog.pages(f"{segments(share, schema)}/tables"):
            for item in listing_page(reply).get("items", []):
                entry = expect.fields("a table", item, {"name": str, "schema": str, "share": str})
                for name in ("id", "shareId", "location"):
                    expect.that(isinstance(entry.get(name, ""), str), f"a table has a {name} that is not a string")
                actual = (entry["share"].lower(), entry["schema"].lower())
                message = f"a table of {share}.{schema} has the wrong share or schema"
                expect.that(actual == (share.lower(), schema.lower()), message)
                count += 1
    return f"{count} tables"


table_pages_equal_the_listing = _page_check(
    "List Tables in a Schema", "tables", lambda catalog: f"{segments(*_largest_schema(catalog))}/tables"
)


@check("List all Tables in a Share", id="all tables are those of the schemas")
def all_tables_equal_the_tables_of_the_schemas(catalog: Catalog) -> str:
    """List exactly the tables of all schemas of the share."""
    _first_share(catalog)
    count = 0
    for share in catalog.shares:
        all_tables = {(item["schema"], item["name"]) for item in catalog.list_items(f"{segments(share)}/all-tables")}
        by_schema = {
            (schema, item["name"])
            for schema_share, schema in catalog.schemas
            if schema_share == share
            for item in catalog.list_items(f"{segments(share, schema)}/tables")
        }
        message = f"{share}: all-tables lists {len(all_tables)} tables, its schemas {len(by_schema)} or others"
        expect.that(all_tables == by_schema, message)
        count += len(all_tables)
    return f"{count} tables"


all_tables_pages_equal_the_listing = _page_check(
    "List all Tables in a Share", "all tables", lambda catalog: f"{segments(_largest_schema(catalog)[0])}/all-tables"
)


@check("Access Modes", id="names known access modes")
def access_modes_are_valid(catalog: Catalog) -> str:
    """List `url`, `dir` or both in accessModes, and a location if `dir` is one of them."""
    tables = [table for table in catalog.tables if "accessModes" in table.entry]
    if not tables:
        raise CheckSkipped("no shared table has accessModes, so all use signed URLs")
    for table in tables:
        expect.that({*table.access_modes} <= {"url", "dir"}, f"{table.name} has accessModes {table.access_modes}")
        if "dir" in table.access_modes:
            expect.that(isinstance(table.entry.get("location"), str), f"{table.name} has mode dir and no location")
    return f"{len(tables)} tables"


@check("REST APIs")
def names_are_case_insensitive(catalog: Catalog) -> str:
    """Match names of shares, schemas and tables case-insensitively."""
    swapped = segments(_first_share(catalog).swapcase())
    for suffix in ("", "/schemas", "/all-tables"):
        expect.ok(catalog.client.get(f"{swapped}{suffix}"))
    if not catalog.readable:
        return "a share"
    table = catalog.readable[0]
    path = segments(table.share.swapcase(), table.schema.swapcase(), table.table.swapcase())
    for suffix in ("/version", "/metadata"):
        reply = expect.ok(catalog.client.get(f"{path}{suffix}", BOTH))
        expect.that(reply.version == table.latest, f"{reply} with a different version than {table.path}")
    return f"a share, {table.name}"


@check("REST APIs", id="answers 404 for what does not exist")
def missing_items_return_404(catalog: Catalog) -> str:
    """Return 404 and an error body from every endpoint for an unknown share, schema or table."""
    share, schema = _largest_schema(catalog)
    names = [(ABSENT, schema, ABSENT), (share, ABSENT, ABSENT), (share, schema, ABSENT)]
    paths = [
        segments(ABSENT),
        *(f"{segments(ABSENT)}/{suffix}" for suffix in ("schemas", "all-tables", "schemas/a/tables")),
    ]
    paths.append(f"{segments(share, ABSENT)}/tables")
    paths += [f"{segments(*parts)}/{suffix}" for parts in names for suffix in ("version", "metadata")]
    for path in paths:
        expect.error(catalog.client.get(path), 404)
    for parts in names:
        expect.error(catalog.client.get(f"{segments(*parts)}/changes", startingVersion=0), 404)
        expect.error(catalog.client.ask("POST", f"{segments(*parts)}/query", body={}), 404)
    return f"{len(paths) + 2 * len(names)} requests"


@check("REST APIs", id="answers 401 without a token")
def requests_without_a_valid_token_return_401(catalog: Catalog) -> str:
    """Return 401 for a missing or unknown bearer token, or another authentication scheme."""
    return _unauthenticated(catalog, with_body=False)


@check("REST APIs", id="its 401 has an error body")
def a_401_response_has_an_error_body(catalog: Catalog) -> str:
    """Return application/json with errorCode and message in a 401 response."""
    return _unauthenticated(catalog, with_body=True)


def _unauthenticated(catalog: Catalog, *, with_body: bool) -> str:
    paths = ["/shares", *(f"{table.path}/metadata" for table in catalog.tables[:1])]
    headers = ({"Authorization": ""}, {"Authorization": f"Bearer {ABSENT}"}, {"Authorization": "Basic YTpi"})
    for path in paths:
        for header in headers:
            reply = catalog.client.ask("GET", path, headers=header)
            expect.that(reply.status == 401, f"{reply}, not 401")  # noqa: PLR2004
            if with_body:
                expect.error_body(reply)
    return f"{len(paths) * len(headers)} requests"


@check("List Shares")
def unknown_parameters_are_ignored(catalog: Catalog) -> str:
    """Ignore unknown query parameters and headers."""
    reply = catalog.client.ask("GET", "/shares", parameters={ABSENT: "1"}, headers={"X-No-Such-Thing": "1"})
    expect.that(len(items(expect.ok(reply))) <= len(catalog.shares), f"{reply} with additional shares")
    return "1 request"
