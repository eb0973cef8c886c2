// The chosen table: its description, rows, filters, changes and code. All state is lost when the page closes.

import { writeAddress } from "./address.js";
import { SIGNS, canFilter, hintsOf, rowTest } from "./filters.js";
import { Grid, breakable, bytesText, columnsTable, make } from "./grid.js";
import { changedRows, columnsOf, liveRows, snapshotRows } from "./rows.js";
import { $, copies, run } from "./shell.js";

const PAGE_ROWS = 200;
const MOST_ROWS = 100_000;
const MOST_CELLS = 5_000_000;
const MOST_CHANGES = 1000;
const PAGE_FILES = 50;
const COUNTED_FILES = 5000; // a table of more files is not counted

let sharing = null;
let profileName = ""; // for code
let selected = null; // the selected table, from the list
let tableMetadata = null; // its metadata, of the version that is shown
let loaded = null; // what is shown: {rows, order, ended, isReading}, and what is read next: {batches, rest}
let tab = "rows";

const grid = new Grid($("grid"), (order) => {
  loaded.order = order;
  showCount();
});
const changesGrid = new Grid($("changed-grid"));

/** Return the selected table, its metadata and the function that queries it. */
export const selection = () => ({ table: selected, metadata: tableMetadata, query });

/** Stop what is read of the selected table. */
export const leaveTable = () => (selected = tableMetadata = loaded = null);

/** Show a table of the list; `wanted` is the version, filters and tab from the page's address. */
export async function showTable(reader, table, wanted, { name, share }) {
  [sharing, selected, profileName, tab] = [reader, table, name, "rows"];
  $("chosen").className = "loading";
  $("path").textContent = `${table.share} › ${table.schema}`;
  $("share-comment").textContent = share.comment ?? "";
  $("name").replaceChildren(...breakable(table.name));
  for (const id of ["comment", "count", "changed-count", "told", "facts", "fields", "conditions", "snippets"]) $(id).replaceChildren();
  for (const each of [grid, changesGrid]) each.show([], []);
  select(tabs[0]);
  $("as-of").value = wanted.version === null ? "latest" : "version";
  $("version").value = wanted.version;
  asOf();
  await run("Reading the table …", async (current) => {
    try {
      if (wanted.filters.length) {
        const metadata = await sharing.metadata(table, requestedVersion());
        if (!current()) return;
        describe(metadata);
        wanted.filters.forEach(addFilter);
      }
      await showRows(current);
    } finally {
      if (current()) $("chosen").className = ""; // with another version, the table may be readable
    }
    if (current() && wanted.tab) select(tabs.find((item) => item.id === `tab-${wanted.tab}` && !item.disabled) ?? tabs[0]);
  });
}

function describe(metadata) {
  tableMetadata = metadata;
  $("comment").textContent = metadata.description ?? "";
  const facts = [
    ["Rows", "…"],
    ["Files", metadata.files?.toLocaleString("en")],
    ["Size", metadata.size === null ? null : bytesText(metadata.size)],
    ["Columns", metadata.fields.length],
    ["Version", metadata.version],
    ["Partitioned by", metadata.partitionColumns.join(", ") || null],
  ].filter(([, value]) => (value ?? null) !== null);
  $("facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
  $("fields").replaceChildren(columnsTable(metadata));
  const unsupported = columnsOf(metadata).unsupported.map((column) => `${column.name} (${column.why})`).join(", ");
  $("told").textContent = unsupported && `Not shown, because this page cannot show these columns exactly: ${unsupported}.`;
  if (metadata.version !== null) $("changed").value = metadata.version;
  $("tab-changes").disabled = !metadata.hasFeed;
  $("tab-changes").title = metadata.hasFeed ? "" : "The table has no change data feed.";
  $("chosen").className = "";
}

/** Return the requested version or time: `{version}`, `{timestamp}` or an empty object. */
function requestedVersion() {
  const kind = $("as-of").value;
  if (kind === "version" && $("version").value !== "") return { version: Number($("version").value) };
  if (kind === "timestamp" && $("timestamp").value !== "") return { timestamp: new Date($("timestamp").value).toISOString() };
  return {};
}

function conditions() {
  return [...$("conditions").children].map((line) => {
    const [column, sign, text] = line.querySelectorAll("select, input");
    return { column: column.value, sign: sign.value, text: text.value };
  });
}

/** Start a query with the current filters: `{table, files, keep}`, of which `keep` tests rows; throws if one is invalid. */
async function query(maxFiles = 1000) {
  const filters = conditions();
  const columns = filters.length ? columnsOf(tableMetadata).shown : [];
  rowTest(filters, columns);
  const answer = await sharing.snapshot(selected, { at: requestedVersion(), hints: hintsOf(filters, columns), maxFiles });
  return { ...answer, keep: rowTest(filters, columnsOf(answer.table).shown) };
}

async function showRows(current) {
  const { table: metadata, files: pages, keep } = await query(PAGE_FILES);
  const files = metadata.files > PAGE_FILES ? pages : await Array.fromAsync(pages);
  if (!current()) return;
  describe(metadata);
  loaded = { rows: [], order: null, ended: false, batches: snapshotRows(metadata, files, { first: PAGE_ROWS, keep }), rest: [] };
  grid.show(columnsOf(metadata).shown, loaded.rows);
  remember();
  countRows(requestedVersion(), files.length === metadata.files ? files : null);
  await readRows(PAGE_ROWS);
}

/** Read until there are `count` rows, or no more, or others are shown. After an error, no more can be read. */
async function readRows(count) {
  const mine = loaded;
  for (mine.isReading = true; mine.isReading; ) {
    if (!mine.rest.length) {
      const { done, value = [] } = await mine.batches.next();
      [mine.ended, mine.rest] = [done, value];
    }
    if (mine !== loaded) return;
    mine.rows.push(...mine.rest.splice(0, count - mine.rows.length));
    mine.isReading = mine.rows.length < count && !mine.ended;
    grid.update(mine.rows);
    showCount();
  }
}

/** Return how many rows the page can hold. */
const mostRows = () => Math.min(MOST_ROWS, Math.floor(MOST_CELLS / tableMetadata.fields.length));

function showCount() {
  const { rows, ended, order, isReading } = loaded;
  const number = rows.length.toLocaleString("en");
  const many = !rows.length ? "No rows" : !ended ? `The first ${number} rows` : rows.length === 1 ? "1 row" : `All ${number} rows`;
  const matching = conditions().length ? " that match the filters" : "";
  const sorted = order ? ` Sorted by ${order.name}${order.descending ? ", descending" : ""}${ended ? "" : " (only these rows)"}.` : "";
  $("count").textContent = isReading ? `${number} rows so far …` : `${many}${matching} at version ${tableMetadata.version}.${sorted}`;
  for (const id of ["more-rows", "all-rows"]) $(id).disabled = isReading || ended || rows.length >= mostRows();
  $("all-rows").textContent = `Up to ${mostRows().toLocaleString("en")} rows`;
}

/** Show how many rows the table has, by the statistics of all files. */
async function countRows(at, allFiles) {
  const mine = loaded;
  const list = async () => (tableMetadata.files > COUNTED_FILES ? [{}] : Array.fromAsync((await sharing.snapshot(selected, { at })).files));
  const files = allFiles ?? (await list().catch(() => [{}]));
  const rows = files.reduce((sum, file) => sum + liveRows(file), 0);
  if (mine === loaded) $("facts").querySelector("dd").textContent = Number.isNaN(rows) ? "not counted" : rows.toLocaleString("en");
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run("Reading rows …", showRows);
});
$("more-rows").addEventListener("click", () => run("Reading rows …", () => readRows(Math.min(loaded.rows.length + PAGE_ROWS, mostRows()))));
$("all-rows").addEventListener("click", () => run("Reading rows …", () => readRows(mostRows())));

function asOf() {
  for (const kind of ["version", "timestamp"]) {
    $(kind).hidden = $(kind).disabled = $("as-of").value !== kind; // else an invalid value that is hidden blocks the form
  }
  if (!$("version").hidden && tableMetadata) $("version").value ||= tableMetadata.version;
}
$("as-of").addEventListener("change", asOf);

function addFilter(wanted = {}) {
  const columns = columnsOf(tableMetadata).shown.filter((column) => canFilter(column.type));
  if (wanted.column && !columns.some(({ name }) => name === wanted.column)) {
    throw new Error(`The link filters by ${wanted.column}, which the table does not have at this version.`);
  }
  const options = (texts) => texts.map((text) => make("option", { value: text }, text));
  const column = make("select", { ariaLabel: "Column" }, ...options(columns.map((column) => column.name)));
  const sign = make("select", { ariaLabel: "Comparison" });
  const text = make("input", { ariaLabel: "Value", autocomplete: "off", value: wanted.text ?? "" });
  const remove = make("button", { type: "button", className: "plain", ariaLabel: "Remove the filter" }, "×");
  const line = make("div", { className: "condition" }, column, sign, text, remove);
  const hide = () => (text.hidden = sign.value.startsWith("is "));
  const fit = () => {
    const isText = columns.find(({ name }) => name === column.value)?.type === "string";
    sign.replaceChildren(...options(SIGNS.filter((candidate) => candidate !== "contains" || isText)));
    hide();
  };
  column.addEventListener("change", fit);
  sign.addEventListener("change", hide);
  remove.addEventListener("click", () => line.remove());
  if (wanted.column) column.value = wanted.column;
  fit();
  if (SIGNS.includes(wanted.sign)) sign.value = wanted.sign;
  hide();
  $("conditions").append(line);
  return column;
}
$("add").addEventListener("click", () => tableMetadata && addFilter().focus());

async function showChanges() {
  const version = Number($("changed").value);
  const rows = [];
  const { table, files } = await sharing.changes(selected, version);
  for await (const batch of changedRows(table, files)) {
    for (const row of batch.rows) rows.push([batch.kind, ...row]);
    if (rows.length > MOST_CHANGES) break;
  }
  changesGrid.show([{ name: "change", type: "kind" }, ...columnsOf(table).shown], rows.slice(0, MOST_CHANGES));
  const number = rows.length > MOST_CHANGES ? `The first ${MOST_CHANGES}` : rows.length;
  $("changed-count").textContent = `${number} changed row${number === 1 ? "" : "s"} of version ${version}.`;
}

$("ask-changes").addEventListener("submit", (event) => {
  event.preventDefault();
  run("Reading changes …", showChanges);
});

/** Show code that reads the table, for each client that can read this version with this profile. */
async function showCode() {
  const { share, schema, name } = selected;
  const { endpoint, usesClient } = sharing;
  const names = new URLSearchParams({ endpoint, profile: profileName, share, schema, table: name, ...requestedVersion() });
  const samples = (await sharing.samples(names)).filter(({ text, note }) => !usesClient || !/bearer.?token/i.test(text + note));
  const needs = Object.keys(requestedVersion()).length ? "read only the latest version." : usesClient ? "need a profile with a bearer token." : "";
  $("readers").textContent = `Save ${profileName} in your working folder.${needs && ` Clients that are not listed ${needs}`}`;
  $("snippets").replaceChildren(...samples.map(({ client, text, note }, at) => {
    const copy = copies(make("button", { type: "button", ariaLabel: `Copy the code for ${client}` }, "Copy"), () => text);
    const parts = [make("summary", {}, client), make("div", { className: "code" }, make("pre", { tabIndex: 0 }, text), copy)];
    return make("details", { open: at === 0 }, ...parts, note ? make("p", { className: "soft" }, note) : null);
  }));
}

/** Write what is shown into the address; a time as the version at that time. */
function remember() {
  const version = $("as-of").value === "latest" ? null : tableMetadata.version;
  writeAddress(selected, { version, filters: conditions(), tab });
}

const tabs = [...$("tabs").children];
function select(chosen) {
  for (const item of tabs) {
    item.setAttribute("aria-selected", String(item === chosen));
    item.tabIndex = item === chosen ? 0 : -1;
    $(item.getAttribute("aria-controls")).hidden = item !== chosen;
  }
  tab = chosen.id.replace("tab-", "");
  if (tab === "code") run("", showCode);
  if (tableMetadata) remember();
}
for (const item of tabs) item.addEventListener("click", () => select(item));
$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const usable = tabs.filter((item) => !item.disabled);
  const next = usable[(usable.indexOf(document.activeElement) + step + usable.length) % usable.length];
  select(next);
  next.focus();
});
copies($("copy-name"), () => `${selected.share}.${selected.schema}.${selected.name}`);
