"""Assets that are folders, as a profile sees them, and what is alike in the checks of each kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import Check, NotTried
from delta_sharing_conformance.client import segments
from delta_sharing_conformance.expect import Keys
from delta_sharing_conformance.listings import ABSENT, page, paged
from delta_sharing_conformance.shared import Shared
from delta_sharing_conformance.urls import temporary_credentials
from delta_sharing_conformance.versions import NOT_OFFERED


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of asset."""

    name: str
    """As in its endpoints: volume, skill or model."""
    section: str
    """The chapter of OpenSharing's specification."""
    credentials: str
    """What follows the path of one that has a folder, to get credentials for it."""
    keys: Keys = field(compare=False)
    """What each must tell of itself."""

    @property
    def plural(self) -> str:
        """The segment of its listings."""
        return f"{self.name}s"


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset that the profile can see."""

    kind: Kind
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        """How people write it: share.schema.asset."""
        return ".".join(str(self.entry.get(part, "")) for part in ("share", "schema", "name"))

    @property
    def path(self) -> str:
        """What follows the endpoint."""
        return below_schema(self.kind, self.entry) + f"/{quote(str(self.entry['name']), safe='')}"


def below_schema(kind: Kind, entry: Mapping[str, Any]) -> str:
    """Return the path of a schema's listing of a kind."""
    return f"{segments(str(entry['share']), str(entry['schema']))}/{kind.plural}"


@lru_cache(maxsize=8)  # each check asks for them
def assets_of(shared: Shared, kind: Kind) -> Sequence[Asset]:
    """Return all assets of a kind; raises NotTried where the server has no such endpoint, or nothing to see there."""
    found = [Asset(kind, item) for share in shared.shares for item in _all(shared, kind, share)]
    if not found:
        raise NotTried(f"the profile sees no {kind.name}")
    return found


def _all(shared: Shared, kind: Kind, share: str) -> Iterator[Mapping[str, Any]]:
    for reply in shared.pages(f"{segments(share)}/all-{kind.plural}"):
        if reply.status in NOT_OFFERED:
            raise NotTried(f"the server knows no {kind.plural}: {reply}")
        for item in page(reply).get("items", []):
            yield expect.typed(f"a {kind.name}", item, kind.keys)


def _listed(shared: Shared, kind: Kind) -> str:
    """Expect each asset to name itself and a place that the profile sees, none twice."""
    found = assets_of(shared, kind)
    shares = {share.lower() for share in shared.shares}
    for one in found:
        expect.that(one.entry["share"].lower() in shares, f"{one.name} names a share that is not listed")
    expect.that(len({one.name.lower() for one in found}) == len(found), f"two {kind.plural} have the same name")
    return f"{len(found)} {kind.plural}"


def _by_schema(shared: Shared, kind: Kind) -> str:
    """Expect the listings of all schemas to be that of the share."""
    found = assets_of(shared, kind)
    for share in {str(one.entry["share"]) for one in found}:
        whole = [one.entry for one in found if one.entry["share"] == share]
        schemas = {schema for place, schema in shared.schemas if place.lower() == share.lower()}
        one_by_one = [
            item
            for schema in schemas
            for reply in shared.pages(below_schema(kind, {"share": share, "schema": schema}))
            for item in page(reply).get("items", [])
        ]
        same = sorted(map(_place, whole)) == sorted(map(_place, one_by_one))
        expect.that(same, f"{share}: all-{kind.plural} has {len(whole)}, its schemas have {len(one_by_one)}, or others")
    return f"{len(found)} {kind.plural}"


def _place(entry: Mapping[str, Any]) -> tuple[str, str]:
    return str(entry["schema"]).lower(), str(entry["name"]).lower()


def _by_pages(shared: Shared, kind: Kind) -> str:
    """Expect pages of one asset to be the listing."""
    first = assets_of(shared, kind)[0].entry
    paged(shared, below_schema(kind, first))
    return paged(shared, f"{segments(str(first['share']))}/all-{kind.plural}")


def _by_name(shared: Shared, kind: Kind) -> str:
    """Expect each asset by its name to be the one that is listed."""
    found = assets_of(shared, kind)
    for one in found:
        told = expect.typed("the answer", page(shared.client.get(one.path)), kind.keys)
        expect.that(told == one.entry, f"GET {one.path} tells something else than the listing")
    return f"{len(found)} {kind.plural}"


def _absent(shared: Shared, kind: Kind) -> str:
    """Expect 404 with the error body for a name that nothing has, and for credentials of it."""
    one = assets_of(shared, kind)[0]
    path = f"{below_schema(kind, one.entry)}/{ABSENT}"
    expect.refused(shared.client.get(path), 404)
    expect.refused(shared.client.ask("POST", f"{path}/{kind.credentials}", body={}), 404)
    return "2 requests"


def _gives_credentials(shared: Shared, path: str) -> bool:
    """Expect credentials, flat, or an error body where the asset offers none; tell which."""
    reply = shared.client.ask("POST", path, body={})
    if reply.status in {httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN}:
        expect.shaped(reply)
        return False
    told = expect.typed("the answer", expect.answered(reply).json, {"expirationTime": int})
    expect.that("credentials" not in told, f"{reply} with credentials inside of credentials, as only tables have them")
    temporary_credentials(told)
    return True


def opened(shared: Shared, paths: Sequence[str], what: str) -> str:
    """Expect credentials of each, or an error body where it offers none; raises NotTried where none does."""
    given = sum(_gives_credentials(shared, path) for path in paths)
    if not given:
        raise NotTried(f"no {what} that the profile sees offers credentials")
    return f"{given} of {len(paths)}"


def listing_checks(kind: Kind) -> Sequence[Check]:
    """Return what is held of every kind: how its assets are listed, by pages and by schemas, and found by name."""
    name, many = kind.name, kind.plural
    each = [
        (
            f"lists {many}",
            f"Answer GET .../all-{many} with items that have {', '.join(kind.keys)}, each once.",
            _listed,
        ),
        (
            f"pages of {many} are the listing",
            f"Give at most maxResults {many} a page, none for 0, and by nextPageToken the rest, each once.",
            _by_pages,
        ),
        (
            f"all {many} are those of the schemas",
            f"List a schema for everything that is in it, and in .../schemas/{{schema}}/{many} its {many}.",
            _by_schema,
        ),
        (
            f"gets a {name} by its name",
            f"Answer GET .../{many}/{{{name}}} with the {name} itself, the same as in the listing.",
            _by_name,
        ),
        (
            f"{many} that do not exist are not found",
            f"Answer 404 with an error body for a {name} that is not there, and for credentials of it.",
            _absent,
        ),
    ]
    return [Check(title, kind.section, remedy, partial(ask, kind=kind)) for title, remedy, ask in each]
