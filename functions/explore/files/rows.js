// Read the rows of a table, or of a version's changes, from files, and filter them.

import { deletedRows } from "./deletion_vectors.js";
import { slices } from "./parquet.js";
import { readBytes } from "./protocol.js";
import { fromText, unshown } from "./values.js";

/** Return the columns to show, and those that cannot be shown with the reason. */
export function columnsOf(table) {
  const columns = table.fields.map((field) => ({ name: field.name, type: field.type, field, why: unshown(field.type) }));
  return { shown: columns.filter((one) => !one.why), told: columns.filter((one) => one.why) };
}

/**
 * Yield arrays of rows of a snapshot, each row an array in the order of the shown columns.
 * @param {AsyncIterable<any>} parts `{table}` and `{file}`s
 * @param {{first?: number, keep?: (row: any[]) => boolean, began?: (table: any) => any, read?: typeof readBytes, done?: (file: any) => void}} options
 */
export async function* snapshotRows(parts, { first = Infinity, keep, began, read = readBytes, done }) {
  let table;
  let test = keep;
  for await (const part of parts) {
    if (part.table) {
      table = part.table;
      test = began?.(table) ?? keep;
    } else {
      for await (const { rows } of fileRows(part.file, table, columnsOf(table).shown, { first, read })) {
        const kept = test ? rows.filter(test) : rows;
        if (kept.length) yield kept;
      }
      done?.(part.file);
    }
  }
}

/** Yield `{kind, rows}` of the changes of a version, with the kinds of Delta's change data feed. */
export async function* changedRows(parts, { began, read = readBytes }) {
  let table;
  const files = [];
  for await (const part of parts) {
    if (part.table) began?.((table = part.table));
    else files.push(part.file);
  }
  const columns = table && columnsOf(table).shown;
  const removed = new Map(files.filter((one) => one.kind === "remove").map((one) => [one.id, one]));
  const paired = new Set(files.filter((one) => one.kind === "add" && removed.has(one.id)).map((one) => one.id));
  for (const file of files) {
    const kind = file.kind === "add" ? "insert" : "delete";
    if (file.kind === "cdc") yield* storedChanges(file, table, columns, read);
    else if (!paired.has(file.id)) for await (const { rows } of fileRows(file, table, columns, { read })) yield { kind, rows };
    else {
      // The same file with another deletion vector: the rows in only one of the vectors have changed.
      const other = files.find((one) => one.id === file.id && one.kind !== file.kind);
      const was = new Set(other.vector ? await deletedRows(other.vector, read) : []);
      for await (const { rows, positions } of fileRows(file, table, columns, { read })) {
        yield { kind, rows: rows.filter((_, at) => was.has(positions[at])) };
      }
    }
  }
}

async function* storedChanges(file, table, columns, read) {
  const column = { name: "_change_type", type: "string", field: { name: "_change_type", type: "string" } };
  for await (const { rows } of fileRows(file, table, [...columns, column], { read })) {
    let from = 0;
    for (let at = 1; at <= rows.length; at++) {
      if (at < rows.length && rows[at].at(-1) === rows[from].at(-1)) continue;
      const kind = rows[from].at(-1);
      yield { kind, rows: rows.slice(from, at).map((row) => row.slice(0, -1)) };
      from = at;
    }
  }
}

/** Yield slices of one file's rows that are not deleted, with their positions. */
async function* fileRows(file, table, columns, { first = Infinity, read }) {
  const partitioned = new Set(table.partitionColumns);
  const stored = columns.filter((one) => !partitioned.has(one.name));
  const places = columns.map((one) => (partitioned.has(one.name) ? -1 : stored.indexOf(one)));
  const constants = columns.map((one) => (partitioned.has(one.name) ? partitionValue(file, one, table.mode) : null));
  const gone = file.vector ? await deletedRows(file.vector, read) : [];
  let next = 0;
  const fields = stored.map((one) => one.field);
  for await (const { start, rows } of slices(file, fields, { mode: table.mode, read, first })) {
    const left = [];
    const positions = [];
    rows.forEach((row, at) => {
      if (gone[next] === start + at) next += 1;
      else {
        left.push(places.map((place, column) => (place < 0 ? constants[column] : row[place])));
        positions.push(start + at);
      }
    });
    yield { rows: left, positions };
  }
}

function partitionValue(file, { field }, mode) {
  const physical = mode === "none" ? field.name : field.metadata["delta.columnMapping.physicalName"];
  const text = file.partitionValues[physical];
  return text === null || text === undefined || text === "" ? null : fromText(text, field.type);
}
