"""The interruption of a job by Ctrl-C or SIGTERM: its JVM ends first, so that nothing is written behind the lease."""

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
    """Let the signals end the block by KeyboardInterrupt, once; yields a list that then has the signal's number.

    What fails on the way out fails for want of a JVM, and is not worth a word. Elsewhere than in the main thread, and
    on a cluster, whose JVM is not ours to end, nothing is changed.
    """
    got: list[int] = []
    if threading.current_thread() is not threading.main_thread() or machine().launched_by_spark:
        yield got
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if got:  # pressed again, while what is held is given back
            return
        got.append(number)
        logging.disable()  # py4j tells the root logger of every command that the signal has met
        threading.excepthook = lambda _: None
        sys.unraisablehook = lambda _: None
        for process in _jvms(frame):
            _end(process)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _jvms(frame: FrameType | None) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield the JVM that runs, and one that is starting, which pyspark keeps to itself until it has started."""
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


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()  # its own temporary folders go with it
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # the code that was interrupted may hold the lock of its wait
            process.wait(END_SECONDS)
