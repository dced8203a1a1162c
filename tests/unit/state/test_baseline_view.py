"""What is usual counts while it is whole and not too old, and is never guessed."""

from __future__ import annotations

import pytest

from offsetwatch.model.history_documents import HOURS, TOO_OLD_S, Baseline, Baselines
from offsetwatch.model.observations import BaselinesRead
from offsetwatch.state.history_documents import NO_BASELINES, BaselinesBook

KNOWN = Baseline(
    connect_cluster="lab",
    connector="c",
    since=0.0,
    until=1000.0,
    advances=10,
    per_hour=(2.0,) * HOURS,
    pause_advances=5.0,
    pause_s=None,
    quantiles=(1.0, 2.0, 4.0),
)
SEEN = BaselinesRead(Baselines(made_at=1100.0, until=1000.0, connectors=(KNOWN,)))


@pytest.fixture
def book() -> BaselinesBook:
    return BaselinesBook()


def test_before_anything_is_published_nothing_is_said(book):
    assert book.view(0.0) == NO_BASELINES


def test_it_counts_for_two_weeks(book):
    book.read(SEEN)
    assert book.view(1000.0 + TOO_OLD_S).of == {("lab", "c"): KNOWN}
    old = book.view(1001.0 + TOO_OLD_S)
    assert (old.valid, old.of) == (False, {})


def test_a_damaged_one_takes_what_was_known_away(book):
    book.read(SEEN)
    book.read(BaselinesRead(None, damaged=True))
    assert (book.view(1000.0).valid, book.view(1000.0).of) == (False, {})
    book.read(SEEN)
    assert book.view(1000.0).valid
    book.read(BaselinesRead(None))
    assert book.view(1000.0) == NO_BASELINES


def test_what_was_taken_away_does_not_grow_old(book):
    book.read(SEEN)
    book.read(BaselinesRead(None))
    assert book.view(2000.0 + TOO_OLD_S) == NO_BASELINES
