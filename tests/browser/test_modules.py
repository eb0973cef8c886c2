"""Test the page's modules with values, filters and deletion vectors that no golden table has."""

import datetime as dt
import struct
import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from browser.conftest import open_page
from client.provider import Provider
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

MAGIC = 1681511377


@pytest.fixture(scope="module")
def modules(browser: Browser, provider: Provider) -> Iterator[Page]:
    with open_page(browser, f"{provider.endpoint}/explore") as page:
        yield page


def call_module(modules: Page, module: str, body: str, argument: Any) -> Any:
    """Run a function body with a module's exports as `m`; an error is returned as its message."""
    code = f"""async argument => {{
        const m = await import(location.href + "/{module}.js");
        try {{ {body} }} catch (error) {{ return {{error: error.message}}; }}
    }}"""
    return modules.evaluate(code, argument)


def array(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def bitmap(values: list[int]) -> bytes:
    bits = bytearray(8192)
    for value in values:
        bits[value >> 3] |= 1 << (value & 7)
    return bytes(bits)


def runs(pairs: list[tuple[int, int]]) -> bytes:
    return struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", first, more) for first, more in pairs)


def without_runs(containers: list[tuple[int, int, bytes]]) -> bytes:
    """Write a bitmap of (key, cardinality, container) tuples, with offsets."""
    head = struct.pack("<II", 12346, len(containers))
    keys = b"".join(struct.pack("<HH", key, count - 1) for key, count, _ in containers)
    return head + keys + bytes(4 * len(containers)) + b"".join(content for *_, content in containers)


def with_runs(containers: list[tuple[int, int, bytes]], flags: int) -> bytes:
    head = struct.pack("<I", 12347 | (len(containers) - 1) << 16) + bytes([flags])
    keys = b"".join(struct.pack("<HH", key, count - 1) for key, count, _ in containers)
    offsets = bytes(4 * len(containers)) if len(containers) >= 4 else b""
    return head + keys + offsets + b"".join(content for *_, content in containers)


def vector(bitmaps: list[tuple[int, bytes]]) -> bytes:
    return struct.pack("<Iq", MAGIC, len(bitmaps)) + b"".join(
        struct.pack("<I", key) + content for key, content in bitmaps
    )


EVEN = list(range(0, 65536, 2))
VECTORS = {
    "array": (vector([(0, without_runs([(0, 2, array([1, 9]))]))]), [1, 9]),
    "bitmap": (vector([(0, without_runs([(1, len(EVEN), bitmap(EVEN))]))]), [65536 + value for value in EVEN]),
    "runs": (vector([(0, with_runs([(0, 5, runs([(3, 2), (10, 1)]))], 1))]), [3, 4, 5, 10, 11]),
    "runs and others": (
        vector([(0, with_runs([(key, 1, runs([(7, 0)]) if key % 2 else array([8])) for key in range(4)], 0b1010))]),
        [8, 65536 + 7, 131072 + 8, 196608 + 7],
    ),
    "beyond 32 bits": (vector([(2, without_runs([(0, 1, array([5]))]))]), [2 * 2**32 + 5]),
    "none": (vector([]), []),
}
DELETED = """
    const bytes = Uint8Array.from(argument.bytes);
    const said = {storageType: "p", pathOrInlineDv: "", offset: 1, ...argument.said};
    return await m.deletedRows(said, async (_, start, end) => bytes.slice(start, end).buffer);
"""


def stored(content: bytes) -> bytes:
    return b"\1" + struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))


@pytest.mark.parametrize("name", VECTORS)
def test_every_container_of_deletion_vectors_is_read(modules: Page, name: str) -> None:
    content, expected = VECTORS[name]
    description = {"sizeInBytes": len(content), "cardinality": len(expected)}
    assert (
        call_module(modules, "deletion_vectors", DELETED, {"bytes": [*stored(content)], "said": description})
        == expected
    )


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), {}),
        (lambda content: content[:12] + bytes([content[12] ^ 1]) + content[13:], {}),
        (lambda content: content, {"cardinality": 3}),
        (lambda content: content, {"storageType": "u"}),
    ],
)
def test_incomplete_deletion_vector_shows_no_rows(modules: Page, changed: Any, fields: dict[str, Any]) -> None:
    content, expected = VECTORS["array"]
    description = {"sizeInBytes": len(content), "cardinality": len(expected), **fields}
    answer = call_module(
        modules, "deletion_vectors", DELETED, {"bytes": [*changed(stored(content))], "said": description}
    )
    assert "its rows are not shown" in answer["error"]


def test_dates_and_times_are_formatted_and_parsed(modules: Page) -> None:
    days = [-719162, -141427, -1, 0, 58, 59, 11016, 19782, 2932896, *range(-700_000, 2_900_000, 7919)]
    texts = call_module(modules, "values", 'return argument.map(day => m.cellText(day, "date"));', days)
    assert texts == [(dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat() for day in days]
    assert call_module(modules, "values", 'return argument.map(text => m.fromText(text, "date"));', texts) == days
    micros = [day * 86_400_000_000 + day % 1_000_003 for day in days[:-1]]
    body = """return argument.map(BigInt).map(value => m.cellText(value, "timestamp_ntz"))
                             .map(text => [text, String(m.fromText(text, "timestamp"))]);"""
    for (text, parsed), value in zip(
        call_module(modules, "values", body, [str(value) for value in micros]), micros, strict=True
    ):
        time = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)  # noqa: DTZ001 -- no zone
        assert dt.datetime.fromisoformat(text.ljust(26, "0") if "." in text else text) == time
        assert int(parsed) == value


@pytest.mark.parametrize(
    ("text", "scale", "unscaled"),
    [("0.1", 2, 10), ("-0.05", 2, -5), ("12", 0, 12), ("9" * 38, 0, int("9" * 38)), ("1e3", 1, 10_000)],
)
def test_decimal_keeps_every_digit(modules: Page, text: str, scale: int, unscaled: int) -> None:
    kind = f"decimal(38,{scale})"
    body = "const value = m.fromText(argument[0], argument[1]); return [String(value), m.cellText(value, argument[1])];"
    parsed, formatted = call_module(modules, "values", body, [text, kind])
    assert (int(parsed), Decimal(formatted)) == (unscaled, Decimal(text))


@pytest.mark.parametrize(
    ("condition", "values", "matches"),
    [
        (("long", "=", "9007199254740993"), ["9007199254740992n", "9007199254740993n"], [1]),
        (("decimal(5,1)", ">", "0.15"), ["1n", "2n", "null"], [1]),
        (("string", "<", "\U0001f600"), ['"\\uffee"', '"\U0001f601"'], [0]),
        (("string", "contains", "b"), ['"abc"', '"B"', "null"], [0]),
        (("double", ">", "1e308"), ["NaN", "Infinity", "1"], [0, 1]),
        (("timestamp", "≤", "2026-01-01 01:00:00.000001+01:00"), ["1767225600000001n", "1767225600000002n"], [0]),
        (("date", "≠", "1970-01-02"), ["0", "1", "null"], [0]),
        (("integer", "is null", ""), ["0", "null"], [1]),
    ],
)
def test_filter_matches_the_same_values_as_spark(
    modules: Page, condition: tuple[str, str, str], values: list[str], matches: list[int]
) -> None:
    body = f"""
        const [type, sign, text] = argument;
        const test = m.rowTest([{{column: "c", sign, text}}], [{{name: "c", type}}]);
        return [{", ".join(values)}].flatMap((value, at) => test([value]) ? [at] : []);
    """
    assert call_module(modules, "filters", body, list(condition)) == matches


@pytest.mark.parametrize(
    ("kind", "text", "hinted"),
    [
        ("long", "5", True),
        ("double", "5", True),
        ("double", "NaN", False),  # statistics do not include it
        ("timestamp", "2026-01-01 00:00:00.001", True),
        ("timestamp", "2026-01-01 00:00:00.000001", False),  # a hint would be less precise than the filter
        ("decimal(5,1)", "5", False),  # hints do not support decimals
        ("float", "0.1", False),  # hints do not support floats that are rounded when stored
        ("timestamp_ntz", "2026-01-01", False),
    ],
)
def test_only_exact_filters_are_sent_as_hints(modules: Page, kind: str, text: str, hinted: bool) -> None:
    body = """const [type, text] = argument;
              return m.hintsOf([{column: "c", sign: "=", text}], [{name: "c", type}]) !== null;"""
    assert call_module(modules, "filters", body, [kind, text]) is hinted


def test_table_with_unknown_feature_is_refused_by_name(modules: Page) -> None:
    body = """
        const [known, answer] = [fetch, new Response(argument)];
        globalThis.fetch = async () => answer;
        const reader = new m.Sharing("https://shares.example", "t");
        await reader.metadata({share: "s", schema: "s", name: "t"}).finally(() => (globalThis.fetch = known));
    """
    lines = (
        '{"protocol":{"deltaProtocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["newThing"]}}}\n'
        '{"metaData":{"deltaMetadata":{"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}"}}}\n'
    )
    assert call_module(modules, "protocol", body, lines)["error"].startswith(
        "This page cannot read tables with newThing"
    )
