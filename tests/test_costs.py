"""The page of costs is what the script prints, and its sums hold."""

import pytest
from deltaic_ops.deploy import costs
from deltaic_ops.deploy.template import ROOT


def test_the_page_is_what_the_script_prints() -> None:
    assert (ROOT / "infra" / "costs.md").read_text() == costs.page(), (
        "run `python -m deltaic_ops.deploy.costs > infra/costs.md`"
    )


def test_snapshots_of_all_functions_are_kept_for_a_month() -> None:
    # By hand: eight functions of 512 MB, two of 1,024 and three of 1,769, 730 hours.
    gigabytes = 8 * 0.5 + 2 * 1 + 3 * 1769 / 1024
    kept, _, _ = costs.snapstart()
    assert kept == pytest.approx(gigabytes * 2_628_000 * 0.0000015046)


def test_an_idle_stack_costs_its_alarms_and_its_secret() -> None:
    idle = {what: amounts[0] for what, amounts in costs.costs().items()}
    assert idle.pop("alarms, the secret") == pytest.approx(11 * 0.10 + 0.40)
    assert set(idle.values()) == {0}


def test_a_terabyte_costs_its_way_to_the_internet() -> None:
    assert sum(amounts[2] for amounts in costs.costs().values()) == pytest.approx(1000 * 0.09 + 7812.5 / 1000 * 0.0004)
