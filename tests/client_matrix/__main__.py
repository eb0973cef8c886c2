"""Run clients and write the page: `uv run python -m client_matrix run [NAME...]`, `... docs`."""

import sys
import tempfile
from pathlib import Path

from client_matrix.clients import CLIENTS, Client
from client_matrix.page import PAGE, page
from client_matrix.replays import REPLAYS, Replay, replay
from client_matrix.results import run_client, store
from client_matrix.tables import lending


def run(names: list[str]) -> None:
    """Run the named clients, or all of them, and store their results."""
    everything: list[Client | Replay] = [*CLIENTS, *REPLAYS]
    clients = {client.name: client for client in everything}
    if unknown := set(names) - set(clients):
        sys.exit(f"no client {', '.join(sorted(unknown))}: {', '.join(clients)}")
    with tempfile.TemporaryDirectory() as folder, lending(Path(folder)) as lender:
        for name in names or clients:
            client = clients[name]
            result = replay(client, lender) if isinstance(client, Replay) else run_client(client, lender)
            store(client, result)
            outcomes = ", ".join(f"{ability} {each['outcome']}" for ability, each in result["abilities"].items())
            sys.stdout.write(f"{name} {result['version']}: {outcomes}\n")
            sys.stdout.flush()


def main() -> None:
    """Run the command of the command line."""
    match sys.argv[1:]:
        case ["run", *names]:
            run(names)
        case ["docs"]:
            PAGE.write_text(page(), encoding="utf-8")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
