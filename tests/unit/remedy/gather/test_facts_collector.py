"""How far the offsets topic is read, while others go on writing to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from offsetwatch.config import Connect
from offsetwatch.config.schema.root import Strimzi
from offsetwatch.errors import NotFound
from offsetwatch.model.observations import InputId
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic
from offsetwatch.remedy.gather.facts_collector import TAIL_S_MAX, FactsCollector, TimeSources
from offsetwatch.remedy.gather.live_queries import Brokers, ConnectClient
from offsetwatch.remedy.gather.snapshot_queries import LiveConnectorState, RemediationCase
from offsetwatch.remedy.locate.search import IdentifiedRecord
from offsetwatch.remedy.model import fleet_state
from offsetwatch.remedy.model.facts import PoisonSignal
from offsetwatch.remedy.model.incidents import Incident, IncidentKind
from offsetwatch.remedy.model.journal_records import IncidentDetected
from offsetwatch.remedy.model.plan import Action, PartitionOffset, RecordLocation
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    InputView,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourceEndView,
    SourcePartitionView,
    TailView,
)
from tests.fakes.clock import VirtualClock

OFFSETS = KafkaTopic("east", "connect-offsets")
OF = '{"cluster":"east","partition":0,"topic":"orders"}'
POISON = RecordLocation("east", "orders", "topic-1", 0, 7)
SKIP = IdentifiedRecord(
    POISON,
    PartitionOffset(OF, '{"offset":6}'),
    PartitionOffset(OF, '{"offset":7}'),
    "size",
    "0" * 64,
    9,
)
SINKS = IdentifiedRecord(
    POISON,
    PartitionOffset(OF, '{"kafka_offset":7}'),
    PartitionOffset(OF, '{"kafka_offset":8}'),
    "size",
    "0" * 64,
    9,
)
PIPES = Strimzi(namespace="kafka", name="pipes")
CASE = RemediationCase("lab", "mirror", Action.SKIP_ONE, identified=SKIP, altering=True)


class Ends:
    """All that answers is where the offsets topic ends."""

    def ends(self, kafka: str, topic: str) -> Mapping[int, int]:
        assert (kafka, topic) == ("east", "connect-offsets")
        return {0: 10, 1: 5}

    def __getattr__(self, name: str) -> Any:
        return unanswered


class UnreachableInputs:
    server_time = None

    def __getattr__(self, name: str) -> Any:
        return unanswered


def unanswered(*_: object, **__: object) -> None:
    raise NotFound("lab", "answer")


def read_to(
    *positions: int, committed_at: float | None = None, read_at: float | None = None
) -> Snapshot:
    tail = TailView(OFFSETS, True, 0, 0, 0, 0, tuple(enumerate(positions)))
    topology = replace(EMPTY_SNAPSHOT.topology, offsets_topics=(OffsetsTopic("lab", OFFSETS),))
    view = InputView(
        InputId("offsets", kafka="east", topic="connect-offsets"), True, True, None, (), None, tail
    )
    source = SourcePartitionView(
        "lab", "mirror", OF, OF, "mirror", None, 0, 9, committed_at, committed_at, 1, 1, 0, 0, 0
    )
    source = msgspec.structs.replace(source, read_at=read_at)
    return replace(EMPTY_SNAPSHOT, topology=topology, inputs=(view,), source_partitions=(source,))


class Looker:
    """Has one look at how far is read after the other, as time goes by; the last one stays."""

    def __init__(self, polls: Iterator[Snapshot]) -> None:
        self.clock, self.more, self._now = VirtualClock(), polls, next(polls)
        self.fleet = fleet_state.FleetState()
        self.gatherer = FactsCollector(
            client_of=cast(Any, lambda _: UnreachableInputs()),
            brokers=cast(Brokers, Ends()),
            snapshot=lambda: self._now,
            fleet=self.fleet,
            policy=Policy(),
            state_dir=Path(),
            time=TimeSources(self.clock, self.clock, self.pause),
            find_resource_problem=no_problem,
        )

    def pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._now = next(self.more, self._now)

    def count_unread(self, case: RemediationCase) -> int | None:
        return self.gatherer._count_unread(case)


def test_before_offsets_are_set_it_waits_for_what_others_wrote_just_now():
    looker = Looker(iter([read_to(9, 5), read_to(10, 4), read_to(10, 5)]))
    assert looker.count_unread(CASE) == 0


def test_it_waits_for_so_long_and_no_longer():
    looker = Looker(iter([read_to(9, 5)]))
    began = looker.clock.now()
    assert looker.count_unread(CASE) == 1
    assert TAIL_S_MAX <= looker.clock.now() - began < TAIL_S_MAX + 1


def test_where_nothing_is_stopped_yet_nothing_is_waited_for():
    looker = Looker(iter([read_to(8, 5), read_to(10, 5)]))
    assert looker.count_unread(replace(CASE, altering=False)) == 2


def test_a_tail_that_is_not_there_is_not_known():
    assert Looker(iter([replace(read_to(), inputs=())])).count_unread(CASE) is None


def test_how_far_the_topic_is_read_does_not_matter_to_a_sink():
    assert Looker(iter([read_to(8, 5)])).count_unread(replace(CASE, identified=SINKS)) == 0


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_what_is_committed_while_it_waits_counts_by_our_clock(skew_s):
    looker = Looker(iter([read_to(8, 5, committed_at=0.0, read_at=0.0)]))
    began = looker.clock.now()
    committed = read_to(10, 5, committed_at=began + skew_s, read_at=began)
    looker.more = iter([read_to(9, 5), committed])
    assert looker.gatherer.gather(CASE).offsets.quiet_s == pytest.approx(looker.clock.now() - began)


INCIDENT = Incident("key", IncidentKind.FROZEN, "lab", "files", "found", "said", 1.0)
FOUND = RemediationCase(
    "lab", "files", Action.SKIP_ONE, incident=INCIDENT, identified=SINKS, failure=None
)


def lag_at(lag: int | None, committed: int = 7) -> Snapshot:
    end = None if lag is None else committed + lag
    view = SinkPartitionView("lab", "files", "orders", 0, committed, end, lag)
    return replace(EMPTY_SNAPSHOT, sink_partitions=(view,))


def mirror_lag_at(lag: int) -> Snapshot:
    view = MirrorPartitionView(
        *("lab", "files", "east", "west", "orders", 0), 6, None, None, 6, 0, 7 + lag, lag, 0, 6
    )
    return replace(EMPTY_SNAPSHOT, mirror_partitions=(view,))


def source_lag_at(lag: int) -> Snapshot:
    source = SourcePartitionView(
        "lab", "files", OF, OF, "files", None, 0, 9, None, None, 1, 1, 0, 0, 0
    )
    end = SourceEndView("lab", "files", OF, OF, "db", "sql", 1.0, position=7, lag=lag)
    return replace(EMPTY_SNAPSHOT, source_partitions=(source,), source_ends=(end,))


@pytest.mark.parametrize(
    ("first", "later", "growing"),
    [
        pytest.param(lag_at(1), lag_at(2), True, id="sink"),
        pytest.param(mirror_lag_at(1), mirror_lag_at(2), True, id="mirror"),
        pytest.param(source_lag_at(1), source_lag_at(2), True, id="source"),
        pytest.param(lag_at(2), lag_at(2), False, id="nothing arrived"),
        pytest.param(lag_at(1), lag_at(2, committed=6), False, id="set back"),
        pytest.param(lag_at(None), lag_at(2), False, id="unknown at first"),
        pytest.param(lag_at(1), lag_at(None), False, id="unknown later"),
    ],
)
def test_a_record_that_arrives_after_the_first_inspection_lets_the_lag_grow(first, later, growing):
    looker = Looker(iter([first]))
    looker.gatherer.observe_lags(INCIDENT)
    looker._now = later
    looker.gatherer.observe_lags(INCIDENT)
    signals = looker.gatherer._evidence(later, FOUND).signals
    assert (PoisonSignal.LAG_GROWING in signals) == growing


def test_after_a_move_the_lag_is_compared_with_that_of_the_new_position():
    looker = Looker(iter([lag_at(1)]))
    looker.gatherer.observe_lags(INCIDENT)
    growing = [
        PoisonSignal.LAG_GROWING in looker.gatherer._evidence(snapshot, FOUND).signals
        for snapshot in (lag_at(5, committed=3), lag_at(5, committed=3), lag_at(6, committed=3))
    ]
    assert growing == [False, False, True]


def test_lags_are_remembered_for_open_incidents_only():
    looker = Looker(iter([lag_at(1)]))
    for number in range(100):
        incident = replace(INCIDENT, key=f"key-{number}")
        detected = IncidentDetected(
            at=1.0,
            incident=incident.key,
            connect_cluster="lab",
            connector="files",
            what="",
            said="",
        )
        looker.fleet.incidents = {incident.key: detected}
        looker.gatherer.observe_lags(incident)
    assert list(looker.gatherer._lags) == ["key-99"]


def no_problem(connect: str, connector: str) -> str:
    raise AssertionError((connect, connector))


@pytest.mark.parametrize(("strimzi", "managed"), [(None, None), (PIPES, True)])
def test_what_an_entry_says_that_strimzi_owns_is_known_to_be_put_back(
    strimzi: Strimzi | None, managed: bool | None
):
    connect = Connect(name="lab", kafka="east", url="http://127.0.0.1:9", strimzi=strimzi)
    gatherer = Looker(iter([EMPTY_SNAPSHOT])).gatherer
    gatherer._client_of = lambda _: ConnectClient(connect)
    now = LiveConnectorState(None, None, None, None, 0.0)
    gatherer._find_resource_problem = lambda *_: "somebody holds it"
    facts = gatherer._connector(EMPTY_SNAPSHOT, replace(CASE, altering=False), now)
    assert facts.operator_managed is managed
    assert facts.resource_problem == ("somebody holds it" if managed else None)
    assert gatherer._connector(EMPTY_SNAPSHOT, CASE, now).resource_problem is None
