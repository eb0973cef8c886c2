"""Write docs/clients.md from the stored results."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import TextWrapper
from typing import Final

from client_matrix.abilities import ABILITIES, WRONG, YES
from client_matrix.clients import CLIENTS, Client
from client_matrix.replays import REPLAYS, Replay
from client_matrix.results import Result, stored

PAGE: Final = Path(__file__).parents[2] / "docs" / "clients.md"
Results = Sequence[tuple[Client | Replay, Result]]
EXCEPTION: Final = r"\*"
INTRODUCTION: Final = """\
# Clients

```python
import delta_sharing

delta_sharing.load_as_pandas("alice.share#sales_share.europe.orders")
```

On this page you look up which client reads what, and the shortest settings that work. Each client
read the same tables from a local server. Its rows were compared with those that were written, or
that Spark read.

* **yes**: all rows were equal. `*` marks an exception, which the client's section names.
* **no**: the client or the server refuses with an error, or the client has no such function.
* **silently wrong**: the client returns other rows without an error.
* **not tried**: no test has shown it. The client's section says why.

```
uv run python -m client_matrix run [NAME...]  # in a checkout: run clients and store their results
uv run python -m client_matrix docs           # write this page from the results
```
"""
REPLAYED: Final = (
    "### Replayed requests",
    "",
    "These clients could not be run for this page. Their requests were taken from public source code or",
    "documentation, and sent to the server. **yes** means that the responses have the shape that the",
    "client expects, not that its rows are correct.",
    "",
)


def page() -> str:
    """Return the page."""
    results = [(client, stored(client)) for client in CLIENTS]
    replayed = [(client, stored(client)) for client in REPLAYS]
    return "\n".join(
        [
            INTRODUCTION,
            *_abilities(),
            "",
            "## Results",
            "",
            *_matrix(results),
            "",
            *REPLAYED,
            *_matrix(replayed),
            "",
            *_warnings(results),
            "## Settings and reasons",
            "",
            "`location` and `options` are those of",
            "[directory access](recipients.md#read-by-directory-access).",
            "",
            *_sections(results),
            *_sections(replayed),
            "",
        ]
    )


def _abilities() -> list[str]:
    rows = [f"| {name} | {what} |" for name, what in ABILITIES.items()]
    return ["## What was read", "", "| ability | read |", "|---|---|", *rows]


def _matrix(results: Results) -> list[str]:
    head = [f"| client | {' | '.join(ABILITIES)} |", f"|---|{'---|' * len(ABILITIES)}"]
    return [*head, *(f"| {_title(client, result)} | {' | '.join(_cells(result))} |" for client, result in results)]


def _title(client: Client | Replay, result: Result) -> str:
    return client.title.format(version=str(result["version"]))


def _cells(result: Result) -> list[str]:
    abilities = [result["abilities"][name] for name in ABILITIES]
    return [
        f"**{ability['outcome']}**{EXCEPTION if ability['outcome'] == YES and ability['reasons'] else ''}"
        for ability in abilities
    ]


def _warnings(results: Results) -> list[str]:
    warnings = []
    for client, result in results:
        wrong = [
            f"{name} ({'; '.join(ability['reasons'])})"
            for name, ability in result["abilities"].items()
            if ability["outcome"] == WRONG
        ]
        if wrong:
            warnings.append(f"**{_title(client, result)}**: {', '.join(wrong)}")
    lines = ["## Silently wrong", "", "> **Warning.** These clients return wrong rows without an error:", ""]
    return [*lines, *_items(warnings), ""]


def _sections(results: Results) -> list[str]:
    lines: list[str] = []
    for client, result in results:
        lines += [f"### {_title(client, result)}", "", f"```{client.language}", client.settings, "```", ""]
        if isinstance(client, Client):
            lines += _items([client.note] if client.note else [])
        elif client.requests:
            lines += _items([f"Source of the requests: {client.source}"])
        lines += [*_reasons(result), ""]
    return lines


def _reasons(result: Result) -> list[str]:
    """Return a line for each reason, with all abilities that it applies to."""
    names: dict[str, list[str]] = {}
    for name, ability in result["abilities"].items():
        if ability["reasons"]:
            words = "yes, except" if ability["outcome"] == YES else f"{ability['outcome']}:"
            names.setdefault(f"{words} {'; '.join(ability['reasons'])}", []).append(name)
    return _items(f"**{', '.join(abilities)}**: {reason}" for reason, abilities in names.items())


def _items(texts: Iterable[str]) -> list[str]:
    """Return a list whose lines have at most 100 columns."""
    shape = TextWrapper(100, initial_indent="* ", subsequent_indent="  ", break_long_words=False)
    shape.break_on_hyphens = False
    return [line for text in texts for line in shape.wrap(text)]
