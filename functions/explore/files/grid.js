// Create the page's tables. Data from the provider is inserted as text, never as markup.

import { compare } from "./filters.js";
import { cellText, isNumber, typeText } from "./values.js";

const CELL_CHARACTERS = 2000;
const WIDEST = 60; // characters of a column
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

/**
 * Rows in a box that scrolls: only the cells in view are elements. A click on a header sorts all rows of the grid.
 * Columns keep their widths, except that a longer value in view widens its column.
 */
export class Grid {
  #box;
  #onSort;
  #columns = [];
  #rows = [];
  #shown = []; // the rows in the shown order
  #order = null; // {at, descending}
  #widths = []; // characters of each column
  #from; // the rows that are elements, up to #to, with the columns from #left to #right
  #to;
  #left;
  #right;

  /** `onSort` is called with `{name, descending}`, or null for the order of the files. */
  constructor(box, onSort = () => {}) {
    this.#box = box;
    this.#onSort = onSort;
    box.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => (this.table ? this.#draw() : this.#build())).observe(box);
  }

  /** Show other columns and rows, of which some may come later; a column of type `kind` has kinds of changes. */
  show(columns, rows) {
    this.table = null;
    this.#columns = columns;
    this.#rows = this.#shown = rows;
    this.#order = null;
    this.#box.replaceChildren();
    this.#build();
  }

  /** Create the table and measure it, which is possible only if it is not hidden. */
  #build() {
    if (!this.#columns.length || !this.#box.offsetParent) return;
    this.#widths = this.#columns.map(() => 4);
    this.#left = this.#right = 0;
    const heads = this.#columns.map((column, at) => this.#head(column, at));
    this.body = make("tbody", {}, make("tr", {}, make("td", {}, "0")));
    this.cols = make("colgroup", {}, ...heads.map(() => make("col")));
    this.table = make("table", {}, this.cols, make("thead", {}, make("tr", {}, ...heads)), this.body);
    this.list = make("div", { className: "list" }, this.table);
    this.#box.replaceChildren(this.list);
    this.#box.scrollTop = 0;
    this.heads = heads.map((head) => Math.ceil(head.getBoundingClientRect().width));
    this.rowHeight = this.body.firstChild.getBoundingClientRect().height;
    this.headHeight = this.table.offsetHeight - this.body.offsetHeight;
    this.table.className = "fixed";
    this.#fit();
    this.update(this.#rows);
  }

  /** Show rows that were added at the end, too. */
  update(rows) {
    this.#rows = rows;
    this.#shown = this.#order ? sorted(rows, this.#order.at, this.#columns[this.#order.at].type, this.#order.descending ? -1 : 1) : rows;
    if (!this.table) return;
    this.body.replaceChildren();
    this.#from = this.#to = 0;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.list.style.height = `${this.headHeight + rows.length * this.rowHeight}px`;
    this.#draw();
  }

  #head({ name, type }, at) {
    const text = type === "kind" ? "" : typeText(type);
    const sort = make("button", { type: "button" }, make("span", {}, ...breakable(name)), make("small", {}, text));
    sort.addEventListener("click", () => {
      const { at: before, descending } = this.#order ?? {};
      this.#order = before !== at ? { at, descending: false } : descending ? null : { at, descending: true };
      this.table.querySelectorAll("th").forEach((head, other) => {
        head.ariaSort = other !== this.#order?.at ? null : this.#order.descending ? "descending" : "ascending";
      });
      this.update(this.#rows);
      this.#onSort(this.#order && { name, ...this.#order });
    });
    return make("th", { scope: "col", className: isNumber(type) ? "number" : "", title: `${name}: ${text}` }, sort);
  }

  /** Return whether a text is longer than those before it in the column, and remember its length. */
  #widen(at, text) {
    const length = Math.min(text?.length ?? 4, WIDEST);
    const wider = length > this.#widths[at];
    if (wider) this.#widths[at] = length;
    return wider;
  }

  #fit() {
    this.#widths.forEach((characters, at) => {
      this.cols.children[at].style.width = `max(${this.heads[at]}px, calc(${characters}ch + 1.4rem))`;
    });
    this.lefts = [...this.table.querySelectorAll("th")].map((head) => head.offsetLeft);
  }

  #draw() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.#box;
    const from = Math.max(0, Math.floor((scrollTop - this.headHeight) / this.rowHeight) - AROUND);
    const to = Math.min(this.#shown.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + AROUND);
    const left = this.lefts.findLastIndex((x) => x <= scrollLeft);
    const right = this.lefts.filter((x) => x < scrollLeft + clientWidth).length;
    const isOutside = left < this.#left || right > this.#right;
    if (isOutside) [this.#left, this.#right] = [Math.max(0, left - AROUND), Math.min(this.lefts.length, right + AROUND)];
    if (isOutside || from >= this.#to || to <= this.#from) {
      this.body.replaceChildren();
      this.#from = this.#to = from;
    }
    for (; this.#from < from; this.#from++) this.body.firstChild.remove();
    for (; this.#to > to; this.#to--) this.body.lastChild.remove();
    let wider = false;
    const line = (at) => {
      const row = make("tr", { ariaRowIndex: at + 2 });
      if (this.#left) row.append(make("td", { colSpan: this.#left }));
      for (let column = this.#left; column < this.#right; column++) {
        const { type } = this.#columns[column];
        const text = cellText(this.#shown[at][column], type);
        wider = this.#widen(column, text) || wider;
        row.append(cell(text, type));
      }
      if (this.#right < this.lefts.length) row.append(make("td", { colSpan: this.lefts.length - this.#right }));
      return row;
    };
    while (this.#from > from) this.body.prepend(line(--this.#from));
    while (this.#to < to) this.body.append(line(this.#to++));
    if (wider) this.#fit();
    this.body.style.setProperty("--above", `${this.#from * this.rowHeight}px`);
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
