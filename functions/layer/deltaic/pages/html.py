"""HTML documents with a common style sheet, and response headers that allow one script, no frames and no caches."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from typing import Final

CONTENT_TYPE: Final = "text/html; charset=utf-8"

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1a2027; --soft: #56606b; --line: #d5dbe1; --paper: #fff; --well: #f4f6f8;
  --accent: #0b5cad; --on-accent: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaee; --soft: #a3adb8; --line: #36404a; --paper: #14181c;
  --well: #1d2329; --accent: #7fb8f5; --on-accent: #0c1116; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p, ul { margin: .5rem 0; }
ul { padding-left: 1.25rem; }
li { overflow-wrap: anywhere; }
.soft { color: var(--soft); }
a { color: var(--accent); }
button, .button { display: inline-block; margin: 1.25rem 0; padding: .7rem 1.4rem; border: 0; border-radius: .4rem;
  background: var(--accent); color: var(--on-accent); font: inherit; font-weight: 600; text-decoration: none;
  cursor: pointer; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px; }
details { border-top: 1px solid var(--line); padding: .6rem 0; }
details:last-of-type { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; font-weight: 600; }
.note { border-left: 3px solid var(--accent); padding-left: .8rem; }
.copy { float: right; margin: 0 0 .25rem .5rem; padding: .25rem .7rem; font-size: .85rem; }
pre { clear: both; margin: .75rem 0; padding: .9rem 1rem; background: var(--well); border-radius: .4rem;
  overflow-x: auto; font: .85rem/1.5 ui-monospace, monospace; }
"""
_COPY_SCRIPT: Final = """
for (const code of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  Object.assign(button, {type: "button", className: "copy", textContent: "Copy", ariaLive: "polite"});
  button.onclick = () => navigator.clipboard.writeText(code.textContent).then(() => { button.textContent = "Copied"; },
    () => { getSelection().selectAllChildren(code); button.textContent = "Selected: press Ctrl+C"; });
  code.before(button);
}
"""
COPY_BUTTONS: Final = f"<script type=module>{_COPY_SCRIPT}</script>"
"""HTML that adds a button to each code block, which copies it; without JavaScript, the blocks have no buttons."""


def _hash(text: str) -> str:
    return base64.b64encode(sha256(text.encode()).digest()).decode()


HEADERS: Final[Mapping[str, str]] = {
    "content-type": CONTENT_TYPE,
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; script-src 'sha256-{_hash(_COPY_SCRIPT)}'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
    "cross-origin-opener-policy": "same-origin",
    "strict-transport-security": "max-age=31536000",
}
"""Headers that forbid external content, other scripts, frames, caches and the page's URL in Referer headers."""


def document(title: str, body: str) -> bytes:
    """Return a complete HTML document; `title` is plain text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n"
        "</html>\n"
    ).encode()
