"""A power cut at any moment takes back nothing that the journal has acknowledged, whatever the disk had not synced."""

import os
import random
from pathlib import Path

import pytest
from deltaic_ops.local.journal import Journal
from faults.volatile_disk import VolatileDisk
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries


class PowerCut(BaseException):
    """The machine stops here."""


@settings(max_examples=tries(150), deadline=None)
@given(
    steps=st.lists(st.sampled_from(["append", "append", "copy"]), min_size=1, max_size=8),
    calls=st.integers(1, 60),
    seed=st.integers(0, 2**32),
)
def test_a_power_cut_takes_back_nothing_that_was_acknowledged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], calls: int, seed: int
) -> None:
    """Cut after so many calls of the disk; what is found then begins with all that was acknowledged, in its order."""
    folder, found = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")
    acknowledged: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        disk = VolatileDisk(folder, patch)
        left = iter(range(calls))
        for name in ("write", "fsync", "replace", "unlink"):
            patch.setattr(os, name, counted(getattr(os, name), left))
        try:
            journal = Journal(folder)
            journal.read()
            for number, step in enumerate(steps):
                if step == "append":
                    journal.append(b"%d" % number)
                    acknowledged.append(b"%d" % number)
                else:
                    journal.start_over(b",".join(acknowledged) or b"nothing")
        except PowerCut:
            pass
        patch.undo()
        disk.cut(found, random.Random(seed))  # noqa: S311 -- what survives
    copy, records = Journal(found).read()
    told = [*(copy.split(b",") if copy and copy != b"nothing" else []), *records]
    assert told[: len(acknowledged)] == acknowledged
    assert len(told) <= len(acknowledged) + 1  # the last one may have been kept without having been acknowledged


def counted(real: object, left: object) -> object:
    """Return the call, which ends everything when no more calls are left."""

    def call(*args: object, **named: object) -> object:
        if next(left, None) is None:  # type: ignore[call-overload]
            raise PowerCut
        return real(*args, **named)  # type: ignore[operator]

    return call


def test_a_disk_that_forgets_is_seen_to_forget(tmp_path: Path) -> None:
    """The instrument itself: without a sync, what was written may be gone."""
    folder, found = tmp_path / "before", tmp_path / "after"
    folder.mkdir()
    found.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        disk = VolatileDisk(folder, patch)
        file = os.open(folder / "f", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(file, b"not synced")
        os.close(file)
    disk.cut(found, random.Random(1))  # noqa: S311 -- what survives
    kept = [path.read_bytes() for path in found.iterdir()]
    assert kept != [b"not synced"]
