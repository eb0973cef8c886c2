"""Test that manifests are decoded together exactly as value by value."""

import re
import struct
from array import array
from collections.abc import Sequence
from copy import deepcopy
from io import BytesIO
from random import Random
from typing import Any, Final

import fastavro
import pytest
from deltaic.iceberg.avro import container, integer
from deltaic.iceberg_source.manifest_entries import _MARKER, Entries, EntryReader, _Lanes
from deltaic.iceberg_source.manifest_files import ManifestReader, SourceManifest, TablePaths
from deltaic.pruning.values import column_type
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iceberg_source import slow_manifests

TYPES: Final = ("long", "double", "float", "string", "decimal(12,2)", "decimal(38,9)", "timestamp", "timestamp_ntz",
                "date", "integer", "boolean", "binary", "date", "string")  # fmt: skip
COLUMNS: Final = {
    key: ((f"c{key}",) if key % 3 else ("inner", f"c{key}"), column_type(name))
    for key, name in enumerate(TYPES, start=1)
}
DAY, CITY = 13, 14
MAPS: Final = {
    "column_sizes": "long", "value_counts": "long", "null_value_counts": "long", "nan_value_counts": "long",
    "lower_bounds": "bytes", "upper_bounds": "bytes",
}  # fmt: skip


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _map(name: str, kind: str) -> dict[str, Any]:
    pair = [{"name": "key", "type": "int"}, {"name": "value", "type": kind}]
    return _optional(name, {"type": "array", "items": {"type": "record", "name": f"of_{name}", "fields": pair}})


PARTITION: Final = [_optional("day", {"type": "int", "logicalType": "date"}), _optional("city", "string")]
FILE: Final = [
    {"name": "content", "type": "int"}, {"name": "file_path", "type": "string"},
    {"name": "file_format", "type": "string"},
    {"name": "partition", "type": {"type": "record", "name": "r102", "fields": PARTITION}},
    {"name": "record_count", "type": "long"}, {"name": "file_size_in_bytes", "type": "long"},
    *(_map(name, kind) for name, kind in MAPS.items()), _optional("key_metadata", "bytes"),
    _optional("split_offsets", {"type": "array", "items": "long"}), _optional("sort_order_id", "int"),
]  # fmt: skip
ENTRY: Final[dict[str, Any]] = {
    "type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int"}, _optional("snapshot_id", "long"), _optional("sequence_number", "long"),
        {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": FILE}},
    ],
}  # fmt: skip
MANIFEST: Final = SourceManifest(
    "m.avro", 0, is_deletes=False, sequence_number=9, snapshot_id=7, added=0, existing=0, deleted=0, summaries=[]
)


def _bound(random: Random, name: str) -> bytes:
    if random.random() < 0.01:
        return random.choice([b"", b"\xff", random.randbytes(random.choice([3, 4, 8, 17, 40, 63, 64, 200]))])
    if name in {"long", "timestamp", "timestamp_ntz"}:
        bits = random.choice([8, 50, 56, 63])
        return random.randint(-(1 << bits), (1 << bits) - 1).to_bytes(8, "little", signed=True)
    if name in {"integer", "date"}:
        return random.randint(-(1 << 20), 1 << 20).to_bytes(random.choice([4, 4, 8]), "little", signed=True)
    if name in {"float", "double"}:
        value = random.choice([0.0, -0.0, 1e-5, 12.5, 3e30, float("nan"), float("inf"), random.uniform(-9, 9)])
        return struct.pack("<f" if name == "float" or random.random() < 0.2 else "<d", value)
    if name.startswith("decimal"):
        return random.randint(-(10**11), 10**11).to_bytes(random.choice([5, 6, 16]), "big", signed=True)
    if random.random() < 0.02:
        return ("\U0001f600" * 16).encode()
    return random.choice(["", "a", 'q"\\', "x" * 16, "y" * 31]).encode()


def _entry(random: Random, number: int, marker: str = "") -> dict[str, Any]:
    def pairs(values: Any, share: float) -> Any:
        if random.random() < 0.02:
            return None
        keys = [key for key in (*COLUMNS, 99) if random.random() < share and (key < 99 or random.random() < 0.02)]
        if random.random() < 0.02:
            random.shuffle(keys)
        if random.random() < 0.02:
            keys += keys[:1]
        return [{"key": key, "value": values(key)} for key in keys]

    counts = {name: pairs(lambda _: random.choice([0, 0, 5, 1 << 40]), 0.95) for name in list(MAPS)[:4]}
    bounds = {name: pairs(lambda key: _bound(random, TYPES[(key - 1) % 14]), 0.9) for name in list(MAPS)[4:]}
    path = random.choice([f"s3://b/t/a-{number}.parquet", f"s3://b/t/d=%2F/a{marker}/ü.parquet", f"s3://o/{number}"])
    file = {
        "content": 0, "file_path": path, "file_format": random.choice(["PARQUET", "parquet"]),
        "partition": {"day": random.choice([None, 3, -9]), "city": random.choice([None, *["Turku"] * 9, "z" * 50])},
        "record_count": random.randint(0, 1 << 40), "file_size_in_bytes": random.randint(1, 1 << 40), **counts,
        **bounds, "key_metadata": None, "split_offsets": random.choice([None, *[[4], [4, 0, 9]] * 5, [*range(40)]]),
        "sort_order_id": 0,
    }  # fmt: skip
    choice = random.choice
    return {
        "status": choice([0, 1, 1, 2]), "snapshot_id": choice([None, 3]), "sequence_number": choice([None, 2]),
        "data_file": file,
    }  # fmt: skip


def _reader(partition_columns: dict[int, str]) -> ManifestReader:
    fields = [{"source-id": key, "transform": "identity"} for key in (DAY, CITY)]
    return ManifestReader(TablePaths("s3://b/t"), COLUMNS, {}, (), partition_columns, {0: fields}, {3: 33, 7: 77})


@pytest.mark.parametrize("marker", ["", "\x0ePARQUET"])
@pytest.mark.parametrize("seed", range(4))
def test_random_manifests_are_decoded_as_value_by_value(seed: int, marker: str) -> None:
    random = Random(seed)  # noqa: S311 -- files of a test
    numbers = range(random.choice([30, 700, 900]) if seed else 3000)
    entries = [_entry(random, number, marker) for number in numbers]
    stream = BytesIO()
    codec, size = random.choice(["deflate", "null"]), random.choice([1, 5_000, 64_000, 1 << 30])
    fastavro.writer(stream, ENTRY, entries, codec, size)
    reader = _reader(random.choice([{DAY: "day"}, {DAY: "day", CITY: "city"}, {}]))
    pieces = list(reader.pieces(MANIFEST, stream.getvalue()))
    decoded = [
        ({**{name: value for name, value in row.items() if value is not None},
          "stats": slow_manifests.parsed(row["stats"])}, key)
        for piece in pieces for row, key in zip(piece.files.to_pylist(), piece.keys, strict=True)
    ]  # fmt: skip
    assert decoded == slow_manifests.live_files(reader, MANIFEST, stream.getvalue())
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    for first in range(len(pieces)):
        later = reader.pieces(MANIFEST, stream.getvalue(), first=first)
        assert [(piece.number, piece.files) for piece in later] == [(p.number, p.files) for p in pieces[first:]]


def _encode(entries: Sequence[dict[str, Any]], schema: Any = ENTRY) -> bytes:
    stream, parsed = BytesIO(), fastavro.parse_schema(schema)
    for entry in entries:
        fastavro.schemaless_writer(stream, parsed, entry)
    return stream.getvalue()


KEYS: Final = {name: [*COLUMNS] for name in ("null_value_counts", "value_counts", "lower_bounds", "upper_bounds")}


def _piece(schema: Any, bodies: Sequence[bytes], keys: Any = None) -> tuple[EntryReader, bytes]:
    """Return a reader of a manifest with these encoded entries, and its only piece."""
    reader = EntryReader(container(schema, {}, len(bodies), b"".join(bodies)), keys or KEYS)
    [(_, padded, count, is_last)] = reader.pieces(0)
    assert (count, is_last) == (len(bodies), True)
    return reader, padded


def _together(reader: EntryReader, padded: bytes) -> tuple[Entries, int]:
    """Decode a piece together; raises an error for an unusual encoding."""
    return _Lanes(reader, padded, array("q", [match.start() for match in _MARKER.finditer(padded)]), 0).read()


def _one_by_one(reader: EntryReader, padded: bytes) -> Entries:
    [entries] = reader.read(padded, 0)
    return entries


def _values(reader: EntryReader, entries: Entries) -> dict[Any, list[Any]]:
    fields = ["status", "snapshot_id", "sequence_number", "record_count", "file_size_in_bytes", "file_path"]
    keys: list[Any] = [*fields, "key_metadata", *((name, key) for name, keys in reader.keys.items() for key in keys)]
    values = {key: entries.values(key).to_pylist() for key in keys}
    return values | {"partition": [reader.partition(value) for value in entries.values("partition").to_pylist()]}


def _check(reader: EntryReader, padded: bytes) -> None:
    entries, end = _together(reader, padded)
    assert end == len(padded) - 1
    assert _values(reader, entries) == _values(reader, _one_by_one(reader, padded))


def test_entries_are_decoded_together() -> None:
    random = Random(1)  # noqa: S311 -- files of a test
    _check(*_piece(ENTRY, [_encode([_entry(random, number)]) for number in range(300)]))


def _types(depth: int = 2) -> st.SearchStrategy[tuple[Any, Any]]:
    """Return a strategy for Avro types, each with a function that chooses one of its values."""
    size = st.integers(0, 5)
    plain = st.sampled_from([
        ("null", lambda _: None), ("boolean", lambda random: random.random() < 0.5),
        ("int", lambda random: random.randint(-(1 << random.choice([5, 12, 31])), 1 << random.choice([5, 12, 30]))),
        ("long", lambda random: random.randint(-(1 << random.choice([6, 40, 61])), 1 << random.choice([6, 40, 61]))),
        ("float", lambda random: float(random.randint(0, 9))), ("double", Random.random),
        ("bytes", lambda random: random.randbytes(random.choice([0, 3, 70]))),
        ("string", lambda random: "ä" * random.choice([0, 3, 70])),
    ])  # fmt: skip
    fixed = size.map(lambda size: ({"type": "fixed", "name": "f", "size": size}, lambda random: random.randbytes(size)))
    enum = st.just(({"type": "enum", "name": "e", "symbols": ["a", "b"]}, lambda random: random.choice("ab")))
    if not depth:
        return plain | fixed | enum
    inner = _types(depth - 1)
    arrays = inner.map(
        lambda item: (
            {"type": "array", "items": item[0]},
            lambda random: [item[1](random) for _ in range(random.choice([0, 2, 3]))],
        )
    )
    maps = inner.map(
        lambda item: (
            {"type": "map", "values": item[0]},
            lambda random: {str(at): item[1](random) for at in range(random.choice([0, 1, 2]))},
        )
    )
    records = st.lists(inner, max_size=3).map(
        lambda items: (
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": f"f{at}", "type": item[0]} for at, item in enumerate(items)],
            },
            lambda random: {f"f{at}": item[1](random) for at, item in enumerate(items)},
        )
    )
    unions = inner.filter(lambda item: item[0] != "null").map(
        lambda item: (["null", item[0]], lambda random: item[1](random) if random.random() < 0.7 else None)
    )
    return plain | fixed | enum | arrays | maps | records | unions


def _renamed(kind: Any, names: Any) -> Any:
    """Return a type in which all named types have their own names."""
    if isinstance(kind, list):
        return [_renamed(branch, names) for branch in kind]
    if isinstance(kind, dict):
        renamed = {
            key: _renamed(value, names) if key in {"type", "items", "values"} else value for key, value in kind.items()
        }
        if "fields" in kind:
            renamed["fields"] = [{**field, "type": _renamed(field["type"], names)} for field in kind["fields"]]
        return renamed | ({"name": f"n{next(names)}"} if "name" in kind else {})
    return kind


@given(st.lists(st.tuples(_types(), st.integers(0, len(FILE))), max_size=4), st.integers(0, 1 << 30), st.integers(1, 6))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_entries_of_any_schema_are_decoded_together(extra: Any, seed: int, number: int) -> None:
    random, schema, names = Random(seed), deepcopy(ENTRY), iter(range(1000))  # noqa: S311 -- files of a test
    fields = schema["fields"][-1]["type"]["fields"]
    for at, ((kind, _), place) in enumerate(extra):
        fields.insert(place, {"name": f"x{at}", "type": _renamed(kind, names)})
    entries = [_entry(random, each) for each in range(number)]
    for entry in entries:
        entry["data_file"] |= {f"x{at}": value(random) for at, ((_, value), _) in enumerate(extra)}
    _check(*_piece(schema, [_encode([entry], schema) for entry in entries]))


@given(st.integers(0, 1 << 30), st.data())
@settings(deadline=None, max_examples=150)
def test_no_damage_is_decoded_to_other_values(seed: int, data: st.DataObject) -> None:
    random = Random(seed)  # noqa: S311 -- files of a test
    bodies = [_encode([_entry(random, number)]) for number in range(50)]
    reader, padded = _piece(ENTRY, bodies)
    damaged = bytearray(padded[:-1])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    padded = bytes([*damaged, 0])
    try:
        expected = _values(reader, _one_by_one(reader, padded))
    except UnicodeDecodeError:
        return
    except Exception:  # noqa: BLE001 -- fastavro raises several errors
        with pytest.raises(Exception):  # noqa: B017, PT011
            [_values(reader, entries) for entries in reader.read(padded, len(bodies))]
        return
    parts = [_values(reader, entries) for entries in reader.read(padded, len(bodies))]
    assert {key: [value for part in parts for value in part[key]] for key in expected} == expected


@pytest.mark.parametrize(
    ("encoded", "other"),
    [
        (b"\x04\x02\x00\x04\x00\x00", b"\x02\x02\x00\x02\x04\x00\x00"),  # two blocks of one pair
        (b"\x04\x02\x00\x04\x00\x00", b"\x03\x08\x02\x00\x04\x00\x00"),  # a block with its size in bytes
    ],
)
def test_other_encodings_of_a_map_have_the_same_values(encoded: bytes, other: bytes) -> None:
    entry = _entry(Random(2), 1)  # noqa: S311 -- files of a test
    entry["status"] = 1
    entry["data_file"] |= dict.fromkeys(MAPS) | {"null_value_counts": [{"key": key, "value": 0} for key in (1, 2)]}
    body = _encode([entry])
    assert body.count(encoded) == 1
    contents = [container(ENTRY, {}, 600, part * 600) for part in (body, body.replace(encoded, other))]
    first, second = ([piece.files for piece in _reader({}).pieces(MANIFEST, content)] for content in contents)
    assert first == second
    assert re.search(r'"nullCount":\{"c1":0,"c2":0', first[0]["stats"][0].as_py())


def test_blocks_with_a_negative_count_are_decoded_together() -> None:
    body = _encode([_usual_entry()])
    offsets = b"\x02\x02\x08\x00"  # present, one item, 4, end
    assert body.count(offsets) == 1
    _check(*_piece(ENTRY, [body, body.replace(offsets, b"\x02\x01\x02\x08\x00"), body]))


def test_a_block_with_many_entries_is_decoded_in_parts_of_bounded_memory() -> None:
    keys = {"null_value_counts": range(1500), "lower_bounds": range(1500)}
    reader, padded = _piece(ENTRY, [_encode([_usual_entry()])] * 2000, keys)
    numbers = [entries.number for entries in reader.read(padded, 2000)]
    assert [number * 3000 <= 1 << 21 for number in numbers] == [True] * len(numbers)
    assert len(numbers) > 1
    assert sum(numbers) == 2000


NULL_COUNTS: Final = [{"key": 1, "value": 0}]


def _usual_entry() -> dict[str, Any]:
    values = {"file_path": "s3://b/t/x.parquet", "partition": {"day": 3, "city": "a"}, "split_offsets": [4]}
    file = _entry(Random(2), 1)["data_file"] | dict.fromkeys(MAPS) | values  # noqa: S311 -- a file of a test
    return {"status": 1, "snapshot_id": 3, "sequence_number": 2, "data_file": file | {"null_value_counts": NULL_COUNTS}}


def _read(schema: dict[str, Any], encoded: bytes, number: int) -> Any:
    reader, padded = _piece(schema, [encoded] * number)
    [entries] = reader.read(padded, number)
    return {key: set(map(str, values)) for key, values in _values(reader, entries).items()}


@pytest.mark.parametrize("number", [1, 60])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sequence_number", lambda kind: kind[::-1]),
        ("snapshot_id", lambda kind: kind[::-1]),
        ("key_metadata", lambda kind: kind[::-1]),
        ("null_value_counts", lambda kind: kind[::-1]),
        ("null_value_counts", lambda kind: kind[1]),
        ("file_path", lambda kind: ["null", kind]),
        ("split_offsets", lambda _: ["null", {"type": "array", "items": {"type": "array", "items": "long"}}]),
        ("sort_order_id", lambda _: ["null", {"type": "enum", "name": "order", "symbols": ["none"]}]),
        ("sort_order_id", lambda _: ["null", {"type": "map", "values": "string"}]),
    ],
)
def test_entries_with_an_unusual_schema_have_the_same_values(name: str, change: Any, number: int) -> None:
    schema, entry = deepcopy(ENTRY), _usual_entry()
    entry["data_file"] |= {"split_offsets": None, "sort_order_id": None}
    for field in (*schema["fields"], *schema["fields"][-1]["type"]["fields"]):
        if field["name"] == name:
            field["type"] = change(field["type"])
            field.pop("default", None)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), entry)
    assert _read(schema, stream.getvalue(), number) == _read(ENTRY, _encode([entry]), 1)


@pytest.mark.parametrize(
    "number", ["848000", "84808080808080808002", "8480808080808080808001", "8480808080808080808002"]
)
def test_numbers_with_more_bytes_than_they_need_have_the_same_values(number: str) -> None:
    encoded = _encode([_usual_entry()])
    head = b"\x02\x02\x06\x02"  # status, snapshot, and that there is a sequence number
    assert encoded.startswith(head + b"\x04")
    other = head + bytes.fromhex(number) + encoded[len(head) + 1 :]
    assert _read(ENTRY, other, 60) == _read(ENTRY, other, 1)


def _doubled(levels: int) -> Any:
    kind: Any = {"type": "record", "name": "d0", "fields": [{"name": "first", "type": "null"}]}
    for level in range(1, levels):
        fields = [{"name": "first", "type": kind}, {"name": "second", "type": f"d{level - 1}"}]
        kind = {"type": "record", "name": f"d{level}", "fields": fields}
    return kind


@pytest.mark.parametrize(
    ("kind", "encoded"),
    [
        (_doubled(30), b""),
        ({"type": "array", "items": "null"}, integer(1 << 40)),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, integer(1 << 40)),
    ],
)
def test_many_values_without_bytes_are_not_decoded_together(kind: Any, encoded: bytes) -> None:
    schema = deepcopy(ENTRY)
    schema["fields"].insert(0, {"name": "extra", "type": kind})
    with pytest.raises((ValueError, LookupError)):
        _together(*_piece(schema, [encoded + _encode([_usual_entry()])] * 60))


def test_a_block_that_ends_with_another_marker_is_an_error() -> None:
    content = container(ENTRY, {}, 1, _encode([_usual_entry()]))
    with pytest.raises(ValueError, match="marker of the file"):
        list(EntryReader(content[:-1] + bytes([content[-1] ^ 1]), KEYS).pieces(0))
