// Download a table to a file, slice by slice: streamed to disk if the browser supports that, else as parts of a Blob,
// which the browser stores outside of the page.

import { cellText } from "./values.js";

const FORMULA = /^[=+\-@\t\r]/;
const PART_CHARACTERS = 1 << 20;

/** Open the file to write; returns null if the user cancels. */
export async function openFile(name, type) {
  if (!window.showSaveFilePicker) return blobFile(name, type);
  try {
    const handle = await window.showSaveFilePicker({ suggestedName: name });
    const stream = await handle.createWritable();
    return { write: (text) => stream.write(text), close: () => stream.close(), abort: () => stream.abort() };
  } catch (error) {
    if (error.name === "AbortError") return null;
    return blobFile(name, type);
  }
}

function blobFile(name, type) {
  const parts = [];
  return {
    write: async (text) => void parts.push(new Blob([text])),
    abort: async () => void (parts.length = 0),
    async close() {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(parts, { type }));
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    },
  };
}

/**
 * Write rows as CSV (RFC 4180, UTF-8): null is empty, an empty text is "", other values have the same text as on the page.
 * @returns {Promise<{rows: number, formulas: number}>} number of rows, and of texts that a spreadsheet may run as a formula
 */
export async function writeCsv(file, columns, batches, { guard = false, wrote = () => {} } = {}) {
  const types = columns.map((column) => column.type);
  let formulas = 0;
  const cell = (value, type) => {
    const text = cellText(value, type);
    if (text === null) return "";
    const risky = type === "string" && FORMULA.test(text);
    formulas += risky ? 1 : 0;
    return quoted(risky && guard ? `'${text}` : text);
  };
  let rows = 0;
  let part = `${columns.map((column) => quoted(guard && FORMULA.test(column.name) ? `'${column.name}` : column.name)).join(",")}\r\n`;
  for await (const batch of batches) {
    for (const row of batch) {
      let line = "";
      for (let at = 0; at < types.length; at++) line += (at ? "," : "") + cell(row[at], types[at]);
      part += `${line}\r\n`;
      if (part.length > PART_CHARACTERS) {
        await file.write(part);
        part = "";
      }
    }
    rows += batch.length;
    wrote(rows);
  }
  await file.write(part);
  return { rows, formulas };
}

const quoted = (text) => (text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
