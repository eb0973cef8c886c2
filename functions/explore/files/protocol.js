// Client of the sharing protocol: lists, metadata, files and changes of tables, in delta format, page by page; and files
// of volumes, skills and models.

const CAPABILITIES = [
  "responseformat=delta",
  "readerfeatures=deletionvectors,columnmapping,timestampntz,typewidening,varianttype,variantshredding",
  "includeendstreamaction=true",
].join(";");
const READ_FEATURES = new Set([
  "deletionvectors", "columnmapping", "timestampntz", "typewidening", "varianttype", "variantshredding",
  "v2checkpoint", "vacuumprotocolcheck",
]);
const TRIES = 3;

/**
 * Parse a profile file or a token. Throws if it is invalid or for another server.
 * @param {string} text
 * @param {string} endpoint of this page
 * @returns {{token: string, expires: string | null}}
 */
export function readProfile(text, endpoint) {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) {
    if (!/^[\x21-\x7e]{8,8192}$/.test(trimmed)) throw new Error("This is neither a profile file nor a token.");
    return { token: trimmed, expires: null };
  }
  let profile;
  try {
    profile = JSON.parse(trimmed);
  } catch {
    throw new Error("This file is not a profile: it is not JSON.");
  }
  if (typeof profile.bearerToken !== "string" || typeof profile.endpoint !== "string") {
    throw new Error("This profile has no bearer token or no endpoint. Use a profile that has both.");
  }
  const profileEndpoint = profile.endpoint.replace(/\/+$/, "");
  if (profileEndpoint !== endpoint) {
    throw new Error(`This profile is for ${profileEndpoint}, not for ${endpoint}: open ${profileEndpoint}/explore.`);
  }
  return { token: profile.bearerToken, expires: profile.expirationTime ?? null };
}

/** An error answer of the server or the store. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** A recipient's view of one server. The token is stored only in this object. */
export class Sharing {
  #token;

  constructor(endpoint, token) {
    this.endpoint = endpoint;
    this.#token = token;
  }

  shares() {
    return this.#list("/shares");
  }

  tables(share) {
    return this.#list(`/shares/${encodeURIComponent(share)}/all-tables`);
  }

  /** Return the volumes, skills or models of a share. */
  async assets(share, kind) {
    const items = await this.#list(`/shares/${encodeURIComponent(share)}/all-${kind}s`);
    return items.map((item) => ({ ...item, kind }));
  }

  /** Return the versions of a model, each as a folder. */
  async versions(model) {
    const items = await this.#list(`${pathOf(model)}/versions`);
    return items.map((item) => ({ ...item, name: item.modelName, kind: "version" }));
  }

  /** Return a page of one level of a folder: `{items, folders, leftOut, nextPageToken}`. */
  async files(folder, prefix, token = "") {
    const query = `delimiter=/&prefix=${encodeURIComponent(prefix)}${token && `&pageToken=${encodeURIComponent(token)}`}`;
    return (await this.#request("GET", `${pathOf(folder)}/files?${query}`, null)).json();
  }

  /** Return one file of a folder as it is now, with its URL; throws if it no longer exists. */
  async fileUrl(folder, name) {
    const answer = await (await this.#request("POST", `${pathOf(folder)}/files`, { paths: [name] })).json();
    if (!answer.items.length) throw new Error("This file no longer exists. Open the folder again.");
    return answer.items[0];
  }

  /** Return the metadata of a table's latest version. */
  async metadata(table) {
    for await (const part of this.#lines("GET", `${pathOf(table)}/metadata`)) if (part.table) return part.table;
    throw new Error("The response has no metadata. Try again.");
  }

  /** Yield `{table}` first, then `{file}`s of a snapshot. */
  snapshot(table, { at = {}, hints = null, limit = null } = {}) {
    const body = { ...at, ...(hints && { jsonPredicateHints: JSON.stringify(hints) }), ...(limit && { limitHint: limit }) };
    return this.#pages((token) => ["POST", `${pathOf(table)}/query`, { ...body, ...(token && { pageToken: token }) }]);
  }

  /** Yield `{table}` first, then `{file}`s with the changes of one version. */
  changes(table, version) {
    const query = `startingVersion=${version}&endingVersion=${version}`;
    return this.#pages((token) => [
      "GET", `${pathOf(table)}/changes?${query}${token ? `&pageToken=${encodeURIComponent(token)}` : ""}`, null,
    ]);
  }

  async #list(path) {
    const items = [];
    for (let token = ""; ; ) {
      const answer = await this.#request("GET", path + (token ? `?pageToken=${encodeURIComponent(token)}` : ""), null);
      const page = await answer.json();
      items.push(...(page.items ?? []));
      token = page.nextPageToken;
      if (!token) return items;
    }
  }

  async *#pages(request) {
    for (let token = ""; ; ) {
      let next = "";
      for await (const part of this.#lines(...request(token))) {
        if (part.next !== undefined) next = part.next;
        else if (part.file || !token) yield part;
      }
      if (!next) return;
      token = next;
    }
  }

  async *#lines(method, path, body = null) {
    const answer = await this.#request(method, path, body);
    const version = answer.headers.get("delta-table-version");
    let protocol = null;
    let ended = !/includeendstreamaction=true/i.test(answer.headers.get("delta-sharing-capabilities") ?? "");
    for await (const text of textLines(answer.body)) {
      const line = parseLine(text);
      if (line.protocol) protocol = line.protocol.deltaProtocol ?? line.protocol;
      else if (line.metaData) yield { table: readMetadata(line.metaData, protocol, version) };
      else if (line.file) yield { file: action(line.file) };
      else if (line.endStreamAction) {
        if (line.endStreamAction.errorMessage) throw new Error(line.endStreamAction.errorMessage);
        ended = true;
        yield { next: line.endStreamAction.nextPageToken ?? "" };
      }
    }
    if (!ended) throw new Error("The response ended before it was complete. Try again.");
  }

  async #request(method, path, body) {
    const headers = { authorization: `Bearer ${this.#token}`, "delta-sharing-capabilities": CAPABILITIES };
    if (body) headers["content-type"] = "application/json; charset=utf-8";
    const options = { method, headers, body: body && JSON.stringify(body), credentials: "omit", cache: "no-store", redirect: "error" };
    for (let attempt = 1; ; attempt++) {
      const answer = await fetch(this.endpoint + path, options);
      if (answer.ok) return answer;
      if ((answer.status === 429 || answer.status >= 500) && attempt < TRIES) {
        await new Promise((done) => setTimeout(done, 500 * 2 ** attempt));
        continue;
      }
      const errorBody = await answer.json().catch(() => ({}));
      const explanation = answer.status === 401 ? "The server does not know this token: it has expired, or was revoked or replaced." : "";
      throw new Refused(answer.status, explanation || errorBody.message || `The server responded with status ${answer.status}.`);
    }
  }
}

const ROUTES = { volume: "volumes", skill: "skills", model: "models", version: "models" };
const pathOf = ({ share, schema, name, kind, version }) =>
  `/shares/${encodeURIComponent(share)}/schemas/${encodeURIComponent(schema)}/${ROUTES[kind] ?? "tables"}/${encodeURIComponent(name)}` +
  (kind === "version" ? `/versions/${version}` : "");

async function* textLines(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      yield* lines.filter((line) => line.trim());
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  if (rest.trim()) yield rest;
}

function parseLine(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The response ended in the middle of a line. Try again.");
  }
}

/** Return the parts of the metadata that the page needs; throws for unknown reader features. */
function readMetadata(line, protocol, version) {
  const metadata = line.deltaMetadata ?? line;
  const unknown = (protocol?.readerFeatures ?? []).filter((name) => !READ_FEATURES.has(name.toLowerCase().replace(/-preview$/, "")));
  if (unknown.length) throw new Error(`This page cannot read tables with ${unknown.join(", ")}. Try another client.`);
  const configuration = metadata.configuration ?? {};
  return {
    description: metadata.description ?? null,
    fields: JSON.parse(metadata.schemaString).fields,
    partitionColumns: metadata.partitionColumns ?? [],
    mode: configuration["delta.columnMapping.mode"] ?? "none",
    hasFeed: String(configuration["delta.enableChangeDataFeed"]).toLowerCase() === "true",
    version: version === null ? null : Number(version),
    size: line.size ?? null,
    files: line.numFiles ?? null,
  };
}

/** Return a file for the reader, from any kind of action. */
function action(line) {
  const single = line.deltaSingleAction;
  const kind = ["add", "remove", "cdc"].find((name) => single?.[name]);
  if (!kind) throw new Error("The response has an unknown type of action. Try another client.");
  const fields = single[kind];
  return {
    kind,
    id: line.id,
    url: fields.path,
    size: fields.size,
    partitionValues: fields.partitionValues ?? {},
    vector: fields.deletionVector ?? null,
  };
}

/** Request a complete file by its signed URL, without reading the body. Without headers, browsers send no preflight. */
export async function openUrl(url) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    throw unreachableError(url, error);
  }
  if (answer.ok) return answer;
  throw new Refused(answer.status, `The object store responded with status ${answer.status} for the file. Try again.`);
}

function unreachableError(url, cause) {
  return new Error(
    `The store at ${new URL(url).host} cannot be read from this page. If other clients can read it, its bucket does not ` +
      "allow this page's origin: ask the provider to run deltaic storage cors.", { cause },
  );
}

/** Read bytes of an object by its signed URL, with GET, because the URL is signed only for that. */
export async function readBytes(url, start, end) {
  for (let attempt = 1; ; attempt++) {
    let answer;
    try {
      answer = await fetch(url, { headers: { range: `bytes=${start}-${end - 1}` }, credentials: "omit", referrerPolicy: "no-referrer" });
      if (answer.status === 206 || answer.status === 200) {
        const bytes = await answer.arrayBuffer();
        const range = answer.status === 206 ? bytes : bytes.slice(start, end);
        if (range.byteLength === end - start) return range;
      }
    } catch (error) {
      if (attempt < TRIES) continue;
      throw unreachableError(url, error);
    }
    if (attempt < TRIES && (answer.status >= 500 || answer.status === 200 || answer.status === 206)) continue;
    throw new Refused(answer.status, answer.status === 403
      ? "The store refused the file: its URL has expired, or the grant was removed. Load the table again."
      : `The object store responded with status ${answer.status} for a file. Load the table again.`);
  }
}
