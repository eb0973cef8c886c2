"""Command `delta-sharing-conformance`, which checks one server and prints a line for each check."""

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import httpx

from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.profile import ProfileError, read_profile
from delta_sharing_conformance.run import MAX_TABLES, CheckResult, run

TIMEOUT_SECONDS = 60.0

_DESCRIPTION = """Check a Delta Sharing or OpenSharing server against the protocol, with a profile file.

Each line shows a result (holds, fails or not tried), the section of the protocol, the check, and
details. The checks read whole tables several times, so share small ones. The exit code is 1 if a
check fails."""


def main() -> int | str:
    """Run the command line and return the exit code, or an error message for `sys.exit`."""
    options = _parser("delta-sharing-conformance").parse_args()
    try:
        return check_server(options.profile, options.url, tables=options.tables, as_json=options.json)
    except ProfileError as error:
        return f"refused: {error}"


def check_server(profile_file: Path, url: str = "", *, tables: int = MAX_TABLES, as_json: bool = False) -> int:
    """Check a server, print the result of each check, and return 1 if a check fails, else 0.

    `url` is the endpoint, by default that of the profile. Raises ProfileError for an invalid profile file.
    """
    profile = read_profile(profile_file)
    endpoint = (url or profile.endpoint).rstrip("/")
    # With another endpoint, the token is not sent to the Iceberg endpoint of the profile.
    iceberg = profile.iceberg if endpoint == profile.endpoint else ""
    results = []
    with httpx.Client(timeout=TIMEOUT_SECONDS) as http:
        for result in run(SharingClient(http, endpoint, profile.token, iceberg=iceberg), max_tables=tables):
            results.append(result)
            if not as_json:
                _print(result)
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        count = Counter(result.result for result in results)
        totals = f"{count['holds']} hold, {count['fails']} fail, {count['not tried']} not tried"
        print(f"{totals} at {endpoint}", file=sys.stderr)
    return int(any(result.result == "fails" for result in results))


def _parser(program: str) -> argparse.ArgumentParser:
    examples = f"""Examples:
  {program} --profile alice.share
  {program} https://sharing.example.com/delta-sharing --profile alice.share --tables 5
  {program} --profile alice.share --json"""
    parser = argparse.ArgumentParser(
        program, description=_DESCRIPTION, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", metavar="URL", nargs="?", default="", help="Endpoint. [default: that of the profile]")
    parser.add_argument("--profile", metavar="FILE", type=Path, required=True, help="Profile file of a recipient.")
    parser.add_argument(
        "--tables", metavar="N", type=_count, default=MAX_TABLES, help=f"Tables per share. [default: {MAX_TABLES}]"
    )
    parser.add_argument("--json", action="store_true", help="Print JSON, for scripts.")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return int(text)


def _print(result: CheckResult) -> None:
    print(_one_line(f"{result.result:<9} {result.section:<40} {result.title}: {result.message}"))
    if result.remedy:
        print(f"{'':10}must: {result.remedy}")


def _one_line(text: str) -> str:
    """Escape control characters in text from a server, so that it cannot control the terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
