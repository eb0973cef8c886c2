"""A stream to the Runtime API ends when nobody takes its bytes any more, and not because they are taken slowly."""

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
"""How long the streams of these tests wait for a reader."""
MANY = b"x" * (12 << 20)
"""More than the buffers of both ends hold, the reader's being as small as here."""
BUFFER = 64 << 10
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"

Reading = Callable[[socket.socket, threading.Event], None]


@contextmanager
def reader(reading: Reading) -> Iterator[str]:
    """Run one that reads like this, until the block ends; yields the address."""
    done = threading.Event()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            taken, _ = listener.accept()
            with taken, contextlib.suppress(OSError):
                reading(taken, done)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


def stops(sock: socket.socket, done: threading.Event) -> None:
    sock.recv(BUFFER)
    done.wait()


def reads_slowly(sock: socket.socket, _: threading.Event) -> None:
    """Take longer than a reader gets who has stopped, a bit after the other."""
    while (data := sock.recv(BUFFER)) and not data.endswith(b"0\r\n\r\n"):
        time.sleep(SECONDS / 100)
    sock.sendall(ACCEPTED)


def accepts_nothing(sock: socket.socket, done: threading.Event) -> None:
    while (data := sock.recv(BUFFER)) and not data.endswith(b"0\r\n\r\n"):
        pass
    done.wait()


def stream_to(address: str, answer: Callable[[RuntimeApiStream], Awaitable[None]]) -> None:
    async def run() -> None:
        await answer(await RuntimeApiStream.open(address, "id", None, stall_seconds=SECONDS))
        await asyncio.sleep(0)  # for connections that were closed to be gone

    with asyncio.Runner() as runner:
        runner.run(run())


def test_a_reader_that_stops_is_lost() -> None:
    async def answer(stream: RuntimeApiStream) -> None:
        with pytest.raises(ConnectionAbortedError, match="stopped"):
            await stream.write(MANY)
        with pytest.raises(OSError, match="Connection lost"):
            await stream.write(b"and ever after")
        await stream.accepted()  # at once, for nobody answers there any more

    with reader(stops) as address:
        stream_to(address, answer)


def test_a_slow_reader_gets_everything() -> None:
    async def answer(stream: RuntimeApiStream) -> None:
        began = time.monotonic()
        await stream.write(MANY, last=True)
        assert time.monotonic() - began > SECONDS, "it was not slow"
        await stream.accepted()

    with reader(reads_slowly) as address:
        stream_to(address, answer)


def test_one_that_stops_at_the_very_end_is_lost_too() -> None:
    async def answer(stream: RuntimeApiStream) -> None:
        await stream.write(b"all of it", last=True)
        with pytest.raises(ConnectionAbortedError, match="stopped"):
            await stream.accepted()

    with reader(accepts_nothing) as address:
        stream_to(address, answer)
