"""What a shadow is; of books that are given."""

from __future__ import annotations

from offsetwatch.state.connect.source_offsets import SourceBook, build_superseded_views
from tests.unit.state.worlds import record

A, B = {"filename": "/a"}, {"filename": "/b"}


def book(*commits: tuple[dict, int | None]) -> SourceBook:
    """Commits of `files`, each at the next place of the log; None forgets."""
    built = SourceBook("lab", 100)
    for number, (partition, position) in enumerate(commits):
        value = None if position is None else {"position": position}
        built.apply((record("files", partition, value, log_offset=number),), 0.0)
    return built


def test_a_shadow_has_the_offset_that_its_connector_has_left_and_nothing_else_of_it():
    home = book((A, 1), (A, None), (A, 9), (A, 5))
    (before,) = home.views_of("files")
    assert min(before.commits, before.advances, before.resets) > 0
    (view,) = build_superseded_views((), home.views_of("files"))
    assert view.shadow == before.offset
    assert (view.commits, view.advances, view.rewinds, view.resets) == (0, 0, 0, 0)
    assert (view.offset, view.committed_at, view.advanced_at) == (None, None, None)
    assert (view.kafka_partition, view.log_offset) == (None, None)


def test_what_was_forgotten_leaves_no_shadow():
    home = book((A, 1), (A, None))
    assert build_superseded_views((), home.views_of("files")) == ()


def test_what_its_own_topic_has_is_no_shadow():
    own, home = book((B, 1)), book((A, 1), (B, 2))
    (view,) = build_superseded_views(own.views_of("files"), home.views_of("files"))
    assert view.shadow.number("position") == 1
