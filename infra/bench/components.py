"""Measure parts of the server without HTTP: signing URLs, rendering lines and reading Iceberg manifests."""

import base64
import hashlib
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bench import measured_tables

if TYPE_CHECKING:
    from deltaic.delta.scan.file_batches import FileBatch
    from deltaic.storage.table_urls import TableUrls


def files_and_urls(lines: int, token_length: int) -> "tuple[FileBatch, TableUrls]":
    """Return `lines` files of a measured table, and a URL signer with a session token of `token_length` characters."""
    import msgspec
    from deltaic.delta.actions import Add
    from deltaic.delta.replay import to_file_batch
    from deltaic.delta.scan.file_batches import FileBatch, Position
    from deltaic.storage.aws_credentials import Credentials
    from deltaic.storage.endpoints import StorageConfig
    from deltaic.storage.locations import TableLocations
    from deltaic.storage.table_urls import TableUrls

    adds = [msgspec.json.decode(json.dumps(measured_tables.add(number, lines)), type=Add) for number in range(lines)]
    token = base64.b64encode(hashlib.shake_128(b"a session").digest(token_length)).decode()[:token_length]
    urls = TableUrls(
        TableLocations.parse("s3://bench/logs"),
        StorageConfig(endpoint="http://127.0.0.1:9", path_style=True),
        Credentials("ASIAEXAMPLEEXAMPLE00", "x" * 40, token),
        ttl=timedelta(hours=1),
    )
    return FileBatch(to_file_batch(adds, "the benchmark"), Position("", 1, 0, 0), lines, None), urls


def line_microseconds(lines: int, token_length: int) -> dict[str, float]:
    """Return CPU microseconds per line rendered from an Arrow batch and from the line cache; minimum of five runs."""
    from deltaic.sharing.audit_record import ResponseMetrics
    from deltaic.sharing.lines import rendering
    from deltaic.sharing.lines.line_cache import LineCache, VersionLines

    batch, urls = files_and_urls(lines, token_length)
    style = rendering.FileStyle("parquet", "parquet")
    cached_lines = VersionLines(LineCache(1 << 30), "bench", None)
    figures = {}
    for kind, lines_cache in (("new lines", None), ("cached lines", cached_lines)):
        best = float("inf")
        for _ in range(5):
            began = time.process_time()
            for _chunk in rendering.render(batch, urls, style, ResponseMetrics(), lines_cache):
                pass
            best = min(best, time.process_time() - began)
        figures[kind] = best / lines * 1e6
    return figures


def presign_microseconds(lines: int, token_length: int) -> float:
    """Sign URLs with boto3 and dump file lines; return CPU microseconds per line, the minimum of three runs."""
    import boto3
    from botocore.config import Config

    client: Any = boto3.client(
        "s3",
        endpoint_url="http://127.0.0.1:9",
        region_name="us-east-1",
        aws_access_key_id="ASIAEXAMPLEEXAMPLE00",
        aws_secret_access_key="x" * 40,
        aws_session_token="t" * token_length,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    adds = [measured_tables.add(number, lines) for number in range(lines)]
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        for add in adds:
            url = client.generate_presigned_url(
                "get_object", Params={"Bucket": "bench", "Key": f"logs/{add['path']}"}, ExpiresIn=3600
            )
            line = {
                "file": {
                    "url": url,
                    "id": str(add["path"]),
                    "partitionValues": add["partitionValues"],
                    "size": add["size"],
                    "stats": add["stats"],
                    "expirationTimestamp": 1,
                }
            }
            json.dumps(line).encode()
        best = min(best, time.process_time() - began)
    return best / lines * 1e6


def manifest_microseconds(files: int) -> tuple[float, float]:
    """Return CPU microseconds per file to read a manifest of a measured table, and to decode it with fastavro."""
    from io import BytesIO

    import fastavro
    from deltaic.delta.actions import parse_metadata
    from deltaic.iceberg.live_files import LiveFiles
    from deltaic.iceberg.manifests import ManifestWriter
    from deltaic.iceberg.table_schema import iceberg_schema
    from deltaic.iceberg.table_version import MetadataContext, TableVersion
    from deltaic.iceberg_source.manifest_files import ManifestReader, SourceManifest, TablePaths
    from deltaic.pruning.values import column_type

    root, written = "s3://bench/logs", dict[str, bytes]()
    batch, _ = files_and_urls(files, 0)
    metadata = parse_metadata(measured_tables.metadata(), "the benchmark")
    schema, version = iceberg_schema(metadata), TableVersion(0, 0, metadata, lambda: [batch.files])
    uris = [f"{root}/{path}" for path in batch.files["path"].to_pylist()]
    live = LiveFiles(MetadataContext(root, written.__setitem__, lambda _: uris, None), version, schema)  # type: ignore[arg-type]
    ManifestWriter(schema, root, written.__setitem__).manifest(live.entries(live.digests))
    (content,) = written.values()
    types = measured_tables.COLUMNS.items()
    columns = {number: ((name,), column_type(kind)) for number, (name, kind) in enumerate(types, start=1)}
    reader = ManifestReader(TablePaths(root), columns, {}, (), {}, {0: schema.spec["fields"]}, {})
    manifest = SourceManifest("", 0, False, 1, 1, files, 0, 0, [])  # noqa: FBT003 -- not of deletes
    works = (lambda: reader.pieces(manifest, content), lambda: fastavro.reader(BytesIO(content)))
    seconds = []
    for work in works * 3:
        began = time.process_time()
        list(work())
        seconds.append(time.process_time() - began)
    return min(seconds[::2]) / files * 1e6, min(seconds[1::2]) / files * 1e6
