"""Read with the modules of the page at /explore, in Chromium."""

import json
import shutil
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from client_matrix.scripts import reading
from playwright.sync_api import Page, sync_playwright

READ = """async ({token, table, version, changes}) => {
    const home = location.href + "/";
    const {Sharing} = await import(home + "protocol.js");
    const {snapshotRows, changedRows, columnsOf} = await import(home + "rows.js");
    const plain = (value, type) => value === undefined ? null
        : typeof value === "bigint" ? Number(value)
        : value !== null && type.type === "struct"
        ? Object.fromEntries(type.fields.map((field, index) => [field.name, plain(value[index], field.type)]))
        : value;
    const sharing = new Sharing(location.href.replace(/.explore$/, ""), {token});
    const rows = [];
    const add = (columns, batch, more) => {
        for (const row of batch) {
            const cells = row.map((value, index) => [columns[index].name, plain(value, columns[index].type)]);
            rows.push({...Object.fromEntries(cells), ...more});
        }
    };
    if (changes === null) {
        const {table: schema, files} = await sharing.snapshot(table, {at: version === null ? {} : {version}});
        for await (const batch of snapshotRows(schema, files)) add(columnsOf(schema).shown, batch, {});
        return rows;
    }
    for (let commit = changes[0]; commit <= changes[1]; commit++) {
        const {table: schema, files} = await sharing.changes(table, commit);
        for await (const {kind, rows: batch} of changedRows(schema, files)) {
            add(columnsOf(schema).shown, batch, {_change_type: kind, _commit_version: commit});
        }
    }
    return rows;
}"""


def token_of(job: dict[str, Any], profile: str) -> str:
    """Return the reader's token; with a client id and secret, request one as the page does."""
    if profile == "key":
        raise reading.Unsupported("it signs no assertions")
    if profile == "bearer":
        return str(job["token"])
    client = job["client"]
    form = {
        "client_id": client["clientId"],
        "client_secret": client["clientSecret"],
        "grant_type": "client_credentials",
    }
    with urlopen(Request(client["tokenEndpoint"], urlencode(form).encode())) as response:  # noqa: S310
        return str(json.load(response)["access_token"])


def main() -> None:
    """Open the page, and read each check."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        pages: list[Page] = []

        def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
            if not pages:
                pages.append(browser.new_page())
                pages[0].goto(f"{job['endpoint']}/explore")
            table = {"share": job["share"], "schema": job["schema"], "name": check["table"]}
            values = {"version": check["version"], "changes": check["changes"]}
            rows: reading.Rows = pages[0].evaluate(
                READ, {"token": token_of(job, check["profile"]), "table": table, **values}
            )
            return rows

        reading.main(f"with Chromium {browser.version.partition('.')[0]}", read)
        browser.close()


main()
