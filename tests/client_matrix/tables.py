"""Server with the tables of the matrix, and the reads of them with their rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
from client_matrix.scripts.reading import comparable
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from deltaic.catalog.items import ViewPartition
from deltaic.partition_filters.audiences import audience
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.rights.profile_file import client_profile
from filled_server import Entry, FilledServer
from golden.library import load, place
from identity.issuer import Issuer, private_key, running

SHARE: Final = "lent"
SCHEMA: Final = "tables"
READER: Final = "reader"
COUNTRY: Final = "FI"
"""The reader's property, by which rows are filtered."""

NAMES: Final = ["a b", "c%d", "%41", "e+f", "g=h", 'i"j', "k'l", "m&n?o#p", "q/r", "ünï:é", "日本", " lead", "trail "]
PARTITIONED: Final = pa.table({"name": [*NAMES, None], "number": pa.array(range(len(NAMES) + 1), pa.int64())})
ORDERS: Final = pa.table({"id": pa.array(range(6), pa.int64()), "country": ["FI", "PL"] * 3})
GOLDEN: Final = (
    "plain", "materialized_partitions", "deletion_vectors", "deletion_vectors_inline", "column_mapping_name",
    "column_mapping_id", "column_mapping_later", "odd_columns", "change_feed", "deletion_vectors_change_feed",
)  # fmt: skip
FOLDER: Final[Mapping[str, Any]] = {"history": True, "access_modes": ("url", "dir"), "iceberg": "vended"}


@dataclass(frozen=True)
class Read:
    """A read that a client is asked for."""

    name: str
    ability: str
    table: str
    version: int | None = None
    changes: tuple[int, int] | None = None
    profile: str = "bearer"
    """The kind of profile: `bearer`, `secret` (client id and secret) or `key` (the client signs with its own key)."""
    extra: bool = False
    """Whether a refusal only adds an exception to the ability."""


READS: Final = (
    Read("plain", "plain", "plain"),
    Read("odd values", "partitions", "partitioned"),
    Read("columns also in the files", "partitions", "materialized_partitions"),
    Read("in files", "deletion vectors", "deletion_vectors"),
    Read("in the log", "deletion vectors", "deletion_vectors_inline"),
    Read("by name, nested and partitioned", "column mapping", "column_mapping_name"),
    Read("by id", "column mapping", "column_mapping_id"),
    Read("switched on later", "column mapping", "column_mapping_later"),
    Read("odd names", "column mapping", "odd_columns"),
    Read("version 1", "time travel", "plain", version=1),
    Read("changes", "change feed", "change_feed", changes=(0, 6)),
    Read("changes with deletion vectors", "change feed", "deletion_vectors_change_feed", changes=(0, 5), extra=True),
    Read("filtered rows", "filters", "of_country"),
    Read("view", "views", "of_each"),
    Read("vended", "Iceberg vended", "plain"),
    Read("signed", "Iceberg signed", "plain_signed"),
    Read("folder", "directory access", "plain"),
    Read("client id and secret", "OAuth profile", "plain", profile="secret"),
    Read("own key", "OAuth profile", "plain", profile="key", extra=True),
)


def expected_rows(read: Read) -> list[str]:
    """Return the rows of a read: those that Spark read from a golden table, or those that were written."""
    written = {
        "partitioned": PARTITIONED.to_pylist(),
        "of_country": [row for row in ORDERS.to_pylist() if row["country"] == COUNTRY],
        "of_each": [{"id": 1, "note": COUNTRY}],
    }
    if read.table in written:
        return comparable(written[read.table])
    golden = load(read.table.removesuffix("_signed"))
    if read.changes:
        return comparable(golden.changes().drop_columns("_commit_timestamp").to_pylist())
    return comparable(golden.rows(golden.versions[-1] if read.version is None else read.version).to_pylist())


@dataclass(frozen=True)
class Lender:
    """The running server, and what its reader has."""

    server: FilledServer
    secret_profile: Path
    key_profile: Path

    def job(self, reads: Sequence[Read]) -> dict[str, Any]:
        """Return what a client's script needs."""
        secret = json.loads(self.secret_profile.read_text(encoding="utf-8"))
        return {
            "endpoint": self.server.endpoint,
            "iceberg": f"{self.server.endpoint}/iceberg",
            "token": self.server.readers[READER].token,
            "profiles": {
                "bearer": str(self.server.profile_of(READER)),
                "secret": str(self.secret_profile),
                "key": str(self.key_profile),
            },
            "client": {name: secret[name] for name in ("clientId", "clientSecret", "tokenEndpoint")},
            "store": self.server.environment["AWS_ENDPOINT_URL"],
            "share": SHARE,
            "schema": SCHEMA,
            "checks": [vars(read) for read in reads],
        }


@contextmanager
def lending(folder: Path) -> Iterator[Lender]:
    """Run the server."""
    entries = [
        *(Entry(SHARE, SCHEMA, name, name, FOLDER) for name in (*GOLDEN, "partitioned")),
        Entry(SHARE, SCHEMA, "plain_signed", "plain", {"iceberg": "signed", "history": True}),
        Entry(
            SHARE,
            SCHEMA,
            "of_country",
            options={
                "history": True,
                "iceberg": "signed",
                "partition_filter": "country = current_recipient('country')",
            },
        ),
    ]
    with running() as issuer, FilledServer.running(folder, entries, {READER: [SHARE]}) as server:
        server.admin.recipients.update(READER, add_properties={"country": COUNTRY})
        for name in GOLDEN:
            server.upload(place(load(name), folder / name, f"s3://{DATA_BUCKET}/golden"), name)
        _write(server, folder, "partitioned", PARTITIONED, "name")
        _write(server, folder, "of_country", ORDERS, "country")
        _make_view(server, folder)
        yield Lender(server, _secret_profile(server, folder), _key_profile(server, folder, issuer))


def _write(server: FilledServer, folder: Path, name: str, rows: pa.Table, partition: str) -> None:
    deltalake.write_deltalake(str(folder / name), rows, partition_by=[partition])
    server.upload(folder / name, name)


def _make_view(server: FilledServer, folder: Path) -> None:
    names = {country: audience(["country"], {"country": country}) for country in ("FI", "PL")}
    rows = pa.table({"id": [1, 2], "note": list(names), "_deltaic_policy": list(names.values())})
    _write(server, folder, "of_each", rows, "_deltaic_policy")
    sql = "SELECT id, note FROM source WHERE country = current_recipient('country')"
    source, location = f"{SHARE}.{SCHEMA}.of_country", f"s3://{DATA_BUCKET}/of_each"
    view = server.admin.views.create(
        SHARE, SCHEMA, "of_each", location, source=source, sql=sql, properties=["country"], history=True
    )
    partitions = [
        ViewPartition(
            table_id=view.table_id,
            audience=str(name),
            since_version=0,
            values={"country": country},
            created_at=datetime.now(UTC),
        )
        for country, name in names.items()
    ]
    server.admin.views.partitions.put(view, partitions)
    server.admin.tables.update(SHARE, SCHEMA, "of_each", iceberg="signed")


def _secret_profile(server: FilledServer, folder: Path) -> Path:
    issued = server.admin.clients.create(server.readers[READER].account)
    profile = folder / "secret.share"
    token_endpoint = f"{server.endpoint}/oauth/token"
    profile.write_text(client_profile(server.endpoint, token_endpoint, issued.client.id, issued.secret))
    return profile


def _key_profile(server: FilledServer, folder: Path, issuer: Issuer) -> Path:
    account = server.readers[READER].account
    server.admin.federation.create(account, issuer.url, audience="deltaic", claim="azp", subject="register")
    key = private_key("RS256")
    issuer.client_keys["register"] = key.public_key()
    pem, profile = folder / "key.pem", folder / "key.share"
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    fields = {
        "shareCredentialsVersion": 2,
        "type": "oauth_jwt_bearer_private_key_jwt",
        "endpoint": server.endpoint,
        "auth": {
            "tokenEndpoint": f"{issuer.url}/token",
            "clientId": "register",
            "issuer": issuer.url,
            "audience": "deltaic",
            "scope": "deltaic:read",
            "privateKey": {"privateKeyFile": str(pem), "keyId": "k1", "algorithm": "RS256"},
        },
    }
    profile.write_text(json.dumps(fields))
    return profile
