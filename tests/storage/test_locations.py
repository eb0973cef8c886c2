"""Paths of a log are decoded once, resolved as in Hadoop, and refused outside the table."""

import re

import pyarrow as pa
import pytest
from deltaic.errors import DeltaicError, InvalidParameter, TableUnreadable, UnsupportedOperation
from deltaic.storage.locations import Location, TableLocations, encode_key
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import tries
from storage.keys import NASTY_KEYS

TABLE = TableLocations.parse("s3://lake/warehouse/t 1", ["s3a://lake/warehouse/source", "s3://other-lake/clone"])


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://bucket/a/b", "bucket", "a/b"),
        ("s3a://bucket/a/b/", "bucket", "a/b"),
        ("s3n://bucket//a", "bucket", "a"),
        ("S3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://my.bucket/a%20b c", "my.bucket", "a%20b c"),
    ],
)
def test_location_is_parsed(uri: str, bucket: str, prefix: str) -> None:
    location = Location.parse(uri)
    assert (location.bucket, location.prefix) == (bucket, prefix)
    assert Location.parse(location.uri) == location


@pytest.mark.parametrize(
    "uri",
    [
        *("", "bucket/a", "s3:/bucket/a", "gs://bucket/a", "file:///C:/tables/t", "https://bucket.s3.amazonaws.com/a"),
        *(
            "s3://",
            "s3:///a",
            "s3://b/a",
            "s3://bucket/a//b",
            "s3://bucket/a/../b",
            "s3://bucket/./a",
            "s3://bu cket/a",
        ),
        "s3://bucket/a\nb",
    ],
)
def test_invalid_location_is_refused(uri: str) -> None:
    with pytest.raises(InvalidParameter):
        Location.parse(uri)


def test_directory_bucket_is_refused_by_its_kind() -> None:
    with pytest.raises(InvalidParameter, match=r"S3 directory bucket.*general purpose bucket"):
        Location.parse("s3://lake--euc1-az1--x-s3/orders")


@pytest.mark.parametrize(
    ("inner", "contained"),
    [
        ("s3://lake/a/b", True),
        ("s3://lake/a/b/c", True),
        ("s3://lake/a/bc", False),
        ("s3://lake/a", False),
        ("s3://lake2/a/b", False),
    ],
)
def test_a_sibling_is_not_inside(inner: str, contained: bool) -> None:
    assert Location.parse("s3://lake/a/b").contains(Location.parse(inner)) is contained
    assert Location.parse("s3://lake").contains(Location.parse("s3://lake/a"))


@pytest.mark.parametrize(
    ("path", "bucket", "key"),
    [
        pytest.param("part-0.parquet", "lake", "warehouse/t 1/part-0.parquet", id="plain"),
        pytest.param("d=2021-01-01/p.parquet", "lake", "warehouse/t 1/d=2021-01-01/p.parquet", id="partition"),
        pytest.param("a%20b/c%2520d.parquet", "lake", "warehouse/t 1/a b/c%20d.parquet", id="decoded-once"),
        pytest.param("ts=10%253A00/p+q", "lake", "warehouse/t 1/ts=10%3A00/p+q", id="plus-is-plus"),
        pytest.param("%C3%A9/\u65e5.parquet", "lake", "warehouse/t 1/\u00e9/\u65e5.parquet", id="unicode"),
        pytest.param("100%/50%25", "lake", "warehouse/t 1/100%/50%", id="stray-percent"),
        pytest.param("a/./b/../c", "lake", "warehouse/t 1/a/c", id="dot-segments"),
        pytest.param("a//b", "lake", "warehouse/t 1/a/b", id="double-slash"),
        pytest.param("p=..x/..y", "lake", "warehouse/t 1/p=..x/..y", id="dots-in-names"),
        pytest.param("../source/x.parquet", "lake", "warehouse/source/x.parquet", id="up-into-auxiliary"),
        pytest.param("s3://lake/warehouse/t%201/x", "lake", "warehouse/t 1/x", id="absolute-inside"),
        pytest.param("s3a://lake/warehouse/source/x%2By", "lake", "warehouse/source/x+y", id="absolute-auxiliary"),
        pytest.param("s3n://other-lake/clone/d=1/x", "other-lake", "clone/d=1/x", id="absolute-other-bucket"),
        pytest.param("s3://other-lake//clone/x", "other-lake", "clone/x", id="absolute-double-slash"),
        pytest.param("a=1:2/b:c", "lake", "warehouse/t 1/a=1:2/b:c", id="colon-is-no-scheme"),
    ],
)
def test_a_path_resolves(path: str, bucket: str, key: str) -> None:
    name = TABLE.resolve(path)
    assert (name.bucket, name.key) == (bucket, key)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("s3://lake/warehouse/secret/x", "outside the table", id="same-bucket-outside"),
        pytest.param("s3://lake/warehouse/t 1x/x", "outside the table", id="sibling"),
        pytest.param("s3://elsewhere/x", "outside the table", id="other-bucket"),
        pytest.param("../secret/x", "outside the table", id="up-and-out"),
        pytest.param("%2E%2E/secret/x", "outside the table", id="encoded-up-and-out"),
        pytest.param("s3://lake/warehouse/t%201/../secret/x", "outside the table", id="absolute-up-and-out"),
        pytest.param("../../../x", "outside its bucket", id="out-of-the-bucket"),
        pytest.param("file:///C:/tables/x.parquet", "'file:' URI", id="windows-file"),
        pytest.param("file:/tmp/x.parquet", "'file:' URI", id="file"),
        pytest.param("abfss://c@a.dfs.core.windows.net/x", "'abfss:' URI", id="azure"),
        pytest.param("dbfs:/mnt/x", "'dbfs:' URI", id="dbfs"),
        pytest.param("/mnt/x", "without a bucket", id="no-scheme"),
    ],
)
def test_a_path_outside_is_refused_with_the_remedy(path: str, text: str) -> None:
    for resolve in (lambda: TABLE.resolve(path), lambda: TABLE.relative(pa.array([path], pa.string()))):
        with pytest.raises(UnsupportedOperation, match=re.escape(text)) as refusal:
            resolve()
        assert path in refusal.value.detail
        assert not [word for word in (path, "s3://", "lake", "warehouse") if word in refusal.value.message]


@pytest.mark.parametrize("path", ["", ".", "%FF", "s3://lake", "s3://lake/"], ids=repr)
def test_invalid_path_is_unreadable(path: str) -> None:
    with pytest.raises((TableUnreadable, UnsupportedOperation)):
        TABLE.resolve(path)


def resolve_each(paths: list[str]) -> list[bytes] | None:
    names = [TABLE.resolve(path) for path in paths]
    if not all(TABLE.root.holds(name) for name in names):
        return None
    return [encode_key(name.key[len(TABLE.root.key_prefix) :]).encode() for name in names]


segments = st.sampled_from(
    [
        "a",
        "part-0.parquet",
        "d=1",
        "d=%20",
        "ts=1%253A2",
        "..",
        ".",
        "",
        ".hidden",
        "x y",
        "\u00e9",
        "%C3%A9",
        "a+b",
        "a\nb",
        "%",
    ]
)
paths = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["", "", "", "s3://lake/warehouse/t%201/", "s3://other-lake/clone/", "s3://nowhere/", "/"]),
    st.lists(segments, min_size=1, max_size=4),
)


@settings(deadline=None, max_examples=tries(300))
@example(["a", "/a"])
@given(st.lists(paths, max_size=8))
def test_a_batch_resolves_as_each_path_does(paths: list[str]) -> None:
    expected: list[bytes] | str | None
    try:
        expected = resolve_each(paths)
    except DeltaicError:
        expected = "refused"
    try:
        actual: list[bytes] | str | None = TABLE.relative(pa.array(paths, pa.string()))
    except DeltaicError:
        actual = "refused"
    if expected == "refused":
        # The batch may stop at a path in an auxiliary location, before the refused path.
        assert actual in ("refused", None)
    else:
        assert actual == expected


@settings(deadline=None, max_examples=tries(300))
@given(paths)
def test_one_path_is_encoded_as_in_a_batch(path: str) -> None:
    try:
        expected: list[bytes] | str | None = resolve_each([path])
    except DeltaicError:
        with pytest.raises(DeltaicError):
            TABLE.encoded(path)
    else:
        encoded = TABLE.encoded(path)
        assert (None if encoded is None else [encoded]) == expected


@settings(deadline=None, max_examples=tries(300))
@given(st.lists(paths, max_size=4))
def test_uris_name_what_each_path_resolves_to(paths: list[str]) -> None:
    array = pa.array(paths, pa.string())
    try:
        expected = ["s3://{}/{}".format(*TABLE.resolve(path)) for path in paths]
    except DeltaicError:
        with pytest.raises(DeltaicError):
            TABLE.uris(array)
    else:
        assert TABLE.uris(array) == expected


def test_simple_batches_give_the_same_bytes_faster() -> None:
    simple_paths = [f"date=2021-01-0{n}/k=a=b/part-{n}~x_.parquet" for n in range(9)]
    assert TABLE.relative(pa.array(simple_paths, pa.string())) == resolve_each(simple_paths)
    assert TABLE.relative(pa.array(simple_paths, pa.string()).slice(3, 2)) == resolve_each(simple_paths[3:5])
    assert TABLE.relative(pa.array([], pa.string())) == []


# Hadoop resolves empty and dot segments, so writers never create such keys.
VALID_KEYS = [key for key in NASTY_KEYS if not {"", ".", ".."} & set(key.split("/"))]


@pytest.mark.parametrize("key", VALID_KEYS, ids=repr)
def test_encoded_key_resolves_to_the_key(key: str) -> None:
    assert TABLE.resolve(encode_key(key)).key == f"warehouse/t 1/{key}"
