// Filters on columns: hints for the server, which can skip files, and tests of rows.

import { decimalOf, fromText } from "./values.js";

/** The comparisons; `contains` is only for text. */
export const SIGNS = ["=", "≠", "<", "≤", ">", "≥", "contains", "is null", "is not null"];
const OPERATIONS = { "=": "equal", "≠": "equal", "<": "lessThan", "≤": "lessThanOrEqual", ">": "greaterThan", "≥": "greaterThanOrEqual" };
const HINTED = { byte: "int", short: "int", integer: "int", long: "long", string: "string", date: "date", double: "double", boolean: "bool", timestamp: "timestamp" };

/** Return whether a column can be filtered on. */
export const canFilter = (type) => typeof type === "string" && type !== "binary";

/** Return a test of rows; throws if a value does not have its column's type. */
export function rowTest(conditions, columns) {
  const tests = conditions.map(({ column, sign, text }) => {
    const at = columns.findIndex((candidate) => candidate.name === column);
    if (at < 0) throw new Error(`The table has no column ${column} at this version.`);
    if (sign === "is null") return (row) => row[at] === null;
    if (sign === "is not null") return (row) => row[at] !== null;
    if (sign === "contains") return (row) => row[at] !== null && String(row[at]).includes(text);
    const expected = typed(text, columns[at].type);
    const holds = HOLDS[sign];
    return (row) => row[at] !== null && holds(compare(expected.scaled(row[at]), expected.value));
  });
  return tests.length ? (row) => tests.every((test) => test(row)) : null;
}

const HOLDS = {
  "=": (order) => order === 0, "≠": (order) => order !== 0, "<": (order) => order < 0,
  "≤": (order) => order <= 0, ">": (order) => order > 0, "≥": (order) => order >= 0,
};

/** The value of a filter can have more digits than the decimal column. */
function typed(text, type) {
  const decimal = decimalOf(type);
  const digits = decimal ? Math.max(decimal.scale, (/\.(\d+)$/.exec(text)?.[1] ?? "").length) : 0;
  if (!decimal) return { value: fromText(text, type), scaled: (value) => value };
  const factor = 10n ** BigInt(digits - decimal.scale);
  return { value: fromText(text, `decimal(38,${digits})`), scaled: (value) => value * factor };
}

/** Order as Spark does: text by code points, NaN above all numbers. */
export function compare(first, second) {
  if (typeof first === "string") {
    const shorter = Math.min(first.length, second.length);
    for (let at = 0; at < shorter; at++) {
      const [left, right] = [first.charCodeAt(at), second.charCodeAt(at)];
      if (left !== right) return byCodePoint(left) - byCodePoint(right);
    }
    return first.length - second.length;
  }
  if (Number.isNaN(first) || Number.isNaN(second)) return Number(Number.isNaN(first)) - Number(Number.isNaN(second));
  return first < second ? -1 : first > second ? 1 : 0;
}

/** Surrogates stand for code points above all other units. */
const byCodePoint = (unit) => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit);

/** Return the hints for the server: a tree of the conditions that it supports, or null. */
export function hintsOf(conditions, columns) {
  const nodes = conditions.map(({ column, sign, text }) => {
    const type = columns.find((candidate) => candidate.name === column)?.type;
    const valueType = HINTED[type];
    if (!valueType || sign === "contains") return null;
    // Statistics do not include NaN, which is greater than all numbers.
    if (type === "double" && (/[>≥≠]/.test(sign) || /nan/i.test(text))) return null;
    const columnNode = { op: "column", name: column, valueType };
    const isNull = { op: "isNull", children: [columnNode] };
    if (sign === "is null") return isNull;
    if (sign === "is not null") return { op: "not", children: [isNull] };
    const value = type === "timestamp" ? new Date(Number(fromText(text, type) / 1000n)).toISOString() : text.trim();
    if (type === "timestamp" && fromText(text, type) % 1000n !== 0n) return null;
    const node = { op: OPERATIONS[sign], children: [columnNode, { op: "literal", value, valueType }] };
    return sign === "≠" ? { op: "not", children: [node] } : node;
  }).filter(Boolean);
  return nodes.length > 1 ? { op: "and", children: nodes } : (nodes[0] ?? null);
}
