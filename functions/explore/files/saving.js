// The form that downloads the selected rows as CSV or Parquet.

import { openFile, writeCsv } from "./download.js";
import { columnsOf, snapshotRows } from "./rows.js";
import { $, run } from "./shell.js";
import { selection } from "./table.js";

let stopped = false;

/** Stop the download, because another table is chosen. */
export const stopDownload = () => (stopped = true);

async function download(kind) {
  const { table, query } = selection();
  const file = await openFile(`${table.name}.${kind}`, kind === "csv" ? "text/csv;charset=utf-8" : "application/vnd.apache.parquet");
  if (!file) return;
  stopped = $("progress").hidden = $("stop").hidden = false;
  $("csv").disabled = $("parquet").disabled = true;
  let bytes = 0;
  const started = performance.now();
  const wrote = (rows) => {
    if (stopped) throw new Error("The download was stopped, and its file was discarded.");
    $("done").textContent = `${rows.toLocaleString("en")} rows, ${Math.round((performance.now() - started) / 1000)} s`;
  };
  try {
    const { table: metadata, files, keep } = await query();
    const done = (part) => ($("bar").value = Math.min((bytes += part.size) / (metadata.size || Infinity), 1));
    const write = kind === "csv" ? writeCsv : (await import("./parquet_download.js")).writeParquet;
    const rows = snapshotRows(metadata, files, { keep, done });
    const written = await write(file, columnsOf(metadata).shown, rows, { guard: $("guard").checked, wrote });
    wrote(written.rows);
    await file.close();
    $("bar").value = 1;
    $("done").textContent = `${written.rows.toLocaleString("en")} rows written.${formulaWarning(written)}`;
  } catch (error) {
    await file.abort().catch(() => {});
    $("progress").hidden = true;
    throw error;
  } finally {
    $("csv").disabled = $("parquet").disabled = false;
    $("stop").hidden = true;
  }
}

function formulaWarning({ formulas = 0 }) {
  if (!formulas || $("guard").checked) return "";
  return ` ${formulas.toLocaleString("en")} texts begin with = + - or @: a spreadsheet may run them as formulas. Import them as text, or select “escape formulas”.`;
}

for (const kind of ["csv", "parquet"]) $(kind).addEventListener("click", () => selection().metadata && run("Downloading …", () => download(kind)));
$("stop").addEventListener("click", stopDownload);
