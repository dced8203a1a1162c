"""Whose offsets are of an earlier life of a connector."""

from __future__ import annotations

import pytest

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.findings import incarnations
from offsetwatch.judge.findings.incarnations import (
    ABSENT_LISTS,
    SKEW_S_MAX,
    ConnectorIncarnation,
    IncarnationTracker,
    SnapshotFreshness,
)
from offsetwatch.model.connectors import DELETED, StateChange, StateHistory
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    ConnectorListView,
    ConnectorWithoutState,
    SourcePartitionView,
)
from tests.changed import replace
from tests.unit.judge.observed_rewinds import BEGAN, counted

FILES = ("lab", "files")
TOPIC = "east/connect-offsets"
POLL_S = 10.0


def at(
    position: int, log_offset: int, label: str = "0", when: float = BEGAN, **changes
) -> SourcePartitionView:
    """An offset at this place of the offsets topic."""
    offset = decode_value(b'{"position":%d}' % position)
    view = counted(committed_at=when, label=label)
    return replace(view, offset=offset, **{"log_offset": log_offset} | changes)


class Years:
    """Looks five seconds apart at the connectors of `lab`, which are listed every ten, and at what
    `files` has committed. `end` is how far the offsets topic is read.
    """

    def __init__(self, *, end: int = 100) -> None:
        self.incarnations = IncarnationTracker()
        self.now = BEGAN
        self.listed_at: float | None = None
        self.names: frozenset[str] = frozenset()
        self.end = end
        self.topic: str | None = TOPIC
        self.history: tuple[tuple[float, str], ...] = ()
        self.task_history: tuple[tuple[float, str], ...] = ()
        self.others: tuple[StateHistory, ...] = ()
        self.without_state = False

    def observe(self, offsets: tuple[SourcePartitionView, ...] | None = ()) -> Years:
        """Between two lists. With `offsets` None they cannot be seen."""
        self.now += POLL_S / 2
        histories = tuple(
            StateHistory(*FILES, task, tuple(StateChange(*each, None) for each in changes))
            for task, changes in ((0, self.task_history), (None, self.history))
            if changes
        )
        stateless = (ConnectorWithoutState("files", self.now, None),) if self.without_state else ()
        lists = (ConnectorListView("lab", 0.0, (None, None), stateless, ()),)
        snapshot = replace(
            EMPTY_SNAPSHOT, at=self.now, histories=(*self.others, *histories), lists=lists
        )
        listed = {"other": frozenset({"theirs"})}
        listed_at = {}
        if self.listed_at is not None:
            listed["lab"], listed_at["lab"] = self.names, self.listed_at
        read = SnapshotFreshness(listed_at, {TOPIC: {0: self.end}}, lambda _: self.topic)
        self.incarnations.observe(
            snapshot, listed, {} if offsets is None else {FILES: offsets}, read
        )
        return self

    def list(self, *names: str, offsets: tuple[SourcePartitionView, ...] | None = ()) -> Years:
        """A look without news, and one at which these connectors were listed a second ago."""
        self.observe(offsets)
        self.names, self.listed_at = frozenset(names), self.now + POLL_S / 2 - 1
        return self.observe(offsets)

    def gone(self, lists: int = ABSENT_LISTS) -> Years:
        """`files` is in none of so many lists."""
        for _ in range(lists):
            self.list()
        return self

    @property
    def incarnation(self) -> ConnectorIncarnation:
        return self.incarnations.of[FILES]


def build_recreated(*offsets: SourcePartitionView) -> Years:
    """`files` was gone for long enough, and is there again."""
    return Years().list("files").gone().list("files", offsets=offsets)


def test_what_was_there_at_the_first_list_has_no_earlier_incarnation():
    years = Years().list("files", offsets=(at(1, 5),)).list("files")
    assert years.incarnation == ConnectorIncarnation(born=0.0, left_over=None)
    assert years.incarnations.remembered() == ()
    assert set(years.incarnations.of) == {FILES, ("other", "theirs")}


def test_what_was_read_before_the_last_list_without_it_was_requested_is_left_over():
    years = build_recreated(at(1, 99, "old"), at(2, 100, "new"))
    born = years.now - 1 - POLL_S
    assert years.incarnation == ConnectorIncarnation(born=born, left_over={"old": '{"position":1}'})
    assert [record.connector for record in years.incarnations.remembered()] == [FILES]


@pytest.mark.parametrize("skew_s", [-SKEW_S_MAX, -1.0, 0.0, 1.0, SKEW_S_MAX])
@pytest.mark.parametrize("lag", [0, 1])
def test_a_connector_that_commits_before_it_is_listed_has_nothing_left_over(skew_s, lag):
    """Whatever the clock of its worker says, and if it was in no list for one more."""
    years = Years().list().gone()
    for _ in range(lag):
        years.end += 1
        years.list()
    years.observe()
    years.end += 1
    first = at(1, 100, when=years.now + skew_s)
    years.observe()
    years.names, years.listed_at = frozenset({"files"}), years.now + 4
    years.observe((first,))
    assert years.incarnation.born > 0
    assert years.incarnation.left_over == {}


@pytest.mark.parametrize("lists", range(ABSENT_LISTS))
def test_a_list_or_two_without_it_are_no_death(lists):
    years = Years().list("files").gone(lists).list("files", offsets=(at(1, 5),))
    assert years.incarnation == ConnectorIncarnation(born=0.0, left_over=None)


def test_as_many_lists_as_it_takes_are_needed_after_a_start():
    years = Years().gone(ABSENT_LISTS - 1).list("files", offsets=(at(1, 5),))
    assert years.incarnation == ConnectorIncarnation(born=0.0, left_over=None)


def test_what_its_status_topic_says_to_live_was_not_gone():
    """Another Connect cluster answered, or an empty one."""
    years = Years()
    years.history = ((BEGAN, "running"),)
    years.list("files").gone(5).list("files", offsets=(at(1, 5),))
    assert years.incarnation == ConnectorIncarnation(born=0.0, left_over=None)


def test_what_its_status_topic_says_to_be_deleted_was_gone():
    years = Years()
    years.history = ((BEGAN, "running"), (BEGAN + 1, DELETED))
    years.list("files").gone().list("files", offsets=(at(1, 5),))
    assert years.incarnation.left_over == {"0": '{"position":1}'}


def test_in_a_topic_that_was_not_read_then_only_what_is_older_by_any_skew_is_left_over():
    years = Years().list("files").gone()
    years.topic = "east/of-its-own"
    born = years.listed_at
    old = at(1, 5, "old", born - SKEW_S_MAX - 1)
    years.list("files", offsets=(old, at(2, 6, "new", born - SKEW_S_MAX)))
    assert years.incarnation == ConnectorIncarnation(born=born, left_over={"old": '{"position":1}'})


def test_what_is_left_over_is_inspected_once_and_once_it_can_be_observed():
    years = Years().list("files").gone().list("files", offsets=None)
    born = years.incarnation.born
    assert years.incarnation.left_over is None
    years.list("files", offsets=(at(1, 5),))
    left_over = {"0": '{"position":1}'}
    assert years.incarnation.left_over == left_over
    years.list("files", offsets=(at(5, 105),))
    assert years.incarnation == ConnectorIncarnation(born=born, left_over=left_over)


def test_what_has_no_offset_or_no_place_or_is_never_read_is_not_left_over():
    nothing = replace(at(1, 5, "reset"), offset=None)
    placeless = replace(at(1, 5, "placeless"), log_offset=None)
    elsewhere = replace(at(1, 5, "elsewhere"), kafka_partition=7)
    never_read = (at(0, 5, name, dialect=f"mirror_{name}") for name in ("checkpoint", "heartbeat"))
    years = build_recreated(nothing, placeless, elsewhere, *never_read)
    assert years.incarnation.left_over == {}
    assert years.incarnations.remembered() == ()


def test_of_what_is_left_over_the_first_are_retained(monkeypatch):
    monkeypatch.setattr(incarnations, "LEFTOVER_OFFSETS_MAX", 2)
    years = build_recreated(*(at(1, 5, label) for label in "cab"))
    assert list(years.incarnation.left_over or ()) == ["c", "a"]


def test_a_connector_that_is_gone_has_no_life():
    assert FILES not in build_recreated(at(1, 5)).list().incarnations.of


# --- as a status topic tells it ------------------------------------------------------------------

RAN = ((BEGAN, "running"),)


def remade(*offsets: SourcePartitionView, began: float = 17.0, state: str = "running") -> Years:
    """Deleted and created between two lists; a task began then, by its worker's clock."""
    years = Years()
    years.history = years.task_history = RAN
    years.list("files")
    gone = ((BEGAN + 15, "unassigned"), (BEGAN + 15, DELETED), (BEGAN + 16, DELETED))
    years.history = (*RAN, *gone, (BEGAN + 17, state))
    years.task_history = (*RAN, *gone, (BEGAN + began, state))
    return years.list("files", offsets=offsets)


@pytest.mark.parametrize("state", ["running", "paused", "failed"])
def test_what_was_deleted_and_begins_again_is_of_another_incarnation(state):
    years = remade(at(1, 5, when=BEGAN + 12), at(2, 6, "new", BEGAN + 18), state=state)
    born = ConnectorIncarnation(born=BEGAN + 17, left_over={"0": '{"position":1}'})
    assert years.incarnation == born
    assert years.list("files", offsets=(at(5, 101, when=years.now),)).incarnation == born


@pytest.mark.parametrize("skew_s", [-600.0, -5.0, 5.0, 600.0])
def test_what_a_worker_commits_after_it_began_is_never_left_over(skew_s):
    """Its clock differs from that of the leader, which says who is deleted."""
    years = remade(at(1, 101, when=BEGAN + 18 + skew_s), began=17 + skew_s)
    assert not years.incarnation.left_over


@pytest.mark.parametrize("state", [DELETED, "unassigned"])
def test_what_was_deleted_and_may_be_gone_is_not_yet(state):
    assert remade(at(1, 5), state=state).incarnation == ConnectorIncarnation()


def test_what_has_no_task_that_began_is_not_yet():
    years = remade(at(1, 5, when=BEGAN + 12), began=17.0, state="unassigned")
    years.history = (*RAN, (BEGAN + 15, DELETED), (BEGAN + 17, "running"))
    assert years.list("files").incarnation == ConnectorIncarnation()


@pytest.mark.parametrize("before", ["running", "paused", "stopped", "failed"])
def test_a_status_that_was_taken_back_while_a_worker_ran_it_is_no_death(before):
    """A worker that lets go of a connector says UNASSIGNED first."""
    years = Years()
    years.history = years.task_history = ((BEGAN, before),)
    years.list("files")
    years.history = years.task_history = (
        (BEGAN, before),
        (BEGAN + 15, DELETED),
        (BEGAN + 16, DELETED),
        (BEGAN + 17, "running"),
    )
    assert (
        years.list("files", offsets=(at(1, 5, when=BEGAN + 12),)).incarnation
        == ConnectorIncarnation()
    )


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_what_connect_goes_on_listing_without_a_state_was_not_deleted_by_any_clock(skew_s):
    years = Years()
    years.history = years.task_history = ((BEGAN + skew_s, "running"),)
    years.list("files")
    gone = ((BEGAN + 15 + skew_s, "unassigned"), (BEGAN + 15 + skew_s, DELETED))
    years.history = years.task_history = (*years.history, *gone)
    years.without_state = True
    years.list("files")
    years.without_state = False
    years.history = years.task_history = (*years.history, (BEGAN + 99 + skew_s, "running"))
    assert (
        years.list("files", offsets=(at(1, 5, when=BEGAN + 12 + skew_s),)).incarnation
        == ConnectorIncarnation()
    )


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_what_is_deleted_after_it_had_no_state_for_a_while_is_of_another_incarnation(skew_s):
    years = Years()
    years.history = years.task_history = ((BEGAN + skew_s, "running"),)
    years.without_state = True
    years.list("files")
    years.without_state = False
    gone = ((BEGAN + 15 + skew_s, "unassigned"), (BEGAN + 15 + skew_s, DELETED))
    began = BEGAN + 17 + skew_s
    years.history = years.task_history = (*years.history, *gone, (began, "running"))
    years.list("files", offsets=(at(1, 5, when=BEGAN + 12 + skew_s),))
    assert years.incarnation == ConnectorIncarnation(born=began, left_over={"0": '{"position":1}'})


def test_a_status_that_was_taken_back_in_a_second_life_begins_no_third():
    years = remade(at(1, 101, when=BEGAN + 18))
    incarnation = years.incarnation
    hole = ((BEGAN + 30, DELETED), (BEGAN + 31, "running"))
    years.history, years.task_history = (*years.history, *hole), (*years.task_history, *hole)
    assert years.list("files", offsets=(at(1, 101, when=BEGAN + 18),)).incarnation == incarnation


def test_what_runs_and_was_never_deleted_goes_on():
    years = Years()
    years.history = years.task_history = RAN
    years.list("files")
    years.history = (*RAN, (BEGAN + 15, "failed"), (BEGAN + 16, "running"))
    years.task_history = ((BEGAN, DELETED), (BEGAN + 19, "running"))
    assert years.list("files").incarnation == ConnectorIncarnation()


def test_of_a_deletion_before_we_looked_compaction_may_have_left_half():
    years = Years()
    years.history = years.task_history = ((BEGAN - 9, DELETED), (BEGAN - 8, "running"))
    assert (
        years.list("files", offsets=(at(1, 5, when=BEGAN - 99),)).incarnation
        == ConnectorIncarnation()
    )


def test_a_deletion_before_its_history_could_be_read_begins_no_life():
    """Its partition of the status topic is read later than others."""
    years = Years()
    years.others = (StateHistory("lab", "other", None, (StateChange(BEGAN, "running"),)),)
    years.list("files")
    changes = ((BEGAN - 10, "unassigned"), (BEGAN - 9, DELETED), (BEGAN - 8, "running"))
    years.history = years.task_history = changes
    assert (
        years.list("files", offsets=(at(1, 5, when=BEGAN - 99),)).incarnation
        == ConnectorIncarnation()
    )


# --- restarts ------------------------------------------------------------------------------------


def test_a_life_with_something_left_over_outlives_us():
    before = build_recreated(at(1, 5))
    years = Years()
    years.now = before.now
    years.incarnations.recall(before.incarnations.remembered())
    assert years.list("files").list("files").incarnation == before.incarnation
