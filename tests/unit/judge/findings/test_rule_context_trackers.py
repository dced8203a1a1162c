"""What rules have to know of earlier moments."""

from __future__ import annotations

import pytest

from offsetwatch.judge.findings.rule_context import (
    ConditionAges,
    RuleMemory,
    RuleMemoryState,
    decode_state,
)
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.topology import KafkaTopic, Topology
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, MirrorPartitionView, Snapshot, SyncView
from tests.changed import replace
from tests.unit.judge.observed_rewinds import BEGAN, FLOW, WHERE, copied, sync

SETTINGS = JudgeSettings(interval_s=60.0)
SYNCED = (FLOW.offset_syncs, WHERE)
OTHER_SYNCED = (FLOW.offset_syncs, (*WHERE[:3], 1))


class ObservedRules:
    """Looks at what is given, and what stayed as it was."""

    def __init__(self) -> None:
        self.memory = RuleMemory()
        self.snapshot: Snapshot = replace(EMPTY_SNAPSHOT, at=BEGAN, topology=Topology((), (FLOW,)))

    def observe(
        self, **changes: tuple[MirrorPartitionView, ...] | tuple[SyncView, ...]
    ) -> RuleMemory:
        self.snapshot = replace(self.snapshot, at=self.snapshot.at + 5, **changes)
        self.memory.observe(InputVisibility(self.snapshot), SETTINGS)
        return self.memory


def test_a_partition_had_a_sync_once_one_was_observed_of_what_is_copied():
    observed = ObservedRules()
    assert observed.observe(syncs=(sync(9, 9),)).synced == set()
    assert observed.observe(mirror_partitions=(copied(9),)).synced == {SYNCED}
    assert observed.observe(syncs=(), mirror_partitions=()).synced == {SYNCED}


def test_a_sync_that_comes_after_the_partition_is_observed_as_well():
    observed = ObservedRules()
    both = (copied(9), copied(9, partition=1))
    assert observed.observe(mirror_partitions=both, syncs=()).synced == set()
    assert observed.observe(syncs=(sync(9, 9, 1),)).synced == {OTHER_SYNCED}
    assert observed.observe(syncs=(sync(9, 9),)).synced == {SYNCED, OTHER_SYNCED}


def test_a_sync_in_another_topic_is_not_one_in_the_topic_that_the_flow_writes_to_now():
    observed = ObservedRules()
    observed.observe(mirror_partitions=(copied(9),), syncs=(sync(9, 9),))
    elsewhere = KafkaTopic("east", "syncs")
    flow = replace(FLOW, offset_syncs=elsewhere)
    observed.snapshot = replace(observed.snapshot, topology=Topology((), (flow,)))
    assert observed.observe(syncs=()).synced == {SYNCED}
    assert observed.observe(syncs=(sync(9, 9),)).synced == {SYNCED, (elsewhere, WHERE)}


def test_a_sync_under_another_alias_is_of_another_flow():
    observed = ObservedRules()
    assert (
        observed.observe(mirror_partitions=(copied(9, source="north"),), syncs=(sync(9, 9),)).synced
        == set()
    )


def test_all_that_rules_count_outlives_the_process():
    observed = ObservedRules()
    key = ("lag", "lab", "mm2", "")
    observed.memory.held.since(key, BEGAN)
    observed.observe(mirror_partitions=(copied(100),))
    rule_memory = observed.observe(mirror_partitions=(copied(10),)).remembered()
    assert (rule_memory.held, len(rule_memory.falls.recopies)) == (((key, BEGAN, 0.0),), 1)
    later = RuleMemory()
    later.recall(rule_memory)
    assert later.remembered() == rule_memory
    later.settle(lambda _: True)
    assert later.held.has(key)
    later.settle(lambda _: False)
    assert not later.held.has(key)


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b'{"held": 3}', b'{"held": "\xff"}'])
def test_what_is_no_document_of_that_kind_is_refused_in_words(document):
    with pytest.raises(ValueError, match=r"\w"):
        decode_state(document, RuleMemoryState)


# --- condition age -------------------------------------------------------------------------------

ONE, OTHER = ("lag", "lab", "mm2", "orders-0"), ("lag", "lab", "mm2", "orders-1")


def test_it_has_been_so_since_it_was_first_requested_with_the_level_of_then():
    held = ConditionAges()
    assert not held.has(ONE)
    assert held.since(ONE, 100.0, 7.0) == (100.0, 7.0)
    held.settle(lambda _: False)
    assert held.has(ONE)
    assert held.since(ONE, 160.0, 9.0) == (100.0, 7.0)


def test_a_condition_that_was_not_renewed_since_the_last_evaluation_ends():
    held = ConditionAges()
    held.since(ONE, 100.0)
    held.since(OTHER, 100.0)
    held.settle(lambda _: False)
    held.since(ONE, 160.0)
    held.settle(lambda _: False)
    assert (held.has(ONE), held.has(OTHER)) == (True, False)
    held.settle(lambda _: False)
    assert held.since(ONE, 220.0) == (220.0, 0.0)


def test_not_to_see_is_no_break():
    held = ConditionAges()
    held.since(ONE, 100.0)
    held.since(OTHER, 100.0)
    for _ in range(2):
        held.settle(lambda key: key == ONE)
    assert held.since(ONE, 220.0) == (100.0, 0.0)
    assert held.since(OTHER, 220.0) == (220.0, 0.0)


def test_a_clock_that_was_set_back_leaves_no_beginning_in_the_future():
    held = ConditionAges()
    held.since(ONE, 100.0, 7.0)
    assert held.since(ONE, 40.0) == (40.0, 7.0)
    assert held.since(ONE, 100.0) == (40.0, 7.0)


def test_it_outlives_the_process():
    held, later = ConditionAges(), ConditionAges()
    held.since(ONE, 100.0, 7.0)
    later.recall(held.remembered())
    assert later.remembered() == held.remembered() == ((ONE, 100.0, 7.0),)
    assert later.since(ONE, 160.0) == (100.0, 7.0)
