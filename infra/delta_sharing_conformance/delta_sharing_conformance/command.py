"""The command `delta-sharing-conformance`: the checks against one server, a line or two for each."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import httpx

from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.profile import ProfileError, read_profile
from delta_sharing_conformance.run import TABLES, CheckResult, run

TIMEOUT_SECONDS = 60.0
"""Of one request."""

_DESCRIPTION = """Check any Delta Sharing or OpenSharing server against the protocol, with what a profile can see.

Each line says what holds, what fails, in which section of the protocol it stands and what the server must do, or why it
was not tried. Whole tables are queried, several times: share small ones. The exit code is 1 when anything fails."""


def main() -> int | str:
    """Run the command line; what is returned is the process's exit code, or its last words."""
    try:
        return check_server(sys.argv[1:], "delta-sharing-conformance")
    except ProfileError as error:
        return f"refused: {error}"


def check_server(arguments: Sequence[str], program: str, show: Callable[[CheckResult], None] | None = None) -> int:
    """Parse arguments, check the server and print each result by `show`; return 1 if a check fails, else 0.

    Raises ProfileError, and SystemExit for arguments that are not understood.
    """
    options = _parser(program).parse_args(arguments)
    profile = read_profile(options.profile)
    endpoint = (options.url or profile.endpoint).rstrip("/")
    # Where another endpoint is named, the profile's own token goes there alone.
    iceberg = profile.iceberg if endpoint == profile.endpoint else ""
    results = []
    with httpx.Client(timeout=TIMEOUT_SECONDS) as http:
        for result in run(SharingClient(http, endpoint, profile.token, iceberg=iceberg), most=options.tables):
            results.append(result)
            if not options.json:
                (show or _print)(result)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print(f"{summary(results)} at {endpoint}", file=sys.stderr)
    return int(any(result.result == "fails" for result in results))


def summary(results: Iterable[CheckResult]) -> str:
    """Say how many checks came to what."""
    count = Counter(result.result for result in results)
    return f"{count['holds']} hold, {count['fails']} fail, {count['not tried']} not tried"


def _parser(program: str) -> argparse.ArgumentParser:
    examples = f"""examples:
  {program} --profile alice.share
  {program} https://sharing.example.com/delta-sharing --profile alice.share --tables 5
  {program} --profile alice.share --json"""
    parser = argparse.ArgumentParser(
        program, description=_DESCRIPTION, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", metavar="URL", nargs="?", default="", help="the endpoint; else the profile's")
    parser.add_argument("--profile", metavar="FILE", type=Path, required=True, help="the profile file of a recipient")
    parser.add_argument("--tables", metavar="N", type=_count, default=TABLES, help=f"read of each share ({TABLES})")
    parser.add_argument("--json", action="store_true", help="answer in JSON, for scripts")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 on")
    return int(text)


def _print(result: CheckResult) -> None:
    print(_one_line(f"{result.result:<9} {result.section:<40} {result.check} {result.said}"))
    if result.remedy:
        print(f"{'':10}must: {result.remedy}")


def _one_line(text: str) -> str:
    """Return text of a server as a line that commands no terminal: what cannot be printed is shown escaped."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
