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
 * Parse a profile file or a token for this page's endpoint: return `{token, expires}`, or `{client}`, the form that
 * requests a token. Throws if it is invalid, for another server, or if another server issues its tokens.
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
  const { type, clientId, clientSecret, scope = "", tokenEndpoint = profile.auth?.tokenEndpoint } = profile;
  if (typeof (profile.bearerToken ?? tokenEndpoint) !== "string" || typeof profile.endpoint !== "string") {
    throw new Error("This profile has no bearer token or no endpoint. Use a profile that has both.");
  }
  const profileEndpoint = profile.endpoint.replace(/\/+$/, "");
  if (profileEndpoint !== endpoint) {
    throw new Error(`This profile is for ${profileEndpoint}, not for ${endpoint}: open ${profileEndpoint}/explore.`);
  }
  if (profile.bearerToken !== undefined) return { token: profile.bearerToken, expires: profile.expirationTime ?? null };
  if (type !== "oauth_client_credentials" || tokenEndpoint !== `${endpoint}/oauth/token`) {
    const host = URL.canParse(tokenEndpoint) ? new URL(tokenEndpoint).host : tokenEndpoint;
    throw new Error(`This profile signs in at ${host}, which this page cannot do. Read it with the Python client: pip install 'delta-sharing>=1.3'.`);
  }
  return { client: new URLSearchParams({ grant_type: "client_credentials", client_id: clientId, client_secret: clientSecret, scope }) };
}

/** A recipient's view of one server. The token, and the secret that requests it, are stored only in this object. */
export class Sharing {
  #token;
  #client;
  #renewal = 0; // when the next token is requested, in milliseconds of performance.now()

  constructor(endpoint, { token, client }) {
    this.endpoint = endpoint;
    this.usesClient = Boolean(client);
    this.#token = token;
    this.#client = client;
  }

  shares = () => this.#list("/shares");
  tables = (share) => this.#list(`/shares/${encodeURIComponent(share)}/all-tables`);
  samples = async (names) => (await this.#send(`/explore/code.json?${names}`, {})).json();

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

  /** Return the metadata of a table's version. */
  async metadata(table, at = {}) {
    const query = new URLSearchParams(at).toString();
    for await (const part of this.#lines("GET", `${pathOf(table)}/metadata${query && `?${query}`}`)) if (part.table) return part.table;
    throw new Error("The response has no metadata. Try again.");
  }

  /** Return `{table, files}` of a snapshot; with `maxFiles`, pages of so many files are requested when they are needed. */
  snapshot(table, { at = {}, hints = null, maxFiles = null } = {}) {
    const body = { ...at, ...(hints && { jsonPredicateHints: JSON.stringify(hints) }), ...(maxFiles && { maxFiles }) };
    return this.#answer((token) => ["POST", `${pathOf(table)}/query`, { ...body, ...(token && { pageToken: token }) }]);
  }

  /** Return `{table, files}` with the changes of one version. */
  changes(table, version) {
    const query = `startingVersion=${version}&endingVersion=${version}`;
    return this.#answer((token) => ["GET", `${pathOf(table)}/changes?${query}${token && `&pageToken=${encodeURIComponent(token)}`}`]);
  }

  async #list(path) {
    const items = [];
    for (let token = ""; token !== undefined; ) {
      const page = await (await this.#request("GET", path + (token && `?pageToken=${encodeURIComponent(token)}`), null)).json();
      items.push(...(page.items ?? []));
      token = page.nextPageToken || undefined;
    }
    return items;
  }

  async #answer(request) {
    const files = this.#pages(request);
    return { ...(await files.next()).value, files };
  }

  /** Yield the head of the first page, then the files of all pages. */
  async *#pages(request) {
    for (let token = ""; ; ) {
      let next = "";
      for (const part of await Array.fromAsync(this.#lines(...request(token)))) {
        if (part.file) yield part.file;
        else if (part.table && !token) yield part;
        next = part.next ?? next;
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
    if (this.#client && performance.now() > this.#renewal) await this.#renew();
    const headers = { authorization: `Bearer ${this.#token}`, "delta-sharing-capabilities": CAPABILITIES };
    if (body) headers["content-type"] = "application/json; charset=utf-8";
    return this.#send(path, { method, headers, body: body && JSON.stringify(body) });
  }

  /** Request a new token from this server, a minute before the old one ends. */
  async #renew() {
    const grant = await (await this.#send("/oauth/token", { method: "POST", body: this.#client })).json();
    this.#token = grant.access_token;
    this.#renewal = performance.now() + (grant.expires_in - 60) * 1000;
  }

  async #send(path, options) {
    for (let attempt = 1; ; attempt++) {
      const answer = await fetch(this.endpoint + path, { ...options, credentials: "omit", cache: "no-store", redirect: "error" }).catch((cause) => {
        throw new Error(navigator.onLine ? "The server did not answer. Check your connection, then try again." : OFFLINE, { cause });
      });
      if (answer.ok) return answer;
      if ((answer.status === 429 || answer.status >= 500) && attempt < TRIES) {
        await new Promise((done) => setTimeout(done, 500 * 2 ** attempt));
        continue;
      }
      const { message } = await answer.json().catch(() => ({}));
      throw new Error(EXPLANATIONS[answer.status] ?? (message || FAILED(answer.status)));
    }
  }
}

const FAILED = (status) => `The server has a problem (status ${status}). Your profile is fine: try again in a few minutes.`;
const EXPLANATIONS = {
  401: "The server does not know this token or client: it has expired, or was revoked or replaced. Ask for a new profile.",
  429: "The server is busy, or you have sent many requests. Wait a minute, then try again.",
};
const OFFLINE = "You are offline. Connect to the network, then try again.";

const ROUTES = { volume: "volumes", skill: "skills", model: "models", version: "models" };
const pathOf = ({ share, schema, name, kind, version }) =>
  `/shares/${encodeURIComponent(share)}/schemas/${encodeURIComponent(schema)}/${ROUTES[kind] ?? "tables"}/${encodeURIComponent(name)}` +
  (kind === "version" ? `/versions/${version}` : "");

async function* textLines(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw new Error("The connection ended before the response was complete. Try again.", { cause: error });
      });
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
    stats: fields.stats ?? null,
  };
}

/** Request an object by its signed URL, and read the answer. Without other headers, browsers send no preflight. */
const get = (url, headers, read) => fetch(url, { headers, credentials: "omit", referrerPolicy: "no-referrer" }).then(read).catch((cause) => {
  const reason = `The store at ${new URL(url).host} cannot be read from this page. If other clients can read it, its bucket does not ` +
    "allow this page's origin: ask the provider to run deltaic storage cors.";
  throw new Error(navigator.onLine ? reason : OFFLINE, { cause });
});

/** Request a complete file by its signed URL, without reading the body. */
export async function openUrl(url) {
  const answer = await get(url, {}, (opened) => opened);
  if (answer.ok) return answer;
  throw new Error(`The object store responded with status ${answer.status} for the file. Try again.`);
}

/** Read bytes of an object by its signed URL, with GET, because the URL is signed only for that. */
export async function readBytes(url, start, end) {
  const read = async (answer) => [answer.status, await answer.arrayBuffer()];
  for (let attempt = 1; ; attempt++) {
    try {
      const [status, bytes] = await get(url, { range: `bytes=${start}-${end - 1}` }, read);
      const range = status === 200 ? bytes.slice(start, end) : bytes;
      if ((status === 200 || status === 206) && range.byteLength === end - start) return range;
      throw new Error(status === 403
        ? "The store refused the file: its URL has expired, or the grant was removed. Load the table again."
        : `The object store responded with status ${status} for a file. Load the table again.`);
    } catch (error) {
      if (attempt === TRIES) throw error;
    }
  }
}
