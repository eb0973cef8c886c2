// Read with `delta-sharing` or `iceberg-js` for Node, which the argument names; prints as reading.py does.
const { createRequire } = require("node:module");
const { readFileSync } = require("node:fs");

const [folder, client] = process.argv.slice(2);
const load = createRequire(`${folder}/`);

class Unsupported extends Error {}

async function readShared(job, check) {
  if (check.version !== null) throw new Unsupported("it has no versions");
  if (check.changes) throw new Unsupported("it has no function for it");
  const { DataSharingRestClient, DeltaSharingProfile, DeltaSharingReader, Table } = load("delta-sharing");
  const profile = DeltaSharingProfile.fromJson(readFileSync(job.profiles[check.profile], "utf8"));
  const table = new Table(check.table, job.share, job.schema);
  const reader = new DeltaSharingReader(table, new DataSharingRestClient(profile, 0));
  return reader.createDataArray();
}

async function readCatalog(job, check) {
  const { IcebergRestCatalog } = load("iceberg-js");
  if (check.profile !== "bearer") throw new Unsupported("it requests no tokens");
  const auth = { type: "bearer", token: job.token };
  const catalog = new IcebergRestCatalog({ baseUrl: job.iceberg, warehouse: job.share, auth });
  const { metadata } = await catalog.loadTableResult({ namespace: [job.schema], name: check.table });
  throw new Unsupported(`it loads the table's metadata (format version ${metadata["format-version"]}), but reads no rows`);
}

async function attempt(read) {
  try {
    return { rows: (await read()).map((row) => row) };
  } catch (error) {
    if (error instanceof Unsupported) return { unsupported: error.message };
    return { error: `${error?.name ?? "Error"}: ${JSON.stringify(error?.message ?? error)}` };
  }
}

async function main() {
  const job = JSON.parse(readFileSync(0, "utf8"));
  const read = client === "iceberg-js" ? readCatalog : readShared;
  const results = {};
  for (const check of job.checks) results[check.name] = await attempt(() => read(job, check));
  const { version } = JSON.parse(readFileSync(`${folder}/node_modules/${client}/package.json`, "utf8"));
  const text = JSON.stringify({ version, results }, (_, value) => (typeof value === "bigint" ? Number(value) : value));
  process.stdout.write(`\n${text}\n`);
}

main();
