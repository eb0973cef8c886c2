"""Decode the entries of a manifest with a regular expression, many times faster than with a general Avro reader.

The encoding of an entry is a regular language, as long as its texts and lists are short. The expression, which is made
from the schema in the manifest, matches only valid encodings. So it never reads another value than fastavro, which
reads the entries that do not match, such as those with long bounds, and all entries of an unusual schema.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from itertools import compress, islice
from typing import Any, Final, NamedTuple, Self, cast

import fastavro

from deltaic.iceberg.avro import integer
from deltaic.iceberg.refusals import unshareable

BOUNDS: Final = ("lower_bounds", "upper_bounds")
_FIELDS: Final = frozenset({
    "status", "snapshot_id", "sequence_number", "file_path", "file_format", "partition", "record_count",
    "file_size_in_bytes", "key_metadata",
})  # fmt: skip
_NOTHING: Final = b"(?!)"
"""Expression that matches nothing."""
_INTEGER: Final = rb"[\x80-\xff]{0,8}+[\x00-\x7f]"
"""Integers of up to 63 bits, because longer ones can be invalid."""
_FIXED: Final = {
    "null": b"",
    "boolean": rb"[\x00\x01]",
    "int": _INTEGER,
    "long": _INTEGER,
    "float": b".{4}",
    "double": b".{8}",
}
PIECE: Final = 2048
"""Fewest entries in a piece of a manifest, except for the last."""
_CODECS: Final = frozenset({"null", "deflate"})
_MOST_VALUES: Final = 1 << 19
"""Most values that are decoded at once, some 40 MB: a block can have any number of entries and columns."""
_MOST_BYTES: Final = 32
"""Longest text that the expression matches: twice as long as the bounds that Iceberg writes, if they are ASCII."""
_MOST_PATH: Final = 2000
_MOST_ITEMS: Final = 32
_MOST_ITEM: Final = 1000
"""Longest expression of an item of an array, because it is repeated."""
_MOST_EXPRESSION: Final = 1 << 18
"""Longest expression that is compiled, for about 300 columns, because this takes one or two milliseconds per column."""

Record = dict[str, Any]
Key = str | tuple[str, int]
"""A field, or a map and a field id in it."""
Column = tuple[bytes | None, ...]
"""Encoded values of entries; None for null. A path has no length, and a bound has one byte before it."""
Row = Sequence[bytes | None]


def check_codec(reader: Any) -> None:
    """Raise UnsupportedOperation for a compression of Avro files that needs further packages."""
    if reader.codec not in _CODECS:
        remedy = "set the property write.avro.compression-codec to gzip and rewrite its manifests"
        raise unshareable(f"its manifests are compressed with {reader.codec}", remedy)


def join_blocks(blocks: Any) -> Iterator[tuple[bytes, int, bool]]:
    """Yield joined blocks with at least PIECE encoded entries, with their number and whether they are the last."""
    encoded: list[bytes] = []
    count = 0
    for block in blocks:
        if count >= PIECE:
            yield b"".join(encoded), count, False
            encoded, count = [], 0
        encoded.append(block.bytes_.getvalue())
        count += block.num_records
    yield b"".join(encoded), count, True


class Entries(NamedTuple):
    """Some entries of a manifest, as columns of encoded values."""

    columns: Sequence[Column]
    indexes: Mapping[Key, int]
    numbers: "_Integers"

    def encoded(self, key: Key) -> Column:
        """Return the encoded values of a field, or of a field id in a map; None for missing ones."""
        if key in self.indexes and self.columns:
            return self.columns[self.indexes[key]]
        return (None,) * len(self.columns[0]) if self.columns else ()

    def integers(self, key: Key) -> Sequence[Any]:
        """Return the integers of a field, or of a field id in a map."""
        return list(map(self.numbers.__getitem__, self.encoded(key)))

    def bounds(self, name: str, key: int) -> Sequence[bytes | None]:
        """Return the bounds of a column."""
        return [value and value[1:] for value in self.encoded((name, key))]

    def select(self, selected: Sequence[bool]) -> Self:
        """Return the selected entries."""
        return self._replace(columns=[tuple(compress(values, selected)) for values in self.columns])


class _Integers(dict[bytes | None, int | None]):
    """Decoded integers by their encoding, because many are equal; None for None."""

    def __missing__(self, encoded: bytes | None) -> int | None:
        number = None if encoded is None else _read_integer(encoded, 0)[0]
        self[encoded] = number
        return number


class EntryReader:
    """Reader of the entries of manifests with one schema."""

    def __init__(self, schema: str, keys: Sequence[int], maps: Sequence[str]) -> None:
        """Create a reader of the columns with the field ids `keys` in `maps`, which are of counts or BOUNDS."""
        decoded = json.loads(schema)
        self._schema = fastavro.parse_schema(decoded)
        self._keys, self._maps = keys, maps
        self._named: dict[str, Any] = {}
        """Named types of a fixed size. Others are expected in one place, because their expressions are long."""
        self._kinds: dict[str, Any] = {}
        self._maps_at: dict[str, tuple[int, int]] = {}
        """Columns of each map: the number of its items and then the values."""
        self._next = 0
        self.indexes: dict[Key, int] = {}
        """Column of each field, and of the values of each field id in a map."""
        self._expression = self._fields(decoded["fields"])
        self._pattern: Any = None

    def read(self, encoded: bytes, *, many: bool) -> Iterator[Entries]:
        """Decode entries, in parts of bounded memory; set `many` if it is worth compiling an expression."""
        if many and self._pattern is None and len(self._expression) <= _MOST_EXPRESSION:
            self._pattern = re.compile(self._expression, re.DOTALL)
            re.purge()  # which would keep up to 512 expressions, of a megabyte each
        position = end = 0
        while True:
            for pattern in (self._pattern, None) if self._pattern else (None,):
                rows, end = self._rows(encoded, position, pattern)
                columns = list(zip(*rows, strict=True))
                if self._is_exact(columns):
                    break
            yield Entries(columns, self.indexes, _Integers())
            position = end
            if position >= len(encoded):
                return

    def _rows(self, encoded: bytes, position: int, pattern: Any) -> tuple[list[Row], int]:
        """Return entries from a position on, as many as fit into memory, and where they end."""
        rows: list[Row] = []
        most, stream = max(1, _MOST_VALUES // self._next), BytesIO(encoded)
        while position < len(encoded) and len(rows) < most:
            matches = iter(pattern.scanner(encoded, position).match, None) if pattern else ()
            for match in islice(matches, most - len(rows)):
                rows.append(match.groups())
                position = match.end()
            if position < len(encoded) and len(rows) < most:
                stream.seek(position)
                rows.append(self._encode(cast("Record", fastavro.schemaless_reader(stream, self._schema, None))))
                position = stream.tell()
        return rows, position

    def partition(self, encoded: bytes) -> Record:
        """Return the decoded partition of an entry."""
        return cast("Record", fastavro.schemaless_reader(BytesIO(encoded), self._kinds["partition"], None))

    def _is_exact(self, columns: Sequence[Column]) -> bool:
        """Return whether paths are as long, and maps have as many items, as their entries declare."""
        if not columns:
            return True
        at = self.indexes["file_path"]
        lengths = [len(path or b"") for path in columns[at]]
        encoded = {length: integer(length) for length in set(lengths)}
        if columns[at - 1] != tuple(map(encoded.get, lengths)):
            return False
        for first, last in self._maps_at.values():
            sizes, *maps = columns[first:last]
            maps = [values for values in maps if any(values)]  # no encoded value is empty
            if all(map(all, maps)):
                numbers = [len(maps)] * len(sizes)
            else:
                numbers = [len(maps) - values.count(None) for values in zip(*maps, strict=True)]
            sizes_by_number = {number: integer(number) if number else None for number in set(numbers)}
            if sizes != tuple(map(sizes_by_number.get, numbers)):
                return False
        return True

    def _encode(self, entry: Record) -> Row:
        """Return a decoded entry as a row."""
        values = entry | entry["data_file"]
        row: list[bytes | None] = [None] * self._next
        for name, kind in self._kinds.items():
            if values.get(name) is not None:
                row[self.indexes[name]] = _encoded(kind, values[name])
        path = values["file_path"].encode()
        at = self.indexes["file_path"]
        row[at - 1 : at + 1] = integer(len(path)), path
        for name, (first, last) in self._maps_at.items():
            for pair in values.get(name) or ():
                if (index := self.indexes.get((name, pair["key"]))) is not None:
                    row[index] = b"\0" + pair["value"] if name in BOUNDS else integer(pair["value"])
            number = last - first - row[first:last].count(None)
            row[first] = integer(number) if number else None
        return row

    def _fields(self, fields: Iterable[Record]) -> bytes:
        """Return an expression for some fields, and set the indexes of the values that it captures."""
        expressions = []
        for field in fields:
            name, kind = field["name"], field["type"]
            if name == "data_file":
                expression = self._fields(kind["fields"])
            elif name == "file_path":
                self._next += 1
                self._capture(name)
                expression = b"(%b)(?>(.{0,%d}?)(?=\\x0e(?i:parquet)))" % (_INTEGER, _MOST_PATH)
                expression = expression if kind == "string" else _NOTHING
            elif name in self._maps:
                expression = self._map(name)
                expression = expression if _is_map(name, kind) else _NOTHING
            elif name in _FIELDS:
                self._capture(name)
                [value_kind] = [branch for branch in kind if branch != "null"] if isinstance(kind, list) else [kind]
                self._kinds[name] = fastavro.parse_schema(value_kind)
                expression = b"(%b)" % self._encoding(value_kind)
                if isinstance(kind, list):
                    expression = rb"(?:\x00|\x02%b)" % expression if kind[0] == "null" else _NOTHING
            else:
                expression = self._encoding(kind)
            expressions.append(expression)
        return b"".join(expressions)

    def _capture(self, key: Key) -> None:
        self.indexes[key] = self._next
        self._next += 1

    def _map(self, name: str) -> bytes:
        """Return an expression for a map of field ids in ascending order, each of which can be missing."""
        first = self._next
        self._next += 1
        value = _short_text() if name in BOUNDS else _INTEGER
        items = []
        for key in self._keys:
            self._capture((name, key))
            items.append(b"(?:%b(%b))?+" % (re.escape(integer(key)), value))
        self._maps_at[name] = first, self._next
        return rb"(?:\x00|\x02(?:\x00|(%b)%b\x00))" % (_INTEGER, b"".join(items))

    def _encoding(self, kind: Any) -> bytes:
        """Return an expression for the values of an Avro type (Avro specification, "Binary encoding")."""
        kind = self._named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            branches = [re.escape(integer(at)) + self._encoding(branch) for at, branch in enumerate(kind)]
            return b"(?:%b)" % b"|".join(branches)
        name = kind if isinstance(kind, str) else kind["type"]
        if isinstance(name, (dict, list)):
            return self._encoding(name)
        if name in {"bytes", "string"}:
            return _short_text()
        if name == "fixed":
            self._named[kind["name"]] = kind
            return b".{%d}" % kind["size"]
        if name == "record":
            return b"".join(self._encoding(field["type"]) for field in kind["fields"])
        if name == "array":
            item, keys = self._encoding(kind["items"]), len(self._keys)
            if len(item) > _MOST_ITEM:
                return _NOTHING
            counts = sorted(range(1, max(_MOST_ITEMS, keys) + 1), key=lambda count: min(count - 1, abs(count - keys)))
            items = [rb"%b(?:%b){%d}\x00" % (re.escape(integer(count)), item, count) for count in counts]
            return rb"(?:\x00|%b)" % b"|".join(items)
        return _FIXED.get(name, _NOTHING)


def _is_map(name: str, kind: Any) -> bool:
    """Return whether `kind` is the type of the map `name` as in the specification ("Appendix A: Avro")."""
    match kind:
        case ["null", {"type": "array", "items": {"fields": [{"name": "key"} as key, {"name": "value"} as value]}}]:
            return bool((key["type"], value["type"]) == ("int", "bytes" if name in BOUNDS else "long"))
    return False


def _encoded(kind: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, kind, value)
    return stream.getvalue()


@lru_cache
def _short_text() -> bytes:
    sizes = sorted(range(_MOST_BYTES + 1), key=lambda size: size not in {4, 8})  # those of numbers first
    texts = [re.escape(integer(size)) + (b".{%d}" % size if size else b"") for size in sizes]
    return b"(?:%b)" % b"|".join(texts)


def _read_integer(encoded: bytes, start: int) -> tuple[int, int]:
    """Return the Avro int or long at `start`, and where it ends."""
    number = shift = 0
    for at in range(start, len(encoded)):
        number |= (encoded[at] & 0x7F) << shift
        if encoded[at] < 0x80:  # noqa: PLR2004 -- the last of its bytes
            return number >> 1 ^ -(number & 1), at + 1
        shift += 7
    raise EOFError


entry_reader: Final = lru_cache(maxsize=16)(EntryReader)
"""EntryReader with compiled expressions of the last schemas."""
