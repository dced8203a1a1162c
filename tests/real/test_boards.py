"""Every query of every board, put to a real Prometheus that scrapes a daemon beside a busy lab.

tests/artefacts puts the same queries to worlds that are made up, where every panel can be filled.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import Lab, Load
from lab.cluster.connector_configs import DOWNSTREAM, FILE_SINK, FILE_SOURCE, MM2_SOURCE, UPSTREAM
from lab.cluster.load import TOPICS
from lab.product.alerting import Alerting
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from tests.artefacts.boards import BOARDS, EVERYTHING, queries, substituted

# Five minutes; tests/artefacts has every query over made-up worlds.
pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.proof]

FILLED_S_MAX = 300.0
# What this lab has nothing of, and why: board, panel and query.
EMPTY = {
    "nothing is wrong": {
        "connector: Guards that deny remediation A",
        "connector: Held stopped by remediation A",
        "failover: Partitions that would lose records A",
        "fleet: Findings A",
        "fleet: Findings by severity A",
        "fleet: What is wrong now A",
        "flow: Topics whose lag is not known A",
        "health: Input errors A",
        "health: Internal topics with a problem A",
        "health: Left out A",
        "health: Notifications that failed A",
        "health: Requests refused A",
        "health: Runs that failed A",
        "health: Such reads that were not made A",
        "remediation: Alerts received A",
        "remediation: Held stopped A",
        "remediation: Held stopped for A",
        "remediation: Incidents for remediation A",
        "remediation: Kill switch / pause / breakers / journal A",
        "remediation: Other requests that were refused A",
        "remediation: Plans that ended A",
        "remediation: Quarantine / backup / fence A",
        "remediation: Refusals by connector A",
        "remediation: Refusals by guard A",
    },
    "nothing was deleted, so nobody knows how fast it would be": {
        "fleet: Least time to retention A",
        "flow: Time to retention A",
        "flow: Time to the log start A",
    },
    "what is usual takes weeks to learn": {
        "connector: Age of the newest change B",
        "connector: Age of the newest commit B",
        "connector: Left to replicate and what is usual B",
        "health: Baselines not used A",
        "health: Connectors with baselines A",
        "health: Connectors with baselines B",
        "health: Connectors with baselines C",
    },
    "no connector here says when what it reads happened": {"connector: Age of what it has read A"},
    "it keeps a journal of its own": {
        "remediation: Records between replicas A",
        "remediation: Replicas that lead A",
    },
    "its listeners have no web config file": {
        "health: Web config files refused A",
        "health: Web config files refused B",
    },
}

ONE = {"connect_cluster": "lab", "source": UPSTREAM, "target": DOWNSTREAM}


@pytest.fixture(scope="module")
def prometheus(
    lab: Lab, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alerting]:
    directory = tmp_path_factory.mktemp("boards")
    with Alerting(directory=directory, scraped=product.url) as running, Load(lab, rate_per_s=20.0):
        for topic in TOPICS:
            lab.commit("west", "boards", topic, {0: 1})
        product.run_pipeline()
        yield running


def test_no_panel_is_empty_that_could_be_filled(prometheus: Alerting) -> None:
    names = {entry["connector"] for entry, _ in prometheus.series("offsetwatch_connector_info")}
    assert names >= {FILE_SOURCE, FILE_SINK, MM2_SOURCE}
    chosen = {name: [EVERYTHING] for name in BOARDS}
    chosen["connector"] = [EVERYTHING | ONE | {"connector": name} for name in sorted(names)]
    chosen["flow"] = [EVERYTHING | ONE]

    known = set[str]().union(*EMPTY.values())
    expected = {f"{name}: {title}": (name, target["expr"]) for name, title, target in queries()}
    assert known <= expected.keys()

    def probe() -> None:
        empty = [
            title
            for title, (name, expr) in expected.items()
            if title not in known
            and not any(prometheus.series(substituted(expr, one)) for one in chosen[name])
        ]
        if empty:
            raise NotYet("\n".join(empty))

    until("every panel", probe, timeout_s=FILLED_S_MAX, evidence=prometheus.evidence)
