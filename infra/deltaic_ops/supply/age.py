"""Says how old the lock is, by the newest package in it; a warning, never a failure.

uv run python -m deltaic_ops.supply.age
"""

import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltaic_ops.deploy.template import ROOT

LOCK = ROOT / "uv.lock"
OLD = timedelta(days=60)
"""After which there are releases, and repairs among them, that nobody here has tried."""


def newest(lock: Path = LOCK) -> datetime:
    """Return when the newest file of the lock was uploaded: the lock is no younger than that."""
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    files = [file for package in packages for file in [package.get("sdist", {}), *package.get("wheels", [])]]
    return max(_moment(file["upload-time"]) for file in files if "upload-time" in file)


def _moment(said: str | datetime) -> datetime:
    return datetime.fromisoformat(said) if isinstance(said, str) else said


def judge(now: datetime, at: datetime) -> str:
    """Return what to say of a lock whose newest file is of `at`."""
    days = (now - at).days
    if now - at > OLD:
        return f"warning: uv.lock is {days} days old: `uv lock --upgrade --dry-run` says what is outdated"
    return f"uv.lock is {days} days old"


if __name__ == "__main__":
    print(judge(datetime.now(UTC), newest()))
