// The page: login, selected table or folder, and its tabs. All state is in this module and is lost when the page closes.

import { openFile, writeCsv } from "./download.js";
import { SIGNS, canFilter, hintsOf, rowTest } from "./filters.js";
import { KINDS, showAsset } from "./folders.js";
import { bytesText, columnsTable, make, rowsTable } from "./grid.js";
import { Sharing, readProfile } from "./protocol.js";
import { changedRows, columnsOf, snapshotRows } from "./rows.js";
import { snippets } from "./snippets.js";

const FIRST_ROWS = 200;
const endpoint = location.href.replace(/[?#].*$/, "").replace(/\/explore\/?$/, "");
const $ = (id) => document.getElementById(id);

let sharing = null;
let selected = null; // the selected table, from the list
let tableMetadata = null; // its metadata
let profileName = ""; // for snippets
let turn = 0; // number of the latest operation: results of earlier ones are ignored
let stopped = false;

function showStatus(text) {
  $("status").textContent = text;
}

function showError(error) {
  $("failure").textContent = error ? error.message : "";
  $("failure").hidden = !error;
  if (error) showStatus("");
}

/** Run an operation of the user and show its error, unless a later operation has started. */
async function run(text, work) {
  const thisTurn = ++turn;
  showError(null);
  showStatus(text);
  try {
    await work(() => thisTurn === turn);
    if (thisTurn === turn) showStatus("");
  } catch (error) {
    if (thisTurn === turn) showError(error);
  }
}

// ----------------------------------------------------------------------------------------------------------- the login

async function enter(text, name = "profile.share") {
  await run("Listing shares …", async () => {
    const profile = readProfile(text, endpoint);
    const reader = new Sharing(endpoint, profile.token);
    const shares = await reader.shares();
    const groups = await Promise.all(shares.map(async (share) => {
      const lists = await Promise.all([reader.tables(share.name), ...KINDS.map((kind) => reader.assets(share.name, kind))]);
      return [share, lists.flat()];
    }));
    sharing = reader;
    profileName = name;
    $("tree").replaceChildren(...groups.map(([share, inside]) => shareNode(share, inside)));
    if (!shares.length) $("tree").append(make("p", { className: "soft" }, "Nothing is shared with you yet."));
    $("enter").hidden = true;
    $("look").hidden = $("leave").hidden = false;
    if (profile.expires) $("endpoint").textContent = `${endpoint} · token expires ${profile.expires.slice(0, 10)}`;
    const only = $("tree").querySelectorAll("button");
    if (only.length === 1) only[0].click();
    else $("search").focus();
  });
}

function shareNode(share, shared) {
  const schemas = Map.groupBy(shared, (item) => item.schema);
  const node = make("details", { open: true }, make("summary", {}, share.displayName || share.name));
  if (share.comment) node.append(make("p", { className: "soft" }, share.comment));
  if (!shared.length) node.append(make("p", { className: "soft" }, "This share is empty."));
  for (const [schema, inside] of schemas) {
    const buttons = inside.map((item) => {
      const button = make("button", { type: "button" }, item.name, item.kind ? make("small", {}, ` ${item.kind}`) : null);
      button.dataset.search = `${share.name}.${schema}.${item.name}`.toLowerCase();
      button.addEventListener("click", () => (item.kind ? open(item, button) : choose(item, button)));
      return button;
    });
    node.append(make("div", {}, make("p", { className: "schema" }, schema), ...buttons));
  }
  return node;
}

$("search").addEventListener("input", () => {
  const text = $("search").value.trim().toLowerCase();
  for (const button of $("tree").querySelectorAll("button")) button.hidden = !button.dataset.search.includes(text);
  for (const group of $("tree").querySelectorAll("details > div")) group.hidden = !group.querySelector("button:not([hidden])");
});

$("file").addEventListener("change", async () => {
  const [file] = $("file").files;
  if (file) await enter(await file.text(), file.name);
  $("file").value = "";
});
$("paste").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("token").value;
  $("token").value = "";
  enter(text);
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    const [file] = kind === "drop" ? event.dataTransfer.files : [];
    if (file && !sharing) file.text().then((text) => enter(text, file.name));
  });
}
$("leave").addEventListener("click", () => location.reload());

// ----------------------------------------------------------------------------------------------------------- one table

function mark(button, table) {
  for (const element of $("tree").querySelectorAll("[aria-current]")) element.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  selected = table;
  tableMetadata = null;
  stopped = true;
  $("empty").hidden = true;
  $("chosen").hidden = !table;
  $("asset").hidden = Boolean(table);
  if (matchMedia("(max-width: 44rem)").matches) $("table").scrollIntoView();
}

async function open(asset, button) {
  mark(button, null);
  await run("Opening …", () => showAsset(sharing, asset, run));
}

async function choose(table, button) {
  mark(button, table);
  $("path").textContent = `${table.share} › ${table.schema}`;
  $("name").textContent = table.name;
  for (const id of ["comment", "count", "changed-count"]) $(id).textContent = "";
  for (const id of ["facts", "grid", "fields", "changed-grid", "conditions"]) $(id).replaceChildren();
  $("told").hidden = true;
  $("as-of").value = "latest";
  asOf();
  select($("tab-rows"));
  await run("Reading the table’s columns …", async (current) => {
    const metadata = await sharing.metadata(table);
    if (!current()) return;
    describe(metadata);
    await showRows();
  });
}

function describe(metadata) {
  tableMetadata = metadata;
  $("comment").textContent = metadata.description ?? "";
  const facts = [
    ["Version", metadata.version],
    ["Files", metadata.files?.toLocaleString("en")],
    ["Size", metadata.size === null ? null : bytesText(metadata.size)],
    ["Columns", metadata.fields.length],
    ["Partitioned by", metadata.partitionColumns.join(", ") || null],
  ].filter(([, value]) => value !== null && value !== undefined);
  $("facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
  $("fields").replaceChildren(columnsTable(metadata));
  const { unsupported } = columnsOf(metadata);
  $("told").hidden = !unsupported.length;
  $("told").textContent = `Not shown, because this page cannot show these columns exactly: ${unsupported.map((column) => `${column.name} (${column.why})`).join(", ")}.`;
  if (metadata.version !== null) $("changed").value = metadata.version;
  $("tab-changes").disabled = !metadata.hasFeed;
  $("tab-changes").title = metadata.hasFeed ? "" : "The table has no change data feed.";
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

/** Start a query with the current filters. */
function query(limit) {
  const filters = conditions();
  const columns = columnsOf(tableMetadata).shown;
  rowTest(filters, columns);
  const hints = hintsOf(filters, columns);
  const parts = sharing.snapshot(selected, { at: requestedVersion(), hints, limit: filters.length ? null : limit });
  return { parts, test: (table) => rowTest(filters, columnsOf(table).shown) };
}

async function showRows() {
  const { parts, test } = query(FIRST_ROWS);
  const current = selected;
  const rows = [];
  let columns = [];
  let version = null;
  const began = (table) => {
    columns = columnsOf(table).shown;
    version = table.version;
    return test(table);
  };
  for await (const batch of snapshotRows(parts, { first: FIRST_ROWS, began })) {
    rows.push(...batch.slice(0, FIRST_ROWS - rows.length));
    if (rows.length >= FIRST_ROWS || current !== selected) break;
  }
  if (current !== selected) return;
  const filtered = $("conditions").children.length > 0;
  $("grid").replaceChildren(rowsTable(columns, rows));
  const many = rows.length === FIRST_ROWS ? `The first ${FIRST_ROWS} rows` : rows.length === 1 ? "1 row" : `All ${rows.length} rows`;
  $("count").textContent = `${rows.length ? many : "No rows"}${filtered ? " that match the filters" : ""} at version ${version}.`;
  const code = snippets(selected, requestedVersion(), profileName);
  $("pandas").textContent = code.pandas;
  $("spark").textContent = code.spark;
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (tableMetadata) run("Reading rows …", showRows);
});

function asOf() {
  for (const kind of ["version", "timestamp"]) {
    // A hidden field that is not disabled still blocks the form when its value is invalid.
    $(kind).hidden = $(kind).disabled = $("as-of").value !== kind;
  }
  if (!$("version").hidden && tableMetadata) {
    $("version").max = tableMetadata.version;
    $("version").value ||= tableMetadata.version;
  }
}
$("as-of").addEventListener("change", asOf);

$("add").addEventListener("click", () => {
  const columns = columnsOf(tableMetadata).shown.filter((column) => canFilter(column.type));
  const options = (texts) => texts.map((text) => make("option", { value: text }, text));
  const column = make("select", { ariaLabel: "Column" }, ...options(columns.map((column) => column.name)));
  const sign = make("select", { ariaLabel: "Comparison" });
  const text = make("input", { ariaLabel: "Value", autocomplete: "off" });
  const line = make("div", { className: "condition" }, column, sign, text);
  const remove = make("button", { type: "button", className: "plain", ariaLabel: "Remove the filter" }, "×");
  const fit = () => {
    const isText = columns.find(({ name }) => name === column.value)?.type === "string";
    sign.replaceChildren(...options(SIGNS.filter((candidate) => candidate !== "contains" || isText)));
    text.hidden = false;
  };
  column.addEventListener("change", fit);
  sign.addEventListener("change", () => (text.hidden = sign.value.startsWith("is ")));
  remove.addEventListener("click", () => line.remove());
  line.append(remove);
  fit();
  $("conditions").append(line);
  column.focus();
});

// ----------------------------------------------------------------------------------------------------------- downloads

async function download(kind) {
  const extension = kind === "csv" ? "csv" : "parquet";
  const file = await openFile(`${selected.name}.${extension}`, kind === "csv" ? "text/csv;charset=utf-8" : "application/vnd.apache.parquet");
  if (!file) return;
  stopped = false;
  busy(true);
  let columns = columnsOf(tableMetadata).shown;
  let bytes = 0;
  let total = tableMetadata.size || 0;
  let rows = 0;
  const started = performance.now();
  const show = () => {
    $("bar").value = total ? Math.min(bytes / total, 1) : 0;
    $("done").textContent = `${rows.toLocaleString("en")} rows, ${Math.round((performance.now() - started) / 1000)} s`;
  };
  try {
    const { parts, test } = query(null);
    const began = (table) => {
      columns = columnsOf(table).shown;
      total = table.size || total;
      return test(table);
    };
    const batches = stoppable(snapshotRows(parts, { began, done: (file) => (bytes += file.size) }));
    const first = await batches.next(); // the first batch sets the columns, which can differ in other versions
    const all = (async function* () {
      if (!first.done) yield first.value;
      yield* batches;
    })();
    const wrote = (count) => {
      rows = count;
      show();
    };
    const { write } = kind === "csv" ? { write: writeCsv } : { write: (await import("./parquet_download.js")).writeParquet };
    const written = await write(file, columns, all, { guard: $("guard").checked, wrote });
    if (stopped) throw new Error("The download was stopped, and its file was discarded.");
    await file.close();
    bytes = total;
    show();
    $("done").textContent = `${written.rows.toLocaleString("en")} rows written.${formulaWarning(written)}`;
  } catch (error) {
    await file.abort().catch(() => {});
    $("progress").hidden = true;
    throw error;
  } finally {
    busy(false);
  }
}

function formulaWarning({ formulas = 0 }) {
  if (!formulas || $("guard").checked) return "";
  return ` ${formulas.toLocaleString("en")} texts begin with = + - or @: a spreadsheet may run them as formulas. Import them as text, or select “escape formulas”.`;
}

async function* stoppable(batches) {
  for await (const batch of batches) {
    if (stopped) return;
    yield batch;
  }
}

function busy(under) {
  for (const id of ["csv", "parquet"]) $(id).disabled = under;
  $("stop").hidden = !under;
  if (under) $("progress").hidden = false;
}

for (const kind of ["csv", "parquet"]) $(kind).addEventListener("click", () => tableMetadata && run("Downloading …", () => download(kind)));
$("stop").addEventListener("click", () => (stopped = true));

// ------------------------------------------------------------------------------------------------------------- changes

async function showChanges() {
  const version = Number($("changed").value);
  const [rows, kinds] = [[], []];
  let columns = [];
  let more = false;
  for await (const batch of changedRows(sharing.changes(selected, version), { began: (table) => (columns = columnsOf(table).shown) })) {
    for (const row of batch.rows) {
      more = rows.length >= FIRST_ROWS * 5;
      if (more) break;
      rows.push(row);
      kinds.push(batch.kind);
    }
    if (more) break;
  }
  $("changed-grid").replaceChildren(rowsTable(columns, rows, kinds));
  $("changed-count").textContent = `${more ? "The first " : ""}${rows.length} changed rows of version ${version}.`;
}

$("ask-changes").addEventListener("submit", (event) => {
  event.preventDefault();
  run("Reading changes …", showChanges);
});

// ---------------------------------------------------------------------------------------------------------------- tabs

const tabs = [...$("tabs").children];
function select(tab) {
  for (const item of tabs) {
    item.setAttribute("aria-selected", String(item === tab));
    item.tabIndex = item === tab ? 0 : -1;
    $(item.getAttribute("aria-controls")).hidden = item !== tab;
  }
}
for (const tab of tabs) tab.addEventListener("click", () => select(tab));
$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const usable = tabs.filter((item) => !item.disabled);
  const next = usable[(usable.indexOf(document.activeElement) + step + usable.length) % usable.length];
  select(next);
  next.focus();
});

$("endpoint").textContent = endpoint;
