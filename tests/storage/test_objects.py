"""Read a table's objects from two stores: contract, number of requests, and errors."""

import hashlib
import http.server
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import obstore
import pytest
from counted_requests import count_requests
from deltaic.delta.segment import find_segment, read_hint
from deltaic.errors import DeltaicError, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.byte_ranges import NEAR
from deltaic.storage.connections import connection
from deltaic.storage.endpoints import StorageConfig, origin
from deltaic.storage.locations import TableLocations
from deltaic.storage.objects import ObjectTableStore
from storage.stores import Store

ROOTS = {
    "plain": "tables/plain",
    "spaces": "my tables/a  b ",
    "percent": "100%/x%20y",
    "plus-and-equals": "a+b=c/d=e",
    "unicode": "\u00e9/\u65e5\u672c\u8a9e/\U0001f600",
    "punctuation": "a&b;c,d:e@f$g!h'(i)*[j]{k}#l^m~n|o<p>\"q`",
}


def noise(length: int) -> bytes:
    """Return bytes without a pattern, always the same."""
    return hashlib.shake_128(b"noise").digest(length)


def table(store: Store, root: str, auxiliary: Sequence[str] = ()) -> ObjectTableStore:
    locations = TableLocations.parse(f"s3://{store.bucket}/{root}", auxiliary)
    return ObjectTableStore(locations, store.storage, store.reader)


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
def test_log_is_listed_and_read_in_any_root(store: Store, root: str) -> None:
    for version in range(3):
        store.put(f"{root}/_delta_log/{version:020}.json", f"commit {version}".encode())
    store.put(f"{root}2/_delta_log/{9:020}.json", b"a sibling")
    objects = table(store, root)
    assert [file.name for file in objects.list_log(f"{0:020}.json")] == [f"{v:020}.json" for v in (1, 2)]
    assert [(file.name, file.size) for file in objects.list_log()] == [(f"{v:020}.json", 8) for v in range(3)]
    assert objects.get(f"_delta_log/{1:020}.json") == b"commit 1"
    assert objects.get_many([f"_delta_log/{v:020}.json" for v in (2, 0, 1)]) == [b"commit 2", b"commit 0", b"commit 1"]


def test_lists_one_level_in_order(store: Store) -> None:
    names = [f"{version:020}.{kind}" for version in range(30) for kind in ("json", "crc")] + ["_last_checkpoint"]
    for name in sorted(names, reverse=True):
        store.put(f"one-level/_delta_log/{name}", name.encode())
    store.put("one-level/_delta_log/_sidecars/a.parquet", b"sidecar")
    store.put("one-level/_delta_log/_staged_commits/b.json", b"staged")
    store.put("one-level/_delta_log/", b"")
    store.put("one-level/_delta_log/_changes_$folder$", b"")
    store.put("one-level/part-0.parquet", b"data")
    objects = table(store, "one-level")
    assert [file.name for file in objects.list_log()] == sorted(names)
    assert all(file.modified > 1_700_000_000_000 for file in objects.list_log())
    after = f"{20:020}.json"
    assert [file.name for file in objects.list_log(after)] == [name for name in sorted(names) if name > after]
    assert next(file.name for file in objects.list_log(f"{20:020}")) == f"{20:020}.crc"
    assert list(objects.list_log("~")) == []


def test_replaced_object_of_the_same_size_has_another_etag(store: Store) -> None:
    objects = table(store, "anew")
    tags = set()
    for body in (b"one", b"two"):
        store.put("anew/_delta_log/0.json", body)
        (file,) = objects.list_log()
        assert file.size == 3
        tags.add(file.etag)
    assert len(tags - {""}) == 2


def test_a_folder_marker_of_a_subfolder_is_no_file(ministack: Store) -> None:
    ministack.put("markers/_delta_log/_sidecars/", b"")
    ministack.put(f"markers/_delta_log/{0:020}.json", b"{}")
    assert [file.name for file in table(ministack, "markers").list_log()] == [f"{0:020}.json"]


def test_a_failure_to_get_credentials_keeps_its_class(ministack: Store) -> None:
    def throttled() -> Credentials:
        raise TooManyRequests("AWS is throttling")

    objects = ObjectTableStore(TableLocations.parse("s3://bucket/t"), ministack.storage, throttled)
    for read in (lambda: list(objects.list_log()), lambda: objects.get("x"), lambda: objects.get_many(["x", "y"])):
        with pytest.raises(TooManyRequests):
            read()


def test_an_absent_log_is_empty_and_an_absent_object_is_named(store: Store) -> None:
    objects = table(store, "nothing-here")
    assert list(objects.list_log()) == []
    path = f"_delta_log/{0:020}.json"
    for read in (
        lambda: objects.get(path),
        lambda: objects.get_many([path, path]),
        lambda: objects.get_ranges(path, [(0, 4)]),
        lambda: objects.get_ranges(path, [(0, 4), (4 * NEAR, 4 * NEAR + 1)]),
        lambda: objects.get_tail(path, 8),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            read()
        assert caught.value.args == (path,)


def test_missing_bucket_is_unreadable(store: Store) -> None:
    objects = ObjectTableStore(TableLocations.parse("s3://no-such-bucket/t"), store.storage, store.reader)
    with pytest.raises(TableUnreadable, match="bucket of this table does not exist") as caught:
        list(objects.list_log())
    assert "no-such-bucket" not in caught.value.message
    assert "s3://no-such-bucket/t" in caught.value.detail
    with pytest.raises(FileNotFoundError):
        objects.get("x")


def test_ranges_and_tails_are_slices(store: Store) -> None:
    body = noise(3 * NEAR)
    store.put("ranges/big", body)
    objects = table(store, "ranges")
    ranges = [(0, 1), (10, 1000), (5, 20), (2 * NEAR + 5, 2 * NEAR + 10), (3 * NEAR - 4, 3 * NEAR), (7, 7)]
    assert objects.get_ranges("big", ranges) == [body[start:end] for start, end in ranges]
    assert objects.get_ranges("big", []) == []
    assert objects.get_tail("big", 8) == (body[-8:], len(body))
    assert objects.get_tail("big", 10 * NEAR) == (body, len(body))
    with pytest.raises(Unavailable, match="less of"):
        objects.get_ranges("big", [(3 * NEAR - 1, 3 * NEAR + 1)])
    with pytest.raises(Unavailable, match="less of"):
        objects.get_ranges("big", [(5 * NEAR, 5 * NEAR + 1)])


def test_an_empty_object_reads_as_empty(store: Store) -> None:
    store.put("empty/_last_checkpoint", b"")
    objects = table(store, "empty")
    assert objects.get("_last_checkpoint") == b""
    assert objects.get_tail("_last_checkpoint", 8) == (b"", 0)


def test_absolute_paths_resolve_to_the_tables_locations(store: Store) -> None:
    store.put("clone-source/a b.parquet", b"source")
    store.put("clone/own", b"own")
    objects = table(store, "clone", [f"s3://{store.bucket}/clone-source"])
    assert objects.get(f"s3a://{store.bucket}/clone-source/a%20b.parquet") == b"source"
    assert objects.get_many([f"s3://{store.bucket}/clone/own", "own"]) == [b"own", b"own"]


def test_near_ranges_are_one_request(store: Store) -> None:
    body = noise(3 * NEAR)
    store.put("counted/big", body)
    objects = table(store, "counted")
    requests = count_requests(objects)
    list(objects.list_log("0"))
    assert len(requests) == 1
    objects.get_tail("big", 8)
    objects.get_ranges("big", [(0, 10), (20, 30), (NEAR, NEAR + 5)])
    assert len(requests) == 3
    objects.get_ranges("big", [(0, 10), (2 * NEAR, 2 * NEAR + 10)])
    assert len(requests) == 5
    objects.get_many(["big"] * 4)
    assert len(requests) == 9


def test_threads_share_a_store(store: Store) -> None:
    for number in range(20):
        store.put(f"threads/{number}", str(number).encode() * 100)
    objects = table(store, "threads")
    names = [str(number) for number in range(20)]
    expected = [name.encode() * 100 for name in names]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: objects.get_many(names), range(16))) == [expected] * 16


def test_refused_key_has_the_remedy_and_in_detail_the_bucket(store: Store) -> None:
    wrong = Credentials("unknownkeyid", "unknown-secret")
    objects = ObjectTableStore(TableLocations.parse(f"s3://{store.bucket}/x"), store.storage, lambda: wrong)
    for read in (lambda: list(objects.list_log()), lambda: objects.get("y"), lambda: objects.get_many(["y", "z"])):
        with pytest.raises(TableUnreadable, match="ask its provider to allow it") as caught:
            read()
        assert "DataBuckets" in caught.value.detail
        assert f"s3://{store.bucket}/x/" in caught.value.detail
        assert not [word for word in (store.bucket, "DataBuckets", "unknown-secret") if word in caught.value.message]
        assert "unknown-secret" not in caught.value.detail


PAGE = "<html><body><p>Please sign in</p></body></html>"


class _Scripted(http.server.BaseHTTPRequestHandler):
    """Store that lists `server.keys` in pages as S3 does, or fails with the error in the bucket's name."""

    server: "Scripted"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        bucket = parts.path.split("/")[1]
        self.server.requests.append(self.path)
        if bucket.startswith("answer-"):
            _, status, code = bucket.split("-")
            code = {"slow": "SlowDown", "region": "AuthorizationHeaderMalformed"}.get(code, code)
            self.answer(int(status), f"<Error><Code>{code}</Code><Message>secret-detail</Message></Error>")
            return
        if bucket == "no-listing" and "prefix=" not in parts.query:
            self.answer(403, "<Error><Code>AccessDenied</Code></Error>")
            return
        if bucket == "page-listing" and "prefix=" not in parts.query:
            if parts.path.partition("/t/")[2] in self.server.keys:
                self.answer_range()
            else:
                self.answer(404, "<Error><Code>NoSuchKey</Code></Error>")
            return
        if bucket.startswith("page-"):
            self.answer(200 if bucket == "page-listing" else int(bucket[5:]), PAGE)
            return
        query = dict(parse_qsl(parts.query))
        after = query.get("continuation-token") or query.get("start-after", "")
        matches = sorted(key for key in self.server.keys if key.startswith(query["prefix"]) and key > after)
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>2</Size><LastModified>2026-02-03T04:05:06.007Z</LastModified></Contents>"
            for key in matches[:1000]
        )
        next_token = f"<NextContinuationToken>{matches[999]}</NextContinuationToken>" if len(matches) > 1000 else ""
        self.answer(200, f"<ListBucketResult>{entries}{next_token}</ListBucketResult>")

    def answer_range(self) -> None:
        self.send_response(206)
        self.send_header("Content-Range", "bytes 1-1/2")
        self.send_header("Content-Length", "1")
        self.send_header("Last-Modified", "Tue, 03 Feb 2026 04:05:06 GMT")
        self.end_headers()
        self.wfile.write(b"}")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class names it
        pass


class Scripted(http.server.ThreadingHTTPServer):
    """Server with its keys and the recorded requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.keys: list[str] = []
        self.requests: list[str] = []

    def objects(self, bucket: str) -> ObjectTableStore:
        """Return the store of a table, whose objects are in `keys`."""
        storage = StorageConfig(endpoint=f"http://127.0.0.1:{self.server_port}", path_style=True)
        return ObjectTableStore(TableLocations.parse(f"s3://{bucket}/t"), storage, lambda: Credentials("a", "b"))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


COMMITS = [f"{version:020}.json" for version in range(2500)]


def test_a_long_log_is_listed_in_pages(scripted: Scripted) -> None:
    scripted.keys = [f"t/_delta_log/{name}" for name in COMMITS]
    objects = scripted.objects("bucket")
    assert [file.name for file in objects.list_log()] == COMMITS
    assert len(scripted.requests) == 3
    assert [file.name for file in objects.list_log(COMMITS[2490])] == COMMITS[2491:]
    assert len(scripted.requests) == 4
    assert next(objects.list_log()).modified == 1_770_091_506_007


@pytest.mark.parametrize("name", [COMMITS[0], "_last_checkpoint"])
def test_html_page_is_no_empty_listing(scripted: Scripted, name: str) -> None:
    """Well-formed HTML is an empty listing for obstore, although the log exists."""
    objects = scripted.objects("page-listing")
    assert list(objects.list_log()) == []
    scripted.keys = [f"_delta_log/{name}"]
    with pytest.raises(Unavailable, match="returned an empty listing"):
        list(objects.list_log())
    with pytest.raises(Unavailable):
        list(scripted.objects("page-200").list_log())


def test_403_for_a_missing_hint_is_a_log_without_a_hint(scripted: Scripted) -> None:
    """S3 does this for callers that may not list the bucket."""
    objects = scripted.objects("no-listing")
    assert list(objects.list_log()) == []
    with pytest.raises(TableUnreadable, match="the table has no Delta log"):
        find_segment(objects)
    scripted.keys = [f"t/_delta_log/{name}" for name in COMMITS[:3]]
    assert read_hint(objects) == 0
    segment = find_segment(objects)
    assert (segment.version, segment.checkpoint, len(segment.commits)) == (2, None, 3)


def test_large_subfolder_is_skipped(scripted: Scripted) -> None:
    names = [*COMMITS[:3], "_last_checkpoint", "zz"]
    inner = [f"_sidecars/{number:05}.parquet" for number in range(9000)] + ["_staged_commits/x.json"]
    scripted.keys = [f"t/_delta_log/{name}" for name in names + inner]
    objects = scripted.objects("bucket")
    assert [file.name for file in objects.list_log()] == names
    assert len(scripted.requests) == 2


@pytest.mark.parametrize(
    ("bucket", "raised"),
    [
        pytest.param("answer-503-slow", TooManyRequests, id="slow-down"),
        pytest.param("answer-429-busy", TooManyRequests, id="too-many-requests"),
        pytest.param("answer-500-internal", Unavailable, id="internal-error"),
        pytest.param("answer-403-denied", TableUnreadable, id="access-denied"),
        pytest.param("answer-401-unknown", TableUnreadable, id="unauthenticated"),
        pytest.param("answer-301-moved", TableUnreadable, id="other-region-redirect"),
        pytest.param("answer-400-region", TableUnreadable, id="other-region-refused"),
        pytest.param("answer-404-nothing", FileNotFoundError, id="not-found"),
        pytest.param("answer-400-RequestTimeout", Unavailable, id="slow-client"),
        pytest.param("answer-400-ExpiredToken", Unavailable, id="session-ended"),
        pytest.param("answer-403-RequestTimeTooSkewed", Unavailable, id="clock-skew"),
        pytest.param("answer-400-KMS.ThrottlingException", TooManyRequests, id="throttled-by-kms"),
        pytest.param("page-403", Unavailable, id="page-of-a-proxy"),
        pytest.param("page-400", Unavailable, id="page-of-a-proxy-400"),
    ],
)
def test_errors_of_the_store_are_translated(scripted: Scripted, bucket: str, raised: type[Exception]) -> None:
    objects = scripted.objects(bucket)
    for read in (lambda: objects.get("x"), lambda: objects.get_ranges("x", [(0, 4)]), lambda: objects.get_tail("x", 4)):
        with pytest.raises(raised) as caught:
            read()
        assert "secret-detail" not in str(caught.value)
    with pytest.raises(TableUnreadable if raised is FileNotFoundError else raised) as listing:
        list(objects.list_log())
    for failure in (caught.value, listing.value):
        if isinstance(failure, DeltaicError):
            assert bucket not in failure.message
            assert bucket in failure.detail


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (400, "KMS.DisabledException", "KMS key"),
        (400, "KMS.KMSInvalidStateException", "KMS key"),
        (400, "KMS.NotFoundException", "KMS key"),
        (400, "KMS.SomethingNew", "KMS key"),
        (403, "InvalidObjectState", "archived"),
        (400, "InvalidRequest", "SSE-C"),
        (403, "AccessDenied", "ask its provider to allow it"),
        (403, "InvalidAccessKeyId", "ask its provider to allow it"),
        (403, "AllAccessDisabled", "ask its provider to allow it"),
        (405, "MethodNotAllowed", "the server's log for the reason"),
        (501, "NotImplemented", "the server's log for the reason"),
    ],
)
def test_permanent_error_has_its_code_in_detail(scripted: Scripted, status: int, code: str, text: str) -> None:
    objects = scripted.objects(f"answer-{status}-{code}")
    for read in (lambda: objects.get("x"), lambda: objects.get_many(["x", "y"]), lambda: list(objects.list_log())):
        with pytest.raises(TableUnreadable, match=text) as caught:
            read()
        assert f"{status} {code}" in caught.value.detail
        assert code not in caught.value.message


@pytest.mark.parametrize(
    "key", ["redirects/x", "SlowDown/x", "PermanentRedirect", "StartTooLarge", "<Code>SlowDown</Code>", "BareRedirect"]
)
def test_key_does_not_influence_the_error(scripted: Scripted, key: str) -> None:
    objects = scripted.objects("answer-503-Overloaded")
    for read in (lambda: objects.get(key), lambda: objects.get_many([key, key])):
        with pytest.raises(Unavailable):
            read()


def test_failing_store_is_retried_briefly(scripted: Scripted) -> None:
    with pytest.raises(Unavailable):
        scripted.objects("answer-500-internal").get("x")
    assert len(scripted.requests) == 4


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "cn-north-1"])
@pytest.mark.parametrize("endpoint", ["", "https://gateway.example.com/s3", "https://store.example.com:8443"])
@pytest.mark.parametrize("path_style", [True, False], ids=["path", "host"])
@pytest.mark.parametrize("bucket", ["bucket", "my.bucket"])
def test_objects_are_read_from_the_host_of_urls(region: str, endpoint: str, path_style: bool, bucket: str) -> None:
    storage = StorageConfig(region=region, endpoint=endpoint, path_style=path_style)
    store = connection(bucket, storage, lambda: Credentials("a", "b"))
    url = obstore.sign(store, "GET", "t/x", timedelta(minutes=1))
    assert url.partition("?")[0] == f"{origin(storage, bucket).url}t/x"


def test_environment_does_not_change_the_endpoint(ministack: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # obstore reads these variables, but the storage must override them.
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "other",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "other",
        "AWS_REGION": "eu-west-3",
        "AWS_BUCKET": "other",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_SKIP_SIGNATURE": "true",
    }.items():
        monkeypatch.setenv(name, value)
    ministack.put("environment/_delta_log/x", b"data")
    locations = TableLocations.parse(f"s3://{ministack.bucket}/environment")
    objects = ObjectTableStore(locations, ministack.storage, lambda: ministack.credentials)
    assert objects.get("_delta_log/x") == b"data"
    assert [file.name for file in objects.list_log()] == ["x"]


def test_missing_server_is_unavailable() -> None:
    storage = StorageConfig(endpoint="http://127.0.0.1:9", path_style=True)
    objects = ObjectTableStore(TableLocations.parse("s3://bucket/t"), storage, lambda: Credentials("a", "b"))
    with pytest.raises(Unavailable, match="try again"):
        objects.get("x")
