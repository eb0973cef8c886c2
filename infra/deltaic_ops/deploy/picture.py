"""Draws infra/architecture.svg from the template: `python -m deltaic_ops.deploy.picture > infra/architecture.svg`.

Who asks stands on the left, functions with the same rights are one row, what they reach is a lane each, and where a row
has a right to a lane, the crossing says which. What only a parameter makes has a dashed outline. A right to something
that has no lane is refused, so that the picture cannot leave one out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from deltaic_ops.deploy.intrinsics import TemplateError
from deltaic_ops.deploy.rights import several, statements
from deltaic_ops.deploy.template import load_template
from deltaic_ops.deploy.transform import transformed

DATA, ROLES = "arn:aws:s3:::data", "arn:aws:iam::111111111111:role/storage"
EVERYTHING = {
    "DataBuckets": DATA,
    "StorageRoles": ROLES,
    "Checkpoints": "enabled",
    "SparkJobs": "enabled",
    "DomainName": "sharing.example.com",
    "CertificateArn": "arn:aws:acm:us-east-1:000000000000:certificate/1",
    "WebAcl": "enabled",
    "BackupDays": "90",
    "Dashboard": "enabled",
    "MonthlyBudget": "50",
    "BudgetEmail": "costs@example.com",
    "GradualDeployment": "enabled",
}
"""Every part that is a box of its own."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Something that functions reach: what names it in a policy (a pattern), its title, the service."""

    names: str
    title: str
    service: str
    always: bool = True


LANES = (
    Lane(r"\$\{Tokens\.Arn\}", "tokens", "DynamoDB"),
    Lane(r"\$\{Catalog\.Arn\}", "catalog", "DynamoDB"),
    Lane(r".*:secret:deltaic/dev/token-key-.*", "token key", "Secrets Manager"),
    Lane(r".*:secret:deltaic/storage/.*", "keys of storages", "Secrets Manager"),
    Lane(re.escape(DATA) + r".*", "data buckets", "S3"),
    Lane(r"\$\{SigningRole\.Arn\}", "signing role", "IAM"),
    Lane(re.escape(ROLES), "roles of storages", "IAM"),
    Lane(r".*:emr-serverless:.*", "Spark jobs", "EMR Serverless", always=False),
    Lane(r"\$\{JobRole\.Arn\}", "role of jobs", "IAM", always=False),
    Lane(r"\$\{JobsBucket\.Arn\}.*", "jobs' code", "S3", always=False),
    Lane(r".*:secret:deltaic/dev/jobs/.*", "passwords", "Secrets Manager", always=False),
)
_UNDRAWN = ("logs:", "kms:", "sts:TagSession")
"""Log lines of everybody, keys of what is drawn, and what only goes with taking a role."""

VERBS = {
    "reads": ("Get", "BatchGet", "Query", "List", "Describe"),
    "writes": ("Put", "Update", "Delete", "Abort", "ConditionCheck"),
    "assumes": ("AssumeRole",),
    "passes": ("PassRole",),
    "starts": ("StartJobRun",),
}
_COLOURS = {
    "reads": "#2f6fb3",
    "writes": "#c2611f",
    "assumes": "#7a4fb0",
    "passes": "#7a4fb0",
    "starts": "#2e8555",
    "invokes": "#2e8555",
}

WIDTH, TOP, ROW, LANE, FIRST_LANE = 1650, 142, 74, 98, 600
BOX = 250
_IN_ONE_LINE = 11
_MARKER = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
_INK, _PALE, _LINE = "#1f2933", "#f5f7fa", "#9aa5b1"


@dataclass(frozen=True, slots=True)
class Row:
    """Functions, or a role of others, with the same rights: verbs by the number of the lane."""

    title: str
    names: tuple[str, ...]
    rights: Mapping[int, tuple[str, ...]]
    invoked: bool
    """By the gateway."""
    always: bool


def rows(resources: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return the rows, functions first, in the template's order."""
    routed = {route.function for route in load_template(parameters=EVERYTHING).routes} | {"Authorizer"}
    found: dict[tuple[Any, ...], list[str]] = {}
    for name, said in resources.items():
        if said["Type"] == "AWS::Lambda::Function":
            key = (tuple(_rights(resources, f"{name}Role").items()), name in routed, "Condition" not in said)
            found.setdefault(key, []).append(name)
    made = [
        Row("functions" if len(names) > 1 else "function", tuple(names), dict(rights), invoked, always)
        for (rights, invoked, always), names in found.items()
    ]
    for role in ("SigningRole", "JobRole"):
        always = "Condition" not in resources[role]
        made.append(Row("role", (role,), _rights(resources, role), invoked=False, always=always))
    return made


def _rights(resources: Mapping[str, Mapping[str, Any]], role: str) -> dict[int, tuple[str, ...]]:
    found: dict[int, set[str]] = {}
    for statement in statements(resources, role):
        for action in several(statement["Action"]):
            if not action.startswith(_UNDRAWN):
                for resource in several(statement["Resource"]):
                    found.setdefault(_lane(resource), set()).add(_verb(action))
    return {lane: tuple(sorted(verbs)) for lane, verbs in sorted(found.items())}


def _lane(resource: str) -> int:
    for number, lane in enumerate(LANES):
        if re.fullmatch(lane.names, resource):
            return number
    raise TemplateError(f"the picture has no lane for {resource}: add one to LANES")


def _verb(action: str) -> str:
    name = action.partition(":")[2]
    for verb, beginnings in VERBS.items():
        if name.startswith(beginnings):
            return verb
    raise TemplateError(f"the picture has no word for {action}: add one to VERBS")


def picture() -> str:
    """Return the drawing as SVG, the same for the same template."""
    resources = transformed(parameters=EVERYTHING)
    made = rows(resources)
    bottom = TOP + len(made) * ROW
    height = bottom + 150
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif" font-size="13">',
        "<title>What template.yaml deploys, and who may do what</title>",
        f'<defs><marker id="to" {_MARKER}><path d="M0 0 L8 4 L0 8 z" fill="{_LINE}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_lanes(bottom),
        *_entrance(made),
        *(part for number, row in enumerate(made) for part in _row(number, row)),
        *_watch(resources, bottom + 30),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lanes(bottom: int) -> Iterator[str]:
    for number, lane in enumerate(LANES):
        x = FIRST_LANE + number * LANE
        yield f'<path d="M{x} {TOP - 24} V{bottom - 20}" stroke="#e4e7eb" stroke-width="10" fill="none"/>'
        yield _box(x - LANE // 2 + 3, 50, LANE - 6, 68, dashed=not lane.always)
        words = lane.title.split(" ", 1) if len(lane.title) > _IN_ONE_LINE else [lane.title]
        for line, word in enumerate(words):
            yield _text(x, 76 + 15 * line - 7 * (len(words) - 1), word, weight="bold")
        yield _text(x, 108, lane.service, size=10, colour="#52606d")


def _entrance(made: list[Row]) -> Iterator[str]:
    routed = [number for number, row in enumerate(made) if row.invoked]
    first, last = TOP + min(routed) * ROW, TOP + (max(routed) + 1) * ROW - 14
    middle = (first + last) // 2
    yield _box(20, middle - 32, 104, 64, fill="#fff8e6")
    yield _text(72, middle - 4, "recipients", weight="bold")
    yield _text(72, middle + 14, "and their tokens", size=10, colour="#52606d")
    yield f'<path d="M124 {middle} H163" stroke="{_LINE}" fill="none" marker-end="url(#to)"/>'
    yield _text(143, middle - 7, "ask", size=11, colour="#52606d")
    yield _box(166, first, 78, last - first, fill="#eaf4ee")
    yield _text(205, middle - 4, "API", weight="bold")
    yield _text(205, middle + 14, "API Gateway", size=10, colour="#52606d")
    for above, title, service in ((12, "firewall", "WAF"), (62, "domain", "your name")):
        yield _box(172, first + above, 66, 42, dashed=True)
        yield _text(205, first + above + 18, title, size=11)
        yield _text(205, first + above + 33, service, size=9, colour="#52606d")
    for number in routed:
        y = TOP + number * ROW + 30
        yield f'<path d="M244 {y} H284" stroke="{_LINE}" fill="none" marker-end="url(#to)"/>'
        yield _text(264, y - 6, "invokes", size=10, colour=_COLOURS["invokes"])
    buckets = FIRST_LANE + next(number for number, lane in enumerate(LANES) if lane.title == "data buckets") * LANE
    yield f'<path d="M72 {middle - 32} V24 H{buckets} V48" stroke="{_LINE}" fill="none" marker-end="url(#to)"/>'
    yield _text((72 + buckets) // 2, 18, "fetch files by signed URLs, for an hour at most", size=11, colour="#52606d")
    timed = [number for number, row in enumerate(made) if not row.invoked and row.title != "role"]
    first, last = TOP + min(timed) * ROW, TOP + (max(timed) + 1) * ROW - 14
    yield _box(166, first, 78, last - first, dashed=True)
    yield _text(205, (first + last) // 2 - 4, "schedules", weight="bold")
    yield _text(205, (first + last) // 2 + 14, "EventBridge", size=10, colour="#52606d")
    for number in timed:
        y = TOP + number * ROW + 30
        yield f'<path d="M244 {y} H284" stroke="{_LINE}" fill="none" marker-end="url(#to)"/>'
        yield _text(264, y - 6, "invoke", size=10, colour=_COLOURS["invokes"])


def _row(number: int, row: Row) -> Iterator[str]:
    top = TOP + number * ROW
    y = top + 30
    if row.rights:
        end = FIRST_LANE + max(row.rights) * LANE
        yield f'<path d="M{286 + BOX} {y} H{end}" stroke="{_LINE}" fill="none"/>'
    yield _box(286, top, BOX, 60, dashed=not row.always, fill="#f3eefa" if row.title == "role" else _PALE)
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower() for name in row.names]
    lines = _wrapped(words, 36)
    for line, text in enumerate(lines):
        yield _text(286 + BOX // 2, y + 2 - 8 * (len(lines) - 1) + 16 * line, text, weight="bold")
    yield _text(286 + BOX // 2, top + 55, row.title, size=9, colour="#52606d")
    for lane, verbs in row.rights.items():
        x = FIRST_LANE + lane * LANE
        for place, verb in enumerate(verbs):
            at = y + 22 * place - 11 * (len(verbs) - 1)
            yield f'<rect x="{x - 29}" y="{at - 10}" width="58" height="20" rx="10" fill="{_COLOURS[verb]}"/>'
            yield _text(x, at + 4, verb, size=11, colour="#ffffff")


def _watch(resources: Mapping[str, Mapping[str, Any]], top: int) -> Iterator[str]:
    least = transformed(parameters={"DataBuckets": DATA}).values()

    def count(kind: str) -> tuple[int, int]:
        always, most = ([said for said in found if said["Type"] == kind] for found in (least, resources.values()))
        return len(always), len(most)

    boxes = (
        ("log groups", "AWS::Logs::LogGroup", "who asked what, never a token"),
        ("alarms", "AWS::CloudWatch::Alarm", "to your topic; infra/runbook.md"),
        ("dashboard", "AWS::CloudWatch::Dashboard", "what recipients see and take"),
        ("backup plan", "AWS::Backup::BackupPlan", "daily copies of both tables"),
        ("budget", "AWS::Budgets::Budget", "to your e-mail"),
        ("gradual deployment", "AWS::CodeDeploy::Application", "taken back by alarms"),
    )
    for number, (title, kind, note) in enumerate(boxes):
        always, most = count(kind)
        x = 20 + number * 270
        yield _box(x, top, 254, 52, dashed=not always)
        amount = "" if most == 1 else f"{always}" if always == most else f"{always} to {most} "
        yield _text(x + 127, top + 22, f"{amount}{title}", weight="bold")
        yield _text(x + 127, top + 40, note, size=11, colour="#52606d")
    note = (
        "Drawn from template.yaml. A dashed outline: only where a parameter asks for it. Each function has a role of "
        "its own; keys (KMS) and log lines are left out."
    )
    yield _text(20, top + 84, note, size=12, colour="#52606d", anchor="start")


def _wrapped(words: list[str], width: int) -> list[str]:
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 2 <= width:
            lines[-1] += f", {word}"
        else:
            lines[-1] += ","
            lines.append(word)
    return lines


def _box(  # noqa: PLR0913 -- where it is and how large
    x: int, y: int, width: int, height: int, *, dashed: bool = False, fill: str = _PALE
) -> str:
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{_LINE}"'
        f' stroke-width="1.2"{dashes}/>'
    )


def _text(  # noqa: PLR0913 -- where it is and how it looks
    x: int, y: int, text: str, *, size: int = 13, weight: str = "", colour: str = _INK, anchor: str = "middle"
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"{bold} fill="{colour}">{escape(text)}</text>'
    )


if __name__ == "__main__":
    print(picture(), end="")
