// Read the rows of a Parquet file with the table's schema: columns by name or field id, widened, exact.
//
// The vendored reader gives decimals and timestamps as JavaScript numbers and keys structs and maps by name. So it is
// shown a schema without such types and with names that cannot collide, and what it gives is converted here.

import { decompressors, parquetMetadataAsync, parquetRead } from "./vendored.js";
import { decimalOf, typeText } from "./values.js";

const SLICE_ROWS = 32_768;
const STEP_CELLS = 50_000; // cells that are converted at once
const WHOLE_FILE_BYTES = 1 << 20; // a smaller file is fetched at once
const SMALL_BYTES = 4 << 20; // a smaller row group is fetched at once even for its first rows
const RANGE_BYTES = 8 << 20;
const FOOTER_BYTES = 64 << 10;
const DAY_MICROS = 86_400_000_000n;
const UTF8 = new TextDecoder();
const PARSERS = {
  timestampFromNanoseconds: (nanos) => nanos / 1000n, // INT96 alone is parsed: all other types are taken away
  stringFromBytes: (bytes) => bytes && UTF8.decode(bytes),
};

/**
 * Yield slices of rows, each as an array of values in the order of the fields, with the position of its first row.
 * @param {{url: string, size: number}} file
 * @param {Array<any>} fields of the table's schema, without partition columns
 * @param {{mode: string, read: (url: string, start: number, end: number) => Promise<ArrayBuffer>, first: number}} options `first`: rows that may be enough, so that no more is fetched before they are there
 */
export async function* slices(file, fields, { mode, read, first }) {
  const bytes = await buffered(file, read);
  const footer = await parquetMetadataAsync(bytes, { geoparquet: false, initialFetchSize: FOOTER_BYTES });
  const { metadata, columns, converters } = plan(footer, fields, mode);
  const rows = Number(footer.num_rows);
  const stepRows = Math.ceil(STEP_CELLS / (columns.length || 1));
  let groupStart = 0;
  let step = Math.min(SLICE_ROWS, first);
  for (const group of metadata.row_groups) {
    const groupEnd = groupStart + Number(group.num_rows);
    await bytes.keep(group, columns, step === SLICE_ROWS);
    for (let start = groupStart; start < groupEnd; step = SLICE_ROWS) {
      const end = Math.min(start + step, groupEnd);
      const raw = columns.length ? await slice(bytes, metadata, columns, start, end) : Array.from({ length: end - start }, () => []);
      for (let at = 0; at < raw.length; at += stepRows) {
        await pause();
        yield { start: start + at, rows: raw.slice(at, at + stepRows).map((row) => converters.map((convert) => convert(row))) };
      }
      start = end;
    }
    groupStart = groupEnd;
    bytes.forget();
  }
  if (groupStart !== rows) throw new Error("A file's footer is inconsistent; the table is not shown.");
}

/** Let the page scroll between two pieces of work. */
const pause = () => globalThis.scheduler?.yield?.();

/** @returns {Promise<any[][]>} */
function slice(file, metadata, columns, rowStart, rowEnd) {
  return new Promise((onComplete, failed) => {
    const options = { file, metadata, columns, rowStart, rowEnd, onComplete, rowFormat: "array", utf8: false };
    parquetRead({ ...options, useOffsetIndex: true, compressors: decompressors, parsers: PARSERS }).catch(failed);
  });
}

/** Return the file object of the reader: byte ranges by signed URL, cached while a row group is read. */
async function buffered({ url, size }, read) {
  const whole = size <= WHOLE_FILE_BYTES ? await read(url, 0, size) : null;
  let cached = [];
  return {
    byteLength: size,
    async slice(start, end = size) {
      await pause(); // once per column
      if (whole) return whole.slice(start, end);
      const match = cached.find((range) => range.start <= start && end <= range.end);
      if (match) return match.bytes.slice(start - match.start, end - match.start);
      const bytes = await read(url, start, end);
      cached.push({ start, end, bytes });
      return bytes;
    },
    /** Fetch the columns of a row group, adjacent ones at once; if only its first rows are needed, only small columns. */
    async keep(group, columns, all) {
      if (whole) return;
      const ranges = [];
      for (const { meta_data: chunk } of group.columns) {
        if (!columns.includes(chunk.path_in_schema[0])) continue;
        const start = Math.min(Number(chunk.dictionary_page_offset || chunk.data_page_offset), Number(chunk.data_page_offset));
        const end = start + Number(chunk.total_compressed_size);
        if (ranges.at(-1)?.end === start && end - ranges.at(-1).start <= RANGE_BYTES) ranges.at(-1).end = end;
        else ranges.push({ start, end });
      }
      if (!all && ranges.reduce((sum, { start, end }) => sum + end - start, 0) > SMALL_BYTES) return;
      await Promise.all(ranges.map(async ({ start, end }) => cached.push({ start, end, bytes: await read(url, start, end) })));
    },
    forget() {
      cached = [];
    },
  };
}

/** Return the schema for the reader, the columns to read, and the function that converts a raw row. */
function plan(footer, fields, mode) {
  const root = tree(footer.schema, 0).node;
  const schema = [];
  const renamed = new Map();
  show(root, "root", [], [], schema, renamed);
  const row_groups = footer.row_groups.map((group) => ({
    ...group,
    columns: group.columns.map((chunk) => {
      const path = renamed.get(JSON.stringify(chunk.meta_data.path_in_schema));
      return { ...chunk, meta_data: { ...chunk.meta_data, path_in_schema: path } };
    }),
  }));
  const columns = [];
  const converters = fields.map((field) => {
    const child = find(root, field, mode);
    if (!child) return () => null;
    const at = columns.push(String(root.children.indexOf(child))) - 1;
    const convert = converter(child, field.type, mode);
    return (row) => convert(row[at]);
  });
  return { metadata: { ...footer, schema, row_groups }, columns, converters };
}

function tree(schema, index) {
  const node = { element: schema[index], children: [] };
  let next = index + 1;
  for (let child = 0; child < (schema[index].num_children ?? 0); child++) {
    const subtree = tree(schema, next);
    node.children.push(subtree.node);
    next = subtree.next;
  }
  return { node, next };
}

/**
 * Append an element to the reader's schema: named by its position, without types that the reader would convert (strings
 * stay), with maps as lists of groups; record the position of each leaf.
 */
function show(node, name, from, to, output, renamed) {
  const { element, children } = node;
  const isText = element.converted_type === "UTF8" || element.logical_type?.type === "STRING" || element.converted_type === "ENUM";
  const repeats = children.length === 1 && children[0].element.repetition_type === "REPEATED";
  const converted_type = isText ? "UTF8" : repeats ? "LIST" : undefined;
  const grouped = element.repetition_type === "REPEATED" && children.length > 1;
  output.push({ ...element, name, converted_type, logical_type: undefined, ...(grouped && { num_children: 1 }) });
  const inside = grouped ? [...to, "0"] : to;
  if (grouped) output.push({ name: "0", repetition_type: "REQUIRED", num_children: children.length });
  if (!children.length) renamed.set(JSON.stringify(from), to);
  children.forEach((child, at) => {
    show(child, String(at), [...from, child.element.name], [...inside, String(at)], output, renamed);
  });
}

/** Return the element of a field: by its id, its physical name, or its name. */
function find(parent, field, mode) {
  const metadata = field.metadata ?? {};
  const id = metadata["delta.columnMapping.id"];
  if (mode === "id" && id !== undefined) return parent.children.find((child) => child.element.field_id === id);
  const name = mode === "none" ? field.name : (metadata["delta.columnMapping.physicalName"] ?? field.name);
  return parent.children.find((child) => child.element.name === name)
    ?? parent.children.find((child) => mode === "none" && child.element.name.toLowerCase() === name.toLowerCase());
}

/** Return the function that converts the reader's value to the type; throws if the result would not be exact. */
function converter(node, type, mode) {
  const ofNull = (convert) => (raw) => (raw === null || raw === undefined ? null : convert(raw));
  if (typeof type === "string") return ofNull(scalar(node.element, type));
  const repeated = node.children[0];
  if (type.type === "struct") {
    const parts = type.fields.map((field) => {
      const child = find(node, field, mode);
      if (!child) return () => null;
      const convert = converter(child, field.type, mode);
      const name = String(node.children.indexOf(child));
      return (raw) => convert(raw[name]);
    });
    return ofNull((raw) => parts.map((part) => part(raw)));
  }
  if (type.type === "array") {
    const convert = converter(repeated.children.length === 1 ? repeated.children[0] : repeated, type.elementType, mode);
    return ofNull((raw) => raw.map(convert));
  }
  const key = converter(repeated.children[0], type.keyType, mode);
  const value = repeated.children[1] ? converter(repeated.children[1], type.valueType, mode) : () => null;
  return ofNull((raw) => raw.map((entry) => ({ key: key(entry["0"]), value: value(entry["1"]) })));
}

function scalar(element, type) {
  const { type: physical, logical_type: logical, converted_type: converted } = element;
  const refuse = () => new Error(`A file has a column of type ${physical}, but the table's schema has ${typeText(type)}; the table is not shown.`);
  const isInteger = physical === "INT32" || physical === "INT64";
  const decimal = decimalOf(type);
  if (decimal) {
    if (physical === "BOOLEAN" || physical === "FLOAT" || physical === "DOUBLE" || physical === "INT96") throw refuse();
    const shift = decimal.scale - (element.scale ?? logical?.scale ?? 0);
    if (shift < 0) throw refuse();
    const factor = 10n ** BigInt(shift);
    return (raw) => (raw instanceof Uint8Array ? signed(raw) : BigInt(raw)) * factor;
  }
  switch (type) {
    case "boolean":
      if (physical !== "BOOLEAN") throw refuse();
      return (raw) => raw;
    case "byte":
    case "short":
    case "integer":
      if (physical !== "INT32") throw refuse();
      return (raw) => raw;
    case "long":
      if (!isInteger) throw refuse();
      return BigInt;
    case "float":
      if (physical !== "FLOAT") throw refuse();
      return (raw) => raw;
    case "double":
      if (physical !== "FLOAT" && physical !== "DOUBLE" && physical !== "INT32") throw refuse();
      return Number;
    case "date":
      if (physical !== "INT32") throw refuse();
      return (raw) => raw;
    case "string":
    case "binary": {
      if (physical !== "BYTE_ARRAY" && physical !== "FIXED_LEN_BYTE_ARRAY") throw refuse();
      const encoder = new TextEncoder();
      if (type === "binary") return (raw) => (typeof raw === "string" ? encoder.encode(raw) : raw);
      return (raw) => (typeof raw === "string" ? raw : UTF8.decode(raw));
    }
  }
  if (physical === "INT32" && (logical?.type === "DATE" || converted === "DATE")) return (raw) => BigInt(raw) * DAY_MICROS;
  if (physical === "INT96") return (raw) => raw;
  if (physical !== "INT64") throw refuse();
  if (logical?.unit === "MILLIS" || converted === "TIMESTAMP_MILLIS") return (raw) => raw * 1000n;
  if (logical?.unit === "NANOS") throw refuse();
  return (raw) => raw;
}

function signed(bytes) {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return BigInt.asIntN(bytes.length * 8, value);
}
