"""Which remedies of Connect's own are recommended."""

from __future__ import annotations

import pytest

from offsetwatch.remedy.locate import recommendations


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ((3, 6, 2), recommendations.NOT_TOLERATE_AT_SOURCE),
        ((3, 7), recommendations.TOLERATE_AT_SOURCE),
        ((3, 7, 0), recommendations.TOLERATE_AT_SOURCE),
        ((4, 0, 0), recommendations.TOLERATE_AT_SOURCE),
        (None, recommendations.NOT_TOLERATE_AT_SOURCE),
    ],
)
def test_a_source_may_tolerate_errors_where_it_drops_the_bad_record_and_no_other(
    version: tuple[int, ...] | None, remedy: str
) -> None:
    assert recommendations.recommend_for_size(version) == (recommendations.LARGER_REQUESTS, remedy)


@pytest.mark.parametrize(
    ("stage", "remedies"),
    [
        ("put", (recommendations.ERRANT_RECORDS, recommendations.ONE_AT_A_TIME)),
        ("transform", (recommendations.DEAD_LETTERS, recommendations.SHOW_RECORDS)),
        (None, (recommendations.DEAD_LETTERS, recommendations.SHOW_RECORDS)),
    ],
)
def test_what_put_throws_only_the_sink_itself_can_put_aside(
    stage: str | None, remedies: tuple[str, ...]
) -> None:
    assert recommendations.recommend_for_sink(stage) == remedies
