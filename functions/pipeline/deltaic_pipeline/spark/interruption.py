"""Interrupt a job by Ctrl-C or SIGTERM: stop its JVM first, so that it writes nothing without the lease."""

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from deltaic_terminal.environment import machine

END_SECONDS = 5


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Stop the JVM and raise KeyboardInterrupt on SIGINT or SIGTERM; yields a list that gets the signal's number.

    Later errors are hidden, because the missing JVM causes them. Does nothing outside the main thread, and on a
    cluster, which manages the JVM itself.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread() or machine().launched_by_spark:
        yield received
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if received:  # a repeated signal, while the leases are being released
            return
        received.append(number)
        logging.disable()  # py4j logs every command that the signal interrupted
        threading.excepthook = lambda _: None
        sys.unraisablehook = lambda _: None
        for process in _jvms(frame):
            _terminate(process)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _jvms(frame: FrameType | None) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield the process of the running JVM, and that of a starting JVM from a local variable of pyspark."""
    pyspark: Any = sys.modules.get("pyspark")
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    if isinstance(running := getattr(gateway, "proc", None), subprocess.Popen):
        yield running
    while frame is not None:
        if frame.f_code.co_name == "launch_gateway" and isinstance(
            starting := frame.f_locals.get("proc"), subprocess.Popen
        ):
            yield starting
        frame = frame.f_back


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()  # it removes its temporary folders
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # the interrupted code can hold the lock of its wait
            process.wait(END_SECONDS)
