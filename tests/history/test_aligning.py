"""Sequences brought together where items repeat, which properties on small ones do not reach."""

from __future__ import annotations

import random

from offsetwatch.history.audit.sequence_alignment import (
    AlignmentGap,
    MatchingRun,
    align_sequences,
    find_gaps,
)


def test_equal_sequences_are_one_run() -> None:
    assert align_sequences([1, 2, 3], [1, 2, 3]) == (MatchingRun(0, 0, 3),)


def test_nothing_in_common_is_one_gap() -> None:
    assert align_sequences([1, 2], [3]) == ()
    assert list(find_gaps((), 2, 1)) == [AlignmentGap(0, 2, 0, 1)]


def test_a_repeated_item_goes_with_its_neighbours() -> None:
    assert align_sequences([9, 1, 9, 2, 9], [9, 1, 2, 9]) == (
        MatchingRun(0, 0, 2),
        MatchingRun(3, 2, 2),
    )


def test_long_sequences_of_few_items_are_aligned_but_for_what_is_missing() -> None:
    up = [random.Random(1).randrange(5) for _ in range(20_000)]
    down = up[:7000] + up[7003:15_000] + up[15_005:]
    assert sum(run.length for run in align_sequences(up, down)) == len(down)


def test_repeats_without_any_unique_item_end_and_keep_their_order() -> None:
    chance = random.Random(2)
    up = [chance.randrange(3) for _ in range(3000)]
    down = [chance.randrange(3) for _ in range(3000)]
    runs = align_sequences(up, down)
    assert all(
        up[run.up : run.up + run.length] == down[run.down : run.down + run.length] for run in runs
    )
    assert sum(run.length for run in runs) > 1500


def test_of_few_repeated_items_the_longest_common_sequence_is_found() -> None:
    up, down = [5, 1, 2, 1, 2, 6], [7, 2, 1, 2, 1, 8]
    runs = align_sequences(up, down)
    assert sum(run.length for run in runs) == 3
    assert all(
        up[run.up : run.up + run.length] == down[run.down : run.down + run.length] for run in runs
    )
