// What all parts of the page share: its elements, the status line with the errors, and copy buttons.

export const $ = (id) => document.getElementById(id);

let turn = 0; // number of the latest operation: results of earlier ones are ignored

function show(status, error = null) {
  $("status").textContent = status;
  $("message").textContent = error?.message ?? "";
  $("failure").hidden = !error;
}
$("close").addEventListener("click", () => show(""));

/** Run an operation of the user and show its error, unless a later operation has started. */
export async function run(text, work) {
  const thisTurn = ++turn;
  show(text);
  try {
    await work(() => thisTurn === turn);
    if (thisTurn === turn) show("");
  } catch (error) {
    if (thisTurn === turn) show("", error);
  }
}

/** Let a button copy a text; browsers allow it only to pages over https and of this machine. */
export function copies(button, text) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    show("Copied.");
  });
  return button;
}
