"""Whose offsets are of an earlier life of a connector."""

from __future__ import annotations

import pytest

from exporter.decode.source_offsets import decode_value
from exporter.judge import lives as module
from exporter.judge.lives import Life, Lives
from exporter.model.connectors import DELETED, StateChange, StateHistory
from exporter.state.snapshot import EMPTY, SourcePartitionView
from tests.changed import replace

from .watches import BEGAN, counted

FILES = ("lab", "files")


def at(position: int, when: float, label: str = "0", **changes) -> SourcePartitionView:
    offset = decode_value(b'{"position":%d}' % position)
    return replace(counted(committed_at=when, label=label), offset=offset, **changes)


class Years:
    """Looks ten seconds apart at the connectors of `lab` and what `files` has committed."""

    def __init__(self) -> None:
        self.lives = Lives()
        self.now = BEGAN
        self.history: tuple[tuple[float, str], ...] = ()
        self.task_history: tuple[tuple[float, str], ...] = ()

    def look(self, *names: str, offsets: tuple[SourcePartitionView, ...] | None = ()) -> Years:
        """With `offsets` None they cannot be seen."""
        self.now += 10
        histories = tuple(
            StateHistory(*FILES, task, tuple(StateChange(*each, None) for each in changes))
            for task, changes in ((0, self.task_history), (None, self.history))
            if changes
        )
        snapshot = replace(EMPTY, at=self.now, histories=histories)
        listed = {"lab": frozenset(names), "other": frozenset({"theirs"})}
        self.lives.observe(snapshot, listed, {} if offsets is None else {FILES: offsets})
        return self

    @property
    def life(self) -> Life:
        return self.lives.of[FILES]


def made_again(*offsets: SourcePartitionView) -> Years:
    """`files` was gone at the second look, and is there again at the third."""
    return Years().look("files").look().look("files", offsets=offsets)


def test_what_was_there_at_the_first_look_has_no_earlier_life():
    seen = Years().look("files", offsets=(at(1, BEGAN - 99),)).look("files")
    assert seen.life == Life(born=0.0, left_over=None)
    assert seen.lives.remembered() == ()
    assert set(seen.lives.of) == {FILES, ("other", "theirs")}


def test_what_was_committed_before_the_last_list_without_it_is_left_over():
    born = BEGAN + 20
    seen = made_again(at(1, born - 1, "old"), at(2, born, "new"))
    assert seen.life == Life(born=born, left_over={"old": '{"position":1}'})
    assert [told.who for told in seen.lives.remembered()] == [FILES]


def test_what_is_left_over_is_looked_at_once_and_once_it_can_be_seen():
    seen = Years().look("files").look().look("files", offsets=None)
    assert seen.life.left_over is None
    seen.look("files", offsets=(at(1, BEGAN),))
    left_over = {"0": '{"position":1}'}
    assert seen.life.left_over == left_over
    seen.look("files", offsets=(at(5, seen.now),))
    assert seen.life == Life(born=BEGAN + 20, left_over=left_over)


def test_what_has_no_offset_or_no_time_or_is_never_read_is_not_left_over():
    nothing = replace(at(1, BEGAN, "reset"), offset=None)
    timeless = replace(at(1, BEGAN, "timeless"), committed_at=None)
    never_read = (
        at(0, BEGAN, name, dialect=f"mirror_{name}") for name in ("checkpoint", "heartbeat")
    )
    seen = made_again(nothing, timeless, *never_read)
    assert seen.life.left_over == {}
    assert seen.lives.remembered() == ()


def test_of_what_is_left_over_the_first_are_kept(monkeypatch):
    monkeypatch.setattr(module, "LEFT_OVER_MAX", 2)
    seen = made_again(*(at(1, BEGAN, label) for label in "cab"))
    assert list(seen.life.left_over or ()) == ["c", "a"]


def test_a_connector_that_is_gone_has_no_life():
    assert FILES not in made_again(at(1, BEGAN)).look().lives.of


# --- as a status topic tells it ------------------------------------------------------------------


@pytest.mark.parametrize("state", ["running", "paused", "stopped", "failed"])
def test_what_was_deleted_and_says_something_again_is_of_another_life(state):
    seen = Years().look("files")
    seen.history = ((BEGAN, "running"), (BEGAN + 15, DELETED), (BEGAN + 17, state))
    seen.look("files", offsets=(at(1, BEGAN + 12), at(2, BEGAN + 16, "new")))
    born = Life(born=BEGAN + 15, left_over={"0": '{"position":1}'})
    assert seen.life == born
    assert seen.look("files", offsets=(at(5, seen.now),)).life == born


@pytest.mark.parametrize("state", [DELETED, "unassigned"])
def test_what_was_deleted_and_may_be_gone_is_not_yet(state):
    seen = Years().look("files")
    seen.history = ((BEGAN, "running"), (BEGAN + 15, DELETED), (BEGAN + 17, state))
    assert seen.look("files").life == Life()


def test_of_several_deletions_the_last_counts_and_those_of_tasks_do_not():
    seen = Years().look("files")
    seen.task_history = ((BEGAN, DELETED), (BEGAN + 19, "running"))
    assert seen.look("files").life == Life()
    seen.history = (
        (BEGAN + 1, DELETED),
        (BEGAN + 2, "running"),
        (BEGAN + 15, DELETED),
        (BEGAN + 16, "running"),
    )
    assert seen.look("files").life.born == BEGAN + 15


def test_what_runs_and_was_never_deleted_goes_on():
    seen = Years().look("files")
    seen.history = ((BEGAN, "running"), (BEGAN + 15, "failed"), (BEGAN + 16, "running"))
    assert seen.look("files").life == Life()


def test_it_is_born_by_the_later_of_what_a_list_and_a_status_topic_tell():
    for deleted_at, born in ((BEGAN + 15, BEGAN + 20), (BEGAN + 25, BEGAN + 25)):
        seen = Years().look("files").look()
        seen.history = ((deleted_at, DELETED), (deleted_at + 1, "running"))
        assert seen.look("files").life.born == born


def test_a_deletion_before_our_first_list_is_known_from_its_status_topic():
    seen = Years()
    seen.history = ((BEGAN - 9, DELETED), (BEGAN - 8, "running"))
    assert seen.look("files").life.born == BEGAN - 9


# --- restarts ------------------------------------------------------------------------------------


def test_a_life_with_something_left_over_outlives_us_and_is_another_one_only_once_we_have_a_list():
    before = made_again(at(1, BEGAN))
    seen = Years()
    seen.now = before.now
    seen.lives.recall(before.lives.remembered())
    seen.history = ((seen.now + 5, DELETED), (seen.now + 6, "running"))
    assert seen.look("files").life == before.life  # its list may be older than the deletion
    assert seen.look("files").life == Life(born=before.now + 5, left_over={})
