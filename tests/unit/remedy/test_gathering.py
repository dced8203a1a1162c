"""How far the offsets topic is read, while others go on writing to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from exporter.model.observations import InputId
from exporter.model.topology import KafkaTopic, OffsetsTopic
from exporter.remedy import fleet
from exporter.remedy.brokers import Brokers
from exporter.remedy.circumstances import Case
from exporter.remedy.gathering import TAIL_S_MAX, Gatherer, Time
from exporter.remedy.plan import Action
from exporter.remedy.policy import Policy
from exporter.state.snapshot import EMPTY, InputView, Snapshot, TailView
from tests.fakes.clock import VirtualClock

OFFSETS = KafkaTopic("east", "connect-offsets")
CASE = Case("lab", "mirror", Action.SKIP_ONE, altering=True)


class Ends:
    def ends(self, kafka: str, topic: str) -> Mapping[int, int]:
        assert (kafka, topic) == ("east", "connect-offsets")
        return {0: 10, 1: 5}


def read_to(*positions: int) -> Snapshot:
    tail = TailView(OFFSETS, True, 0, 0, 0, 0, tuple(enumerate(positions)))
    topology = replace(EMPTY.topology, offsets_topics=(OffsetsTopic("lab", OFFSETS),))
    view = InputView(InputId("east/connect-offsets", "offsets"), True, True, None, (), None, tail)
    return replace(EMPTY, topology=topology, inputs=(view,))


class Looker:
    """Has one look at how far is read after the other, as time goes by; the last one stays."""

    def __init__(self, looks: Iterator[Snapshot]) -> None:
        self.clock, self._looks, self._now = VirtualClock(), looks, next(looks)
        self.gatherer = Gatherer(
            sight_of=cast(Any, None),
            brokers=cast(Brokers, Ends()),
            snapshot=lambda: self._now,
            past=fleet.Fleet(),
            policy=Policy(),
            state_dir=cast(Any, None),
            time=Time(self.clock, self.clock, self.pause),
        )

    def pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._now = next(self._looks, self._now)

    def behind(self, case: Case) -> int | None:
        return self.gatherer._behind(self._now, case)


def test_before_offsets_are_set_it_waits_for_what_others_wrote_just_now():
    looker = Looker(iter([read_to(9, 5), read_to(10, 4), read_to(10, 5)]))
    assert looker.behind(CASE) == 0


def test_it_waits_for_so_long_and_no_longer():
    looker = Looker(iter([read_to(9, 5)]))
    began = looker.clock.now()
    assert looker.behind(CASE) == 1
    assert TAIL_S_MAX <= looker.clock.now() - began < TAIL_S_MAX + 1


def test_where_nothing_is_stopped_yet_nothing_is_waited_for():
    looker = Looker(iter([read_to(8, 5), read_to(10, 5)]))
    assert looker.behind(replace(CASE, altering=False)) == 2


def test_a_tail_that_is_not_there_is_not_known():
    assert Looker(iter([replace(read_to(), inputs=())])).behind(CASE) is None
