"""An open transaction hides what was written after it: only that, and only while it does."""

from __future__ import annotations

from offsetwatch.model.observations import TAIL, Frozen, InputId

from .worlds import (
    FILE,
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
)

OTHER = {"filename": "/data/other.txt"}
OFFSETS_TAIL = InputId.of_tail(OFFSETS)


def held(partition: int = 3, *, offset: int = 7, hidden: int = 1, detail: str = "held") -> Frozen:
    return Frozen(partition, offset, detail, hidden)


def two_files() -> World:
    """One in Kafka partition 3, another in 4."""
    world = files()
    world.commit("files", FILE, {"position": 7}, kafka_partition=3)
    world.commit("files", OTHER, {"position": 8}, kafka_partition=4)
    return world


def shown(world: World) -> set[str]:
    return {
        view.label.removeprefix("filename=/data/") for view in world.snapshot().source_partitions
    }


def tail_view(world: World):
    return {view.id: view for view in world.snapshot().inputs}[OFFSETS_TAIL]


def test_exactly_the_source_partitions_of_the_held_one_are_hidden_and_come_back():
    world = two_files()
    world.tail(frozen=(3,))
    assert shown(world) == {"other.txt"}
    world.tail(frozen=(3, 4))
    assert shown(world) == set()
    world.tail()
    assert shown(world) == {"in.txt", "other.txt"}


def test_a_commit_beside_it_is_followed():
    world = two_files()
    world.tail(frozen=(3,))
    world.tail(
        record("files", OTHER, {"position": 9}, log_offset=5, kafka_partition=4), frozen=(3,)
    )
    (view,) = world.snapshot().source_partitions
    assert view.offset.number("position") == 9


def test_the_input_is_down_for_a_reason_and_everything_else_of_the_tail_is_live():
    world = two_files()
    for _ in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(held(),), behind=1)
    view = tail_view(world)
    assert (view.up, view.live, view.last_reason) == (False, True, "open_transaction")
    assert view.last_error == "held"
    assert shown(world) == {"other.txt"}


def test_a_tail_that_does_not_read_beside_a_transaction_goes_stale_all_the_same():
    world = two_files()
    for _ in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(held(hidden=1),), behind=2)
    assert tail_view(world).live is False
    assert shown(world) == set()


def test_a_tail_that_moves_while_it_lies_behind_shows_nothing_until_it_is_there():
    world = two_files()
    for position in range(10):
        world.now += STALE_S[TAIL] / 2
        world.tail(frozen=(held(),), behind=100, positions=((4, position),))
    assert shown(world) == set()
    world.tail(frozen=(held(),), behind=1, positions=((4, 110),))
    assert shown(world) == {"other.txt"}


def errors(world: World) -> int:
    return dict(tail_view(world).errors).get("open_transaction", 0)


def test_a_transaction_is_counted_once_whatever_happens_meanwhile():
    world = two_files()
    world.tail(frozen=(held(3),))
    world.tail(frozen=(held(3, detail="told otherwise"),))
    assert errors(world) == 1
    world.tail_failed("unreachable")
    world.tail(frozen=(held(3),))
    assert tail_view(world).last_reason == "open_transaction"
    world.tail(caught_up=False, behind=9)
    world.tail(frozen=(held(3),), whole=True)
    assert errors(world) == 1


def test_each_transaction_is_counted():
    world = two_files()
    world.tail(frozen=(held(3),))
    world.tail(frozen=(held(3), held(4)))
    assert errors(world) == 2
    world.tail(frozen=(held(4),))
    assert errors(world) == 2
    world.tail()
    world.tail(frozen=(held(3, offset=9),))
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
    world.found()
    world.tail(whole=True, frozen=(3,), behind=1)
    assert world.snapshot().waiting_for == ()


def test_a_bootstrap_that_is_held_is_not_ready_yet():
    world = World()
    world.listed(source("files"))
    world.found()
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


def test_the_truth_check_is_silent_while_a_transaction_may_hide_what_rest_has_seen():
    world = two_files()
    identity = world.file().identity
    world.tail(frozen=(4,))
    world.rest_offsets("files", {identity: '{"position":99}'})
    for _ in range(20):
        world.now += 10
        world.tail(frozen=(held(4),), behind=1)
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
    other = record("files", OTHER, {"position": 8}, log_offset=1, kafka_partition=4, live=False)
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
    assert shown(world) == {"other.txt"}
    assert world.snapshot().ready
    world.tail(frozen=(sick, held(4)))
    assert tail_view(world).last_reason == "unsettled"
    world.tail()
    assert shown(world) == {"in.txt", "other.txt"}
    assert tail_view(world).up
