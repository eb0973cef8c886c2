// Create the page's tables. Data from the provider is inserted as text, never as markup.

import { cellText, isNumber, typeText } from "./values.js";

const CELL_CHARACTERS = 2000;

/** Create an element with properties and children; strings become text nodes. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Return a table of rows; `kinds` has the kind of change of each row. */
export function rowsTable(columns, rows, kinds = null) {
  const head = columns.map(({ name, type }) => {
    const cell = make("th", { scope: "col", className: isNumber(type) ? "number" : "" }, name, make("small", {}, typeText(type)));
    cell.title = `${name}: ${typeText(type)}`;
    return cell;
  });
  if (kinds) head.unshift(make("th", { scope: "col" }, "change"));
  const lines = rows.map((row, at) => {
    const cells = columns.map(({ type }, column) => valueCell(row[column], type));
    if (kinds) cells.unshift(make("td", { className: kinds[at] }, KINDS[kinds[at]] ?? kinds[at]));
    return make("tr", {}, ...cells);
  });
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines));
}

const KINDS = { insert: "inserted", delete: "deleted", update_preimage: "before update", update_postimage: "updated" };

function valueCell(value, type) {
  const text = cellText(value, type);
  if (text === null) return make("td", { className: isNumber(type) ? "null number" : "null" }, "null");
  const short = text.length > CELL_CHARACTERS ? `${text.slice(0, CELL_CHARACTERS)}… (${text.length} characters)` : text;
  return make("td", { className: isNumber(type) ? "number" : "", title: short.length > 40 ? short : "" }, short);
}

/** Return an HTML table of the shared table's columns. */
export function columnsTable(table) {
  const partitions = new Set(table.partitionColumns);
  const line = ({ name, type, nullable, metadata }) => {
    const notes = [partitions.has(name) ? "partition column" : "", nullable ? "" : "never null", metadata?.comment ?? ""];
    return make("tr", {}, make("td", {}, name), make("td", {}, typeText(type)), make("td", {}, notes.filter(Boolean).join(" · ")));
  };
  const head = ["Column", "Type", "Notes"].map((text) => make("th", { scope: "col" }, text));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...table.fields.map(line)));
}

/** Return a size with its unit. */
export function bytesText(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  let size = bytes;
  for (; size >= 1000 && at < units.length - 1; at++) size /= 1000;
  return `${at ? size.toFixed(size < 10 ? 1 : 0) : size} ${units[at]}`;
}
