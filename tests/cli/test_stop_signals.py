"""A command that receives several signals at once stops once, at any point."""

import subprocess
import sys

import pytest

STOPPED = """
import signal, sys
from deltaic_pipeline.spark.stop_flag import StopFlag

flag = StopFlag(interrupts={interrupts})
flag.handle_signals()
sent = 0

def signal_again(*_):
    global sent
    if sent < 50:
        sent += 1
        signal.raise_signal(signal.SIGINT if sent % 2 else signal.SIGTERM)
    return signal_again

while sent < 50:
    try:
        sys.settrace(signal_again)  # a signal at every line of the handler of the previous one
        flag.request()
    except KeyboardInterrupt:
        print("interrupted", end=" ")
sys.settrace(None)
print("stopped" if flag.wait(60) else "", end="")
"""


@pytest.mark.parametrize(("interrupts", "expected"), [(False, "stopped"), (True, "interrupted stopped")])
def test_nested_signals_stop_the_command_once(*, interrupts: bool, expected: str) -> None:
    program = STOPPED.format(interrupts=interrupts)
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, expected, "")
