"""What parameters add to the template is not there unless they ask for it, and is whole when they do."""

import json
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from cloudformation import transformed
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import TEMPLATE, load_template
from template_rights import BUCKETS, CHANGED, EVERYTHING, TRACES, granted

Resources = dict[str, dict[str, Any]]

ADDED = {
    "WebAcl": {"AWS::WAFv2::WebACL", "AWS::WAFv2::WebACLAssociation"},
    "GradualDeployment": {"AWS::CodeDeploy::Application", "AWS::CodeDeploy::DeploymentGroup", "AWS::IAM::Role"},
    "BackupDays": {
        *(f"AWS::Backup::Backup{kind}" for kind in ("Vault", "Plan", "Selection")),
        "AWS::IAM::Role",
    },
    "StateKey": {"AWS::IAM::Policy"},
    "Tracing": set(),
    "Dashboard": {"AWS::CloudWatch::Dashboard"},
}
DOMAIN = {name: CHANGED[name] for name in ("DomainName", "CertificateArn", "HostedZoneId")}
BUDGET = {name: CHANGED[name] for name in ("MonthlyBudget", "BudgetEmail")}


@pytest.fixture(scope="module")
def least() -> Resources:
    return transformed(parameters=BUCKETS)


@pytest.fixture(scope="module")
def most() -> Resources:
    return transformed(parameters=EVERYTHING)


def types(resources: Resources) -> set[str]:
    return {said["Type"] for said in resources.values()}


def added(least: Resources, asked: dict[str, str]) -> set[str]:
    resources = transformed(parameters={**BUCKETS, **asked})
    # A deployment of the API and a function's version are new ones when they change.
    more = resources.keys() - least.keys()
    kinds = {resources[name]["Type"] for name in more}
    return kinds - {"AWS::ApiGateway::Deployment", "AWS::Lambda::Version"}


@pytest.mark.parametrize("parameter", ADDED)
def test_a_part_is_made_when_it_is_asked_for(least: Resources, parameter: str) -> None:
    assert added(least, {parameter: CHANGED[parameter]}) == ADDED[parameter]


def test_a_domain_and_a_budget_want_two_parameters_each(least: Resources) -> None:
    domain = {"AWS::ApiGateway::DomainName", "AWS::ApiGateway::BasePathMapping"}
    assert added(least, {**DOMAIN, "HostedZoneId": ""}) == domain
    assert added(least, DOMAIN) == {*domain, "AWS::Route53::RecordSet"}
    assert added(least, {"HostedZoneId": "Z1"}) == set()
    records = transformed(parameters={**BUCKETS, **DOMAIN, "IpAddressType": "dualstack"})
    types = [one["Properties"]["Type"] for one in records.values() if one["Type"] == "AWS::Route53::RecordSet"]
    assert sorted(types) == ["A", "AAAA"]
    assert added(least, BUDGET) == {"AWS::Budgets::Budget"}
    assert added(least, {"MonthlyBudget": "50"}) == set()


def test_profiles_name_the_domain_with_the_prefix(most: Resources) -> None:
    assert load_template(parameters=DOMAIN).outputs["Endpoint"] == "https://sharing.example.com/delta-sharing"
    path = most["DomainPath"]["Properties"]
    assert (path["BasePath"], path["Stage"]) == (EVERYTHING["Prefix"], "${ApiStage}")
    said = most["Domain"]["Properties"]
    assert said["SecurityPolicy"] == most["Api"]["Properties"]["SecurityPolicy"]
    both = {"Types": ["REGIONAL"], "IpAddressType": "dualstack"}
    assert said["EndpointConfiguration"] == both == most["Api"]["Properties"]["EndpointConfiguration"]


def test_functions_that_sign_urls_know_whether_ipv6_must_reach_them(most: Resources) -> None:
    functions = {name: said["Properties"] for name, said in most.items() if said["Type"] == "AWS::Lambda::Function"}
    told = {name for name, said in functions.items() if "IP_ADDRESS_TYPE" in said["Environment"]["Variables"]}
    assert told == {"QueryTable", "GetQuery", "ListTableChanges", "SignIcebergRequest", "ListAssetFiles"}


def test_a_web_acl_of_your_own_is_used(least: Resources) -> None:
    own = "arn:aws:wafv2:us-east-1:000000000000:regional/webacl/ours/1"
    assert added(least, {"WebAcl": own}) == {"AWS::WAFv2::WebACLAssociation"}
    said = transformed(parameters={**BUCKETS, "WebAcl": own})["FirewallOfStage"]["Properties"]
    assert said["WebACLArn"] == own
    assert said["ResourceArn"] == "arn:aws:apigateway:us-east-1::/restapis/${Api}/stages/${ApiStage}"


def test_the_firewall_keeps_no_request_and_blocks_no_body_for_what_a_recipient_wrote(most: Resources) -> None:
    said = most["Firewall"]["Properties"]
    rate, common, _ = said["Rules"]
    assert {rule["VisibilityConfig"]["SampledRequestsEnabled"] for rule in [*said["Rules"], said]} == {False}
    counted = {
        override["Name"]
        for override in common["Statement"]["ManagedRuleGroupStatement"]["RuleActionOverrides"]
        if override["ActionToUse"] == {"Count": {}}
    }
    # AWS's list of the rules of AWSManagedRulesCommonRuleSet that look at a body.
    bodies = {
        *(f"{name}_BODY" for name in ("SizeRestrictions", "CrossSiteScripting", "EC2MetaDataSSRF")),
        *(f"{name}_BODY" for name in ("GenericLFI", "GenericRFI")),
    }
    assert counted >= {*bodies, "SizeRestrictions_QUERYSTRING"}
    assert rate["Statement"]["RateBasedStatement"]["Limit"] == CHANGED["RequestsPerAddress"]
    [answer] = said["CustomResponseBodies"].values()
    assert json.loads(answer["Content"])["errorCode"] == "RESOURCE_EXHAUSTED"


def test_a_new_version_is_taken_back_when_recipients_suffer(most: Resources) -> None:
    groups = {name: said for name, said in most.items() if said["Type"] == "AWS::CodeDeploy::DeploymentGroup"}
    functions = {name for name, said in most.items() if said["Type"] == "AWS::Lambda::Function"}
    assert set(groups) == {f"{name}DeploymentGroup" for name in functions}
    alarms = {"ServerErrorsAlarm", "BrokenStreamsAlarm", "AuthorizerFailuresAlarm"}
    for said in groups.values():
        watched = {alarm["Name"] for alarm in said["Properties"]["AlarmConfiguration"]["Alarms"]}
        assert watched == {f"${{{name}}}" for name in alarms}
        assert said["Properties"]["AutoRollbackConfiguration"]["Enabled"] is True
    # An alarm that named an alias or the API would close a circle: they wait for the groups.
    assert not [name for name in alarms if "live" in json.dumps(most[name]) or "${Api" in json.dumps(most[name])]
    for name in functions:
        assert "UpdatePolicy" in most[f"{name}Aliaslive"]


def test_one_key_encrypts_all_state_and_who_reads_it_may_use_it_there_only(most: Resources) -> None:
    key = EVERYTHING["StateKey"]
    for table in ("Catalog", "Tokens"):
        said = most[table]["Properties"]["SSESpecification"]
        assert said == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": key}
    kinds = {"AWS::Logs::LogGroup", "AWS::SecretsManager::Secret"}
    assert {said["Properties"].get("KmsKeyId") for said in most.values() if said["Type"] in kinds} == {key}
    functions = {name for name, said in most.items() if said["Type"] == "AWS::Lambda::Function"}
    allowed = {name for name in functions if ("kms:Decrypt", key) in granted(most, name)}
    without = {"ExplorePage", "GetContract", "Preflight", "SubmitJob"}  # read neither table nor the token key
    missing = functions - allowed - without
    assert not missing, f"add the roles of these functions to Roles of UseStateKey in template.yaml: {missing}"
    assert functions - allowed == without, "a function that reads no state has its role in UseStateKey"
    [statement] = most["UseStateKey"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Condition"]["StringEquals"]["kms:ViaService"] == [
        f"{service}.us-east-1.amazonaws.com" for service in ("dynamodb", "secretsmanager")
    ]


def test_functions_may_write_traces_when_they_do(least: Resources, most: Resources) -> None:
    for resources, traced in ((least, False), (most, True)):
        for name, said in resources.items():
            if said["Type"] == "AWS::Lambda::Function":
                assert (said["Properties"].get("TracingConfig") == {"Mode": "Active"}) is traced
                assert (TRACES in resources[f"{name}Role"]["Properties"]["ManagedPolicyArns"]) is traced
        assert resources["ApiStage"]["Properties"].get("TracingEnabled", False) is traced


def test_the_dashboard_draws_metrics_that_exist(most: Resources) -> None:
    board = json.loads(most["RequestsDashboard"]["Properties"]["DashboardBody"])
    text = json.dumps(board)
    assert {widget["type"] for widget in board["widgets"]} == {"metric", "log"}
    for alarm in ("BrokenStreamsAlarm", "LatencyAlarm", "ServerErrorsAlarm"):
        said = most[alarm]["Properties"]
        assert f'"{said["MetricName"]}"' in text
        assert all(dimension["Value"] in text for dimension in said["Dimensions"])


def test_the_budget_counts_this_stack_and_tells_before_it_is_spent(most: Resources) -> None:
    said = most["CostBudget"]["Properties"]
    assert said["Budget"]["CostFilters"] == {"TagKeyValue": ["aws:cloudformation:stack-name$deltaic"]}
    assert said["Budget"]["BudgetLimit"] == {"Amount": EVERYTHING["MonthlyBudget"], "Unit": "USD"}
    told = {
        (one["Notification"]["NotificationType"], one["Notification"]["Threshold"], one["Subscribers"][0]["Address"])
        for one in said["NotificationsWithSubscribers"]
    }
    assert told == {("ACTUAL", 80, EVERYTHING["BudgetEmail"]), ("FORECASTED", 100, EVERYTHING["BudgetEmail"])}


def test_no_resource_has_tags_of_its_own_beside_those_of_the_deployment(most: Resources) -> None:
    """CloudFormation puts a stack's tags (samconfig.toml) on its resources."""
    for name, said in most.items():
        tagging = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", said["Type"]).schema.get("tagging", {})
        found = said["Properties"].get(tagging.get("tagProperty", "/properties/Tags").rpartition("/")[2], {})
        tags = found if isinstance(found, dict) else {tag["Key"]: tag["Value"] for tag in found}
        assert set(tags) <= {"lambda:createdBy"}, name  # which SAM adds


def test_every_parameter_has_its_place_in_the_console() -> None:
    document = read(TEMPLATE)
    groups = document["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    placed = [name for group in groups for name in group["Parameters"]]
    assert sorted(placed) == sorted(document["Parameters"])
