"""The command `delta-sharing-pull`: download shared tables and folders to this machine."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from delta_sharing_pull.errors import InvalidParameter, NotFound, PullError, Unavailable
from delta_sharing_pull.folders import FolderPull, PulledFolder
from delta_sharing_pull.server import Shared, SharingServer
from delta_sharing_pull.shared_folders import KINDS, FolderReader, find_folder
from delta_sharing_pull.snapshot import latest_version
from delta_sharing_pull.tables import PulledTable, TablePull
from delta_sharing_pull.tally import Tally

if TYPE_CHECKING:
    from rich.console import Console

PROGRAM: Final = "delta-sharing-pull"
HELP: Final = f"""\
Download shared tables, volumes, skills or models from any Delta Sharing server, with only a profile file.

A table becomes a file, or a folder with a Delta table. Each later download updates that Delta table by one commit
with the files that changed, so readers never see half a version; --follow repeats this until it is stopped. A volume,
a skill or a model version becomes a folder of its files, and later downloads fetch only new and changed files. A
download that was interrupted continues where it stopped.

\b
{PROGRAM} alice.share#sales_share.europe.orders orders.csv
{PROGRAM} alice.share#sales_share.europe.orders orders.parquet --version 3
{PROGRAM} alice.share#sales_share.europe.orders orders/ --follow
{PROGRAM} alice.share#sales_share.europe.contracts contracts --include '*.pdf' --watch
"""
_EVERY: Final = 30.0
_FILES: Final = {".parquet": "parquet", ".csv": "csv"}


class Output(Protocol):
    """Where the command reports."""

    as_json: bool

    def note(self, text: str) -> None:
        """Print a line for people; with --json nothing is printed."""

    def json(self, value: object) -> None:
        """Answer a script."""

    def terminal(self) -> "Console":
        """Return what shows progress, on stderr."""


class _Terminal:
    """The standard streams. What servers name is printed without what could command a terminal."""

    as_json = False

    def note(self, text: str) -> None:
        if not self.as_json:
            printable = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
            print(printable, file=sys.stderr)

    def json(self, value: object) -> None:
        print(json.dumps(value, indent=2))

    def terminal(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True)

    def refuse(self, code: str, message: str) -> None:
        """Print why a download ends with exit code 1."""
        if self.as_json:
            print(json.dumps({"errorCode": code, "message": message}), file=sys.stderr)
        self.note(f"refused: {message}")


def main() -> None:
    """Run the command line."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(help=HELP)(pull)
    out = _Terminal()
    try:
        app(obj=out)
    except PullError as error:
        out.refuse(error.code, str(error))
    except OSError as error:
        where = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "a file"
        out.refuse(Unavailable.code, f"{where} cannot be used ({error.strerror or error})")
    sys.exit(1)


def pull(  # noqa: PLR0913, PLR0917 -- what is pulled, where to, and how
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="PROFILE#SHARE.SCHEMA.NAME", help="The shared table or folder.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A .parquet or .csv file, or a folder that ends with /.")
    ],
    version: Annotated[int | None, typer.Option(min=0, help="Version to read. [default: the newest]")] = None,
    timestamp: Annotated[str, typer.Option(metavar="ISO", help="Read the version that was current at this time.")] = "",
    limit: Annotated[int | None, typer.Option(min=0, help="Write at most this many rows to a file.")] = None,
    column: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Write only these columns.")] = None,
    include: Annotated[list[str] | None, typer.Option(metavar="'*.pdf'", help="Download only these files.")] = None,
    kind: Annotated[str, typer.Option(metavar="table|volume|skill|model", help="Kind, if several match.")] = "",
    format_: Annotated[str, typer.Option("--format", metavar="delta|parquet|csv", help="[default: from TARGET]")] = "",
    follow: Annotated[bool, typer.Option("--follow", "--watch", help="Keep running and download changes.")] = False,
    every: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Interval of --follow.")] = _EVERY,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON, for scripts.")] = False,
) -> None:
    """Download what the arguments name, and report to the context's `Output`; raises PullError."""
    out: Output = ctx.obj
    out.as_json = as_json
    shared = Shared.parse(source)
    asked = _asked(version, timestamp, limit)
    if kind and kind not in {"table", *KINDS}:
        raise InvalidParameter(f"--kind {kind}: there are table, {', '.join(KINDS)}")
    with closing(SharingServer.of(shared.profile)) as server:
        # What becomes a file of rows, or has options of a table's, is a table; of the rest the server says what it is.
        is_table = kind == "table" or format_ or Path(target).suffix.lower() in _FILES or timestamp
        found = None if is_table else find_folder(server, shared, kind, version)
        if found is None and kind in KINDS:
            raise NotFound(f"{server.host} shows no {kind} of the name {shared}")
        once: Callable[[], bool]
        if found is not None:
            once = _folder(out, found, shared, target, include or [])
        else:
            format_ = _format(shared, target, format_)
            once = _table(out, server, shared, asked, target, format_, column or [], follow)
        whole = once()
        while follow:
            time.sleep(every)
            try:
                once()
            except Unavailable as passing:
                out.note(str(passing))
    if not whole:
        raise typer.Exit(1)


def _table(  # noqa: PLR0913, PLR0917 -- what is pulled, where to, and how
    out: Output,
    server: SharingServer,
    shared: Shared,
    asked: Mapping[str, Any],
    target: str,
    kind: str,
    columns: Sequence[str],
    follow: bool,
) -> Callable[[], bool]:
    """Return a function that downloads a table if its version has changed since the last call."""
    if follow and {"version", "timestamp"} & asked.keys():
        raise InvalidParameter("--follow goes with what is newest: leave out --version and --timestamp")
    if kind == "delta" and ("limitHint" in asked or columns):
        raise InvalidParameter("--limit and --column are for .parquet and .csv: a Delta table is copied by files")
    table, known = TablePull(server, shared, asked), -1

    def once() -> bool:
        nonlocal known
        if known >= 0 and latest_version(server, shared) == known:
            return True
        with _shown(out) as tally:
            if kind == "delta":
                done = table.into_folder(Path(target), tally)
            else:
                done = table.into_file(Path(target), kind, tally, columns)
        known = done.version
        what = f"{done.files:,} files" if done.rows is None else f"{done.rows:,} rows"
        said = f"version {done.version} of {shared}: {what}" + ("" if done.changed else ", nothing new")
        _tell(out, shared, target, done, said)
        return True

    return once


def _folder(
    out: Output, reader: FolderReader, shared: Shared, target: str, include: Sequence[str]
) -> Callable[[], bool]:
    """Return a function that downloads a folder, reports changes, and returns whether all names are valid here."""
    before: PulledFolder | None = None

    def once() -> bool:
        nonlocal before
        with _shown(out) as tally:
            done = FolderPull(reader, Path(target), include, tally).run()
        if before is None or done.fetched or (done.files, done.names) != (before.files, before.names):
            _tell(out, shared, target, done, f"{shared}: {done.files:,} files, {done.fetched:,} of them fetched")
            if done.unnamed:
                names = ", ".join(map(repr, done.names))
                out.note(f"{done.unnamed:,} were left, whose names no file here may have: {names}")
        before = done
        return not done.unnamed

    return once


def _asked(version: int | None, timestamp: str, limit: int | None) -> dict[str, Any]:
    if version is not None and timestamp:
        raise InvalidParameter("--version and --timestamp say the same: give one")
    asked = {"version": version, "timestamp": timestamp or None, "limitHint": limit}
    return {name: value for name, value in asked.items() if value is not None}


def _format(shared: Shared, target: str, told: str) -> str:
    """Return how a table is written; raises InvalidParameter where neither the option nor the target says it."""
    found = told.lower() or _FILES.get(Path(target).suffix.lower(), "delta" if target.endswith("/") else "")
    if found not in {"delta", *_FILES.values()}:
        raise InvalidParameter(
            f"no volume, skill or model {shared} was found, and '{target}' does not say what a table becomes: name a "
            ".parquet or .csv file, or a folder with a / at its end (a Delta table), or give --format "
            "delta, parquet or csv"
        )
    return found


def _tell(out: Output, shared: Shared, target: str, done: PulledTable | PulledFolder, said: str) -> None:
    if out.as_json:
        told: Mapping[str, Any] = {name: value for name, value in asdict(done).items() if value is not None}
        out.json({"source": str(shared), "target": target, **told})
    else:
        out.note(f"{target} is {said}")


@contextmanager
def _shown(out: Output) -> Iterator[Tally]:
    """Show how far a pull is where stderr is a terminal."""
    if out.as_json or not (console := out.terminal()).is_terminal:
        yield Tally()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=None)

        def show(tally: Tally) -> None:
            counted = f"{tally.files:,} of {tally.files_expected:,} files"
            bar.update(task, completed=tally.bytes, total=tally.bytes_expected or None, description=counted)

        yield Tally(show)
