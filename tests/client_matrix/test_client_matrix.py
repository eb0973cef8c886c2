"""The page of clients is that of the stored results; clients of the developers' environment still have theirs."""

from collections.abc import Iterator

import pytest
from client_matrix.abilities import ABILITIES, OUTCOMES, YES
from client_matrix.clients import CLIENTS, Client
from client_matrix.page import PAGE, page
from client_matrix.replays import REPLAYS, Replay, replay
from client_matrix.results import RESULTS, run_client, stored
from client_matrix.tables import Lender, lending


def test_the_page_is_generated_from_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: uv run python -m client_matrix docs"


@pytest.mark.parametrize("client", [*CLIENTS, *REPLAYS], ids=lambda client: client.name)
def test_each_client_has_an_outcome_and_a_reason_for_each_ability(client: Client | Replay) -> None:
    result = stored(client)
    assert result["version"]
    assert list(result["abilities"]) == list(ABILITIES)
    for ability in result["abilities"].values():
        assert ability["outcome"] in OUTCOMES
        assert ability["reasons"] or ability["outcome"] == YES


def test_each_file_of_results_belongs_to_a_client() -> None:
    names = {*(client.name for client in CLIENTS), *(client.name for client in REPLAYS)}
    assert {path.stem for path in RESULTS.glob("*.json")} == names


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    with lending(tmp_path_factory.mktemp("matrix")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("client", [client for client in CLIENTS if client.is_cheap], ids=lambda client: client.name)
def test_clients_of_the_lock_have_the_stored_results(lender: Lender, client: Client) -> None:
    assert run_client(client, lender) == stored(client), f"uv run python -m client_matrix run {client.name}"


@pytest.mark.slow
@pytest.mark.parametrize("client", REPLAYS, ids=lambda client: client.name)
def test_replayed_requests_are_answered_in_the_shape_of_each_client(lender: Lender, client: Replay) -> None:
    assert replay(client, lender) == stored(client), f"uv run python -m client_matrix run {client.name}"
