"""The benchmark: `uv run python -m bench [--full | --sizes 1000,100000] [--beside FOLDER]`."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import components, reference, report, rivals
from bench.figures import Figure, amount, table
from bench.object_store import ObjectStore
from bench.scenarios import Bench, written
from bench.server_comparison import compared
from bench.serving import service

QUICK = [1_000, 10_000, 100_000]
MILLION = 1_000_000
_IMPORTS = {"list_shares": 250, "get_table_version": 400, "get_table_metadata": 400, "query_table": 400}
TOKEN_LENGTH = 930
"""Characters of a session token on AWS."""


def _options() -> argparse.Namespace:
    """Return what the command line says, its sizes as numbers; exits 2 for what cannot be measured."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="a table of a million files too (2 to 5 minutes more)")
    parser.add_argument("--sizes", default="", help="other numbers of files, separated by commas")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench"), help="where logs and objects are kept")
    parser.add_argument("--beside", type=Path, help="a built reference server to measure too (see reference.py)")
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help="where the report is written")
    parser.add_argument("--warm", type=int, default=5, help="warm queries of each table")
    parser.add_argument("--no-report", action="store_true", help="print only")
    parser.add_argument(
        "--add", action="store_true", help="keep figures of the last report that this run does not measure"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is missed")
    options = parser.parse_args()
    if options.warm < 1:
        parser.error("--warm: say at least 1")
    options.sizes = [int(size) for size in options.sizes.split(",") if size] or QUICK + [MILLION] * options.full
    if options.beside:
        reference.check(options.beside)
    return options


def main() -> int:
    """Measure, print, write the report; exits 1 if a bar was missed and `--strict` was said."""
    options = _options()
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    state = options.state.resolve()
    figures = _measure(state, options.sizes, options.warm, options.beside)
    print(table(figures))
    if not options.no_report:
        kept, machine = report.read(options.report) if options.add else ([], {})
        report.write(report.renewed(kept, figures), options.report, machine or report.machine(busy))
        _say(f"written: {options.report / 'report.md'}")
    missed = [one for one in figures if one.holds is False]
    _say(f"{len(missed)} of {sum(one.bar is not None for one in figures)} bars missed")
    return int(bool(missed and options.strict))


def _measure(state: Path, sizes: list[int], warm: int, beside: Path | None) -> list[Figure]:
    state.mkdir(parents=True, exist_ok=True)
    folders = written(state / "logs", sizes, _say)
    figures: list[Figure] = []
    _say("SeaweedFS")
    with tempfile.TemporaryDirectory() as temporary, ObjectStore(state) as objects:
        _say("uploading what is missing")
        locations = {name: objects.put_table(folder) for name, folder in folders.items()}
        _say("embedded AWS, catalog, gateway")
        with service(objects, locations, Path(temporary)) as running:
            for files in sizes:
                figures += _told(Bench(objects, running, partial(_say_of, files)).of_size(files, warm=warm))
            if 10_000 in sizes:  # noqa: PLR2004 -- the promised size
                _say("10,000: eight at once")
                figures += _told(Bench(objects, running, _say).parallel(10_000, 8))
            if beside:
                rival = reference.rival(beside, reference.Store(objects.endpoint), locations, state / "reference")
                for files in sizes:
                    _say_of(files, f"beside the {rival.name}")
                    figures += _told(compared(files, objects.requests, running.fresh, rival, warm))
    return [*figures, *_told(_parts())]


def _told(figures: Iterator[Figure]) -> Iterator[Figure]:
    """Show each figure when it is there: a whole run takes minutes."""
    for one in figures:
        _say(f"    {one.name}: {amount(one.value, one.unit)}")
        yield one


def _parts() -> Iterator[Figure]:
    _say("signing and rendering alone, boto3 and json beside them")
    for length, what in ((0, "without a session token"), (TOKEN_LENGTH, "with a session token")):
        theirs = rivals.ask("presign", "500", str(length))["us"]
        for name, value in components.line_microseconds(10_000, length).items():
            bar = theirs / 50 if length else None
            yield Figure("sign + line", f"{name}, {what}", value, "us", bar, "boto3 + json.dumps", theirs)
    _say("imports")
    for endpoint, bar in _IMPORTS.items():
        wall, cpu = components.import_seconds(endpoint)
        yield Figure("imports", endpoint, wall * 1000, "ms", bar)
        yield Figure("imports", f"{endpoint}, CPU", cpu * 1000, "ms")


def _say_of(files: int, what: str) -> None:
    _say(f"{files:,}: {what}")


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
