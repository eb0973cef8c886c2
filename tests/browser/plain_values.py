"""Compare values of the page with those of Spark: as plain JSON, doubles by their bits, others with all digits."""

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
        if (type.type === "array") return value.map(item => plain(item, type.elementType));
        if (type.type === "struct") return type.fields.map((field, index) => plain(value[index], field.type));
        const pairs = value.map(item => [plain(item.key, type.keyType), plain(item.value, type.valueType)]);
        return pairs.map(pair => JSON.stringify(pair)).sort();
    };
    const sharing = new Sharing(location.href.replace(/.explore$/, ""), {token});
    const table = {share: "Client_Share", schema: "Tables", name};
    let columns = [];
    const rows = [];
    const add = (batch, kind) => {
        for (const row of batch) rows.push([...row.map((value, index) => plain(value, columns[index].type)), ...kind]);
    };
    try {
        if (changes) {
            const {table: schema, files} = await sharing.changes(table, version);
            columns = columnsOf(schema).shown;
            for await (const {kind, rows: batch} of changedRows(schema, files)) add(batch, [kind]);
        } else {
            const {table: schema, files} = await sharing.snapshot(table, {at: version === null ? {} : {version}});
            columns = columnsOf(schema).shown;
            for await (const batch of snapshotRows(schema, files)) add(batch, []);
        }
    } catch (error) {
        return {error: error.message};
    }
    return {columns: columns.map(column => column.name), rows: rows.map(row => JSON.stringify(row))};
}"""
"""JavaScript that reads a version of a table, or its changes, with the page's modules."""


def to_plain(value: Any, kind: pa.DataType) -> Any:
    """Return a pyarrow scalar in the form of the page's values."""
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
        return [to_plain(item, kind.value_type) for item in value.values]
    if types.is_struct(kind):
        return [to_plain(value[field.name], field.type) for field in kind]
    if types.is_map(kind):
        pairs = [
            [to_plain(item["key"], kind.key_type), to_plain(item["value"], kind.item_type)] for item in value.values
        ]
        return sorted(to_json(pair) for pair in pairs)
    return value.as_py()


def to_json(value: Any) -> str:
    """Return JSON in the format of JavaScript."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows of a table in the form of the page's rows."""
    columns = [[to_plain(item, field.type) for item in table[field.name]] for field in table.schema]
    return [to_json(list(row)) for row in zip(*columns, strict=True)]
