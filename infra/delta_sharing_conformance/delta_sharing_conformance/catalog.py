"""Find the shares, schemas and tables that a profile file gives access to."""

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
    """A shared table, with methods that request its metadata and files. Properties cache the responses."""

    client: SharingClient
    entry: Mapping[str, Any]
    share: str
    schema: str
    table: str

    @property
    def name(self) -> str:
        """Full name: share.schema.table."""
        return f"{self.share}.{self.schema}.{self.table}"

    @property
    def path(self) -> str:
        """URL path of the table below the server's endpoint."""
        return segments(self.share, self.schema, self.table)

    def metadata(self, capabilities: str | None = None, **parameters: str | int) -> Reply:
        """Send GET .../metadata for the table."""
        return self.client.get(f"{self.path}/metadata", capabilities, **parameters)

    def query(self, capabilities: str | None = None, **fields: Any) -> Reply:
        """Send POST .../query for the table; `fields` are the request body."""
        return self.client.ask("POST", f"{self.path}/query", body=fields, capabilities=capabilities)

    def changes(self, capabilities: str | None = None, **parameters: str | int) -> Reply:
        """Send GET .../changes for the table (its change data feed)."""
        return self.client.get(f"{self.path}/changes", capabilities, **parameters)

    @cached_property
    def version_reply(self) -> Reply:
        """Response to GET .../version for the table."""
        return self.client.get(f"{self.path}/version")

    @property
    def latest(self) -> int:
        """Latest version of the table; -1 if the response names none."""
        return -1 if self.version_reply.version is None else self.version_reply.version

    @property
    def access_modes(self) -> list[str]:
        """Access modes of the table in lower case: `url` for signed URLs (the default), `dir` for credentials."""
        return [str(mode).lower() for mode in self.entry.get("accessModes") or ["url"]]

    @cached_property
    def full_replies(self) -> Mapping[str, Reply]:
        """Successful responses to a query of all rows of the table, by response format."""
        replies = {"parquet": self.query(PARQUET), "delta": self.query(DELTA)}
        return {name: reply for name, reply in replies.items() if reply.status == OK and reply.lines is not None}

    @property
    def formats(self) -> list[tuple[str, str]]:
        """Response formats in which the table can be queried, each with the capabilities header that requests it."""
        return [(name, FORMATS[name]) for name in self.full_replies]

    def files(self, response_format: str) -> list[FileLine]:
        """Return all files of the latest version of the table, as listed in this response format."""
        return list(files_of(self.full_replies[response_format].lines or []))

    def ids(self, response_format: str) -> list[str]:
        """Return the sorted ids of all files of the latest version of the table."""
        return sorted(file.id for file in self.files(response_format))

    @cached_property
    def delta_metadata(self) -> Mapping[str, Any]:
        """Delta metaData of the table, from a response in parquet or delta format."""
        for reply in self.full_replies.values():
            for line in reply.lines or []:
                if isinstance(metadata := line.get("metaData"), dict):
                    inner = metadata.get("deltaMetadata", metadata)
                    return inner if isinstance(inner, dict) else {}
        return {}

    @property
    def columns(self) -> Mapping[str, HintColumn]:
        """Columns that predicate hints can use, by name; empty if the table uses column mapping."""
        configuration = self.delta_metadata.get("configuration") or {}
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            return {}
        return columns_of(self.delta_metadata)

    @cached_property
    def first_version(self) -> int | None:
        """Earliest version of the table that can be queried; None if its history is not shared."""
        if self.latest < 0 or not self._has_version(self.latest):
            return None
        low, high = 0, self.latest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._has_version(middle) else (middle + 1, high)
        return low

    def _has_version(self, version: int) -> bool:
        return self.query(BOTH, version=version, limitHint=1).status == OK

    @cached_property
    def change_feeds(self) -> Mapping[str, tuple[int, Reply]]:
        """Longest change feed up to the latest version, by response format: its first version and the response."""
        feeds: dict[str, tuple[int, Reply]] = {}
        if self.first_version is None:
            return feeds
        for name, capabilities in FORMATS.items():
            for start in sorted(
                {*range(self.first_version, min(self.first_version + 8, self.latest + 1)), self.latest}
            ):
                reply = self.changes(capabilities, startingVersion=start)
                if reply.status == OK and reply.lines is not None:
                    feeds[name] = (start, reply)
                    break
        return feeds

    @cached_property
    def commit_times(self) -> Mapping[int, int]:
        """Commit times by version in milliseconds since the epoch, from a query of a version range."""
        if self.first_version is None:
            return {}
        for capabilities in (PARQUET, DELTA):
            reply = self.query(capabilities, startingVersion=self.first_version)
            if reply.status == OK and reply.lines is not None:
                times = ((file.version, file.timestamp) for file in files_of(reply.lines))
                return {version: time for version, time in times if version is not None and time is not None}
        return {}


class Catalog:
    """The shares, schemas and tables that a profile gives access to."""

    def __init__(self, client: SharingClient, max_tables: int) -> None:
        self.client = client
        self._max_tables = max_tables

    def list_items(self, path: str, **parameters: str | int) -> list[dict[str, Any]]:
        """Return the items on all pages of the listing at a path; empty if the server responds with an error."""
        return [item for reply in self.pages(path, **parameters) for item in items(reply)]

    def pages(self, path: str, **parameters: str | int) -> Iterator[Reply]:
        """Yield the pages of the listing at a path; raises UnsafeResponse if the pages never end."""

        def get_page(token: str) -> Reply:
            return self.client.get(path, None, **parameters, **({"pageToken": token} if token else {}))

        return all_pages(get_page, lambda page: str(page.fields.get("nextPageToken") or ""))

    @cached_property
    def shares(self) -> list[str]:
        """Names of the shares that the server lists."""
        return [str(item["name"]) for item in self.list_items("/shares")]

    @cached_property
    def schemas(self) -> list[tuple[str, str]]:
        """Share name and schema name of each schema that the server lists."""
        return [
            (share, str(item["name"]))
            for share in self.shares
            for item in self.list_items(f"{segments(share)}/schemas")
        ]

    @cached_property
    def tables(self) -> list[ListedTable]:
        """Shared tables, at most `max_tables` of each share."""
        return [
            ListedTable(self.client, item, share, str(item.get("schema", "")), str(item["name"]))
            for share in self.shares
            for item in self.list_items(f"{segments(share)}/all-tables")[: self._max_tables]
        ]

    @cached_property
    def readable(self) -> list[ListedTable]:
        """Shared tables for which a query returns signed URLs."""
        return [table for table in self.tables if "url" in table.access_modes and table.full_replies]


def items(reply: Reply) -> list[dict[str, Any]]:
    """Return the items of a listing's page, without those that have no name."""
    return [item for item in reply.fields.get("items") or [] if isinstance(item, dict) and "name" in item]


def all_reply_pages(send: Callable[..., Reply], capabilities: str, size: int, **fields: Any) -> Iterator[Reply]:
    """Yield the pages of a query or change feed that `send` requests; raises UnsafeResponse if the pages never end."""

    def get_page(token: str) -> Reply:
        return send(capabilities, **fields, maxFiles=size, **({"pageToken": token} if token else {}))

    return all_pages(get_page, lambda reply: str(reply.end.get("nextPageToken") or ""))
