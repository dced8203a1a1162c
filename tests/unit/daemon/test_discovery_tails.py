"""A tail for each topic that is named, and none for any other."""

from __future__ import annotations

import threading
from functools import partial

from offsetwatch.daemon.discovery import Tails
from offsetwatch.ingest.topic_readers import (
    ListingTopicReader,
    OffsetSyncsTopicReader,
    SourceOffsetsTopicReader,
)
from offsetwatch.model.observations import InputId, InputRetired
from offsetwatch.model.topology import (
    KafkaTopic,
    ListingTopics,
    MirrorFlow,
    OffsetsTopic,
    StatusTopic,
    Topology,
)

OFFSETS = KafkaTopic("east", "connect-offsets")
OWN = KafkaTopic("east", "own")
SYNCS = KafkaTopic("west", "syncs")
CONFIGS, STATUS = KafkaTopic("east", "configs"), KafkaTopic("east", "status")
OTHER_STATUS = KafkaTopic("east", "other-status")


def topology(*offsets: OffsetsTopic, **more) -> Topology:
    return Topology(**{"offsets_topics": offsets, "flows": (), **more})


class World:
    """Tails whose threads end when they are told to; a loop that takes batches or does not."""

    def __init__(self) -> None:
        self.takes = True
        self.put: list = []
        self.started: list[KafkaTopic] = []
        self.roles: dict[KafkaTopic, object] = {}
        self.stops: list[threading.Event] = []
        self.tails = Tails(self._start, self._put)

    def _start(self, topic, role_of, stopped):
        self.started.append(topic)
        self.roles[topic] = role_of
        self.stops.append(stopped)
        thread = threading.Thread(target=stopped.wait, daemon=True)
        thread.start()
        return thread

    def _put(self, batch) -> bool:
        if self.takes:
            self.put.extend(batch)
        return self.takes

    def running(self) -> list[KafkaTopic]:
        return [
            topic for topic, stop in zip(self.started, self.stops, strict=True) if not stop.is_set()
        ]


def retired(topic: KafkaTopic) -> InputRetired:
    return InputRetired(InputId.of_tail(topic))


def test_each_topic_has_one_tail_that_reads_it_by_its_role():
    world = World()
    flow = MirrorFlow("lab", "mm2", "west", "east", "west", SYNCS)
    for _ in range(3):
        world.tails.follow(
            topology(
                OffsetsTopic("lab", OFFSETS),
                OffsetsTopic("lab", OWN, "a"),
                OffsetsTopic("lab", OWN, "b"),
                flows=(flow,),
                listings=(ListingTopics("lab", CONFIGS, STATUS),),
                statuses=(StatusTopic("other", OTHER_STATUS),),
            )
        )
    assert sorted(world.started) == sorted({OFFSETS, OWN, SYNCS, CONFIGS, STATUS, OTHER_STATUS})
    roles = {
        topic.topic: role.func if isinstance(role, partial) else role
        for topic, role in world.roles.items()
    }
    assert roles == {
        "connect-offsets": SourceOffsetsTopicReader,
        "own": SourceOffsetsTopicReader,
        "syncs": OffsetSyncsTopicReader,
        "configs": ListingTopicReader,
        "status": ListingTopicReader,
        "other-status": ListingTopicReader,
    }


def test_a_topic_that_is_not_named_any_more_is_left_and_its_input_forgotten():
    world = World()
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS), OffsetsTopic("lab", OWN, "a")))
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS)))
    assert world.running() == [OFFSETS]
    assert world.put == [retired(OWN)]


def test_that_a_tail_ended_is_said_until_it_is_heard_and_before_it_begins_again():
    world = World()
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS)))
    world.takes = False
    world.tails.follow(topology())
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS)))
    assert world.running() == []
    world.takes = True
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS)))
    assert (world.put, world.running()) == ([retired(OFFSETS)], [OFFSETS])
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS)))
    assert world.put == [retired(OFFSETS)]


def test_a_topic_that_a_second_cluster_uses_too_is_read_from_its_start_again():
    world = World()
    first, second = OffsetsTopic("one", OWN, "a"), OffsetsTopic("two", OWN, "b")
    world.tails.follow(topology(first))
    world.tails.follow(topology(first, second))
    assert world.started == [OWN, OWN]
    assert world.running() == [OWN]
    assert world.put == [retired(OWN)]
    world.tails.follow(topology(first, second))
    world.tails.follow(topology(second))
    assert world.started == [OWN, OWN]


def test_all_are_ordered_to_stop():
    world = World()
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS), OffsetsTopic("lab", OWN, "a")))
    world.tails.stop()
    assert world.running() == []


def test_what_was_started_after_a_stop_is_stopped_by_the_next():
    """A round may be under way when everything is told to stop."""
    world = World()
    world.tails.stop()
    world.tails.follow(topology(OffsetsTopic("lab", OFFSETS)))
    world.tails.stop()
    assert world.running() == []
