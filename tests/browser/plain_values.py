"""Decides when a value of the page is Spark's: both as plain JSON, doubles by their bits and all digits of the rest."""

import json
import struct
from typing import Any

import pyarrow as pa

READ = """async ({token, name, version, changes}) => {
    const home = location.href + "/";
    const {Sharing} = await import(home + "protocol.js");
    const {snapshotRows, changedRows, columnsOf} = await import(home + "rows.js");
    const {decimalOf, decimalText} = await import(home + "values.js");
    const plain = (value, type) => {
        if (value === null || value === undefined) return null;
        if (type === "float" || type === "double") {
            if (Number.isNaN(value)) return "NaN";
            const view = new DataView(new ArrayBuffer(8));
            view.setFloat64(0, value);
            return view.getBigUint64(0).toString(16).padStart(16, "0");
        }
        if (decimalOf(type)) return decimalText(value, decimalOf(type).scale);
        if (type === "binary") return Array.from(value, byte => byte.toString(16).padStart(2, "0")).join("");
        if (typeof type === "string") return typeof value === "bigint" ? String(value) : value;
        if (type.type === "array") return value.map(one => plain(one, type.elementType));
        if (type.type === "struct") return type.fields.map((one, at) => plain(value[at], one.type));
        const pairs = value.map(one => [plain(one.key, type.keyType), plain(one.value, type.valueType)]);
        return pairs.map(pair => JSON.stringify(pair)).sort();
    };
    const sharing = new Sharing(location.href.replace(/.explore$/, ""), token);
    const table = {share: "Client_Share", schema: "Tables", name};
    let columns = [];
    const began = one => void (columns = columnsOf(one).shown);
    const rows = [];
    const add = (batch, kind) => {
        for (const row of batch) rows.push([...row.map((value, at) => plain(value, columns[at].type)), ...kind]);
    };
    try {
        if (changes) {
            const parts = sharing.changes(table, version);
            for await (const {kind, rows: batch} of changedRows(parts, {began})) add(batch, [kind]);
        } else {
            const at = version === null ? {} : {version};
            for await (const batch of snapshotRows(sharing.snapshot(table, {at}), {began})) add(batch, []);
        }
    } catch (error) {
        return {error: error.message};
    }
    return {columns: columns.map(one => one.name), rows: rows.map(row => JSON.stringify(row))};
}"""
"""Reads a version of a table, or its changes, by the page's own modules."""


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return Spark's value as the page's is told; `value` is a scalar of pyarrow."""
    types = pa.types
    if not value.is_valid:
        return None
    if types.is_floating(kind):
        number = float(value.as_py())
        return "NaN" if number != number else struct.pack(">d", number).hex()  # noqa: PLR0124 -- NaN alone differs
    if types.is_decimal(kind):
        return f"{value.as_py():f}"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return value.as_py().hex()
    if types.is_timestamp(kind):
        per_unit = {"s": 1_000_000, "ms": 1000, "us": 1}
        return str(value.value // 1000 if kind.unit == "ns" else value.value * per_unit[kind.unit])
    if types.is_date(kind):
        return value.value
    if types.is_int64(kind):
        return str(value.as_py())
    if types.is_list(kind):
        return [plain(one, kind.value_type) for one in value.values]
    if types.is_struct(kind):
        return [plain(value[field.name], field.type) for field in kind]
    if types.is_map(kind):
        pairs = [[plain(one["key"], kind.key_type), plain(one["value"], kind.item_type)] for one in value.values]
        return sorted(told(pair) for pair in pairs)
    return value.as_py()


def told(value: Any) -> str:
    """Return JSON as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows of a table as the page's are told."""
    columns = [[plain(one, field.type) for one in table[field.name]] for field in table.schema]
    return [told(list(row)) for row in zip(*columns, strict=True)]
