"""The profiles of samconfig.toml fit the template and name nobody's account."""

import re
from typing import Any

import pytest
from cloudformation import transformed
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import ROOT, TEMPLATE
from samcli.lib.config.samconfig import SamConfig

PROFILES = ("dev", "prod", "prove")


def profile(name: str) -> dict[str, Any]:
    """Return the profile as SAM reads it."""
    settings: dict[str, Any] = SamConfig(str(ROOT)).get_all(["deploy"], "parameters", name)
    return settings


def overrides(name: str) -> dict[str, str]:
    return dict(item.split("=", 1) for item in profile(name)["parameter_overrides"].split())


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_has_its_own_stage_and_valid_parameters(name: str) -> None:
    declared, values = read(TEMPLATE)["Parameters"], overrides(name)
    assert values["Stage"] == name
    assert profile(name)["stack_name"] == f"deltaic-{name}"
    assert profile(name)["capabilities"] == "CAPABILITY_IAM"
    assert profile(name)["tags"] == f"Application=deltaic Stage={name}"
    for parameter, value in values.items():
        allowed = declared[parameter].get("AllowedValues")
        assert allowed is None or value in map(str, allowed), parameter
    # The provider must set the only parameter without a default.
    assert {parameter for parameter, definition in declared.items() if "Default" not in definition} - set(values) == {
        "DataBuckets"
    }
    assert transformed(parameters={**values, "DataBuckets": "arn:aws:s3:::lake"})


def test_stacks_that_recipients_use_are_protected() -> None:
    assert overrides("prod").get("DeletionProtection", "enabled") == "enabled"
    assert int(overrides("prod")["BackupDays"]) > 35
    assert profile("prod")["confirm_changeset"] is True


def test_the_configuration_contains_no_bucket_account_or_region() -> None:
    text = (ROOT / "samconfig.toml").read_text()
    assert not re.search(r"\d{12}|arn:|s3_bucket|region|role", text)
