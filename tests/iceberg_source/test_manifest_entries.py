"""Test that manifests are decoded by expression exactly as value by value."""

import json
import re
import struct
import weakref
from collections.abc import Sequence
from copy import deepcopy
from io import BytesIO
from itertools import chain
from random import Random
from typing import Any, Final

import fastavro
import pytest
from deltaic.iceberg.avro import container
from deltaic.iceberg_source.manifest_entries import EntryReader
from deltaic.iceberg_source.manifest_files import ManifestReader, SourceManifest, TablePaths
from deltaic.pruning.values import column_type
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
    "m.avro", 0, is_deletes=False, sequence_number=9, snapshot_id=7, added=9000, existing=0, deleted=0, summaries=[]
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
    return random.choice(["", "a", 'q"\\', "x" * 16, "\x0ePARQUET", "y" * 31]).encode()


def _entry(random: Random, number: int) -> dict[str, Any]:
    def pairs(values: Any, share: float) -> Any:
        if random.random() < 0.02:
            return None
        keys = [key for key in (*COLUMNS, 99) if random.random() < share and (key < 99 or random.random() < 0.02)]
        if random.random() < 0.02:
            random.shuffle(keys)
        return [{"key": key, "value": values(key)} for key in keys]

    counts = {name: pairs(lambda _: random.choice([0, 0, 5, 1 << 40]), 0.95) for name in list(MAPS)[:4]}
    bounds = {name: pairs(lambda key: _bound(random, TYPES[(key - 1) % 14]), 0.9) for name in list(MAPS)[4:]}
    path = random.choice([f"s3://b/t/a-{number}.parquet", "s3://b/t/d=%2F/\x0ePARQUET/ü.parquet", f"s3://o/{number}"])
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


@pytest.mark.parametrize("seed", range(4))
def test_random_manifests_are_decoded_as_value_by_value(seed: int) -> None:
    random = Random(seed)  # noqa: S311 -- files of a test
    entries = [_entry(random, number) for number in range(random.choice([30, 700, 900]) if seed else 3000)]
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


def _encode(entries: Sequence[dict[str, Any]]) -> bytes:
    stream = BytesIO()
    for entry in entries:
        fastavro.schemaless_writer(stream, ENTRY, entry)
    return stream.getvalue()


def test_most_entries_match_the_expression() -> None:
    random = Random(1)  # noqa: S311 -- files of a test
    entries = [_entry(random, number) for number in range(300)]
    reader = EntryReader(json.dumps(ENTRY), [*COLUMNS], ("lower_bounds",))
    list(reader.read(_encode(entries[:1]), many=True))
    matches = [reader._pattern.match(_encode([entry])) for entry in entries]
    assert sum(match is not None for match in matches) > len(entries) // 3


def test_a_first_file_without_bounds_of_some_columns_does_not_change_the_order() -> None:
    entry = _entry(Random(3), 1)  # noqa: S311 -- files of a test
    file = entry["data_file"] | {name: [{"key": key, "value": 1} for key in COLUMNS] for name in list(MAPS)[:4]}
    few = file | {name: [{"key": 4, "value": b"a"}] for name in ("lower_bounds", "upper_bounds")}
    stream = BytesIO()
    fastavro.writer(stream, ENTRY, [entry | {"data_file": few}])
    blocks: Any = fastavro.block_reader(BytesIO(stream.getvalue()))
    reader = _reader({})._entry_reader(blocks, next(iter(blocks)).bytes_.getvalue())
    list(reader.read(_encode([entry | {"data_file": few}]), many=True))
    many = file | {name: [{"key": key, "value": b"a"} for key in COLUMNS] for name in ("lower_bounds", "upper_bounds")}
    assert reader._pattern.fullmatch(_encode([entry | {"data_file": many | {"file_format": "PARQUET"}}]))


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


def test_a_block_with_many_entries_is_decoded_in_parts_of_bounded_memory() -> None:
    reader = EntryReader(json.dumps(ENTRY), range(300), ("null_value_counts", "lower_bounds"))
    number = 2_000
    parts = [entries.integers("record_count") for entries in reader.read(_encode([_usual_entry()]) * number, many=True)]
    assert [len(part) * reader._next <= 1 << 19 for part in parts] == [True] * len(parts)
    assert len(parts) > 1
    assert sum(map(len, parts)) == number
    assert len(set(chain(*parts))) == 1


NULL_COUNTS: Final = [{"key": 1, "value": 0}]


def _usual_entry() -> dict[str, Any]:
    values = {"file_path": "s3://b/t/x.parquet", "partition": {"day": 3, "city": "a"}, "split_offsets": [4]}
    file = _entry(Random(2), 1)["data_file"] | dict.fromkeys(MAPS) | values  # noqa: S311 -- a file of a test
    return {"status": 1, "snapshot_id": 3, "sequence_number": 2, "data_file": file | {"null_value_counts": NULL_COUNTS}}


def _read(schema: dict[str, Any], encoded: bytes, *, many: bool) -> list[Any]:
    [entries] = EntryReader(json.dumps(schema), [1, 2], ("null_value_counts",)).read(encoded, many=many)
    numbers = [entries.integers(name) for name in ("status", "snapshot_id", "sequence_number", "record_count")]
    fields = [entries.encoded("file_path"), entries.encoded("key_metadata")]
    return [*fields, *numbers, entries.integers(("null_value_counts", 1))]


@pytest.mark.parametrize("many", [False, True])
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
def test_entries_with_an_unusual_schema_have_the_same_values(name: str, change: Any, many: bool) -> None:
    schema, entry = deepcopy(ENTRY), _usual_entry()
    entry["data_file"] |= {"split_offsets": None, "sort_order_id": None}
    for field in (*schema["fields"], *schema["fields"][-1]["type"]["fields"]):
        if field["name"] == name:
            field["type"] = change(field["type"])
            field.pop("default", None)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), entry)
    assert _read(schema, stream.getvalue(), many=many) == _read(ENTRY, _encode([entry]), many=False)


@pytest.mark.parametrize(
    "number", ["848000", "84808080808080808002", "8480808080808080808001", "8480808080808080808002"]
)
def test_numbers_with_more_bytes_than_they_need_have_the_same_values(number: str) -> None:
    encoded = _encode([_usual_entry()])
    head = b"\x02\x02\x06\x02"  # status, snapshot, and that there is a sequence number
    assert encoded.startswith(head + b"\x04")
    other = head + bytes.fromhex(number) + encoded[len(head) + 1 :]
    assert _read(ENTRY, other, many=True) == _read(ENTRY, other, many=False)


def test_a_schema_with_repeated_types_does_not_make_a_long_expression() -> None:
    schema = deepcopy(ENTRY)
    kind: Any = {"type": "record", "name": "d0", "fields": [{"name": "first", "type": "int"}]}
    for level in range(1, 30):
        fields = [{"name": "first", "type": kind}, {"name": "second", "type": f"d{level - 1}"}]
        kind = {"type": "record", "name": f"d{level}", "fields": fields}
    arrays: Any = "long"
    for _ in range(30):
        arrays = {"type": "array", "items": arrays}
    schema["fields"][-1]["type"]["fields"] += [_optional("doubled", kind), _optional("nested", arrays)]
    assert len(EntryReader(json.dumps(schema), [*COLUMNS], ("lower_bounds",))._expression) < 100_000


def test_expressions_are_freed_with_their_reader() -> None:
    reader = EntryReader(json.dumps(ENTRY | {"doc": "freed"}), [7], ("lower_bounds",))
    list(reader.read(_encode([_usual_entry()]), many=True))
    expression = weakref.ref(reader._pattern)
    del reader
    assert expression() is None
