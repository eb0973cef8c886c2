"""What a journal has acknowledged is read again, whatever ended the process; what is damaged is refused by name."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from deltaic_ops.local.journal import Journal, StateDamaged
from hypothesis import given, settings
from hypothesis import strategies as st


def written(folder: Path, *records: bytes) -> Journal:
    journal = Journal(folder)
    journal.read()
    for record in records:
        journal.append(record)
    return journal


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size` bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def files_left(free: int) -> Iterator[None]:
    """Let this process open no more than so many files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken[0] + 50, 100), before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for file in taken:
            os.close(file)


def test_an_empty_folder_is_an_empty_state(tmp_path: Path) -> None:
    assert Journal(tmp_path / "new").read() == (None, [])


def test_records_come_back_in_order(tmp_path: Path) -> None:
    written(tmp_path, b"a", b"b")
    assert Journal(tmp_path).read() == (None, [b"a", b"b"])


def test_only_a_line_feed_ends_a_record(tmp_path: Path) -> None:
    written(tmp_path, b"a\rb", b"c\x0b\x85")
    assert Journal(tmp_path).read().records == [b"a\rb", b"c\x0b\x85"]


def test_a_copy_stands_for_what_came_before_it(tmp_path: Path) -> None:
    journal = written(tmp_path, b"a")
    journal.start_over(b"A")
    journal.append(b"b")
    assert Journal(tmp_path).read() == (b"A", [b"b"])


def test_the_last_two_copies_are_kept(tmp_path: Path) -> None:
    journal = written(tmp_path, b"a")
    for copy in (b"A", b"B", b"C"):
        journal.start_over(copy)
        journal.append(copy.lower())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "journal-2.jsonl",
        "journal-3.jsonl",
        "state-2.json",
        "state-3.json",
    ]


@pytest.mark.parametrize("tail", [b"", b"0", b"00000000 half", b"\0\0\0\0", b"00000000 \0\0lf\n"])
def test_a_record_that_was_not_finished_is_cut_off_and_writing_goes_on(tmp_path: Path, tail: bytes) -> None:
    written(tmp_path, b"a")
    with (tmp_path / "journal-0.jsonl").open("ab") as file:
        file.write(tail)
    again = Journal(tmp_path)
    assert again.read().records == [b"a"]
    again.append(b"b")
    assert Journal(tmp_path).read().records == [b"a", b"b"]


def test_a_damaged_record_in_the_middle_is_refused_by_file_and_line(tmp_path: Path) -> None:
    written(tmp_path, b"first", b"second", b"third")
    path = tmp_path / "journal-0.jsonl"
    path.write_bytes(path.read_bytes().replace(b"second", b"sec0nd"))
    before = path.read_bytes()
    with pytest.raises(StateDamaged, match=f"line 2 of {path}"):
        Journal(tmp_path).read()
    assert path.read_bytes() == before


def test_a_damaged_last_record_is_no_unfinished_one(tmp_path: Path) -> None:
    written(tmp_path, b"first", b"second")
    path = tmp_path / "journal-0.jsonl"
    before = path.read_bytes().replace(b"second", b"sec0nd")
    path.write_bytes(before)
    with pytest.raises(StateDamaged, match=f"line 2 of {path}"):
        Journal(tmp_path).read()
    assert path.read_bytes() == before


def test_a_journal_that_was_removed_keeps_nothing_more_until_a_copy_is_made(tmp_path: Path) -> None:
    journal = written(tmp_path, b"a")
    (tmp_path / "journal-0.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match="removed"):
        journal.append(b"b")
    journal.start_over(b"A")
    journal.append(b"c")
    assert Journal(tmp_path).read() == (b"A", [b"c"])


def test_files_of_other_names_are_none_of_ours(tmp_path: Path) -> None:
    written(tmp_path, b"a")
    for name in ("state-1.jsonl", "journal-1.json", "state-01.json", "journal-2.jsonl~"):
        (tmp_path / name).write_bytes(b"another's")
    assert Journal(tmp_path).read() == (None, [b"a"])


def test_a_damaged_copy_is_refused_and_the_one_before_it_tells_the_same(tmp_path: Path) -> None:
    journal = written(tmp_path, b"a")
    journal.start_over(b"A")
    journal.append(b"b")
    journal.start_over(b"B")
    journal.append(b"c")
    newest = tmp_path / "state-2.json"
    newest.write_bytes(newest.read_bytes()[:-3])
    with pytest.raises(StateDamaged, match=r"Move state-2\.json away"):
        Journal(tmp_path).read()
    newest.unlink()
    assert Journal(tmp_path).read() == (b"A", [b"b", b"c"])


def test_a_damaged_only_copy_says_that_a_backup_is_needed(tmp_path: Path) -> None:
    journal = written(tmp_path, b"a")
    journal.start_over(b"A")
    (tmp_path / "journal-0.jsonl").unlink()
    (tmp_path / "state-1.json").write_bytes(b"")
    with pytest.raises(StateDamaged, match="Put it back from a backup"):
        Journal(tmp_path).read()


@pytest.mark.parametrize("missing", ["journal-1.jsonl", "journal-2.jsonl"])
def test_a_missing_journal_is_refused(tmp_path: Path, missing: str) -> None:
    journal = written(tmp_path, b"a")
    for copy in (b"A", b"B"):
        journal.start_over(copy)
        journal.append(b"b")
    if missing == "journal-1.jsonl":
        (tmp_path / "state-2.json").unlink()
    (tmp_path / missing).unlink()
    with pytest.raises(StateDamaged, match=missing):
        Journal(tmp_path).read()


def test_a_full_disk_refuses_a_record_and_keeps_the_others(tmp_path: Path) -> None:
    journal = written(tmp_path, b"kept")
    with full_disk(journal.size + 20), pytest.raises(OSError, match="too large"):
        journal.append(b"x" * 100)
    assert Journal(tmp_path).read().records == [b"kept"]
    journal.append(b"later")
    assert Journal(tmp_path).read().records == [b"kept", b"later"]


def test_a_full_disk_refuses_a_copy_and_keeps_what_was_there(tmp_path: Path) -> None:
    journal = written(tmp_path, b"kept")
    with full_disk(50), pytest.raises(OSError, match="too large"):
        journal.start_over(b"x" * 100)
    journal.append(b"later")
    assert Journal(tmp_path).read() == (None, [b"kept", b"later"])


def test_a_copy_that_cannot_be_put_in_place_leaves_the_journal_the_newest(tmp_path: Path) -> None:
    journal = written(tmp_path, b"kept")
    (tmp_path / "state-1.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        journal.start_over(b"KEPT")
    journal.append(b"later")
    (tmp_path / "state-1.json").rmdir()
    with (tmp_path / "journal-0.jsonl").open("ab") as file:
        file.write(b"0badc0de an unfinished")
    assert Journal(tmp_path).read() == (None, [b"kept", b"later"])


@pytest.mark.parametrize("free", range(4))
def test_a_copy_for_which_no_file_is_left_loses_nothing(tmp_path: Path, free: int) -> None:
    journal = written(tmp_path, b"a")
    with files_left(free), suppress(OSError):
        journal.start_over(b"A")
    journal.append(b"b")
    assert Journal(tmp_path).read() in [(None, [b"a", b"b"]), (b"A", [b"b"])]


@settings(deadline=None)
@given(
    steps=st.lists(st.sampled_from(["append", "copy", "reopen"]), max_size=12),
    cut=st.integers(0, 60),
)
def test_however_it_ends_what_was_acknowledged_is_there(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], cut: int
) -> None:
    """The copy here is the list of all records so far, so the whole is known whichever copies and journals tell it."""
    folder = tmp_path_factory.mktemp("journal")
    journal = written(folder)
    said: list[bytes] = []
    for number, step in enumerate(steps):
        if step == "append":
            journal.append(b"%d" % number)
            said.append(b"%d" % number)
        elif step == "copy":
            journal.start_over(b",".join(said))
        else:
            journal = Journal(folder)
            journal.read()
    newest = max(folder.glob("journal-*.jsonl"), key=lambda path: int(path.stem.removeprefix("journal-")))
    with newest.open("ab") as file:
        file.write(b"0badc0de an unfinished record, written when the power went"[:cut])
    copy, records = Journal(folder).read()
    assert (copy.split(b",") if copy else []) + records == said
