// Show volumes, skills and model versions: folders with downloads, and SKILL.md as text.

import { openFile } from "./download.js";
import { bytesText, make } from "./grid.js";
import { openUrl } from "./protocol.js";
import { $, run } from "./shell.js";

export const KINDS = ["volume", "skill", "model"];
const LONGEST_TEXT = 1 << 20;

/** Show a volume, skill or model from the list. */
export async function showAsset(sharing, asset) {
  $("asset-path").textContent = `${asset.share} › ${asset.schema} › ${asset.kind}`;
  $("asset-name").textContent = asset.name;
  $("asset-comment").textContent = asset.description ?? asset.comment ?? "";
  for (const id of ["versions", "crumbs", "files", "file-count"]) $(id).replaceChildren();
  $("skill").hidden = $("skill-title").hidden = true;
  if (asset.kind === "model") await showVersions(sharing, asset);
  else await showFolder(sharing, asset, "");
  if (asset.kind === "skill") await showSkill(sharing, asset);
}

async function showVersions(sharing, model) {
  const versions = (await sharing.versions(model)).reverse();
  $("versions").replaceChildren(...versions.map((version) => {
    const note = [version.comment, version.runId && `run ${version.runId}`].filter(Boolean).join(", ");
    const open = make("button", { type: "button", className: "plain" }, `Version ${version.version}`);
    open.addEventListener("click", () => {
      $("asset-comment").textContent = note || (model.comment ?? "");
      run("Opening the version …", () => showFolder(sharing, version, ""));
    });
    return make("li", {}, open, note ? ` ${note}` : null);
  }));
  $("file-count").textContent = versions.length ? "Choose a version." : "No version is shared yet.";
}

async function showSkill(sharing, skill) {
  const file = await sharing.fileUrl(skill, "SKILL.md");
  if (file.size > LONGEST_TEXT) return;
  $("skill").textContent = await (await openUrl(file.url)).text();
  $("skill").hidden = $("skill-title").hidden = false;
}

async function showFolder(sharing, folder, prefix) {
  const rows = make("tbody");
  const head = make("tr", {}, ...["Name", "Size", "Changed", "Download"].map((text) => make("th", { scope: "col" }, text)));
  const link = (text, to) => {
    const button = make("button", { type: "button", className: "plain" }, text);
    button.addEventListener("click", () => run("Opening the folder …", () => showFolder(sharing, folder, to)));
    return button;
  };
  const save = (file) => {
    const button = make("button", { type: "button", className: "plain", ariaLabel: `Download ${last(file.name)}` }, "Download");
    button.addEventListener("click", () => run("Downloading …", () => download(sharing, folder, file)));
    return button;
  };
  let count = 0;
  let leftOut = 0;
  async function more(token) {
    const page = await sharing.files(folder, prefix, token);
    for (const name of page.folders ?? []) {
      rows.append(make("tr", {}, make("td", {}, link(`${last(name.slice(0, -1))}/`, name)), make("td"), make("td"), make("td")));
    }
    for (const file of page.items) {
      const changed = new Date(file.lastModified).toISOString().slice(0, 16).replace("T", " ");
      const cells = [last(file.name), bytesText(file.size), `${changed} UTC`].map((text, at) => make("td", { className: at === 1 ? "number" : "" }, text));
      rows.append(make("tr", {}, ...cells, make("td", {}, save(file))));
    }
    count += page.items.length;
    leftOut += page.leftOut ?? 0;
    const unnamed = leftOut ? ` ${leftOut} objects are omitted because clients cannot request their names.` : "";
    $("file-count").textContent = `${count.toLocaleString("en")} files here${page.nextPageToken ? ", and more" : ""}.${unnamed}`;
    $("more").hidden = !page.nextPageToken;
    $("more").onclick = () => run("Listing …", () => more(page.nextPageToken));
  }
  const steps = prefix.split("/").slice(0, -1);
  const crumbs = steps.map((step, at) => link(step, `${steps.slice(0, at + 1).join("/")}/`));
  $("crumbs").replaceChildren(link(folder.kind === "version" ? `${folder.name} ${folder.version}` : folder.name, ""), ...crumbs.flatMap((crumb) => [" › ", crumb]));
  await more("");
  $("files").replaceChildren(make("table", {}, make("thead", {}, head), rows));
}

async function download(sharing, folder, { name }) {
  const file = await openFile(last(name), "application/octet-stream");
  if (!file) return;
  try {
    const signed = await sharing.fileUrl(folder, name);
    const answer = await openUrl(signed.url);
    let bytes = 0;
    for (const reader = answer.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.byteLength;
      await file.write(value);
    }
    if (bytes !== signed.size) throw new Error("The file changed during the download. Try again.");
    await file.close();
  } catch (error) {
    await file.abort().catch(() => {});
    throw error;
  }
}

const last = (name) => name.slice(name.lastIndexOf("/") + 1);
