"""What a shadow is, and when it is made anew; of books that are given."""

from __future__ import annotations

from offsetwatch.state.connect.source_offsets import SourceBook
from offsetwatch.state.connect.superseded_offsets import SupersededOffsets
from tests.unit.state.worlds import record

A, B = {"filename": "/a"}, {"filename": "/b"}


def book(*commits: tuple[dict, int | None]) -> SourceBook:
    """Commits of `files`, each at the next place of the log; None forgets."""
    made = SourceBook("lab", 100)
    for number, (partition, position) in enumerate(commits):
        value = None if position is None else {"position": position}
        made.apply((record("files", partition, value, log_offset=number),), 0.0)
    return made


def test_a_shadow_has_the_offset_that_its_connector_has_left_and_nothing_else_of_it():
    home = book((A, 1), (A, None), (A, 9), (A, 5))
    (before,) = home.views_of("files")
    assert min(before.commits, before.advances, before.resets) > 0
    (view,) = SupersededOffsets().of("files", book(), home)
    assert view.shadow == before.offset
    assert (view.commits, view.advances, view.rewinds, view.resets) == (0, 0, 0, 0)
    assert (view.offset, view.committed_at, view.advanced_at) == (None, None, None)
    assert (view.kafka_partition, view.log_offset) == (None, None)


def test_what_was_forgotten_leaves_no_shadow():
    assert SupersededOffsets().of("files", book(), book((A, 1), (A, None))) == ()


def test_shadows_are_the_very_same_until_a_book_has_changed_or_is_another_one():
    shadows, own, home = SupersededOffsets(), book((B, 1)), book((A, 1))
    first = shadows.of("files", own, home)
    assert shadows.of("files", own, home) is first
    assert shadows.of("files", book((A, 1)), home) == ()  # as old, and another one
    assert shadows.of("files", own, home) == first
    (other,) = shadows.of("files", own, book((A, 2)))
    assert other.shadow is not None
    assert other.shadow.number("position") == 2
    shadows.of("files", own, home)
    own.apply((record("files", A, {"position": 3}, log_offset=1),), 0.0)
    assert shadows.of("files", own, home) == ()
