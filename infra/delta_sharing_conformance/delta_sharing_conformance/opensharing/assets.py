"""Find shared volumes, skills and models, and define the checks that apply to all these kinds of assets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog
from delta_sharing_conformance.check import Check, CheckSkipped
from delta_sharing_conformance.client import segments
from delta_sharing_conformance.expect import Keys
from delta_sharing_conformance.listings import ABSENT, check_pages, listing_page
from delta_sharing_conformance.urls import check_credentials
from delta_sharing_conformance.versions import NOT_OFFERED


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of shared asset: volumes, skills or models."""

    name: str
    """Name of the kind in URL paths: volume, skill or model."""
    section: str
    """Section of the OpenSharing specification that defines the kind."""
    credentials: str
    """Last part of the URL path at which a server issues temporary credentials for an asset."""
    keys: Keys = field(compare=False)
    """Required fields of each asset, with their types."""

    @property
    def plural(self) -> str:
        """Name of the kind in the URL path of listings: volumes, skills or models."""
        return f"{self.name}s"


@dataclass(frozen=True, slots=True)
class Asset:
    """A shared volume, skill or model."""

    kind: Kind
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Full name: share.schema.asset."""
        return ".".join(str(self.entry.get(part, "")) for part in ("share", "schema", "name"))

    @property
    def path(self) -> str:
        """URL path of the asset below the server's endpoint."""
        return schema_path(self.kind, self.entry) + f"/{quote(str(self.entry['name']), safe='')}"


def schema_path(kind: Kind, entry: Mapping[str, Any]) -> str:
    """Return the URL path that lists the assets of a kind in one schema; `entry` names its share and schema."""
    return f"{segments(str(entry['share']), str(entry['schema']))}/{kind.plural}"


@lru_cache(maxsize=8)  # used by several checks
def assets_of(catalog: Catalog, kind: Kind) -> Sequence[Asset]:
    """Return all shared assets of a kind; raises CheckSkipped if there are none."""
    assets = [Asset(kind, item) for share in catalog.shares for item in _all(catalog, kind, share)]
    if not assets:
        raise CheckSkipped(f"no shared {kind.plural}")
    return assets


def _all(catalog: Catalog, kind: Kind, share: str) -> Iterator[Mapping[str, Any]]:
    for reply in catalog.pages(f"{segments(share)}/all-{kind.plural}"):
        if reply.status in NOT_OFFERED:
            raise CheckSkipped(f"the server does not support {kind.plural}: {reply}")
        for item in listing_page(reply).get("items", []):
            yield expect.fields(f"a {kind.name}", item, kind.keys)


def _check_listing(catalog: Catalog, kind: Kind) -> str:
    """Expect assets to have unique names and to belong to listed shares."""
    assets = assets_of(catalog, kind)
    shares = {share.lower() for share in catalog.shares}
    for asset in assets:
        expect.that(asset.entry["share"].lower() in shares, f"{asset.name} has a share that is not listed")
    expect.that(len({asset.name.lower() for asset in assets}) == len(assets), f"two {kind.plural} have the same name")
    return f"{len(assets)} {kind.plural}"


def _check_schemas(catalog: Catalog, kind: Kind) -> str:
    """Expect the listings of all schemas to contain the same assets as the listing of the share."""
    assets = assets_of(catalog, kind)
    for share in {str(asset.entry["share"]) for asset in assets}:
        in_share = [asset.entry for asset in assets if asset.entry["share"] == share]
        schemas = {schema for schema_share, schema in catalog.schemas if schema_share.lower() == share.lower()}
        in_schemas = [
            item
            for schema in schemas
            for reply in catalog.pages(schema_path(kind, {"share": share, "schema": schema}))
            for item in listing_page(reply).get("items", [])
        ]
        message = f"{share}: all-{kind.plural} lists {len(in_share)}, its schemas {len(in_schemas)} or others"
        expect.that(sorted(map(_key, in_share)) == sorted(map(_key, in_schemas)), message)
    return f"{len(assets)} {kind.plural}"


def _key(entry: Mapping[str, Any]) -> tuple[str, str]:
    return str(entry["schema"]).lower(), str(entry["name"]).lower()


def _check_pages(catalog: Catalog, kind: Kind) -> str:
    """Expect pages with one asset each to contain the same assets as the complete listing."""
    first = assets_of(catalog, kind)[0].entry
    check_pages(catalog, schema_path(kind, first))
    return check_pages(catalog, f"{segments(str(first['share']))}/all-{kind.plural}")


def _check_names(catalog: Catalog, kind: Kind) -> str:
    """Expect the response for each asset's name to have the same content as the listing."""
    assets = assets_of(catalog, kind)
    for asset in assets:
        entry = expect.fields("the response", listing_page(catalog.client.get(asset.path)), kind.keys)
        expect.that(entry == asset.entry, f"GET {asset.path} differs from the listing")
    return f"{len(assets)} {kind.plural}"


def _check_unknown_name(catalog: Catalog, kind: Kind) -> str:
    """Expect 404 and an error body for an unknown asset, and for its credentials."""
    asset = assets_of(catalog, kind)[0]
    path = f"{schema_path(kind, asset.entry)}/{ABSENT}"
    expect.error(catalog.client.get(path), 404)
    expect.error(catalog.client.ask("POST", f"{path}/{kind.credentials}", body={}), 404)
    return "2 requests"


def _issues_credentials(catalog: Catalog, path: str) -> bool:
    """Request credentials for an asset, and return whether the server issues them; otherwise expect an error body."""
    reply = catalog.client.ask("POST", path, body={})
    if reply.status in {httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN}:
        expect.error_body(reply)
        return False
    credentials = expect.fields("the response", expect.ok(reply).json, {"expirationTime": int})
    expect.that("credentials" not in credentials, f"{reply} with nested credentials, which only tables have")
    check_credentials(credentials)
    return True


def check_all_credentials(catalog: Catalog, paths: Sequence[str], name: str) -> str:
    """Check the credentials of each asset; raises CheckSkipped if the server issues none."""
    count = sum(_issues_credentials(catalog, path) for path in paths)
    if not count:
        raise CheckSkipped(f"the server issues no credentials for any {name}")
    return f"{count} of {len(paths)}"


def _check_credentials(catalog: Catalog, kind: Kind) -> str:
    paths = [f"{asset.path}/{kind.credentials}" for asset in assets_of(catalog, kind)]
    return check_all_credentials(catalog, paths, kind.name)


def listing_checks(kind: Kind) -> Sequence[Check]:
    """Return the checks of the listings, names and credentials of a kind of asset."""
    name, plural = kind.name, kind.plural
    checks = [
        (
            f"lists {plural}",
            f"Respond to GET .../all-{plural} with unique items that have {', '.join(kind.keys)}.",
            _check_listing,
        ),
        (
            f"pages of {plural} are the listing",
            f"Return at most maxResults {plural} per page, none for 0, and each {name} once on all pages.",
            _check_pages,
        ),
        (
            f"all {plural} are those of the schemas",
            f"List the schema of each {name}, and its {plural} in .../schemas/{{schema}}/{plural}.",
            _check_schemas,
        ),
        (
            f"gets a {name} by its name",
            f"Respond to GET .../{plural}/{{{name}}} with the same content as in the listing.",
            _check_names,
        ),
        (
            f"{plural} that do not exist are not found",
            f"Return 404 and an error body for an unknown {name}, and for its credentials.",
            _check_unknown_name,
        ),
    ]
    if kind.name != "model":
        remedy = f"Respond to POST .../{kind.credentials} with expirationTime and credentials of one type."
        checks.append((f"credentials of {plural} are given", remedy, _check_credentials))
    return [Check(title, title, kind.section, remedy, partial(run, kind=kind)) for title, remedy, run in checks]
