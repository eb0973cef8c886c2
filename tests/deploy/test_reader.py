"""Test that the template reader resolves supported forms, and refuses others by name."""

from pathlib import Path

import pytest
from deltaic_ops.deploy.intrinsics import Resolver, TemplateError, read
from deltaic_ops.deploy.sam_template import load_template

DOCUMENT = """
Parameters:
  Stage: {Type: String, Default: dev}
  Buckets: {Type: CommaDelimitedList, Default: "a, b"}
  Topic: {Type: String, Default: ""}
Conditions:
  HasTopic: !Not [!Equals [!Ref Topic, ""]]
  IsDev: !Equals [!Ref Stage, dev]
Value: %s
"""


def resolve(value: str, tmp_path: Path, **parameters: str) -> object:
    path = tmp_path / "template.yaml"
    path.write_text(DOCUMENT % value)
    document = read(path)
    names = {"Table": "deltaic-dev", "Table.Arn": "arn:table", "AWS::Region": "us-east-1"}
    return Resolver(document, parameters, names)(document["Value"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("!Ref Stage", "dev", id="parameter"),
        pytest.param("!Ref Table", "deltaic-dev", id="resource"),
        pytest.param("!GetAtt Table.Arn", "arn:table", id="attribute"),
        pytest.param("{Fn::GetAtt: [Table, Arn]}", "arn:table", id="long form"),
        pytest.param("!Sub 'x-${Stage}-${Table.Arn}-${AWS::Region}'", "x-dev-arn:table-us-east-1", id="sub"),
        pytest.param("!Sub ['${V}${Stage}', {V: ''}]", "dev", id="sub with an empty variable"),
        pytest.param("!Sub ['${_V_}-x', {_V_: !Ref Table}]", "deltaic-dev-x", id="sub with a name of SAM's"),
        pytest.param("!Ref Buckets", ["a", "b"], id="list parameter"),
        pytest.param("!Split [',', !Join ['/*,', !Ref Buckets]]", ["a/*", "b"], id="join and split"),
        pytest.param("!If [HasTopic, 1, 2]", 2, id="condition that does not hold"),
        pytest.param("[1, !If [HasTopic, 2, !Ref AWS::NoValue]]", [1], id="no value in a list"),
        pytest.param("{a: !If [HasTopic, 2, !Ref AWS::NoValue], b: 1}", {"b": 1}, id="no value in a map"),
        pytest.param("!And [!Condition IsDev, !Not [!Condition HasTopic]]", True, id="conditions"),
        pytest.param("!Or [!Condition HasTopic, !Equals [a, b]]", False, id="or"),
        pytest.param("{Condition: {StringLike: {a: b}}}", {"Condition": {"StringLike": {"a": "b"}}}, id="of a policy"),
    ],
)
def test_intrinsic_function_is_resolved(value: str, expected: object, tmp_path: Path) -> None:
    assert resolve(value, tmp_path) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        pytest.param("!Ref Nothing", "Nothing", id="unknown name"),
        pytest.param("!GetAtt Table.StreamArn", "Table.StreamArn", id="unknown attribute"),
        pytest.param("!Sub '${Nothing}'", "Nothing", id="unknown name in a text"),
        pytest.param("!If [Nothing, 1, 2]", "Nothing", id="unknown condition"),
        pytest.param("!FindInMap [Sizes, !Ref Stage, Memory]", "Sizes, dev, Memory", id="unknown mapping"),
        pytest.param("!Cidr [a, 1, 8]", "Fn::Cidr", id="intrinsic that is not understood"),
    ],
)
def test_unsupported_form_is_refused_by_name(value: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=name):
        resolve(value, tmp_path)


def test_parameter_overrides_its_default(tmp_path: Path) -> None:
    assert resolve("!Ref Stage", tmp_path, Stage="prod") == "prod"
    with pytest.raises(TemplateError, match="no parameter Stages"):
        resolve("!Ref Stage", tmp_path, Stages="prod")


def test_parameters_reach_names_and_environments() -> None:
    template = load_template(parameters={"Stage": "prod", "UrlTtlSeconds": "1900"}, account="123456789012")
    query = template.functions["QueryTable"]
    assert query.name == "deltaic-prod-query-table"
    assert query.environment["CATALOG_TABLE"] == template.tables["Catalog"]["TableName"] == "deltaic-prod-catalog"
    assert query.environment["URL_TTL_SECONDS"] == "1900"
    assert query.environment["SIGNING_ROLE_ARN"] == "arn:aws:iam::123456789012:role/deltaic-SigningRole"
    assert template.environment.items() >= query.environment.items()
