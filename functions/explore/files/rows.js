// Read the rows of a table, or of a version's changes, from files, and filter them.

import { deletedRows } from "./deletion_vectors.js";
import { slices } from "./parquet.js";
import { readBytes } from "./protocol.js";
import { fromText, unshown } from "./values.js";

/** Return the columns to show, and those that cannot be shown with the reason. */
export function columnsOf(table) {
  const columns = table.fields.map((field) => ({ name: field.name, type: field.type, field, why: unshown(field.type) }));
  return { shown: columns.filter((column) => !column.why), unsupported: columns.filter((column) => column.why) };
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
        const matching = test ? rows.filter(test) : rows;
        if (matching.length) yield matching;
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
  const removed = new Map(files.filter((file) => file.kind === "remove").map((file) => [file.id, file]));
  const paired = new Set(files.filter((file) => file.kind === "add" && removed.has(file.id)).map((file) => file.id));
  for (const file of files) {
    const kind = file.kind === "add" ? "insert" : "delete";
    if (file.kind === "cdc") yield* storedChanges(file, table, columns, read);
    else if (!paired.has(file.id)) for await (const { rows } of fileRows(file, table, columns, { read })) yield { kind, rows };
    else {
      // The same file with another deletion vector: the rows in only one of the vectors have changed.
      const other = files.find((candidate) => candidate.id === file.id && candidate.kind !== file.kind);
      const otherDeleted = new Set(other.vector ? await deletedRows(other.vector, read) : []);
      for await (const { rows, positions } of fileRows(file, table, columns, { read })) {
        yield { kind, rows: rows.filter((_, at) => otherDeleted.has(positions[at])) };
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
  const stored = columns.filter((column) => !partitioned.has(column.name));
  const indexes = columns.map((column) => (partitioned.has(column.name) ? -1 : stored.indexOf(column)));
  const constants = columns.map((column) => (partitioned.has(column.name) ? partitionValue(file, column, table.mode) : null));
  const deleted = file.vector ? await deletedRows(file.vector, read) : [];
  let next = 0;
  const fields = stored.map((column) => column.field);
  for await (const { start, rows } of slices(file, fields, { mode: table.mode, read, first })) {
    const remaining = [];
    const positions = [];
    rows.forEach((row, at) => {
      if (deleted[next] === start + at) next += 1;
      else {
        remaining.push(indexes.map((index, column) => (index < 0 ? constants[column] : row[index])));
        positions.push(start + at);
      }
    });
    yield { rows: remaining, positions };
  }
}

function partitionValue(file, { field }, mode) {
  const physical = mode === "none" ? field.name : field.metadata["delta.columnMapping.physicalName"];
  const text = file.partitionValues[physical];
  return text === null || text === undefined || text === "" ? null : fromText(text, field.type);
}
