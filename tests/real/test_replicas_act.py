"""Two whole daemons on real Connect that share a journal, one record that a sink cannot read, and a
leader that stands still in the midst of the plan to skip it: the other one finishes, and the one
that wakes does nothing any more.

The moment is made, not met: a request is held on its way to the worker until the process that made
it stands still. So its intent is in the journal, and its answer comes to somebody who does not lead
any more. Each moment has the whole list of requests, of either daemon. One that takes over and does
not wait for what may yet come asks for the offset twice, or leaves the sink stopped; one that goes
on when it wakes stops the sink again, and never says that it follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from lab.demo.poison import await_failure
from lab.faults.recording_proxy import DelayedRequest, Exchange
from lab.kills.operators import BEHIND
from lab.product.remediating_daemon import Guarded, Json, brief
from lab.stories import cluster_actions, poison, sinks
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import NotYet, until
from offsetwatch.remedy.journal.journal import ChainLine, Journal
from tests.real.daemon_series import becomes, total
from tests.real.remediable_failures import knows, list_quarantined
from tests.real.remediation_stories import QUARANTINE, SKIP, list_requests

# A lab, and for each moment two minutes in which a request without an answer is waited for.
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

WAIT_S = 420.0
LINES_MAX = 10_000
NAMES = ("a", "b")
STOP, ALTER, RESUME = SKIP
# All moments have one connector, as a third that fails alike would be no accident; so of that one
# more is skipped than an hour allows.
BUDGETS = dict.fromkeys(
    ("connector_hour", "connector_day", "connector_week", "fleet_hour", "fleet_day"), 1000
)


@dataclass(frozen=True)
class Moment:
    """When the leader stands still, and all that is asked of Connect from its plan's beginning.

    request     it is on its way; it reaches the worker while the other one waits whether it does
    late        or when that has waited for long enough, and has finished
    frozen      what the leader asked for, the held request last
    other       what the one asked for that took over
    status      the worker's answer to the held request
    endings     of the plans, one after the other; each was approved
    """

    request: str
    frozen: list[str]
    other: list[str]
    endings: list[str]
    status: int
    late: bool = False


MOMENTS = [
    pytest.param(
        Moment(ALTER, [STOP, ALTER], [RESUME], ["succeeded"], status=200),
        id="the-offset-is-set-while-the-other-one-waits",
    ),
    pytest.param(
        Moment(STOP, [STOP], [RESUME, *SKIP], ["restored", "succeeded"], status=204),
        id="the-sink-is-stopped-while-the-other-one-waits",
        marks=pytest.mark.proof,
    ),
    pytest.param(
        Moment(ALTER, [STOP, ALTER], [ALTER, RESUME], ["succeeded"], status=400, late=True),
        id="the-offset-is-to-be-set-when-all-is-over",
        marks=pytest.mark.proof,
    ),
]


@dataclass
class ReplicatedDaemons:
    """What all moments share; whoever comes second finds what the first has left."""

    lab: Lab
    daemons: tuple[Guarded, Guarded]
    sink: Sink
    good: int = BEHIND
    bad: list[int] = field(default_factory=list)

    def ordered(self) -> tuple[Guarded, Guarded]:
        """Who leads, and who follows."""

        def probe() -> tuple[Guarded, Guarded]:
            a, b = self.daemons
            leads = [total(daemon.product, "remediation_leader") for daemon in self.daemons]
            if sorted(lead or 0.0 for lead in leads) != [0.0, 1.0]:
                raise NotYet(str(leads))
            return (a, b) if leads[0] else (b, a)

        return until("one leader and one that follows", probe, timeout_s=WAIT_S)

    def feed(self, count: int) -> list[str]:
        """The next good records, to be produced."""
        self.good += count
        return poison.good(self.good - count, count)

    def spoil(self) -> int:
        """A record that cannot be read, and good ones behind it; it has failed there, and failed
        again. Where it is.
        """
        cluster_actions.produce_texts(self.lab.east, self.sink.topic, self.feed(BEHIND))
        for daemon in self.daemons:
            knows(daemon, self.sink)
        self.bad.append(poison.one_bad(self.sink, after=self.feed(3), observed=self.await_failure))
        return self.bad[-1]

    def await_failure(self) -> None:
        """By both, as either may lead."""
        for daemon in self.daemons:
            await_failure(daemon.product, self.sink.connector)

    def written(self) -> set[str]:
        """What the sink has written once it has taken all."""
        sinks.await_commits(self.sink)
        return set(self.sink.path.read_text().splitlines())


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedDaemons]:
    with ExitStack() as stack:
        options = LabOptions(offset_flush_interval_ms=1000, connectors=False)
        lab = stack.enter_context(Lab(options))
        sink = sinks.begin(Sink(lab, "frozen"), records=BEHIND)
        a, b = (build_daemon(lab, tmp_path_factory.mktemp(name), name, sink) for name in NAMES)
        a.cli("journal", "create")
        for daemon in (a, b):
            stack.callback(daemon.stop)
            daemon.start()
        yield ReplicatedDaemons(lab, (a, b), sink)


def build_daemon(lab: Lab, directory: Path, name: str, sink: Sink) -> Guarded:
    journal = {
        "kafka": "east",
        "replication_factor": 1,
        "min_insync_replicas": 1,
        "name": name,
        "session_timeout_s": 10,
    }
    remedy = {
        "mode": "propose",
        "quarantine": QUARANTINE,
        "stop_on": [],
        "budgets": BUDGETS,
        "journal": journal,
    }
    return Guarded(
        lab, directory=directory, connectors=[sink.connector], remedy=remedy, interval_s=3.0
    )


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_leader_that_stood_still_in_a_plan_does_nothing_when_another_has_finished_it(
    daemons: ReplicatedDaemons, moment: Moment
) -> None:
    sink, name = daemons.sink, daemons.sink.connector
    leader, other = daemons.ordered()
    since = len(lines(leader))
    done = {daemon: len(daemon.changes(name)) for daemon in (leader, other)}
    offset = daemons.spoil()

    plan = leader.proposed(name, "skip_one")
    method, path = moment.request.split()
    held = leader.recorder.hold(method, f"/connectors/{re.escape(name)}{path}")
    leader.approve(plan)
    comes(held, leader, name)
    leader.product.freeze_daemon()
    try:
        if not moment.late:
            waits(other, name)
            held.go.set()
        endings = [ending(other, plan)]
        while len(endings) < len(moment.endings):
            plan = other.proposed(name, "skip_one", after=plan["plan_id"])
            other.approve(plan)
            endings.append(ending(other, plan))
        held.go.set()
        until("an answer to what was held", lambda: answered(leader, moment), timeout_s=WAIT_S)
    finally:
        held.go.set()  # nobody waits for it any more
        leader.product.wake_daemon()
    lets_go(leader, other)

    # It still runs, with both daemons awake.
    cluster_actions.produce_texts(daemons.lab.east, sink.topic, daemons.feed(5))
    assert daemons.written() == {poison.line(value) for value in poison.good(0, daemons.good)}
    assert endings == moment.endings
    changes = {daemon: daemon.changes(name)[done[daemon] :] for daemon in (leader, other)}
    assert list_requests(changes[leader]) == moment.frozen
    assert list_requests(changes[other]) == moment.other
    assert changes[leader][-1].status == moment.status
    (altered,) = [
        change for daemon in changes for change in changes[daemon] if sets_an_offset(change)
    ]
    (pair,) = json.loads(altered.body)["offsets"]
    assert pair["offset"] == {"kafka_offset": offset + 1}

    retained = {row["offset"]: row["id"] for row in list_quarantined(other, name)}
    assert sorted(retained) == daemons.bad
    assert other.cli("quarantine", "get", retained[offset], "--raw") == NOT_JSON
    kinds = [json.loads(bytes(line.record))["record"] for line in lines(other)[since:]]
    assert kinds.count("led") == 1
    for daemon in (leader, other):
        daemon.cli("journal", "verify")  # or it ends


def comes(held: DelayedRequest, leader: Guarded, connector: str) -> None:
    """Wait until the request is on its way."""

    def probe() -> None:
        if not held.come.is_set():
            raise NotYet("; ".join(map(brief, leader.of(connector)[-6:])))

    until("the request", probe, timeout_s=WAIT_S, evidence=leader.product.evidence)


def waits(daemon: Guarded, connector: str) -> None:
    """Wait until a daemon that has followed so far has looked at the connector, and once more."""
    path = f"/connectors/{connector}/tasks"
    before = [exchange for exchange in daemon.recorder.exchanges() if exchange.path == path]

    def probe() -> None:
        exchanges = [exchange for exchange in daemon.recorder.exchanges() if exchange.path == path]
        if len(exchanges) < len(before) + 2:
            raise NotYet(f"{len(exchanges) - len(before)} looks")

    until("a second look", probe, timeout_s=WAIT_S, evidence=daemon.product.evidence)


def ending(daemon: Guarded, plan: Json) -> str:
    """How a plan ended, once it has."""

    def probe() -> str:
        journals = [entry for entry in daemon.journal() if entry["plan_id"] == plan["plan_id"]]
        if journals[-1]["record"] != "ended":
            raise NotYet("; ".join(map(brief, journals[-6:])))
        return str(journals[-1]["ending"])

    what = f"the end of {plan['plan_id']}"
    return until(what, probe, timeout_s=WAIT_S, evidence=daemon.product.evidence)


def answered(leader: Guarded, moment: Moment) -> None:
    last = list_requests(leader.recorder.changes())[-1:]
    if last != [moment.request]:
        raise NotYet(str(last))


def lets_go(leader: Guarded, other: Guarded) -> None:
    """Wait until the one that woke follows: its thread that acts has let go of the plan, and what
    it has of the journal is what the other one has.
    """
    becomes(leader.product, 0.0, "remediation_leader")
    becomes(leader.product, None, "remediation_mode")
    becomes(other.product, 1.0, "remediation_leader")

    def probe() -> None:
        own, theirs = lines(leader), lines(other)
        if own != theirs:
            raise NotYet(f"{len(own)} records, and the other one has {len(theirs)}")

    until("the same journals", probe, timeout_s=WAIT_S, evidence=leader.product.evidence)


def lines(daemon: Guarded) -> tuple[ChainLine, ...]:
    with closing(Journal(daemon.product.state)) as journal:
        return journal.lines(1, LINES_MAX)


def sets_an_offset(exchange: Exchange) -> bool:
    return exchange.method == "PATCH" and exchange.status == 200
