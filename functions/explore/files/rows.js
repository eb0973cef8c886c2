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

/** Return the number of a file's rows that are not deleted, from its statistics; NaN without them. */
export function liveRows({ stats, vector }) {
  return (stats ? JSON.parse(stats).numRecords ?? NaN : NaN) - (vector?.cardinality ?? 0);
}

/** Yield arrays of rows of a snapshot's files, each row an array in the order of the shown columns. */
export async function* snapshotRows(table, files, { first = Infinity, keep = null, done = () => {} } = {}) {
  for await (const file of files) {
    for await (const { rows } of fileRows(file, table, columnsOf(table).shown, first)) {
      const matching = keep ? rows.filter(keep) : rows;
      if (matching.length) yield matching;
    }
    done(file);
  }
}

/** Yield `{kind, rows}` of the changes of a version, with the kinds of Delta's change data feed. */
export async function* changedRows(table, changed) {
  const files = await Array.fromAsync(changed);
  const columns = columnsOf(table).shown;
  const removed = new Map(files.filter((file) => file.kind === "remove").map((file) => [file.id, file]));
  const paired = new Set(files.filter((file) => file.kind === "add" && removed.has(file.id)).map((file) => file.id));
  for (const file of files) {
    const kind = file.kind === "add" ? "insert" : "delete";
    if (file.kind === "cdc") yield* storedChanges(file, table, columns);
    else if (!paired.has(file.id)) for await (const { rows } of fileRows(file, table, columns)) yield { kind, rows };
    else {
      // The same file with another deletion vector: the rows in only one of the vectors have changed.
      const other = files.find((candidate) => candidate.id === file.id && candidate.kind !== file.kind);
      const otherDeleted = new Set(other.vector ? await deletedRows(other.vector, readBytes) : []);
      for await (const { rows, positions } of fileRows(file, table, columns)) {
        yield { kind, rows: rows.filter((_, at) => otherDeleted.has(positions[at])) };
      }
    }
  }
}

async function* storedChanges(file, table, columns) {
  const column = { name: "_change_type", type: "string", field: { name: "_change_type", type: "string" } };
  for await (const { rows } of fileRows(file, table, [...columns, column])) {
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
async function* fileRows(file, table, columns, first = Infinity) {
  const partitioned = new Set(table.partitionColumns);
  const stored = columns.filter((column) => !partitioned.has(column.name));
  const indexes = columns.map((column) => (partitioned.has(column.name) ? -1 : stored.indexOf(column)));
  const constants = columns.map((column) => (partitioned.has(column.name) ? partitionValue(file, column, table.mode) : null));
  const deleted = file.vector ? await deletedRows(file.vector, readBytes) : [];
  let next = 0;
  const fields = stored.map((column) => column.field);
  for await (const { start, rows } of slices(file, fields, { mode: table.mode, read: readBytes, first })) {
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
