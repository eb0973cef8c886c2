"""Run the server benchmark: `uv run python -m bench [--full | --sizes 1000,100000] [--beside FOLDER]`."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import components, reference, report
from bench.figures import Figure, amount
from bench.object_store import ObjectStore
from bench.scenarios import Bench, write_logs
from bench.server_comparison import compare
from bench.serving import service

QUICK = [1_000, 10_000, 100_000]
MILLION = 1_000_000
TOKEN_LENGTH = 930
"""Typical number of characters in an AWS session token."""


def _options() -> argparse.Namespace:
    """Parse the command line, with the table sizes as numbers; exits with code 2 for invalid options."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="add a table of a million files (2 to 5 minutes)")
    parser.add_argument("--sizes", default="", help="numbers of files, separated by commas")
    parser.add_argument("--state", type=Path, default=Path(".deltaic/bench"), help="folder for logs and objects")
    parser.add_argument("--beside", type=Path, help="folder of a reference server to compare with (see reference.py)")
    parser.add_argument("--report", type=Path, default=Path(__file__).parent, help="folder for the report")
    parser.add_argument("--warm", type=int, default=5, help="number of warm queries of each table")
    parser.add_argument("--no-report", action="store_true", help="print the figures, write no report")
    parser.add_argument(
        "--add", action="store_true", help="keep figures of the last report that this run does not measure"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args()
    if options.warm < 1:
        parser.error("--warm must be at least 1")
    options.sizes = [int(size) for size in options.sizes.split(",") if size] or QUICK + [MILLION] * options.full
    if options.beside:
        reference.check(options.beside)
    return options


def main() -> int:
    """Run the benchmark, print and report its figures; return 1 if `--strict` is set and a goal is missed."""
    options = _options()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    state = options.state.resolve()
    figures = _measure(state, options.sizes, options.warm, options.beside)
    if options.no_report:
        print("\n".join(report.report_lines(figures, report.machine(load))))
    else:
        existing, machine = report.read(options.report) if options.add else ([], {})
        report.write(report.merge_figures(existing, figures), options.report, machine or report.machine(load))
        _log(f"written: {options.report / 'report.md'}")
    not_met = [figure for figure in figures if figure.holds is False]
    _log(f"{len(not_met)} of {sum(figure.bar is not None for figure in figures)} goals missed")
    return int(bool(not_met and options.strict))


def _measure(state: Path, sizes: list[int], warm: int, server: Path | None) -> list[Figure]:
    state.mkdir(parents=True, exist_ok=True)
    folders = write_logs(state / "logs", sizes, _log)
    figures: list[Figure] = []
    _log("SeaweedFS")
    with tempfile.TemporaryDirectory() as temporary, ObjectStore(state) as objects:
        _log("uploading missing files")
        locations = {name: objects.put_table(folder) for name, folder in folders.items()}
        _log("embedded AWS, catalog, gateway")
        with service(objects, locations, Path(temporary)) as running_service:
            for files in sizes:
                figures += _show(Bench(objects, running_service, partial(_log_size, files)).of_size(files, warm=warm))
            if 10_000 in sizes:  # noqa: PLR2004 -- the promised size
                _log("10,000: eight parallel queries")
                figures += _show(Bench(objects, running_service, _log).parallel(10_000, 8))
            if server:
                rival = reference.rival(server, reference.Store(objects.endpoint), locations, state / "reference")
                for files in sizes:
                    _log_size(files, f"comparing with the {rival.name}")
                    figures += _show(compare(files, objects.requests, running_service.fresh, rival, warm))
    return [*figures, *_show(_measure_parts())]


def _show(figures: Iterator[Figure]) -> Iterator[Figure]:
    """Yield the figures, and print each as soon as it is measured, because a run takes minutes."""
    for figure in figures:
        _log(f"    {figure.name}: {amount(figure.value, figure.unit)}")
        yield figure


def _measure_parts() -> Iterator[Figure]:
    _log("signing and rendering alone, compared with boto3 and json")
    for length, step in ((0, "without a session token"), (TOKEN_LENGTH, "with a session token")):
        reference_value = components.presign_microseconds(500, length)
        for name, value in components.line_microseconds(10_000, length).items():
            bar = reference_value / 50 if length else None
            yield Figure("sign + line", f"{name}, {step}", value, "us", bar, "boto3 + json.dumps", reference_value)
    _log("an Iceberg manifest")
    converted, decoded = components.manifest_microseconds(10_000)
    yield Figure("Iceberg manifest", "CPU per file", converted, "us", decoded, "fastavro, decoding only", decoded)


def _log_size(files: int, step: str) -> None:
    _log(f"{files:,}: {step}")


def _log(step: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {step}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
