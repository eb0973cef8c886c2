// The fragment of the page's address: the chosen table, its version, filters and tab. It never has the token.

const NAMES = ["share", "schema", "kind", "name"];

/** Return the key of a table or folder: the same for the same names. */
export const keyOf = (item) => JSON.stringify(NAMES.map((name) => item[name] ?? (name === "kind" ? "table" : "")));

/** Return what the address names: `{key, title, version, filters, tab}`; the key is null without a table or folder. */
export function readAddress() {
  const params = new URLSearchParams(location.hash.slice(1));
  const item = Object.fromEntries(NAMES.map((name) => [name, params.get(name)]));
  return {
    key: item.name === null ? null : keyOf(item),
    title: NAMES.filter((name) => name !== "kind").map((name) => item[name]).join("."),
    version: /^\d{1,15}$/.exec(params.get("version"))?.[0] ?? null,
    filters: params.getAll("column").map((column, at) => ({ column, sign: params.getAll("is")[at], text: params.getAll("value")[at] })),
    tab: params.get("tab"),
  };
}

/** Write what is chosen into the address: a new entry of the history for another table, else the same one. */
export function writeAddress(item, { version = null, filters = [], tab = "rows" } = {}) {
  const params = new URLSearchParams(NAMES.filter((name) => item[name]).map((name) => [name, item[name]]));
  if (version !== null) params.set("version", version);
  for (const { column, sign, text } of filters) for (const [name, value] of [["column", column], ["is", sign], ["value", text]]) params.append(name, value);
  if (tab !== "rows") params.set("tab", tab);
  if (readAddress().key === keyOf(item)) history.replaceState(null, "", `#${params}`);
  else history.pushState(null, "", `#${params}`);
}
