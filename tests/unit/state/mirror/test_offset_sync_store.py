"""What MM2's store is relied on for here. That ours is the same, tests/real/test_translation.py
shows at length; tests/golden has some of what Kafka's own (4.3.1) answered to random commands.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from offsetwatch.state.mirror.offset_translation import (
    SYNCS_PER_PARTITION,
    TOO_FAR_BACK,
    OffsetSyncStore,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "offset-sync-store.txt"


def started(*syncs: tuple[int, int]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    store.started()
    for upstream, downstream in syncs:
        store.read(upstream, downstream)
    return store


@pytest.mark.parametrize(
    ("upstream", "downstream"),
    [
        pytest.param(99, TOO_FAR_BACK, id="before the first sync"),
        pytest.param(100, 50, id="at a sync"),
        pytest.param(101, 51, id="after it"),
        pytest.param(199, 51, id="long after it"),
        pytest.param(200, 90, id="at the next"),
        pytest.param(10_000, 91, id="after the last"),
    ],
)
def test_a_group_lands_on_the_synced_record_or_on_the_one_after_it(upstream, downstream):
    assert started((100, 50), (200, 90)).translate(upstream) == downstream


def test_nothing_is_translated_before_the_topic_was_read_to_its_end():
    store = OffsetSyncStore()
    store.read(100, 50)
    assert store.translate(200) is None
    store.started()
    assert store.translate(200) == 51


def test_nothing_is_translated_without_a_sync():
    assert started().translate(5) is None


def test_of_what_it_finds_at_its_start_only_the_last_sync_counts():
    store = OffsetSyncStore()
    store.read(100, 50)
    store.read(200, 90)
    store.started()
    assert store.translate(150) == TOO_FAR_BACK


def test_of_what_it_finds_at_its_start_all_counts_if_it_could_read_its_checkpoints():
    store = OffsetSyncStore(loads_all=True)
    store.read(100, 50)
    store.read(200, 90)
    store.started()
    assert store.translate(150) == 51


def test_an_upstream_offset_that_goes_back_voids_all_that_was_known():
    store = started((100, 50), (200, 90), (120, 300))
    assert store.translate(110) == TOO_FAR_BACK
    assert store.translate(250) == 301


def test_a_group_between_an_early_and_the_last_sync_goes_back_to_the_early_one():
    assert started((0, 0), (3000, 3000)).translate(2700) == 1


def test_what_it_remembers_is_never_farther_from_a_group_than_four_times_its_lag():
    dice = random.Random(11)
    for _ in range(60):
        store, upstream, first = started(), dice.randrange(1000), None
        steps = dice.choice([(100,), (1, 100, 3000), (1, 2)])
        for _ in range(dice.randrange(300)):
            store.read(upstream, upstream)
            first = upstream if first is None else first
            upstream += dice.choice(steps)
        syncs = store.syncs()
        assert len(syncs) in {0, SYNCS_PER_PARTITION}
        if first is None:
            continue
        newest = syncs[0][0]
        group = dice.randrange(first, newest + 1)
        result = store.translate(group)
        assert result is not None
        # With the syncs this far apart, no nearer one can be had.
        assert result > group - 4 * (newest - group) - max(steps)


def test_it_answers_what_kafkas_own_answered():
    store = OffsetSyncStore()
    for number, line in enumerate(GOLDEN.read_text().splitlines(), 1):
        match line.split():
            case ["start", must_read_to_end]:
                store = OffsetSyncStore(loads_all=must_read_to_end == "false")
            case ["end"]:
                store.started()
            case ["sync", upstream, downstream]:
                store.read(int(upstream), int(downstream))
            case ["translate", upstream, answer]:
                result = store.translate(int(upstream))
                assert answer == ("none" if result is None else str(result)), f"line {number}"
            case _:
                pytest.fail(f"line {number}: {line}")
