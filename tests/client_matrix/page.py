"""Write docs/clients.md from the stored results."""

from pathlib import Path
from typing import Final

from client_matrix.abilities import ABILITIES, WRONG, YES
from client_matrix.clients import CLIENTS, Client
from client_matrix.results import Result, stored

PAGE: Final = Path(__file__).parents[2] / "docs" / "clients.md"
EXCEPTION: Final = r"\*"
INTRODUCTION: Final = """\
# Clients

```python
import delta_sharing

delta_sharing.load_as_pandas("alice.share#sales_share.europe.orders")
```

On this page you look up which client reads what, and the shortest settings that work. Each client
read the same tables from a local server of this commit. Its rows were compared with those that were
written, or that Spark read.

* **yes**: all rows were equal. `*` marks an exception, which the client's section names.
* **no**: the client or the server refuses with an error, or the client has no such function.
* **silently wrong**: the client shows other rows without an error.
* **not tried**: nobody knows yet.

```
uv run python -m client_matrix run [NAME...]  # in a checkout: run clients and store their results
uv run python -m client_matrix docs           # write this page from the results
```
"""


def page() -> str:
    """Return the page."""
    results = [(client, stored(client)) for client in CLIENTS]
    return "\n".join(
        [INTRODUCTION, *_abilities(), "", *_matrix(results), "", *_warnings(results), *_sections(results), ""]
    )


def _abilities() -> list[str]:
    rows = [f"| {name} | {what} |" for name, what in ABILITIES.items()]
    return ["## What was read", "", "| ability | read |", "|---|---|", *rows]


def _matrix(results: list[tuple[Client, Result]]) -> list[str]:
    head = ["## Results", "", f"| client | {' | '.join(ABILITIES)} |", f"|---|{'---|' * len(ABILITIES)}"]
    return [*head, *(f"| {_title(client, result)} | {' | '.join(_cells(result))} |" for client, result in results)]


def _title(client: Client, result: Result) -> str:
    return client.title.format(version=str(result["version"]))


def _cells(result: Result) -> list[str]:
    abilities = [result["abilities"][name] for name in ABILITIES]
    return [
        f"**{ability['outcome']}**{EXCEPTION if ability['outcome'] == YES and ability['reasons'] else ''}"
        for ability in abilities
    ]


def _warnings(results: list[tuple[Client, Result]]) -> list[str]:
    warnings = [
        f"* {_title(client, result)}, {name}: {'; '.join(ability['reasons'])}"
        for client, result in results
        for name, ability in result["abilities"].items()
        if ability["outcome"] == WRONG
    ]
    return [
        "## Silently wrong",
        "",
        "> **Warning.** These clients return wrong rows without an error:",
        "",
        *warnings,
        "",
    ]


def _sections(results: list[tuple[Client, Result]]) -> list[str]:
    lines = ["## Settings and reasons", ""]
    for client, result in results:
        lines += [f"### {_title(client, result)}", "", f"```{client.language}", client.settings, "```", ""]
        lines += [*_reasons(result), ""]
    return lines[:-1]


def _reasons(result: Result) -> list[str]:
    """Return a line for each reason, with all abilities that it applies to."""
    names: dict[str, list[str]] = {}
    for name, ability in result["abilities"].items():
        if ability["reasons"]:
            words = "yes, except" if ability["outcome"] == YES else f"{ability['outcome']}:"
            names.setdefault(f"{words} {'; '.join(ability['reasons'])}", []).append(name)
    return [f"* **{', '.join(abilities)}**: {reason}" for reason, abilities in names.items()]
