"""Test the comparison with the reference server, and its section in the report."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path

import pytest
from bench import report
from bench.figures import Figure
from bench.http_timing import Client
from bench.reference import NAME, Store, rival
from bench.server_comparison import Start, compare, files_of
from bench.serving import Server
from served import served

HEAD = b'{"protocol":{"minReaderVersion":1}}\n{"metaData":{"id":"m"}}\n'


def answer(files: dict[str, int]) -> bytes:
    return HEAD + b"".join(
        b'{"file":{"url":"http://x","id":"%s","size":%d,"stats":"{\\"id\\":\\"no\\"}"}}\n' % (name.encode(), size)
        for name, size in files.items()
    )


def chunked(body: bytes, length: int = 50) -> bytes:
    """Return a body in chunks that end in the middle of lines."""
    parts = [body[at : at + length] for at in range(0, len(body), length)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])


def serving(body: bytes) -> Start:
    """Return a function that starts a server in this process with the same answer to all requests."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(chunked(body))

    @contextmanager
    def run_server() -> Iterator[Server]:
        with served(Answer) as url:
            yield Server(Client(f"{url}/delta-sharing", "t"), os.getpid())

    def start() -> AbstractContextManager[Server]:
        return run_server()

    return start


def figures(files: int, ours: dict[str, int], theirs: dict[str, int]) -> dict[str, Figure]:
    reference = rival(Path("built"), Store("http://127.0.0.1:9"), {}, Path("state"))
    rival_server = replace(reference, fresh=serving(answer(theirs)))
    figures_by_name = compare(files, count().__next__, serving(answer(ours)), rival_server, 2)
    return {figure.name: figure for figure in figures_by_name}


def test_files_are_read_from_the_lines() -> None:
    assert files_of(answer({"a": 1, "b": 2})) == {"a": 1, "b": 2}


def test_repeated_file_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="1 files were returned twice"):
        files_of(answer({"a": 1}) + answer({"a": 1}))


def test_every_figure_has_the_value_of_the_other_server() -> None:
    figures_by_name = figures(100_000, {"a": 1, "b": 2}, {"b": 2, "a": 1})
    for process in ("fresh", "warm"):
        for kind in ("first byte", "last byte", "CPU", "S3 requests", "peak memory"):
            assert figures_by_name[f"{process} process: {kind}"].rival == NAME
    assert (
        figures_by_name["warm process: S3 requests"].value == figures_by_name["warm process: S3 requests"].theirs == 1
    )
    assert "fresh process: first byte, minimum" in figures_by_name


@pytest.mark.parametrize(
    ("files", "name", "times"),
    [
        pytest.param(100_000, "fresh process: first byte", 100, id="first byte of 100k"),
        pytest.param(1_000_000, "fresh process: first byte", 500, id="first byte of a million"),
        pytest.param(10_000, "fresh process: last byte", 10, id="last byte of 10k"),
        pytest.param(100_000, "warm process: last byte", 5, id="last byte of 100k, warm"),
        pytest.param(100_000, "warm process: peak memory", 8, id="memory of 100k"),
        pytest.param(1_000_000, "warm process: peak memory", 15, id="memory of a million"),
    ],
)
def test_goal_is_a_fraction_of_the_other_servers_value(files: int, name: str, times: int) -> None:
    figure = figures(files, {"a": 1}, {"a": 1})[name]
    assert figure.theirs is not None
    assert figure.bar == pytest.approx(figure.theirs / times)


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        pytest.param({"a": 1}, "1 files missing, 0 more, 0 of another size", id="missing"),
        pytest.param({"a": 1, "b": 2, "c": 3}, "0 files missing, 1 more, 0 of another size", id="more"),
        pytest.param({"a": 1, "b": 3}, "0 files missing, 0 more, 1 of another size", id="another size"),
    ],
)
def test_different_answers_are_an_error(ours: dict[str, int], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        figures(1000, ours, {"a": 1, "b": 2})


def test_missing_report_has_no_figures(tmp_path: Path) -> None:
    assert report.read(tmp_path) == ([], {})


def test_report_without_a_comparison_says_so(tmp_path: Path) -> None:
    report.write([], tmp_path, {})
    section = (tmp_path / "report.md").read_text().partition("## Comparison with the reference server")[2]
    assert section.partition("##")[0].strip().startswith("Not measured")


def test_report_shows_goals_of_the_comparison(tmp_path: Path) -> None:
    report.write(
        [Figure("100k files compared with the reference server", "warm process: last byte", 2.0, "s", 1.0, NAME, 5.0)],
        tmp_path,
        {},
    )
    section = (tmp_path / "report.md").read_text().partition("## Comparison with the reference server")[2]
    assert "| 100k files | warm process: last byte | 2 s | 5 s | 2.50 | 5, **missed** |" in section
