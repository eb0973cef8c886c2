"""Finds out what a profile can see: shares, schemas, tables, and what each table lets its reader do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx

from delta_sharing_conformance.client import BOTH, DELTA, FORMATS, PARQUET, Reply, SharingClient, segments
from delta_sharing_conformance.files import FileLine, HintColumn, columns_of, files_of
from delta_sharing_conformance.untrusted_http import all_pages

OK = httpx.codes.OK


@dataclass
class ListedTable:
    """A table that the profile can see; what is known of it was asked for once."""

    client: SharingClient
    entry: Mapping[str, Any]
    share: str
    schema: str
    table: str

    @property
    def name(self) -> str:
        """How people write it: share.schema.table."""
        return f"{self.share}.{self.schema}.{self.table}"

    @property
    def path(self) -> str:
        """What follows the endpoint."""
        return segments(self.share, self.schema, self.table)

    def metadata(self, capabilities: str | None = None, **parameters: str | int) -> Reply:
        """GET .../metadata."""
        return self.client.get(f"{self.path}/metadata", capabilities, **parameters)

    def query(self, capabilities: str | None = None, **fields: Any) -> Reply:
        """POST .../query."""
        return self.client.ask("POST", f"{self.path}/query", body=fields, capabilities=capabilities)

    def changes(self, capabilities: str | None = None, **parameters: str | int) -> Reply:
        """GET .../changes."""
        return self.client.get(f"{self.path}/changes", capabilities, **parameters)

    @cached_property
    def at(self) -> Reply:
        """GET .../version."""
        return self.client.get(f"{self.path}/version")

    @property
    def latest(self) -> int:
        """The latest version, -1 if the server does not say."""
        return -1 if self.at.version is None else self.at.version

    @property
    def modes(self) -> list[str]:
        """How it may be read ("Access Modes"): by URLs unless it says otherwise."""
        return [str(mode).lower() for mode in self.entry.get("accessModes") or ["url"]]

    @cached_property
    def whole(self) -> Mapping[str, Reply]:
        """The answers to a query of the whole table, by format, of those formats in which it can be had."""
        found = {"parquet": self.query(PARQUET), "delta": self.query(DELTA)}
        return {name: reply for name, reply in found.items() if reply.status == OK and reply.lines is not None}

    @property
    def formats(self) -> list[tuple[str, str]]:
        """The formats in which the whole table can be had, each with what a client says to get it."""
        return [(name, FORMATS[name]) for name in self.whole]

    def files(self, response_format: str) -> list[FileLine]:
        """The files of the whole table."""
        return list(files_of(self.whole[response_format].lines or []))

    def ids(self, response_format: str) -> list[str]:
        """The ids of the whole table's files, sorted."""
        return sorted(file.id for file in self.files(response_format))

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The metaData of the whole table, in the format that is at hand."""
        for reply in self.whole.values():
            for line in reply.lines or []:
                if isinstance(found := line.get("metaData"), dict):
                    inner = found.get("deltaMetadata", found)
                    return inner if isinstance(inner, dict) else {}
        return {}

    @property
    def columns(self) -> Mapping[str, HintColumn]:
        """The columns that hints can name, by name; none where names are mapped to others."""
        configuration = self.facts.get("configuration") or {}
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            return {}
        return columns_of(self.facts)

    @cached_property
    def first(self) -> int | None:
        """The first version that can be queried; None where history is not shared."""
        if self.latest < 0 or not self._readable(self.latest):
            return None
        low, high = 0, self.latest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._readable(middle) else (middle + 1, high)
        return low

    def _readable(self, version: int) -> bool:
        return self.query(BOTH, version=version, limitHint=1).status == OK

    @cached_property
    def changed(self) -> Mapping[str, tuple[int, Reply]]:
        """The widest change feed that can be had up to the latest version, by format: its start and the answer."""
        feeds: dict[str, tuple[int, Reply]] = {}
        if self.first is None:
            return feeds
        for name, capabilities in FORMATS.items():
            for start in sorted({*range(self.first, min(self.first + 8, self.latest + 1)), self.latest}):
                reply = self.changes(capabilities, startingVersion=start)
                if reply.status == OK and reply.lines is not None:
                    feeds[name] = (start, reply)
                    break
        return feeds

    @cached_property
    def moments(self) -> Mapping[int, int]:
        """When versions were committed, in milliseconds, of those that the lines of a range tell."""
        if self.first is None:
            return {}
        for capabilities in (PARQUET, DELTA):
            reply = self.query(capabilities, startingVersion=self.first)
            if reply.status == OK and reply.lines is not None:
                told = files_of(reply.lines)
                return {
                    file.version: file.timestamp
                    for file in told
                    if file.version is not None and file.timestamp is not None
                }
        return {}


class Shared:
    """What the profile can see."""

    def __init__(self, client: SharingClient, most: int) -> None:
        self.client = client
        self._most = most

    def listed(self, path: str, **parameters: str | int) -> list[dict[str, Any]]:
        """Return the items of a listing to its last page; what cannot be listed is empty."""
        return [item for reply in self.pages(path, **parameters) for item in items(reply)]

    def pages(self, path: str, **parameters: str | int) -> Iterator[Reply]:
        """Yield the pages of a listing; raises UnsafeResponse if it has no end."""

        def ask(token: str) -> Reply:
            return self.client.get(path, None, **parameters, **({"pageToken": token} if token else {}))

        def next_token(reply: Reply) -> str:
            page = reply.json if isinstance(reply.json, dict) and reply.status == OK else {}
            return str(page.get("nextPageToken") or "")

        return all_pages(ask, next_token)

    @cached_property
    def shares(self) -> list[str]:
        """The names of the shares."""
        return [str(item["name"]) for item in self.listed("/shares")]

    @cached_property
    def schemas(self) -> list[tuple[str, str]]:
        """Shares and schemas."""
        return [
            (share, str(item["name"])) for share in self.shares for item in self.listed(f"{segments(share)}/schemas")
        ]

    @cached_property
    def tables(self) -> list[ListedTable]:
        """The tables, at most as many of each share as was asked for."""
        return [
            ListedTable(self.client, item, share, str(item.get("schema", "")), str(item["name"]))
            for share in self.shares
            for item in self.listed(f"{segments(share)}/all-tables")[: self._most]
        ]

    @cached_property
    def readable(self) -> list[ListedTable]:
        """The tables of which a query gives files by URL."""
        return [table for table in self.tables if "url" in table.modes and table.whole]


def items(reply: Reply) -> list[dict[str, Any]]:
    """Return the items of a listing's page that have a name."""
    found = reply.json.get("items", []) if isinstance(reply.json, dict) else []
    return [item for item in found or [] if isinstance(item, dict) and "name" in item]


def walk(ask: Callable[..., Reply], capabilities: str, size: int, **fields: Any) -> Iterator[Reply]:
    """Yield the pages of a query or a change feed; raises UnsafeResponse if it has no end."""

    def page(token: str) -> Reply:
        return ask(capabilities, **fields, maxFiles=size, **({"pageToken": token} if token else {}))

    return all_pages(page, lambda reply: str(reply.end.get("nextPageToken") or ""))
