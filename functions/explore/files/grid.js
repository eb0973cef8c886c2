// Create the page's tables. Data from the provider is inserted as text, never as markup.

import { compare } from "./filters.js";
import { cellText, isNumber, typeText } from "./values.js";

const CELL_CHARACTERS = 2000;
const ROW_HEIGHT = 28; // pixels, as in the styles
const AROUND = 8; // rows and columns around the view that are elements too
const KINDS = { insert: "inserted", delete: "deleted", update_preimage: "before update", update_postimage: "updated" };

/** Create an element with properties and children; strings become text nodes. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Return the parts of a name, so that a long one breaks after `_`. */
export const breakable = (name) => name.split(/(?<=_)/).flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));

/** Rows in a box that scrolls: only cells in view are elements. A click on a header sorts all. Columns only get wider. */
export class Grid {
  #box;
  #onSort;
  #columns = [];
  #rows;
  #shown = []; // the rows in the shown order
  #order; // {at, descending}
  #heads = [];
  #body = make("tbody");
  #from = 0; // the rows that are elements, up to #to
  #to = 0;
  #left = 0; // the columns whose cells are elements, up to #right
  #right = 0;

  /** `onSort` is called with `{name, descending}`, or null for the order of the files. */
  constructor(box, onSort = () => {}) {
    this.#box = box;
    this.#onSort = onSort;
    box.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** Show other columns and rows, of which some may come later; a column of type `kind` has kinds of changes. */
  show(columns, rows) {
    this.#columns = columns;
    this.#order = null;
    this.#heads = columns.map((column, at) => this.#head(column, at));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...this.#heads)), this.#body);
    this.#box.replaceChildren(...(columns.length ? [make("div", { className: "list" }, table)] : []));
    this.#box.scrollTop = this.#box.scrollLeft = this.#left = this.#right = 0;
    this.update(rows);
  }

  /** Show rows that were added at the end, too. */
  update(rows) {
    this.#rows = rows;
    const { at, descending } = this.#order ?? {};
    this.#shown = this.#order ? sorted(rows, at, this.#columns[at].type, descending ? -1 : 1) : rows;
    this.#from = this.#to = 0; // all are drawn again
    this.#body.parentNode.ariaRowCount = rows.length + 1;
    this.#draw();
  }

  #head({ name, type }, at) {
    const text = type === "kind" ? "" : typeText(type);
    const sort = make("button", { type: "button" }, make("span", {}, ...breakable(name)), make("small", {}, text));
    sort.addEventListener("click", () => {
      const { at: before, descending } = this.#order ?? {};
      this.#order = before !== at ? { at, descending: false } : descending ? null : { at, descending: true };
      this.#heads.forEach((head, other) => {
        head.ariaSort = other !== this.#order?.at ? null : this.#order.descending ? "descending" : "ascending";
      });
      this.update(this.#rows);
      this.#onSort(this.#order && { name, ...this.#order });
    });
    return make("th", { scope: "col", className: isNumber(type) ? "number" : "", title: `${name}: ${text}` }, sort);
  }

  #draw() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.#box;
    const from = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - AROUND);
    const to = Math.min(this.#shown.length, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + AROUND);
    const lefts = this.#heads.map((head) => head.offsetLeft);
    const left = lefts.findLastIndex((x) => x <= scrollLeft);
    const right = lefts.filter((x) => x < scrollLeft + clientWidth).length;
    const isOutside = left < this.#left || right > this.#right;
    if (isOutside) [this.#left, this.#right] = [Math.max(0, left - AROUND), Math.min(lefts.length, right + AROUND)];
    if (isOutside || from >= this.#to || to <= this.#from) {
      this.#body.replaceChildren();
      this.#from = this.#to = from;
    }
    for (; this.#from < from; this.#from++) this.#body.firstChild.remove();
    for (; this.#to > to; this.#to--) this.#body.lastChild.remove();
    while (this.#from > from) this.#body.prepend(this.#line(--this.#from));
    while (this.#to < to) this.#body.append(this.#line(this.#to++));
    this.#box.style = `--above: ${from}; --rows: ${this.#shown.length}`;
    const widths = this.#heads.map((head) => head.offsetWidth);
    this.#heads.forEach((head, at) => (head.style.minWidth = `${widths[at]}px`));
  }

  #line(at) {
    const space = (columns) => (columns ? [make("td", { colSpan: columns })] : []);
    const cells = this.#columns.slice(this.#left, this.#right).map(({ type }, column) => {
      return cell(cellText(this.#shown[at][this.#left + column], type), type);
    });
    return make("tr", { ariaRowIndex: at + 2 }, ...space(this.#left), ...cells, ...space(this.#columns.length - this.#right));
  }
}

/** Return the rows in the order of a column; nulls last, equal values in the order of the files. */
function sorted(rows, at, type, sign) {
  const isPlain = typeof type === "string" && type !== "binary";
  const keys = rows.map((row) => (isPlain ? row[at] : cellText(row[at], type)));
  const byKey = (one, other) => {
    const [left, right] = [keys[one], keys[other]];
    return left === null || right === null ? Number(left === null) - Number(right === null) : sign * compare(left, right);
  };
  return [...keys.keys()].sort(byKey).map((index) => rows[index]);
}

function cell(text, type) {
  if (type === "kind") return make("td", { className: text }, KINDS[text] ?? text);
  if (text === null) return make("td", { className: isNumber(type) ? "null number" : "null" }, "null");
  const short = text.length > CELL_CHARACTERS ? `${text.slice(0, CELL_CHARACTERS)}… (${text.length} characters)` : text;
  const line = short.replace(/\r\n|\n|\r/g, "↵");
  return make("td", { className: isNumber(type) ? "number" : "", title: short.length > 40 || line !== short ? short : "" }, line);
}

/** Return an HTML table of the shared table's columns. */
export function columnsTable(table) {
  const partitions = new Set(table.partitionColumns);
  const line = ({ name, type, nullable, metadata }) => {
    const notes = [partitions.has(name) ? "partition column" : "", nullable ? "" : "never null", metadata?.comment ?? ""];
    return make("tr", {}, make("td", {}, ...breakable(name)), make("td", {}, typeText(type)), make("td", {}, notes.filter(Boolean).join(" · ")));
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
