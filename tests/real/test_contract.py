"""The contract of tests/contract on real Connect: what is told of the model is true of it.

`LAB_KAFKA=3.9.2` tries it on an older one, `CONTRACT_SEQUENCES=500` as many drawn sequences.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lab import Lab
from tests.contract import malformed_bodies, scenarios, scenarios_trouble, sequences
from tests.contract.clusters import ModelCluster
from tests.real.conftest import KAFKA
from tests.real.contract_cluster import LabCluster

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

# Most of what they do is waiting: for a commit, for a rebalance of the workers' group.
AT_ONCE = 8
SEQUENCES = int(os.environ.get("CONTRACT_SEQUENCES", "8"))
FIRST_SEED = int(os.environ.get("CONTRACT_SEED", "0"))
KINDS = ("mirror", "source", "sink")
SCENARIOS = {item.__name__: item for item in (*scenarios.ALL, *scenarios_trouble.ZOMBIES)}
SEEDS = range(FIRST_SEED, FIRST_SEED + SEQUENCES)

Job = Callable[[], object]


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[LabCluster]:
    built = LabCluster(lab, KAFKA)
    yield built
    built.close()


@pytest.fixture(scope="module")
def acted(cluster: LabCluster) -> Iterator[dict[object, Future[object]]]:
    """All of it, under way at the same time, each on connectors of its own. What hangs comes last:
    it keeps the worker's one thread busy for the others.
    """
    jobs: dict[object, Job] = {}
    for kind in KINDS:
        jobs[kind] = lambda kind=kind: malformed_bodies.send_bodies(cluster, kind, f"odd-{kind}")
    for name in [item.__name__ for item in scenarios.ALL]:
        jobs[name] = _scenario(cluster, name)
    for seed in SEEDS:
        jobs[seed] = lambda seed=seed: sequences.play(cluster, seed, f"drawn-{seed}", KAFKA)
    for name in [item.__name__ for item in scenarios_trouble.ZOMBIES]:
        jobs[name] = _scenario(cluster, name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {key: pool.submit(job) for key, job in jobs.items()}


def _scenario(cluster: LabCluster, name: str) -> Job:
    number = list(SCENARIOS).index(name)
    return lambda: SCENARIOS[name](cluster, f"contract-{number}")


@pytest.mark.parametrize("kind", KINDS)
def test_odd_bodies_are_answered_by_the_model_as_by_real_connect(acted, kind):
    model = malformed_bodies.send_bodies(ModelCluster(KAFKA), kind, f"odd-{kind}")
    for real, reports in zip(acted[kind].result(), model, strict=True):
        assert reports == real


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_a_scenario_of_the_contract_holds_on_real_connect(acted, scenario):
    acted[scenario].result()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_model_shows_of_a_drawn_sequence_real_connect_shows_too(acted, seed):
    acted[seed].result()
