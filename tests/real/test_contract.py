"""The contract of tests/contract on real Connect: what is told of the model is true of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lab import Lab
from tests.contract import scenarios
from tests.real.conftest import KAFKA
from tests.real.contract_site import RealSite

pytestmark = [pytest.mark.real, pytest.mark.slow]

# Most of what they do is waiting: for a commit, for a rebalance of the workers' group.
AT_ONCE = 6


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[RealSite]:
    made = RealSite(lab, KAFKA)
    yield made
    made.close()


@pytest.fixture(scope="module")
def acted(site: RealSite) -> Iterator[dict[str, Future[None]]]:
    """All scenarios, under way at the same time, each on connectors of its own."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            at.__name__: pool.submit(at, site, f"contract-{number}")
            for number, at in enumerate(scenarios.ALL)
        }


@pytest.mark.parametrize("scenario", [at.__name__ for at in scenarios.ALL])
def test_a_scenario_of_the_contract_holds_on_real_connect(acted, scenario):
    acted[scenario].result()
