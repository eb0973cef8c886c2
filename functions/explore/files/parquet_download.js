// Write rows to a Parquet file, one row group at a time. Values are exact, because the writer accepts unscaled decimals
// and microseconds.

import { ByteWriter, ParquetWriter } from "./vendored.js";
import { decimalOf } from "./values.js";

const GROUP_ROWS = 65_536;
const SIMPLE = {
  byte: { type: "INT32", converted_type: "INT_8" },
  short: { type: "INT32", converted_type: "INT_16" },
  integer: { type: "INT32" },
  long: { type: "INT64" },
  float: { type: "FLOAT" },
  double: { type: "DOUBLE" },
  boolean: { type: "BOOLEAN" },
  binary: { type: "BYTE_ARRAY" },
  string: { type: "BYTE_ARRAY", converted_type: "UTF8", logical_type: { type: "STRING" } },
  date: { type: "INT32", converted_type: "DATE", logical_type: { type: "DATE" } },
  timestamp: { type: "INT64", logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MICROS" } },
  timestamp_ntz: { type: "INT64", logical_type: { type: "TIMESTAMP", isAdjustedToUTC: false, unit: "MICROS" } },
};

/**
 * Write rows, and pass the bytes on after each row group.
 * @returns {Promise<{rows: number}>}
 */
export async function writeParquet(file, columns, batches, { wrote = () => {} } = {}) {
  const schema = [{ name: "root", num_children: columns.length }, ...columns.flatMap((column) => elements(column.name, column.type))];
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({ writer: bytes, schema, statistics: false, createdBy: "deltaic explore" });
  const converters = columns.map((column) => stored(column.type));
  let rows = 0;
  let pending = [];
  const group = async () => {
    const columnData = columns.map(({ name }, at) => ({ name, data: pending.map((row) => converters[at](row[at])), offsetIndex: false }));
    await writer.write({ columnData, rowGroupSize: GROUP_ROWS });
    await hand(bytes, file);
    rows += pending.length;
    pending = [];
    wrote(rows);
  };
  for await (const batch of batches) {
    for (const row of batch) if (pending.push(row) >= GROUP_ROWS) await group();
  }
  if (pending.length) await group();
  await writer.finish();
  await hand(bytes, file);
  return { rows };
}

async function hand(bytes, file) {
  await file.write(bytes.getBuffer());
  bytes.index = 0;
}

/** Return the schema elements of a field, in Parquet's order. */
function elements(name, type, repetition_type = "OPTIONAL") {
  const decimal = decimalOf(type);
  if (decimal) {
    const { precision, scale } = decimal;
    const logical_type = { type: "DECIMAL", precision, scale };
    const described = { name, repetition_type, converted_type: "DECIMAL", logical_type, precision, scale };
    return [{ ...described, type: "FIXED_LEN_BYTE_ARRAY", type_length: 16 }];
  }
  if (typeof type === "string") return [{ name, repetition_type, ...SIMPLE[type] }];
  const container = (children, properties) => ({ name, repetition_type, num_children: children, ...properties });
  if (type.type === "struct") {
    return [container(type.fields.length), ...type.fields.flatMap((field) => elements(field.name, field.type))];
  }
  if (type.type === "array") {
    const list = { converted_type: "LIST", logical_type: { type: "LIST" } };
    return [container(1, list), { name: "list", repetition_type: "REPEATED", num_children: 1 }, ...elements("element", type.elementType)];
  }
  const entries = { name: "key_value", repetition_type: "REPEATED", num_children: 2 };
  const map = { converted_type: "MAP", logical_type: { type: "MAP" } };
  return [container(1, map), entries, ...elements("key", type.keyType, "REQUIRED"), ...elements("value", type.valueType)];
}

/** Return the function that converts a value for the writer: structs become objects. */
function stored(type) {
  if (typeof type === "string") return (value) => value;
  const ofNull = (convert) => (value) => (value === null ? null : convert(value));
  if (type.type === "struct") {
    const parts = type.fields.map((field) => [field.name, stored(field.type)]);
    return ofNull((value) => Object.fromEntries(parts.map(([name, convert], at) => [name, convert(value[at])])));
  }
  if (type.type === "array") {
    const convert = stored(type.elementType);
    return ofNull((value) => value.map(convert));
  }
  const [key, value] = [stored(type.keyType), stored(type.valueType)];
  return ofNull((entries) => entries.map((entry) => ({ key: key(entry.key), value: value(entry.value) })));
}
