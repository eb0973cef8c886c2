"""The gateway's HTTP server, byte by byte: keep-alive, bodies, answers under way at the stop, clients that leave."""

import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from deltaic_ops.local.embedded import bind_port
from deltaic_ops.local.exchange import HttpExchange
from deltaic_ops.local.http_server import CONNECTIONS, HttpServer

SLOW_SECONDS = 0.4


def answer(exchange: HttpExchange) -> None:
    kind = exchange.target
    if kind == "/echo":
        exchange.respond(200, [], exchange.body())
    elif kind == "/unread":
        exchange.respond(200, [], b"done")
    elif kind == "/stream":
        exchange.start(200, [])
        for number in range(3):
            exchange.send(b"%d" % number)
        exchange.send(b"", last=True)
    elif kind == "/slow":
        time.sleep(SLOW_SECONDS)
        exchange.respond(200, [], b"late")
    elif kind == "/large":
        exchange.start(200, [])
        for _ in range(1000):
            exchange.send(b"x" * 100_000)
        exchange.send(b"", last=True)
    elif kind == "/fails":
        exchange.start(200, [])
        exchange.send(b"half")
        raise RuntimeError("in the middle")
    elif kind == "/forgotten":
        exchange.start(200, [])
        exchange.send(b"half")
    elif kind == "/lies":
        exchange.start(200, [("Content-Length", "2")])
        exchange.send(b"more")
    else:
        raise RuntimeError("unexpected")


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with HttpServer(answer) as running:
        yield running


def talk(server: HttpServer, *pieces: bytes) -> bytes:
    """Send pieces and return everything until the server closes."""
    with socket.create_connection(server.address, timeout=5) as sock:
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(0.02)
        return b"".join(iter(lambda: sock.recv(65_536), b""))


def request(target: str, *headers: str, method: str = "GET", version: str = "1.1", last: bool = True) -> bytes:
    """Return a request's head, by default that of the last request of its connection."""
    closing = ["Connection: close"] if last else []
    return "\r\n".join([f"{method} {target} HTTP/{version}", "Host: h", *headers, *closing, "", ""]).encode()


def test_several_requests_can_use_one_connection(server: HttpServer) -> None:
    more = request("/echo", last=False)
    received = talk(server, more + more, request("/stream", last=False), request("/echo"))
    assert received.count(b"HTTP/1.1 200") == 4
    assert b"1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\n" in received


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (["Content-Length: 4"], [b"ab", b"cd"]),
        (["Transfer-Encoding: chunked"], [b"2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n"]),
        (["Content-Length: 4", "Expect: 100-continue"], [b"abcd"]),
    ],
    ids=["length", "chunked", "continue"],
)
def test_a_body_is_read_in_any_transfer_encoding(server: HttpServer, headers: list[str], body: list[bytes]) -> None:
    received = talk(server, request("/echo", *headers, method="POST"), *body)
    assert received.endswith(b"\r\n\r\nabcd")
    assert (b"HTTP/1.1 100" in received) == ("Expect: 100-continue" in headers)


def test_an_unread_body_does_not_affect_the_next_request(server: HttpServer) -> None:
    unread = request("/unread", "Content-Length: 4", method="POST", last=False)
    two = talk(server, unread + b"abcd" + request("/echo"))
    assert two.count(b"HTTP/1.1 200") == 2


def test_a_head_response_has_a_length_and_no_body(server: HttpServer) -> None:
    received = talk(server, request("/unread", method="HEAD"))
    assert b"\r\nContent-Length: 4\r\n" in received
    assert received.endswith(b"\r\n\r\n")


def test_an_http_1_0_client_gets_a_stream_until_the_connection_closes(server: HttpServer) -> None:
    received = talk(server, request("/stream", version="1.0"))
    assert received.endswith(b"\r\n\r\n012")


@pytest.mark.parametrize("garbage", [b"\r\n\r\nnonsense\r\n\r\n", b"GET /echo\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_not_http_is_refused(server: HttpServer, garbage: bytes) -> None:
    received = talk(server, garbage)
    assert received.startswith(b"HTTP/1.1 400")
    assert b"\r\nConnection: close\r\n" in received


@pytest.mark.parametrize("target", ["/fails", "/forgotten", "/lies"])
def test_an_incomplete_response_is_not_ended(server: HttpServer, target: str) -> None:
    received = talk(server, request(target))
    assert received.startswith(b"HTTP/1.1 200")
    assert not received.endswith(b"0\r\n\r\n")
    assert talk(server, request("/unread")).endswith(b"done")


def test_a_current_response_is_completed_after_the_stop() -> None:
    received: list[bytes] = []
    with HttpServer(answer) as stopping:
        client = threading.Thread(target=lambda: received.append(talk(stopping, request("/slow"))))
        client.start()
        time.sleep(SLOW_SECONDS / 4)
    client.join()
    assert received[0].endswith(b"late")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(stopping.address)


def test_an_idle_connection_does_not_delay_the_stop() -> None:
    started = time.monotonic()
    with HttpServer(answer) as stopping, socket.create_connection(stopping.address, timeout=5) as idle:
        idle.sendall(request("/echo", last=False))
        idle.recv(1000)
    assert time.monotonic() - started < 2


def test_a_port_is_bound_from_the_start_and_open_only_within_the_block() -> None:
    with bind_port() as listener:
        server = HttpServer(answer, listener)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.address)
        with server:
            assert talk(server, request("/unread")).endswith(b"done")
            with pytest.raises(OSError, match="in use"):
                bind_port(server.address[1])


def test_of_two_servers_on_a_port_the_first_to_open_it_keeps_it() -> None:
    with bind_port() as listener, bind_port(listener.getsockname()[1]) as late, HttpServer(answer, listener) as server:
        with pytest.raises(OSError, match="in use"), HttpServer(answer, late):
            pass
        assert talk(server, request("/unread")).endswith(b"done")


def test_requests_beyond_the_limit_of_connections_are_503(server: HttpServer) -> None:
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connections.enter_context(socket.create_connection(server.address, 20))
        assert talk(server, request("/unread")).startswith(b"HTTP/1.1 503")
    deadline = time.monotonic() + 20
    while not talk(server, request("/unread")).endswith(b"done"):  # until it has seen that they are gone
        assert time.monotonic() < deadline


def test_without_free_file_descriptors_the_server_waits_and_continues() -> None:
    """`accept` fails with EMFILE: the connection stays in the backlog and is taken when a file is free again."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with HttpServer(answer) as server, socket.create_connection(server.address, 20) as first, ExitStack() as files:
        first.sendall(request("/unread", last=False))
        assert first.recv(1000)
        client = files.enter_context(socket.socket())
        highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, before[1]))
        try:
            with suppress(OSError):
                while True:
                    files.enter_context(Path(os.devnull).open())
            client.connect(server.address)
            client.sendall(request("/unread"))
            time.sleep(0.3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        client.settimeout(20)
        assert b"".join(iter(lambda: client.recv(1000), b"")).endswith(b"done")
