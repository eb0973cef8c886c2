"""Functions in processes of their own, under AWS's client and the Runtime API, answer as the ones in threads do."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from deltaic_ops.deploy.template import load_template
from deltaic_ops.local.environments import Environments
from deltaic_ops.local.functions import Functions
from deltaic_ops.local.gateway import Gateway

TEMPLATE = Path(__file__).parent / "small" / "template.yaml"
TOKEN = {"Authorization": "Bearer alice"}


@pytest.fixture(scope="module")
def functions() -> Iterator[Environments]:
    with Environments(load_template(TEMPLATE)) as started:
        yield started


@pytest.fixture(scope="module")
def isolated(functions: Environments) -> Iterator[httpx.Client]:
    with (
        Gateway(load_template(TEMPLATE), functions) as gateway,
        httpx.Client(base_url=gateway.endpoint, headers=TOKEN, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def threaded() -> Iterator[httpx.Client]:
    template = load_template(TEMPLATE)
    with (
        Gateway(template, Functions(template.functions, ())) as gateway,
        httpx.Client(base_url=gateway.endpoint, headers=TOKEN) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/echo/a%20b"), ("HEAD", "/tables/t"), ("POST", "/lines/many")],
    ids=["buffered", "head", "streamed"],
)
def test_both_ways_give_the_same_answer(isolated: httpx.Client, threaded: httpx.Client, method: str, path: str) -> None:
    one, other = (client.request(method, path, content=b"{}\n") for client in (isolated, threaded))
    assert one.status_code == other.status_code == 200
    own = {"x-amzn-requestid", "x-amzn-trace-id", "content-length"}
    assert {name for name in one.headers if name not in own} == {name for name in other.headers if name not in own}
    if method == "GET":
        assert one.json()["event"]["pathParameters"] == other.json()["event"]["pathParameters"] == {"name": "a%20b"}
    else:
        assert one.content == other.content


def test_chunks_pass_through_the_runtime_api_as_they_come(isolated: httpx.Client) -> None:
    with isolated.stream("POST", "/lines/slow", content=b"{}\n") as answer:
        times = [time.monotonic() for _ in answer.iter_lines()]
    assert len(times) == 20
    assert times[-1] - times[0] > 0.25


def test_failures_look_the_same(isolated: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        isolated.post("/lines/fails", content=b"{}\n")
    late = isolated.post("/lines/late", content=b"{}\n")
    assert (late.status_code, late.json()["errorCode"]) == (502, "INTERNAL_ERROR")
    assert isolated.get("/echo/a", headers={"Authorization": "Bearer unknown"}).status_code == 401
    assert isolated.get("/echo/a", headers={"Authorization": "Bearer broken"}).status_code == 500


def test_a_reader_that_leaves_frees_the_environment(isolated: httpx.Client, functions: Environments) -> None:
    with isolated.stream("POST", "/lines/endless", content=b"x" * 100) as answer:
        chunks = answer.iter_raw()  # kept: a dropped iterator closes the connection
        next(chunks)
        assert len(functions._all) > idle(functions)
    deadline = time.monotonic() + 10
    while len(functions._all) > idle(functions) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(functions._all) == idle(functions)
    assert isolated.post("/lines/many", content=b"{}\n").status_code == 200


def idle(functions: Environments) -> int:
    return sum(map(len, functions._idle.values()))


def test_requests_at_once_have_environments_of_their_own(isolated: httpx.Client) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: isolated.post("/lines/slow", content=b"{}\n").content, range(3)))
    assert answers == [b"{}\n" * 20] * 3
    assert time.monotonic() - started < 15
