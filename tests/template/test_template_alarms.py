"""Each alarm says what to do, and watches something that is really counted."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from awslambdaric.bootstrap import log_error, make_error
from cloudformation import transformed
from deltaic_ops.deploy.sam_template import ROOT
from template_rights import EVERYTHING

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in RUNBOOK.split("\n## ")[1:]}
SECTIONS = {title: part for title, part in SECTIONS.items() if " " not in title}  # the others are no alarm's
ENDPOINTS_METRICS = {"Latency", "Failures", "FirstByte", "BrokenStreams"}


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=EVERYTHING)


@pytest.fixture(scope="module")
def alarms(resources: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: said["Properties"] for name, said in resources.items() if said["Type"] == "AWS::CloudWatch::Alarm"}


def test_every_alarm_has_its_section_and_every_section_its_alarm(alarms: dict[str, dict[str, Any]]) -> None:
    assert sorted(SECTIONS) == sorted(alarms)
    for name, text in SECTIONS.items():
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Means", "Look", "Do", "Over"], name


def test_every_alarm_leads_to_its_section_and_to_the_topic(alarms: dict[str, dict[str, Any]]) -> None:
    for name, said in alarms.items():
        # GitHub makes the anchor of a heading of its letters in lower case.
        assert said["AlarmDescription"].endswith(f". See docs/runbook.md#{name.lower()}"), name
        assert said["AlarmActions"] == [EVERYTHING["AlarmTopic"]], name
        assert said["TreatMissingData"] == "notBreaching", name


def test_links_within_the_runbook_lead_somewhere() -> None:
    links = re.findall(r"\[(\w+)\]\(#(\w+)\)", RUNBOOK)
    assert links
    assert all(name in SECTIONS and anchor == name.lower() for name, anchor in links)


def test_alarms_of_ours_watch_what_functions_emit(
    alarms: dict[str, dict[str, Any]], resources: dict[str, dict[str, Any]]
) -> None:
    emitted = (ROOT / "functions" / "layer" / "deltaic" / "http" / "observability.py").read_text()
    counted = set(re.findall(r'add_metric\("(\w+)"', emitted))
    assert counted == ENDPOINTS_METRICS
    filtered = {
        change["MetricName"]
        for said in resources.values()
        if said["Type"] == "AWS::Logs::MetricFilter"
        for change in said["Properties"]["MetricTransformations"]
    }
    service = resources["QueryTable"]["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    for name, said in alarms.items():
        if said["Namespace"] == "Deltaic" and said["MetricName"] != "CheckpointFailures":
            of_service = said.get("Dimensions") == [{"Name": "service", "Value": service}]
            assert said["MetricName"] in (counted if of_service else filtered), name


class Sink:
    """Keeps what the runtime would log, an event a call."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def log_error(self, lines: Sequence[str]) -> None:
        """Take an event of several lines."""
        self.events.append("\n".join(lines))


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        pytest.param(("Exception", "Unauthorized"), False, id="a_refusal"),
        pytest.param(("TemporarilyUnavailable", "the catalog did not answer"), True, id="DynamoDB_fails"),
        pytest.param(("Runtime.ImportModuleError", "Unable to import module 'app'"), True, id="the_layer_is_broken"),
        pytest.param("2026-11-22T12:00:00Z 1-2-3 Task timed out after 10.01 seconds", True, id="time"),
        pytest.param("RequestId: 1-2-3 Error: Runtime exited with error: signal: killed", True, id="memory"),
        pytest.param("START RequestId: 1-2-3 Version: 7", False, id="a_start"),
    ],
)
def test_failures_of_the_authorizer_are_told_from_refusals(
    event: str | tuple[str, str], counts: bool, resources: dict[str, dict[str, Any]]
) -> None:
    if isinstance(event, tuple):
        sink = Sink()
        trace = ['  File "/var/task/app.py", line 31, in handler\n    raise Exception("Unauthorized") from None\n']
        log_error(make_error(event[1], event[0], trace, "1-2-3"), sink)  # AWS's own words for an exception
        [event] = sink.events
    patterns = [said["Properties"]["FilterPattern"] for said in resources.values() if "FilterPattern" in str(said)]
    assert len(patterns) == 2
    assert any(matches(pattern, event) for pattern in patterns) is counts


def matches(pattern: str, event: str) -> bool:
    """Return whether an event of plain text matches: all terms, none with `-`, and of those with `?` any one.

    (CloudWatch Logs, "Filter pattern syntax", unstructured log events.)
    """
    terms = re.findall(r'([?-]?)"([^"]+)"', pattern)
    wanted = [term for sign, term in terms if not sign]
    unwanted = [term for sign, term in terms if sign == "-"]
    either = [term for sign, term in terms if sign == "?"]
    return (
        all(term in event for term in wanted)
        and not any(term in event for term in unwanted)
        and (not either or any(term in event for term in either))
    )
