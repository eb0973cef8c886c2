"""Command `delta-sharing-pull`, which downloads shared tables and folders."""

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
from delta_sharing_pull.progress import Progress

if TYPE_CHECKING:  # imported late otherwise, so that --help does not wait for HTTP, nor a Delta copy for Arrow
    from rich.console import Console

    from delta_sharing_pull.folder_download import FolderResult
    from delta_sharing_pull.folder_readers import FolderReader
    from delta_sharing_pull.server import SharedName, SharingServer
    from delta_sharing_pull.table_download import TableResult

PROGRAM: Final = "delta-sharing-pull"
HELP: Final = f"""\
Download shared tables, volumes, skills or models from any Delta Sharing server, with only a profile file.

A table becomes a file, or a folder with a Delta table. Each later download updates that Delta table in one commit
with the files that changed, so readers never see half a version; --follow repeats this until it is stopped. A volume,
a skill or a model version becomes a folder of its files, and later downloads fetch only new and changed files. A
download that was interrupted continues where it stopped.

\b
{PROGRAM} alice.share#sales_share.europe.orders orders.csv
{PROGRAM} alice.share#sales_share.europe.orders orders.parquet --version 3
{PROGRAM} alice.share#sales_share.europe.orders orders/ --follow
{PROGRAM} alice.share#sales_share.europe.contracts contracts --include '*.pdf' --watch
"""
_COLUMN: Final = "Include only this column (file targets only). Can be repeated."
_INCLUDE: Final = "Download only files that match, for example '*.pdf'. Can be repeated."
_FORMAT: Final = "Output format. [default: from TARGET]"
_KIND: Final = "Type of the object, if several have this name."
_TIMESTAMP: Final = "Download the version that was current at this time."
_GUARD: Final = "Put ' before texts that a spreadsheet can run as formulas (.csv only)."
_FORMATS: Final = {".parquet": "parquet", ".csv": "csv"}


class Output(Protocol):
    """Destination to which the command prints messages, JSON results and progress."""

    as_json: bool

    def note(self, text: str) -> None:
        """Print a message, unless --json is set."""

    def json(self, value: object) -> None:
        """Print a result as JSON."""

    def terminal(self) -> "Console":
        """Return the console for the progress bar, on stderr."""


class _Terminal:
    """Output to stdout and stderr, with control characters escaped in names from servers."""

    as_json = False

    def note(self, text: str) -> None:
        if not self.as_json:
            printable = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
            print(printable, file=sys.stderr)

    def json(self, value: object) -> None:
        print(json.dumps(value, indent=2))

    def terminal(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True)

    def error(self, code: str, message: str) -> None:
        if self.as_json:
            print(json.dumps({"errorCode": code, "message": message}), file=sys.stderr)
        self.note(f"refused: {message}")


def main() -> None:
    """Run the command `delta-sharing-pull` with the arguments of this process."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(help=HELP)(pull)
    output = _Terminal()
    try:
        app(obj=output)
    except PullError as error:
        output.error(error.code, str(error))
    except OSError as error:
        file = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "a file"
        output.error(Unavailable.code, f"Cannot use {file}: {error.strerror or error}")
    sys.exit(1)


def pull(  # noqa: PLR0913, PLR0917 -- the options of the command
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="PROFILE#SHARE.SCHEMA.NAME", help="Shared table or folder.")],
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="A .parquet or .csv file, or a folder: FOLDER/ for a table."),
    ],
    version: Annotated[int | None, typer.Option(min=0, help="Version to download. [default: newest]")] = None,
    timestamp: Annotated[str, typer.Option(metavar="ISO", help=_TIMESTAMP)] = "",
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of rows (file targets only).")] = None,
    column: Annotated[list[str] | None, typer.Option(metavar="NAME", help=_COLUMN)] = None,
    include: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help=_INCLUDE)] = None,
    kind: Annotated[str, typer.Option(metavar="table|volume|skill|model", help=_KIND)] = "",
    format_: Annotated[str, typer.Option("--format", metavar="delta|parquet|csv", help=_FORMAT)] = "",
    guard_formulas: Annotated[bool, typer.Option("--guard-formulas", help=_GUARD)] = False,
    follow: Annotated[bool, typer.Option("--follow", "--watch", help="Keep running, and download changes.")] = False,
    every: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Interval for --follow.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result in JSON.")] = False,
) -> None:
    """Download a shared table or folder, and report to the context's `Output`; raises PullError."""
    from delta_sharing_pull.folder_readers import KINDS, find_folder
    from delta_sharing_pull.server import SharedName, SharingServer

    output: Output = ctx.obj
    output.as_json = as_json
    name = SharedName.parse(source)
    options = _query_options(version, timestamp, limit)
    if kind and kind not in {"table", *KINDS}:
        raise InvalidParameter(f"--kind {kind} is not valid: use table, {', '.join(KINDS)}")
    with closing(SharingServer.from_profile(name.profile)) as server:
        # A file target and the options for tables imply a table. Otherwise the server decides.
        is_table = kind == "table" or format_ or Path(target).suffix.lower() in _FORMATS or timestamp
        reader = None if is_table else find_folder(server, name, kind, version)
        if reader is None and kind in KINDS:
            raise NotFound(f"{server.host} has no {kind} {name}: check the name, or ask the provider for access")
        download: Callable[[], bool]
        if reader is not None:
            download = _folder_download(output, reader, name, target, include or [])
        else:
            format_ = _table_format(name, target, format_)
            if guard_formulas and format_ != "csv":
                raise InvalidParameter(f"--guard-formulas requires a .csv file: '{target}' is to be {format_}")
            download = _table_download(
                output, server, name, options, target, format_, column or [], guard_formulas, follow
            )
        complete = download()
        while follow:
            time.sleep(every)
            try:
                download()
            except Unavailable as error:
                output.note(str(error))
    if not complete:
        raise typer.Exit(1)


def _table_download(  # noqa: PLR0913, PLR0917 -- the options of the command
    output: Output,
    server: "SharingServer",
    name: "SharedName",
    options: Mapping[str, Any],
    target: str,
    table_format: str,
    columns: Sequence[str],
    guard_formulas: bool,
    follow: bool,
) -> Callable[[], bool]:
    """Return a function that downloads a table if its version has changed since the last call."""
    from delta_sharing_pull.snapshot import latest_version
    from delta_sharing_pull.table_download import TableDownload

    if follow and {"version", "timestamp"} & options.keys():
        raise InvalidParameter("--follow downloads the newest version: remove --version and --timestamp")
    if table_format == "delta" and ("limitHint" in options or columns):
        raise InvalidParameter("--limit and --column require a .parquet or .csv file: a Delta table is copied whole")
    table, last_version = TableDownload(server, name, options), -1

    def download() -> bool:
        nonlocal last_version
        if last_version >= 0 and latest_version(server, name) == last_version:
            return True
        with _progress_bar(output) as progress:
            if table_format == "delta":
                result = table.to_delta(Path(target), progress)
            else:
                result = table.to_file(Path(target), table_format, progress, columns, guard_formulas)
        last_version = result.version
        size = f"{result.files:,} files" if result.rows is None else f"{result.rows:,} rows"
        suffix = "" if result.changed else ", unchanged"
        _report(output, name, target, result, f"{target} is version {result.version} of {name}: {size}{suffix}")
        if result.formulas and not guard_formulas:
            output.note(
                f"{result.formulas:,} texts begin with =, +, - or @: a spreadsheet can run them as formulas. Import "
                "them as text, or add --guard-formulas"
            )
        return True

    return download


def _folder_download(
    output: Output, reader: "FolderReader", name: "SharedName", target: str, include: Sequence[str]
) -> Callable[[], bool]:
    """Return a function that downloads a folder and returns True if it skipped no file."""
    from delta_sharing_pull.folder_download import FolderDownload

    previous: FolderResult | None = None

    def download() -> bool:
        nonlocal previous
        with _progress_bar(output) as progress:
            result = FolderDownload(reader, Path(target), include, progress).run()
        if previous is None or result.fetched or (result.files, result.names) != (previous.files, previous.names):
            message = f"{target} has {result.files:,} files of {name}: downloaded {result.fetched:,}"
            _report(output, name, target, result, message)
            if result.unnamed:
                names = ", ".join(map(repr, result.names))
                output.note(f"Skipped {result.unnamed:,} objects with names that are invalid on this machine: {names}")
        previous = result
        return not result.unnamed

    return download


def _query_options(version: int | None, timestamp: str, limit: int | None) -> dict[str, Any]:
    if version is not None and timestamp:
        raise InvalidParameter("--version and --timestamp exclude each other: specify only one")
    options = {"version": version, "timestamp": timestamp or None, "limitHint": limit}
    return {key: value for key, value in options.items() if value is not None}


def _table_format(name: "SharedName", target: str, option: str) -> str:
    """Return the table format from --format or the target's name; raises InvalidParameter if neither specifies one."""
    table_format = option.lower() or _FORMATS.get(Path(target).suffix.lower(), "delta" if target.endswith("/") else "")
    if table_format not in {"delta", *_FORMATS.values()}:
        raise InvalidParameter(
            f"No volume, skill or model {name} exists, and '{target}' specifies no table format: use a .parquet or "
            ".csv file, a folder that ends with / for a Delta table, or --format delta, parquet or csv"
        )
    return table_format


def _report(
    output: Output, name: "SharedName", target: str, result: "TableResult | FolderResult", message: str
) -> None:
    if output.as_json:
        fields: Mapping[str, Any] = {key: value for key, value in asdict(result).items() if value is not None}
        output.json({"source": str(name), "target": target, **fields})
    else:
        output.note(message)


@contextmanager
def _progress_bar(output: Output) -> Iterator[Progress]:
    if output.as_json or not sys.stderr.isatty():
        yield Progress()
        return
    from rich import progress as bars

    columns = (bars.BarColumn(), bars.DownloadColumn(), bars.TransferSpeedColumn(), bars.TimeRemainingColumn())
    streams: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False}
    with bars.Progress("{task.description}", *columns, console=output.terminal(), transient=True, **streams) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            text = f"{progress.files:,} of {progress.files_expected:,} files"
            bar.update(task, completed=progress.bytes, total=progress.bytes_expected or None, description=text)

        yield Progress(show)
