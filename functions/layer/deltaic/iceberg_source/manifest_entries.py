"""Decode the entries of a manifest with Arrow: one value of all entries at a time.

Entries have no lengths, so their places in a block are unknown. The text of `file_format` is a likely marker in each.
If every entry, from the end of the one before, decodes up to the next marker, all places are proven. Otherwise
fastavro decodes the entries one by one, as it does if there are few.
"""

import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, reduce
from io import BytesIO
from itertools import islice
from typing import Any, Final, NamedTuple, Self, cast

import fastavro
import pyarrow as pa
from isal import isal_zlib

from deltaic import compute as pc
from deltaic.iceberg.refusals import unshareable
from deltaic.iceberg_source.file_statistics import to_dict

BOUNDS: Final = ("lower_bounds", "upper_bounds")
_NUMBERS: Final = ("status", "snapshot_id", "sequence_number", "record_count", "file_size_in_bytes")
_FIELDS: Final = (*_NUMBERS, "file_path", "file_format", "partition", "key_metadata")
PIECE_SIZES: Final = (2048, 16384)
"""Fewest entries in the first and in each later piece of a manifest, except for the last. A response starts with the
first piece; larger ones need less time for each entry."""
_LARGE: Final = 4 << 20
"""Compressed bytes with which a later piece is complete, too: some 12 MB, and 40 MB as files."""
_FEW: Final = 48
"""Fewer entries are decoded faster with fastavro."""
_MOST_VALUES: Final = 1 << 21
"""Most values that are decoded at once, some 40 MB: a block can have any number of entries and columns."""
_OBJECTS: Final = 100
"""Bytes of values as Python objects by bytes in Arrow, at most."""
_STEP: Final = 32
"""Fewest bytes that each step decodes on average: fastavro is faster with fewer."""
_CODECS: Final = frozenset({"null", "deflate"})
_MARKER: Final = re.compile(rb"\x0eparquet", re.IGNORECASE)
_BLOCK: Final = fastavro.parse_schema({
    "type": "record", "name": "block", "fields": [
        {"name": "count", "type": "long"}, {"name": "data", "type": "bytes"},
        {"name": "sync", "type": {"type": "fixed", "name": "marker", "size": 16}},
    ],
})  # fmt: skip
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_BITS: Final = [
    pa.array([(octet & 127) << at >> 1 ^ (-(octet & 1) if at == 0 else 0) for octet in range(256)], pa.int64())
    for at in range(0, 63, 7)
]
"""Bits of an integer by its encoded bytes, of which it is the XOR. It has up to nine, because more can be invalid."""
_ONE, _SEVEN = pa.scalar(1, pa.int64()), pa.scalar(7, pa.uint8())

Record = dict[str, Any]
Key = str | tuple[str, int]
"""A field, or a map and a field id in it."""


def check_codec(reader: Any) -> None:
    """Raise UnsupportedOperation for a compression of Avro files that needs further packages."""
    if reader.codec not in _CODECS:
        remedy = "set the property write.avro.compression-codec to gzip and rewrite its manifests"
        raise unshareable(f"its manifests are compressed with {reader.codec}", remedy)


class Entries(NamedTuple):
    """Some entries of a manifest, as columns."""

    number: int
    columns: Mapping[Key, Any]
    """Arrays of integers or bytes, in which missing values are null. Columns without values can be missing."""

    def values(self, key: Key) -> Any:
        """Return the values of a field, or of a field id in a map."""
        return self.columns[key] if key in self.columns else pa.nulls(self.number, _type(key))

    def select(self, selected: Any) -> Self:
        """Return the selected entries."""
        columns = {key: pc.filter(values, selected) for key, values in self.columns.items()}
        return self._replace(number=selected.true_count, columns=columns)


class EntryReader:
    """Reader of the entries of a manifest."""

    def __init__(self, content: bytes, keys: Mapping[str, Collection[int]]) -> None:
        """Read the header; `keys` are the field ids whose values are decoded, by map."""
        self._content, self._stream, self.keys = content, BytesIO(content), keys
        header: Any = fastavro.block_reader(self._stream)
        check_codec(header)
        self._is_deflated = header.codec == "deflate"
        self.named: dict[str, Any] = {}
        self._schema = cast("Record", fastavro.parse_schema(header.writer_schema, self.named))
        self.fields: list[Any] = []
        for field in self._schema["fields"]:
            self.fields += field["type"]["fields"] if field["name"] == "data_file" else [field]
        self.count = 0
        """Number of the entries in the blocks that `pieces` has read."""
        self._partition: Any = next((field["type"] for field in self.fields if field["name"] == "partition"), None)

    def pieces(self, first: int) -> Iterator[tuple[int, bytes, int, bool]]:
        """Yield pieces from number `first` on: number, blocks for `read`, their entries, and whether it is the last."""
        sync = self._content[self._stream.tell() - 16 : self._stream.tell()]
        number, count, blocks = 0, 0, list[bytes]()
        while self._stream.tell() < len(self._content):
            block: Any = fastavro.schemaless_reader(self._stream, _BLOCK, None)
            if block["sync"] != sync:
                raise ValueError("a block does not end with the marker of the file")
            is_large = not number or count >= PIECE_SIZES[1] or sum(map(len, blocks)) >= _LARGE
            if count >= PIECE_SIZES[0] and is_large:
                if number >= first:
                    yield number, self._join(blocks), count, False
                number, count, blocks = number + 1, 0, []
            count += block["count"]
            self.count += block["count"]
            blocks.append(block["data"])
        if number >= first:
            yield number, self._join(blocks), count, True

    def _join(self, blocks: Sequence[bytes]) -> bytes:
        """Return joined blocks and another byte, which is read with the last integer."""
        inflated = (isal_zlib.decompress(block, -15) for block in blocks) if self._is_deflated else blocks
        return b"".join((*inflated, b"\0"))

    def read(self, padded: bytes, number: int) -> Iterator[Entries]:
        """Decode the entries of a piece, in parts of bounded memory; at least one part."""
        most = max(1, _MOST_VALUES // (len(_FIELDS) + sum(map(len, self.keys.values()))))
        end, size = 0, len(padded) - 1
        markers = array("q", (match.start() for match in islice(_MARKER.finditer(padded), number + 1)))
        if len(markers) == number >= _FEW:
            with suppress(ArithmeticError, LookupError, RecursionError, TypeError, ValueError, pa.ArrowException):
                for at in range(0, number, most):
                    entries, end = _Lanes(self, padded, markers[at : at + most], end).read()
                    yield entries
        if not size:
            yield Entries(0, {})
        stream = BytesIO(padded)
        while end < size:
            rows = list[Record]()
            stream.seek(end)
            while len(rows) <= most // _OBJECTS and stream.tell() < size:
                entry: Any = fastavro.schemaless_reader(stream, self._schema, None)
                rows.append(entry | entry["data_file"])
            yield self._entries(rows)
            end = stream.tell()

    def _entries(self, rows: Sequence[Record]) -> Entries:
        columns: dict[Key, Any] = {name: [row.get(name) for row in rows] for name in _FIELDS}
        columns["partition"] = list(map(self._encode, columns["partition"]))
        for name, keys in self.keys.items():
            maps = [to_dict(row.get(name)) for row in rows]
            columns |= {(name, key): [values.get(key) for values in maps] for key in keys}
        return Entries(len(rows), {key: pa.array(values, _type(key)) for key, values in columns.items()})

    def _encode(self, partition: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, self._partition, partition)
        return stream.getvalue()

    def partition(self, encoded: bytes) -> Record:
        """Return the decoded partition of an entry."""
        return cast("Record", fastavro.schemaless_reader(BytesIO(encoded), self._partition, None))


class _Lanes:
    """Entries that are decoded together, each in its lane. Any error means an unusual or an invalid encoding."""

    def __init__(self, reader: EntryReader, padded: bytes, markers: "array[int]", start: int) -> None:
        self._reader, self._padded, self._start = reader, pa.py_buffer(padded), start
        self._bytes = pa.Array.from_buffers(pa.uint8(), len(padded), [None, self._padded])
        self._markers = pa.Array.from_buffers(pa.int64(), len(markers), [None, pa.py_buffer(markers)])
        self._lanes = _count(len(markers))
        self._steps = 1000 + (markers[-1] - start) // _STEP
        self._parts: dict[Key, list[Any]] = {}

    def read(self) -> tuple[Entries, int]:
        """Return the entries, and where the last one ends."""
        fields = self._reader.fields
        names = [field["name"] for field in fields]
        if len(set(names)) < len(names):
            raise ValueError("two fields have the same name")
        middle = names.index("file_format")
        ends = self._fields(fields[middle:], self._markers)
        starts = pa.concat_arrays([pa.array([self._start], pa.int64()), ends[:-1]])
        end = ends[-1].as_py()
        if not self._fields(fields[:middle], starts).equals(self._markers) or end >= len(self._padded):
            raise ValueError("an entry does not have its file format at the marker")
        return Entries(len(starts), {key: self._column(key, parts) for key, parts in self._parts.items()}), end

    def _fields(self, fields: Sequence[Any], at: Any) -> Any:
        for field in fields:
            name = field["name"]
            key = name if name in _FIELDS or name in self._reader.keys else None
            at = self._decode(field["type"], at, self._lanes, key)
        return at

    def _decode(self, kind: Any, at: Any, lanes: Any, key: Any = None) -> Any:
        """Return where values of an Avro type end that start `at` positions in some lanes; keep them under a key."""
        self._steps -= 1
        if self._steps < 0:
            raise ValueError("too many steps")
        kind = self._reader.named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            branches = dict(enumerate(kind))
            return self._split(at, lanes, lambda branch, at, lanes: self._decode(branches[branch], at, lanes, key))
        name, start, numbers = kind if isinstance(kind, str) else kind["type"], at, None
        match name:
            case "int" | "long":
                groups, at = self._octets(at)
                numbers = None if key is None else _integers(groups)
            case "bytes" | "string":
                groups, start = self._octets(at)
                lengths = _integers(groups)
                if pc.min(lengths).as_py() < 0:
                    raise ValueError("a negative length")
                at = pc.add_checked(start, lengths)
            case "record":
                for field in kind["fields"]:
                    at = self._decode(field["type"], at, lanes)
            case "array":
                return self._split(
                    at, lanes, lambda count, at, lanes: self._block(count, kind["items"], at, lanes, key)
                )
            case "map":
                pair = {"type": "record", "fields": [{"type": "string"}, {"type": kind["values"]}]}
                return self._split(at, lanes, lambda count, at, lanes: self._block(count, pair, at, lanes, key))
            case "enum":
                return self._decode(["null"] * len(kind["symbols"]), at, lanes, key)
            case _:
                at = pc.add_checked(at, pa.scalar(kind["size"] if name == "fixed" else _SIZES[name], pa.uint32()))
        if key is not None and name != "null":
            self._parts.setdefault(key, []).append((lanes, start, at) if numbers is None else (lanes, numbers))
        return at

    def _split(self, at: Any, lanes: Any, decode: Callable[..., Any]) -> Any:
        """Return where values end that begin with an integer, such as the branch of a union, which selects the type."""
        groups, at = self._octets(at)
        octets = _raw(groups[0])
        if len(groups) == 1 and octets == octets[:1] * len(at):
            return decode(_BITS[0][octets[0]].as_py(), at, lanes)
        numbers = _integers(groups)
        for number in pc.unique(numbers).to_pylist():
            mask = pc.equal(numbers, number)
            at = pc.replace_with_mask(at, mask, decode(number, pc.filter(at, mask), pc.filter(lanes, mask)))
        return at

    def _block(self, count: int, kind: Any, at: Any, lanes: Any, key: Any) -> Any:
        """Return where arrays end that have one block of `count` items."""
        if count < 0:  # followed by the size of the block
            _, at = self._octets(at)
        for _ in range(abs(count)):
            at = self._decode(kind, at, lanes) if key is None else self._pair(kind, at, lanes, key)
        return self._decode(["null"], at, lanes) if count else at  # zero ends the array

    def _pair(self, kind: Any, at: Any, lanes: Any, name: str) -> Any:
        key, value = kind["fields"]
        if (key["name"], key["type"], value["name"]) != ("key", "int", "value"):
            raise ValueError("not a map of field ids")
        wanted = self._reader.keys[name]

        def decode(key: int, at: Any, lanes: Any) -> Any:
            return self._decode(value["type"], at, lanes, (name, key) if key in wanted else None)

        return self._split(at, lanes, decode)

    def _octets(self, at: Any) -> tuple[list[Any], Any]:
        """Return the first, second and further bytes of integers, which are zero after the last, and where they end."""
        octets, at = pc.take(self._bytes, at), pc.add_checked(at, _ONE)
        groups = [octets]
        while not _raw(octets).isascii():  # some integers go on
            if len(groups) == len(_BITS):
                raise ValueError("an integer has more than 63 bits")
            goes_on = pc.shift_right(octets, _SEVEN)
            octets, at = pc.multiply(pc.take(self._bytes, at), goes_on), pc.add(at, goes_on)
            groups.append(octets)
        return groups, at

    def _column(self, key: Key, parts: Sequence[Any]) -> Any:
        # The last part first, because the last one of equal keys in a map counts.
        arrays = [places[0] if len(places) == 1 else self._slices(*places) for _, *places in reversed(parts)]
        if any(values.type != _type(key) for values in arrays):
            raise ValueError("a field of another type")
        if len(arrays) == 1 and len(arrays[0]) == len(self._lanes):
            return arrays[0]
        at = pc.index_in(self._lanes, pa.concat_arrays([lanes for lanes, *_ in reversed(parts)]))
        return pc.take(pa.concat_arrays(arrays), at)

    def _slices(self, starts: Any, ends: Any) -> Any:
        """Return the bytes from `starts` to `ends`, which ascend, without looking at each in Python."""
        alternating, even = _indexes(len(starts))
        offsets = pc.take(pa.concat_arrays([starts, ends]), alternating)
        slices = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, offsets.buffers()[1], self._padded])
        return pc.cast(pc.take(slices, even), pa.binary())


def _raw(octets: Any) -> bytes:
    raw: bytes = octets.buffers()[1].to_pybytes()
    return raw[: len(octets)]


def _integers(groups: Sequence[Any]) -> Any:
    """Return integers from their bytes."""
    return reduce(pc.bit_wise_xor, (pc.take(bits, octets) for bits, octets in zip(_BITS, groups, strict=False)))


@lru_cache(maxsize=8)
def _indexes(count: int) -> tuple[Any, Any]:
    """Return the indexes 0, count, 1, count + 1, and so on, and `count` even indexes."""
    places = _count(2 * count)
    alternating = pc.add(pc.shift_right(places, 1), pc.multiply(pc.bit_wise_and(places, 1), count))
    return alternating, pc.multiply(places[:count], 2)


def _count(count: int) -> Any:
    return pc.subtract(pc.cumulative_sum(pa.repeat(_ONE, count)), _ONE)


def _type(key: Key) -> pa.DataType:
    if isinstance(key, str):
        return pa.int64() if key in _NUMBERS else pa.binary()
    return pa.binary() if key[0] in BOUNDS else pa.int64()
