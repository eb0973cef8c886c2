"""Test the optional parts of the template: absent by default, and complete if enabled."""

import json
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from cloudformation import transformed
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import TEMPLATE, load_template
from template_rights import BUCKETS, CHANGED, EVERYTHING, TRACES, configured, granted, published

pytestmark = pytest.mark.slow

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
OPTIONAL = {
    "Checkpoints": "CheckpointTables",
    "Follow": "FollowTables",
    "Notices": "SendNotices",
    "SparkJobs": "SubmitJob",
}
"""The parameters that create functions besides those of requests."""
WITH_FUNCTIONS = {**BUCKETS, **{name: CHANGED[name] for name in OPTIONAL}, "NoticesWebhook": "https://hooks.example/1"}
OTHER_VALUES = CHANGED | {"Checkpoints": "disabled", "Follow": "disabled", "Notices": "30", "SparkJobs": "00abc123"}
BUDGET = {name: CHANGED[name] for name in ("MonthlyBudget", "BudgetEmail")}


@pytest.fixture(scope="module")
def least() -> Resources:
    return transformed(parameters=BUCKETS)


@pytest.fixture(scope="module")
def most() -> Resources:
    return transformed(parameters=EVERYTHING)


@pytest.fixture(scope="module")
def with_functions() -> Resources:
    return transformed(parameters=WITH_FUNCTIONS)


def types(resources: Resources) -> set[str]:
    return {resource["Type"] for resource in resources.values()}


def added(least: Resources, parameters: dict[str, str]) -> set[str]:
    resources = transformed(parameters={**BUCKETS, **parameters})
    # Changed deployments of the API and versions of functions have new names.
    names = resources.keys() - least.keys()
    kinds = {resources[name]["Type"] for name in names}
    return kinds - {"AWS::ApiGateway::Deployment", "AWS::Lambda::Version"}


@pytest.mark.parametrize("parameter", ADDED)
def test_optional_part_is_created_if_enabled(least: Resources, parameter: str) -> None:
    assert added(least, {parameter: CHANGED[parameter]}) == ADDED[parameter]


@pytest.mark.parametrize("parameter", CHANGED)
def test_changed_parameter_publishes_the_optional_functions_that_it_changes(
    with_functions: Resources, parameter: str
) -> None:
    other = transformed(parameters={**WITH_FUNCTIONS, parameter: OTHER_VALUES[parameter]})
    for function in OPTIONAL.values():
        if function in other:
            changed = configured(other, function) != configured(with_functions, function)
            assert (published(other)[function] != published(with_functions)[function]) == changed, function
    absent = {name for name, function in OPTIONAL.items() if function not in other}
    assert absent == ({parameter} & {"Checkpoints", "Follow"})


def test_domain_and_budget_need_two_parameters_each(least: Resources) -> None:
    domain = {"AWS::ApiGateway::DomainName", "AWS::ApiGateway::BasePathMapping"}
    assert added(least, {**DOMAIN, "HostedZoneId": ""}) == domain
    assert added(least, DOMAIN) == {*domain, "AWS::Route53::RecordSet"}
    assert added(least, {"HostedZoneId": "Z1"}) == set()
    records = transformed(parameters={**BUCKETS, **DOMAIN, "IpAddressType": "dualstack"})
    types = [record["Properties"]["Type"] for record in records.values() if record["Type"] == "AWS::Route53::RecordSet"]
    assert sorted(types) == ["A", "AAAA"]
    assert added(least, BUDGET) == {"AWS::Budgets::Budget"}
    assert added(least, {"MonthlyBudget": "50"}) == set()


def test_endpoint_is_the_domain_with_the_prefix(most: Resources) -> None:
    assert load_template(parameters=DOMAIN).outputs["Endpoint"] == "https://sharing.example.com/delta-sharing"
    path = most["DomainPath"]["Properties"]
    assert (path["BasePath"], path["Stage"]) == (EVERYTHING["Prefix"], "${ApiStage}")
    properties = most["Domain"]["Properties"]
    assert properties["SecurityPolicy"] == most["Api"]["Properties"]["SecurityPolicy"]
    endpoint = {"Types": ["REGIONAL"], "IpAddressType": "dualstack"}
    assert properties["EndpointConfiguration"] == endpoint == most["Api"]["Properties"]["EndpointConfiguration"]


def test_signing_functions_have_the_ip_address_type(most: Resources) -> None:
    functions = {
        name: definition["Properties"]
        for name, definition in most.items()
        if definition["Type"] == "AWS::Lambda::Function"
    }
    with_setting = {
        name for name, definition in functions.items() if "IP_ADDRESS_TYPE" in definition["Environment"]["Variables"]
    }
    assert with_setting == {"QueryTable", "GetQuery", "ListTableChanges", "SignIcebergRequest", "ListAssetFiles"}


def test_given_web_acl_is_used(least: Resources) -> None:
    arn = "arn:aws:wafv2:us-east-1:000000000000:regional/webacl/ours/1"
    assert added(least, {"WebAcl": arn}) == {"AWS::WAFv2::WebACLAssociation"}
    properties = transformed(parameters={**BUCKETS, "WebAcl": arn})["FirewallOfStage"]["Properties"]
    assert properties["WebACLArn"] == arn
    assert properties["ResourceArn"] == "arn:aws:apigateway:us-east-1::/restapis/${Api}/stages/${ApiStage}"


def test_firewall_samples_no_requests_and_blocks_no_bodies(most: Resources) -> None:
    properties = most["Firewall"]["Properties"]
    rate, common, _ = properties["Rules"]
    assert {rule["VisibilityConfig"]["SampledRequestsEnabled"] for rule in [*properties["Rules"], properties]} == {
        False
    }
    counted = {
        override["Name"]
        for override in common["Statement"]["ManagedRuleGroupStatement"]["RuleActionOverrides"]
        if override["ActionToUse"] == {"Count": {}}
    }
    # Rules of AWSManagedRulesCommonRuleSet that inspect the body.
    bodies = {
        *(f"{name}_BODY" for name in ("SizeRestrictions", "CrossSiteScripting", "EC2MetaDataSSRF")),
        *(f"{name}_BODY" for name in ("GenericLFI", "GenericRFI")),
    }
    assert counted >= {*bodies, "SizeRestrictions_QUERYSTRING"}
    assert rate["Statement"]["RateBasedStatement"]["Limit"] == CHANGED["RequestsPerAddress"]
    [answer] = properties["CustomResponseBodies"].values()
    assert json.loads(answer["Content"])["errorCode"] == "RESOURCE_EXHAUSTED"


def test_new_version_is_rolled_back_on_alarms(most: Resources) -> None:
    groups = {
        name: resource for name, resource in most.items() if resource["Type"] == "AWS::CodeDeploy::DeploymentGroup"
    }
    functions = {name for name, resource in most.items() if resource["Type"] == "AWS::Lambda::Function"}
    assert set(groups) == {f"{name}DeploymentGroup" for name in functions}
    alarms = {"ServerErrorsAlarm", "BrokenStreamsAlarm", "AuthorizerFailuresAlarm"}
    for resource in groups.values():
        watched = {alarm["Name"] for alarm in resource["Properties"]["AlarmConfiguration"]["Alarms"]}
        assert watched == {f"${{{name}}}" for name in alarms}
        assert resource["Properties"]["AutoRollbackConfiguration"]["Enabled"] is True
    # Alarms must not reference an alias or the API, which depend on the deployment groups.
    assert not [name for name in alarms if "live" in json.dumps(most[name]) or "${Api" in json.dumps(most[name])]
    for name in functions:
        assert "UpdatePolicy" in most[f"{name}Aliaslive"]


def test_state_key_encrypts_all_state_and_only_its_readers_use_it(most: Resources) -> None:
    key = EVERYTHING["StateKey"]
    for table in ("Catalog", "Tokens"):
        definition = most[table]["Properties"]["SSESpecification"]
        assert definition == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": key}
    kinds = {"AWS::Logs::LogGroup", "AWS::SecretsManager::Secret"}
    assert {
        definition["Properties"].get("KmsKeyId") for definition in most.values() if definition["Type"] in kinds
    } == {key}
    functions = {name for name, definition in most.items() if definition["Type"] == "AWS::Lambda::Function"}
    allowed = {name for name in functions if ("kms:Decrypt", key) in granted(most, name)}
    without = {"ExplorePage", "GetContract", "Preflight", "SubmitJob"}  # these read no table and no token key
    missing = functions - allowed - without
    assert not missing, f"add the roles of these functions to Roles of UseStateKey in template.yaml: {missing}"
    assert functions - allowed == without, "remove the roles of these functions from UseStateKey: they read no state"
    [statement] = most["UseStateKey"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Condition"]["StringEquals"]["kms:ViaService"] == [
        f"{service}.us-east-1.amazonaws.com" for service in ("dynamodb", "secretsmanager")
    ]


def test_traced_functions_may_write_traces(least: Resources, most: Resources) -> None:
    for resources, traced in ((least, False), (most, True)):
        for name, resource in resources.items():
            if resource["Type"] == "AWS::Lambda::Function":
                assert (resource["Properties"].get("TracingConfig") == {"Mode": "Active"}) is traced
                assert (TRACES in resources[f"{name}Role"]["Properties"]["ManagedPolicyArns"]) is traced
        assert resources["ApiStage"]["Properties"].get("TracingEnabled", False) is traced


def test_dashboard_has_existing_metrics(most: Resources) -> None:
    board = json.loads(most["RequestsDashboard"]["Properties"]["DashboardBody"])
    text = json.dumps(board)
    assert {widget["type"] for widget in board["widgets"]} == {"metric", "log"}
    for alarm in ("BrokenStreamsAlarm", "LatencyAlarm", "ServerErrorsAlarm"):
        properties = most[alarm]["Properties"]
        assert f'"{properties["MetricName"]}"' in text
        assert all(dimension["Value"] in text for dimension in properties["Dimensions"])


def test_budget_covers_this_stack_and_notifies_early(most: Resources) -> None:
    properties = most["CostBudget"]["Properties"]
    assert properties["Budget"]["CostFilters"] == {"TagKeyValue": ["aws:cloudformation:stack-name$deltaic"]}
    assert properties["Budget"]["BudgetLimit"] == {"Amount": EVERYTHING["MonthlyBudget"], "Unit": "USD"}
    notifications = {
        (
            entry["Notification"]["NotificationType"],
            entry["Notification"]["Threshold"],
            entry["Subscribers"][0]["Address"],
        )
        for entry in properties["NotificationsWithSubscribers"]
    }
    assert notifications == {("ACTUAL", 80, EVERYTHING["BudgetEmail"]), ("FORECASTED", 100, EVERYTHING["BudgetEmail"])}


def test_resources_have_no_other_tags_than_the_deployment(most: Resources) -> None:
    """Test that tags are only set by the deployment (samconfig.toml)."""
    for name, resource in most.items():
        tagging = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource["Type"]).schema.get("tagging", {})
        tag_values = resource["Properties"].get(tagging.get("tagProperty", "/properties/Tags").rpartition("/")[2], {})
        tags = tag_values if isinstance(tag_values, dict) else {tag["Key"]: tag["Value"] for tag in tag_values}
        assert set(tags) <= {"lambda:createdBy"}, name  # SAM adds it


def test_every_parameter_is_in_a_group_of_the_console() -> None:
    document = read(TEMPLATE)
    groups = document["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    grouped = [name for group in groups for name in group["Parameters"]]
    assert sorted(grouped) == sorted(document["Parameters"])
