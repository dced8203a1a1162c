"""Answers of a Kafka cluster and syncs of a topic by themselves: what is paired with what, and what
of it is new.
"""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import TAIL, Frozen, InputId, LogBounds, SyncRecord
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.loss.accounting import NOTHING_LOST
from offsetwatch.state.mirror.lag import MirrorPosition, OldestRecordAges
from offsetwatch.state.mirror.offset_syncs import SyncBook, SyncLeads, build_sync_views
from offsetwatch.state.mirror.replicated_partitions import (
    LogEndsBook,
    ReplicatedPartition,
    build_replicated_partitions,
    find_partition_index,
)
from offsetwatch.state.snapshot import MirrorPartitionView
from tests.changed import replace
from tests.unit.state.worlds import (
    FILE,
    NOW,
    OFFSETS,
    STALE_S,
    SYNCS,
    World,
    files,
    mirror,
    mirrors,
    orders,
    record,
    source,
    sync,
)

FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", KafkaTopic("west", "syncs"))
OTHER = replace(FLOW, connector="other")
ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
NOTHING = (NOTHING_LOST, None)


def at(*offsets: int, flow: MirrorFlow = FLOW) -> tuple[ReplicatedPartition, ...]:
    """Committed offsets of orders-0, orders-1 and so on."""
    committed = {
        MirrorPartition("west", "orders", number): MirrorPosition(offset, NOW)
        for number, offset in enumerate(offsets)
    }
    return build_replicated_partitions(flow, committed, None, SyncLeads(60.0), NOW)


def never(flow: MirrorFlow = FLOW) -> tuple[ReplicatedPartition, ...]:
    """orders-0 is copied, and has no commit."""
    return build_replicated_partitions(
        flow, {}, None, SyncLeads(60.0), NOW, assigned=frozenset({ZERO})
    )


def to(*ends: int) -> dict[TopicPartition, LogBounds]:
    return {
        TopicPartition("orders", offset): LogBounds(0, end, end) for offset, end in enumerate(ends)
    }


def answered(
    results: tuple[ReplicatedPartition, ...],
    bounds: dict[TopicPartition, LogBounds],
    *,
    flow: MirrorFlow = FLOW,
) -> LogEndsBook:
    book = LogEndsBook()
    book.request("west", 1, {flow: results}, at=NOW)
    book.read("west", 1, bounds)
    return book


def pictured(
    book: LogEndsBook, position: ReplicatedPartition, *, headroom_s: float | None = None
) -> MirrorPartitionView:
    return book.view(position, OldestRecordAges(), live=True, losses=(NOTHING_LOST, headroom_s))


# --- syncs ---------------------------------------------------------------------------------------


def test_records_add_to_those_before_them():
    book = SyncBook()
    book.apply((sync(10),), NOW)
    book.apply((sync(20, partition=1),), NOW)
    assert (book.newest_position(ZERO), book.newest_position(ONE)) == (
        MirrorPosition(10, NOW),
        MirrorPosition(20, NOW),
    )


def test_a_topic_that_is_read_again_reports_nothing_of_what_its_syncs_reported_before():
    book = SyncBook()
    book.apply((sync(10), sync(20, partition=1)), NOW)
    book.apply((sync(100, downstream=150),), NOW, whole=True)
    assert (book.newest.keys(), book.read.keys()) == ({ZERO}, {ZERO})
    assert book.read[ZERO].history.corners() == ((100, 150),)


def test_what_came_before_the_newest_sync_is_known_and_that_something_was_lost_between():
    """The topic was compacted before it was read: of a gap it does not tell where it is."""
    newest = sync(60)
    book = SyncBook()
    book.apply((SyncRecord(newest.sync, 0, NOW, earlier=((10, 10), (50, 40))),), NOW, whole=True)
    history = book.read[ZERO].history
    assert history.corners() == ((10, 10), (50, 40), (60, 60))
    assert (history.best(10, 99), history.best(30, 99), history.best(50, 99)) == (10, None, 40)


def test_syncs_are_reported_by_partition_whichever_came_first():
    book = SyncBook()
    book.apply(tuple(sync(10, partition=number) for number in (2, 0, 1)), NOW)
    assert [view.partition for view in build_sync_views(FLOW, book)] == [0, 1, 2]


# --- positions -----------------------------------------------------------------------------------


def test_what_is_not_among_positions_has_no_place_wherever_it_would_be():
    results = tuple(one for one in at(5, 5, 5) if one.upstream != ONE)
    locations = [
        find_partition_index(results, where) for where in (ZERO, ONE, TWO, TopicPartition("z", 0))
    ]
    assert locations == [0, None, 1, None]


# --- what is paired ------------------------------------------------------------------------------


def test_answers_that_are_of_use_are_counted():
    book = LogEndsBook()
    assert book.version("west") == 0
    for number in (1, 2, 3):
        book.request("west", number, {}, at=NOW)
        assert book.read("west", number, {}) == NOW
        assert book.read("west", number, {}) is None
        assert book.version("west") == number


def test_an_answer_for_one_position_of_many_flows_was_compared():
    book = LogEndsBook()
    book.request("west", 1, {OTHER: ()}, at=NOW)
    book.read("west", 1, {})
    assert not book.compared("west")
    book.request("west", 2, {OTHER: (), FLOW: at(5)}, at=NOW)
    book.read("west", 2, {})
    assert book.compared("west")


def test_what_an_answer_changes_is_reported_and_of_the_first_nothing():
    book = answered((), to(5, 5, 5))
    assert book.changed("west") is None
    last = to(5, 6)
    for number, bounds, changed in (
        (2, to(5, 5, 5), frozenset()),
        (3, last, {ONE, TWO}),
        (4, last, frozenset()),
    ):
        book.request("west", number, {}, at=NOW)
        book.read("west", number, bounds)
        assert book.changed("west") == changed


# --- what is pictured ----------------------------------------------------------------------------


def test_a_partition_that_an_answer_lacks_has_no_position_against_it():
    position, gone = at(5, 5)
    view = pictured(answered((position, gone), to(9)), gone)
    assert (view.replicated, view.lag_position, view.log_end) == (5, None, None)


@pytest.mark.parametrize("flow", [FLOW, replace(FLOW, from_start=False)], ids=["start", "end"])
def test_who_is_at_the_end_has_caught_up_wherever_it_began(flow):
    (position,) = at(99, flow=flow)
    view = pictured(answered((position,), to(100), flow=flow), position)
    assert (view.lag, view.caught_up) == (0, True)


def test_without_a_position_nothing_is_said_of_how_near_retention_is():
    (never_copied,), (copied,) = never(), at(5)
    for position, report in ((never_copied, None), (copied, 60.0)):
        book = answered((position,), to(9))
        assert pictured(book, position, headroom_s=60.0).headroom_s == report


def test_a_picture_still_holds_while_an_answer_says_the_same_of_who_has_read_all():
    (position,) = at(99)
    book = answered((position,), to(100))
    view = pictured(book, position)
    assert book.is_current(view, position, NOTHING)
    assert not book.is_current(view, position, (NOTHING_LOST, 60.0))
    assert not book.is_current(view, at(98)[0], NOTHING)
    for bounds in (LogBounds(5, 100, 100), LogBounds(0, 101, 101), None):
        book = answered((position,), {} if bounds is None else {ZERO: bounds})
        assert not book.is_current(view, position, NOTHING)


@pytest.mark.parametrize("result", [at(97), never()], ids=["behind", "nothing copied"])
def test_a_picture_of_who_has_not_read_all_is_made_at_each_answer(result):
    book = answered(result, to(100))
    assert not book.is_current(pictured(book, result[0]), result[0], NOTHING)


# --- frozen --------------------------------------------------------------------------------------

FILE_2 = {"filename": "/data/other.txt"}
OFFSETS_TAIL = InputId.of_tail(OFFSETS)


def build_frozen(
    partition: int = 3, *, offset: int = 7, hidden: int = 1, detail: str = "held"
) -> Frozen:
    return Frozen(partition, offset, detail, hidden)


def two_files() -> World:
    """One in Kafka partition 3, another in 4."""
    world = files()
    world.commit("files", FILE, {"position": 7}, kafka_partition=3)
    world.commit("files", FILE_2, {"position": 8}, kafka_partition=4)
    return world


def list_labels(world: World) -> set[str]:
    return {
        view.label.removeprefix("filename=/data/") for view in world.snapshot().source_partitions
    }


def tail_view(world: World):
    return {view.id: view for view in world.snapshot().inputs}[OFFSETS_TAIL]


def test_exactly_the_source_partitions_of_the_held_one_are_hidden_and_come_back():
    world = two_files()
    world.tail(frozen=(3,))
    assert list_labels(world) == {"other.txt"}
    world.tail(frozen=(3, 4))
    assert list_labels(world) == set()
    world.tail()
    assert list_labels(world) == {"in.txt", "other.txt"}


def test_a_commit_beside_it_is_followed():
    world = two_files()
    world.tail(frozen=(3,))
    world.tail(
        record("files", FILE_2, {"position": 9}, log_offset=5, kafka_partition=4), frozen=(3,)
    )
    (view,) = world.snapshot().source_partitions
    assert view.offset.number("position") == 9


def test_the_input_is_down_for_a_reason_and_everything_else_of_the_tail_is_live():
    world = two_files()
    for _ in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(build_frozen(),), behind=1)
    view = tail_view(world)
    assert (view.up, view.live, view.last_reason) == (False, True, "open_transaction")
    assert view.last_error == "held"
    assert list_labels(world) == {"other.txt"}


def test_a_tail_that_does_not_read_beside_a_transaction_goes_stale_all_the_same():
    world = two_files()
    for _ in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(build_frozen(hidden=1),), behind=2)
    assert tail_view(world).live is False
    assert list_labels(world) == set()


def test_a_tail_that_moves_while_it_lies_behind_shows_nothing_until_it_is_there():
    world = two_files()
    for position in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(build_frozen(),), behind=100, positions=((4, position),))
    assert list_labels(world) == set()
    world.tail(frozen=(build_frozen(),), behind=1, positions=((4, 110),))
    assert list_labels(world) == {"other.txt"}


def errors(world: World) -> int:
    return dict(tail_view(world).errors).get("open_transaction", 0)


def test_a_transaction_is_counted_once_whatever_happens_meanwhile():
    world = two_files()
    world.tail(frozen=(build_frozen(3),))
    world.tail(frozen=(build_frozen(3, detail="told otherwise"),))
    assert errors(world) == 1
    world.tail_failed("unreachable")
    world.tail(frozen=(build_frozen(3),))
    assert tail_view(world).last_reason == "open_transaction"
    world.tail(caught_up=False, behind=9)
    world.tail(frozen=(build_frozen(3),), whole=True)
    assert errors(world) == 1


def test_each_transaction_is_counted():
    world = two_files()
    world.tail(frozen=(build_frozen(3),))
    world.tail(frozen=(build_frozen(3), build_frozen(4)))
    assert errors(world) == 2
    world.tail(frozen=(build_frozen(4),))
    assert errors(world) == 2
    world.tail()
    world.tail(frozen=(build_frozen(3, offset=9),))
    assert errors(world) == 3


def test_its_end_is_no_error_any_more():
    world = two_files()
    world.tail(frozen=(3,))
    world.tail()
    view = tail_view(world)
    assert (view.up, view.last_error, view.last_reason) == (True, None, None)


def test_a_held_offsets_topic_does_not_keep_a_daemon_from_being_ready():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(whole=True, frozen=(3,), behind=1)
    assert world.snapshot().waiting_for == ()


def test_a_bootstrap_that_is_held_is_not_ready_yet():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(caught_up=False, frozen=(3,), behind=1)
    assert "the end of the topic" in "; ".join(world.snapshot().waiting_for)


def test_held_syncs_hide_the_whole_flow_and_its_syncs():
    world = mirrors(mirror(), mirror("plain", syncs_topic=None))
    world.commit("mm2", orders(), {"offset": 9})
    world.commit("plain", orders(), {"offset": 9})
    world.ends(100)
    world.tail(topic=SYNCS, frozen=(0,))
    assert world.mirrored("mm2") is None
    assert world.mirrored("plain").lag == 90
    assert world.snapshot().syncs == ()
    world.synced(10)
    world.ends(100)
    assert (world.mirrored("mm2").replicated, len(world.snapshot().syncs)) == (9, 1)


def test_a_mirrored_partition_that_comes_back_waits_for_an_answer_of_its_own():
    """Its position may be one that came after the last answer."""
    world = mirrors(mirror(syncs_topic=None))
    world.commit("mm2", orders(), {"offset": 9}, kafka_partition=3)
    world.tail(frozen=(3,))
    world.ends(100)
    assert world.mirrored() is None
    world.tail()
    assert (world.mirrored().replicated, world.mirrored().lag) == (9, None)
    world.ends(100)
    assert world.mirrored().lag == 90


def test_the_truth_check_is_silent_while_a_transaction_may_hide_what_rest_has_observed():
    world = two_files()
    identity = world.file().identity
    world.tail(frozen=(4,))
    world.rest_offsets("files", {identity: '{"position":99}'})
    for _ in range(20):
        world.now += 10
        world.tail(frozen=(build_frozen(4),), behind=1)
        world.snapshot()
    assert world.offsets_differ() == 0
    world.tail()
    world.rest_offsets("files", {identity: '{"position":99}'})
    for _ in range(20):
        world.now += 10
        world.tail()
        world.snapshot()
    assert world.offsets_differ() > 0


def test_a_key_that_a_bootstrap_did_not_find_behind_a_transaction_comes_back_with_it():
    world = two_files()
    other = record("files", FILE_2, {"position": 8}, log_offset=1, kafka_partition=4, live=False)
    world.tail(other, whole=True, frozen=(3,))
    world.tail(record("files", FILE, {"position": 9}, log_offset=9, kafka_partition=3))
    assert world.file().offset.number("position") == 9


def test_a_partition_that_cannot_be_read_hides_its_own_and_is_named():
    world = two_files()
    sick = Frozen(3, 7, "partition 3: it has no leader", 0, "unsettled")
    for _ in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(sick,))
    view = tail_view(world)
    assert (view.up, view.live, view.last_reason) == (False, True, "unsettled")
    assert (view.last_error, dict(view.errors)) == (sick.detail, {"unsettled": 1})
    assert list_labels(world) == {"other.txt"}
    assert world.snapshot().ready
    world.tail(frozen=(sick, build_frozen(4)))
    assert tail_view(world).last_reason == "unsettled"
    world.tail()
    assert list_labels(world) == {"in.txt", "other.txt"}
    assert tail_view(world).up
