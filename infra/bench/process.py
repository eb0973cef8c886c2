"""Read CPU seconds, resident memory and peak memory of a process from the kernel."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MEGABYTE = 1 << 20


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of all threads of a process, including ended threads, with a resolution of 10 ms."""
    fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return _status(pid, "VmRSS")


def peak(pid: int) -> float:
    """Return the highest resident memory of a process in MB since the last call of `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Reset the peak memory of a process to its current resident memory."""
    (Path("/proc") / str(pid) / "clear_refs").write_text("5")


def _status(pid: int, name: str) -> float:
    for line in (Path("/proc") / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / _MEGABYTE
    raise RuntimeError(f"/proc/{pid}/status has no {name}")
