// The page: sign-in, the list of what is shared, and its search. All state is lost when the page closes.

import { keyOf, readAddress, writeAddress } from "./address.js";
import { KINDS, showAsset } from "./folders.js";
import { breakable, make } from "./grid.js";
import { Sharing, readProfile } from "./protocol.js";
import { stopDownload } from "./saving.js";
import { $, run } from "./shell.js";
import { leaveTable, showTable } from "./table.js";

const SEARCHED_TABLES = 200; // columns of more are not read
const endpoint = location.href.replace(/[?#].*$/, "").replace(/\/explore\/?$/, "");

let sharing = null;
let profileName = ""; // for code
const entries = new Map(); // what is shared, by key: {item, share, button, columns}

async function enter(text, name = "profile.share") {
  let wanted = null;
  await run("Listing shares …", async () => {
    const profile = readProfile(text, endpoint);
    const reader = new Sharing(endpoint, profile);
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
    $("look").hidden = false;
    $("leave").className = "plain";
    if (profile.expires) $("endpoint").textContent = `${endpoint} · token expires ${profile.expires.slice(0, 10)}`;
    wanted = readAddress();
    if (wanted.key && !entries.has(wanted.key)) throw new Error(`The link names ${wanted.title}, which is not shared with this profile. Choose another table.`);
  });
  if (!sharing) return;
  const [only] = entries.size === 1 ? entries.values() : [];
  const entry = entries.get(wanted.key) ?? (wanted.key ? null : only);
  if (entry) await choose(entry, wanted);
  else $("search").focus();
}

function shareNode(share, shared) {
  const schemas = Map.groupBy(shared, (item) => item.schema);
  const node = make("details", { open: true }, make("summary", {}, ...breakable(share.displayName || share.name)));
  if (share.comment) node.append(make("p", { className: "soft" }, share.comment));
  if (!shared.length) node.append(make("p", { className: "soft" }, "This share is empty."));
  for (const [schema, inside] of schemas) {
    const buttons = inside.map((item) => {
      const button = make("button", { type: "button" }, ...breakable(item.name), item.kind ? make("small", {}, ` ${item.kind}`) : null);
      const entry = { item, share, button, columns: [] };
      entries.set(keyOf(item), entry);
      button.addEventListener("click", () => choose(entry));
      return button;
    });
    node.append(make("div", {}, make("p", { className: "schema" }, ...breakable(schema)), ...buttons));
  }
  return node;
}

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

let reading = null; // whether the columns of all tables are being read; null before

/** Show what the text matches: names, and columns as far as they are read. */
function search() {
  const text = $("search").value.trim().toLowerCase();
  let matches = 0;
  for (const { item, button, columns } of entries.values()) {
    const inName = `${item.share}.${item.schema}.${item.name}`.toLowerCase().includes(text);
    const column = inName ? null : columns.find((name) => name.toLowerCase().includes(text));
    button.hidden = !inName && !column;
    button.querySelector(".match")?.remove();
    if (column) button.append(make("small", { className: "match" }, ` column ${column}`));
    matches += Number(!button.hidden);
  }
  for (const group of $("tree").querySelectorAll("details > div")) group.hidden = !group.querySelector("button:not([hidden])");
  if (text.length > 1 && reading === null) readColumns();
  const result = matches ? `${matches} of ${entries.size}` : `No table, folder or column matches “${$("search").value.trim()}”.`;
  $("found").textContent = text ? (reading ? "Reading the names of columns …" : result) : "";
}
$("search").addEventListener("input", search);

/** Read the columns of the tables for the search. */
async function readColumns() {
  reading = true;
  for (const entry of [...entries.values()].filter(({ item }) => !item.kind).slice(0, SEARCHED_TABLES)) {
    const metadata = await sharing.metadata(entry.item).catch(() => null);
    entry.columns = metadata?.fields.map((field) => field.name) ?? [];
    search();
  }
  reading = false;
  search();
}

async function choose({ item, share, button }, wanted = { version: null, filters: [] }) {
  for (const element of $("tree").querySelectorAll("[aria-current]")) element.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  leaveTable();
  stopDownload();
  $("empty").hidden = true;
  $("chosen").hidden = Boolean(item.kind);
  $("asset").hidden = !item.kind;
  if (matchMedia("(max-width: 44rem)").matches) $("table").scrollIntoView();
  if (!wanted.key) writeAddress(item);
  const focused = document.activeElement;
  if (item.kind) await run("Opening …", () => showAsset(sharing, item));
  else await showTable(sharing, item, wanted, { name: profileName, share });
  const undisturbed = [focused, document.body].includes(document.activeElement) && button.ariaCurrent && $("failure").hidden;
  if (undisturbed) $(item.kind ? "files" : "grid").focus({ preventScroll: true });
}

addEventListener("popstate", () => {
  const wanted = readAddress();
  if (entries.has(wanted.key)) choose(entries.get(wanted.key), wanted);
});

$("endpoint").textContent = endpoint;
const linked = readAddress();
if (linked.key) $("linked").textContent = `Your link opens ${linked.title} after that.`;
