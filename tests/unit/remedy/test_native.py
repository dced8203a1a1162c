"""Which remedies of Connect's own are recommended."""

from __future__ import annotations

import pytest
from offsetwatch.remedy.locate import native


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ((3, 6, 2), native.NOT_TOLERATE_AT_SOURCE),
        ((3, 7), native.TOLERATE_AT_SOURCE),
        ((3, 7, 0), native.TOLERATE_AT_SOURCE),
        ((4, 0, 0), native.TOLERATE_AT_SOURCE),
        (None, native.NOT_TOLERATE_AT_SOURCE),
    ],
)
def test_a_source_may_tolerate_errors_where_it_drops_the_bad_record_and_no_other(
    version: tuple[int, ...] | None, remedy: str
) -> None:
    assert native.for_size(version) == (native.LARGER_REQUESTS, remedy)


@pytest.mark.parametrize(
    ("stage", "remedies"),
    [
        ("put", (native.ERRANT_RECORDS, native.ONE_AT_A_TIME)),
        ("transform", (native.DEAD_LETTERS, native.SHOW_RECORDS)),
        (None, (native.DEAD_LETTERS, native.SHOW_RECORDS)),
    ],
)
def test_what_put_throws_only_the_sink_itself_can_put_aside(
    stage: str | None, remedies: tuple[str, ...]
) -> None:
    assert native.for_sink(stage) == remedies
