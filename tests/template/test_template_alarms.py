"""Test that each alarm has a runbook section and watches a metric that exists."""

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
SECTIONS = {title: part for title, part in SECTIONS.items() if " " not in title}  # other sections are not about alarms
ENDPOINTS_METRICS = {"Latency", "Failures", "FirstByte", "BrokenStreams"}


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=EVERYTHING)


@pytest.fixture(scope="module")
def alarms(resources: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }


def test_every_alarm_has_a_runbook_section_and_vice_versa(alarms: dict[str, dict[str, Any]]) -> None:
    assert sorted(SECTIONS) == sorted(alarms)
    for name, text in SECTIONS.items():
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Means", "Look", "Do", "Over"], name


def test_every_alarm_links_its_section_and_notifies_the_topic(alarms: dict[str, dict[str, Any]]) -> None:
    for name, alarm in alarms.items():
        # GitHub uses the lowercase heading as anchor.
        assert alarm["AlarmDescription"].endswith(f". See docs/runbook.md#{name.lower()}"), name
        assert alarm["AlarmActions"] == [EVERYTHING["AlarmTopic"]], name
        assert alarm["TreatMissingData"] == "notBreaching", name


def test_links_in_the_runbook_are_valid() -> None:
    links = re.findall(r"\[(\w+)\]\(#(\w+)\)", RUNBOOK)
    assert links
    assert all(name in SECTIONS and anchor == name.lower() for name, anchor in links)


def test_alarms_watch_metrics_that_functions_emit(
    alarms: dict[str, dict[str, Any]], resources: dict[str, dict[str, Any]]
) -> None:
    emitted = (ROOT / "functions" / "layer" / "deltaic" / "http" / "observability.py").read_text()
    emitted_metrics = set(re.findall(r'add_metric\("(\w+)"', emitted))
    assert emitted_metrics == ENDPOINTS_METRICS
    filtered = {
        change["MetricName"]
        for definition in resources.values()
        if definition["Type"] == "AWS::Logs::MetricFilter"
        for change in definition["Properties"]["MetricTransformations"]
    }
    service = resources["QueryTable"]["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    for name, definition in alarms.items():
        if definition["Namespace"] == "Deltaic" and definition["MetricName"] != "CheckpointFailures":
            is_service_metric = definition.get("Dimensions") == [{"Name": "service", "Value": service}]
            assert definition["MetricName"] in (emitted_metrics if is_service_metric else filtered), name


class Sink:
    """Log sink that stores each event."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def log_error(self, lines: Sequence[str]) -> None:
        """Store an event of several lines."""
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
def test_authorizer_failures_are_distinguished_from_refusals(
    event: str | tuple[str, str], counts: bool, resources: dict[str, dict[str, Any]]
) -> None:
    if isinstance(event, tuple):
        sink = Sink()
        trace = ['  File "/var/task/app.py", line 31, in handler\n    raise Exception("Unauthorized") from None\n']
        log_error(make_error(event[1], event[0], trace, "1-2-3"), sink)  # the text with which AWS logs an exception
        [event] = sink.events
    patterns = [
        resource["Properties"]["FilterPattern"] for resource in resources.values() if "FilterPattern" in str(resource)
    ]
    assert len(patterns) == 2
    assert any(matches(pattern, event) for pattern in patterns) is counts


def matches(pattern: str, event: str) -> bool:
    """Return whether a text event matches a filter pattern.

    It must have all terms without sign, no term with `-`, and one of the terms with `?`
    (CloudWatch Logs, "Filter pattern syntax", unstructured log events).
    """
    terms = re.findall(r'([?-]?)"([^"]+)"', pattern)
    required = [term for sign, term in terms if not sign]
    excluded = [term for sign, term in terms if sign == "-"]
    alternatives = [term for sign, term in terms if sign == "?"]
    return (
        all(term in event for term in required)
        and not any(term in event for term in excluded)
        and (not alternatives or any(term in event for term in alternatives))
    )
