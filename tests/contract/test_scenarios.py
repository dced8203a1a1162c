"""The scenarios of the contract, on the model."""

from __future__ import annotations

import pytest

from tests.contract import scenarios, scenarios_trouble
from tests.contract.clusters import ModelCluster


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "scenario", [*scenarios.ALL, *scenarios_trouble.ZOMBIES], ids=lambda item: item.__name__
)
def test_a_scenario_holds_on_the_model(scenario, version, workers):
    scenario(ModelCluster(version, workers=workers), "at-hand")
