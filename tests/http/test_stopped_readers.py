"""Test that a stream to the Runtime API ends if its reader stops, but not if the reader is slow."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from deltaic.http.runtime_stream import RuntimeApiStream

SECONDS = 1.0
"""Stall timeout of the streams in these tests."""
MANY = b"x" * (12 << 20)
"""More bytes than the buffers of both ends, with the small buffer of this reader."""
BUFFER = 64 << 10
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"

ReaderBehavior = Callable[[socket.socket, threading.Event], None]


@contextmanager
def reader(behavior: ReaderBehavior) -> Iterator[str]:
    """Run a reader with this behavior until the block ends; yields its address."""
    done = threading.Event()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                behavior(connection, done)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


def stops_reading(sock: socket.socket, done: threading.Event) -> None:
    sock.recv(BUFFER)
    done.wait()


def reads_slowly(sock: socket.socket, _: threading.Event) -> None:
    """Read everything in small parts, for longer than the stall timeout."""
    while (data := sock.recv(BUFFER)) and not data.endswith(b"0\r\n\r\n"):
        time.sleep(SECONDS / 100)
    sock.sendall(ACCEPTED)


def never_accepts(sock: socket.socket, done: threading.Event) -> None:
    while (data := sock.recv(BUFFER)) and not data.endswith(b"0\r\n\r\n"):
        pass
    done.wait()


def stream_to(address: str, answer: Callable[[RuntimeApiStream], Awaitable[None]]) -> None:
    async def run() -> None:
        await answer(await RuntimeApiStream.open(address, "id", None, stall_seconds=SECONDS))
        await asyncio.sleep(0)  # lets closed connections finish

    with asyncio.Runner() as runner:
        runner.run(run())


def test_stopped_reader_is_lost() -> None:
    async def answer(stream: RuntimeApiStream) -> None:
        with pytest.raises(ConnectionAbortedError, match="stopped"):
            await stream.write(MANY)
        with pytest.raises(OSError, match="Connection lost"):
            await stream.write(b"again")
        await stream.accepted()  # returns at once, because the connection is aborted

    with reader(stops_reading) as address:
        stream_to(address, answer)


def test_slow_reader_receives_everything() -> None:
    async def answer(stream: RuntimeApiStream) -> None:
        began = time.monotonic()
        await stream.write(MANY, last=True)
        assert time.monotonic() - began > SECONDS, "it was not slow"
        await stream.accepted()

    with reader(reads_slowly) as address:
        stream_to(address, answer)


def test_reader_that_stops_at_the_end_is_lost() -> None:
    async def answer(stream: RuntimeApiStream) -> None:
        await stream.write(b"all of it", last=True)
        with pytest.raises(ConnectionAbortedError, match="stopped"):
            await stream.accepted()

    with reader(never_accepts) as address:
        stream_to(address, answer)
