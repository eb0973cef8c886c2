"""The picture of the architecture is the one that the template gives, and it can leave nothing out."""

import xml.etree.ElementTree as ET

import pytest
from deltaic_ops.deploy import picture
from deltaic_ops.deploy.intrinsics import TemplateError
from deltaic_ops.deploy.template import ROOT
from deltaic_ops.deploy.transform import transformed


def test_the_picture_is_what_the_script_draws() -> None:
    drawn = picture.picture()
    assert (ROOT / "infra" / "architecture.svg").read_text() == drawn, (
        "run `python -m deltaic_ops.deploy.picture > infra/architecture.svg`"
    )
    assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314 -- our own
    assert "infra/architecture.svg" in (ROOT / "README.md").read_text()


def test_every_function_is_drawn_once_with_its_rights() -> None:
    resources = transformed(parameters=picture.EVERYTHING)
    rows = picture.rows(resources)
    names = [name for row in rows for name in row.names]
    functions = {name for name, said in resources.items() if said["Type"] == "AWS::Lambda::Function"}
    assert sorted(names) == sorted(functions | {"SigningRole", "JobRole"})
    lanes = {lane.title: number for number, lane in enumerate(picture.LANES)}
    [query] = [row.rights for row in rows if row.names == ("QueryTable",)]
    assert query[lanes["catalog"]] == ("reads", "writes")
    assert query[lanes["signing role"]] == ("assumes",)
    [authorizer] = [row.rights for row in rows if row.names == ("Authorizer",)]
    assert authorizer == {lanes["tokens"]: ("reads",)}


def test_a_right_that_has_no_place_is_refused() -> None:
    resources = transformed(parameters=picture.EVERYTHING)
    [statement] = resources["GetShareRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    statement["Resource"] = "arn:aws:sqs:us-east-1:000000000000:queue"
    with pytest.raises(TemplateError, match="no lane for arn:aws:sqs"):
        picture.rows(resources)
