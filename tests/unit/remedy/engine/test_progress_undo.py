"""The way back."""

from __future__ import annotations

import pytest

from offsetwatch.remedy.engine.progress import (
    build_rollback_steps,
    compute_expected_offsets,
    is_change,
    is_harmless,
    is_irreversible,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Create,
    Delete,
    DeleteTopic,
    Expect,
    Freeze,
    FrozenOffsets,
    LocatedRawRecord,
    PartitionOffset,
    Prove,
    RawOffsetRecord,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
    Watch,
    Write,
)
from tests.unit.remedy.plans import POISON, plan_of

A, B = PartitionOffset("a", "1"), PartitionOffset("b", "2")
FROZEN = FrozenOffsets(
    (A, B),
    "file",
    "sha",
    (LocatedRawRecord("ka", "1", 0, where="k/t"), LocatedRawRecord("kb", "2", 1, where="k/t")),
)
REST = FrozenOffsets((A, B), "file", "sha")
EVERY_STEP = (
    ToState(RequestedState.STOPPED),
    Settle(),
    Freeze(),
    Alter((A,)),
    Reset(),
    Write("k/t", (), ()),
    Create("c"),
    Delete(),
    Restart(),
    DeleteTopic("k", "t", "id"),
    Copy(POISON, "sha", 1, "key", "k/q"),
    Expect((A,)),
    Prove(A, POISON, 60.0),
    Watch(10.0),
)


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        (is_change, {Alter, Reset, Write, Create, Delete, DeleteTopic}),
        (is_harmless, {Settle, Freeze, Copy, Expect, Prove, Watch}),
        (is_irreversible, {Delete, DeleteTopic}),
    ],
    ids=["changes", "harmless", "irreversible"],
)
def test_what_a_step_leaves_behind_is_known_of_each_kind(case, kinds):
    assert {type(step) for step in EVERY_STEP} == set(AnyStep.__args__)
    assert {type(step) for step in EVERY_STEP if case(step) is True} == kinds
    assert {type(step) for step in EVERY_STEP if case(step) is False} | kinds == set(
        AnyStep.__args__
    )


def back(*changes, frozen=REST, touched=None, original=RequestedState.RUNNING):
    plan = plan_of(*changes, original=original)
    at = range(len(plan.steps) - 1) if touched is None else touched
    return build_rollback_steps(plan, frozen, frozenset(at))


def test_nothing_begun_has_no_way_back():
    assert back(Reset(), touched=()) == ()


def test_a_stop_goes_back_to_the_state_there_was():
    assert back(Reset(), touched=(0,)) == (ToState(RequestedState.RUNNING),)


def test_what_was_in_no_state_goes_back_to_none():
    steps = (Reset(), ToState(RequestedState.STOPPED))
    assert back(*steps, touched=range(4), original=None) == (Alter((A, B)),)


def test_an_alter_gives_back_what_was_and_removes_what_was_not():
    change = Alter((PartitionOffset("a", "9"), PartitionOffset("c", "9")))
    assert back(change) == (Alter((A, PartitionOffset("c", None))), ToState(RequestedState.RUNNING))


def test_a_reset_gives_everything_back():
    assert back(Reset()) == (Alter((A, B)), ToState(RequestedState.RUNNING))


def test_a_reset_and_an_alter_are_put_back_by_one():
    change = (Reset(), Alter((PartitionOffset("c", "9"),)))
    assert back(*change)[0] == Alter((A, B, PartitionOffset("c", None)))


def test_a_write_gives_back_the_bytes_there_were_and_none_for_those_there_were_not():
    change = Write(
        "k/t",
        (RawOffsetRecord("kb", None, 1), RawOffsetRecord("kc", "9", 2)),
        (PartitionOffset("b", None),),
    )
    assert back(change, frozen=FROZEN)[0] == Write(
        "k/t", (RawOffsetRecord("kb", "2", 1), RawOffsetRecord("kc", None, 2)), (B,)
    )


def test_a_write_without_the_bytes_of_before_is_rolled_back_by_pairs():
    change = Write("k/t", (RawOffsetRecord("kb", None, 1),), (PartitionOffset("b", None),))
    assert back(change)[0] == Alter((B,))


def test_a_write_where_nothing_was_leaves_nothing():
    change = Write("k/t", (RawOffsetRecord("kc", "9", 2),), (PartitionOffset("c", "9"),))
    assert back(change, frozen=FrozenOffsets((), "file", "sha"))[0] == Write(
        "k/t", (RawOffsetRecord("kc", None, 2),), (PartitionOffset("c", None),)
    )


def test_writes_are_put_back_in_the_order_of_the_plan():
    writes = [Write(f"k/{name}", (RawOffsetRecord("kb", "9", 1),), ()) for name in "abcdef"]
    locations = [step.where for step in back(*writes, frozen=FROZEN, touched=(3, 8))]
    assert locations == ["k/a", "k/f"]


def test_a_created_connector_is_deleted_after_its_remnants_are_back():
    steps = (Create("c"), Reset())
    assert back(*steps) == (Alter((A, B)), Delete("c"))


def test_what_offsets_are_after_some_steps():
    steps = (Reset(), Alter((PartitionOffset("c", "9"), PartitionOffset("a", None))))
    assert compute_expected_offsets(FROZEN, steps).pairs == (PartitionOffset("c", "9"),)
    assert compute_expected_offsets(REST, (Alter((PartitionOffset("0", "9"),)),)).pairs == (
        PartitionOffset("0", "9"),
        A,
        B,
    )
    write = Write(
        "k/t",
        (RawOffsetRecord("ka", "7", 0), RawOffsetRecord("kb", None, 1)),
        (PartitionOffset("a", "7"), PartitionOffset("b", None)),
    )
    after = compute_expected_offsets(FROZEN, (write,))
    assert (after.pairs, after.raw) == (
        (PartitionOffset("a", "7"),),
        (LocatedRawRecord("ka", "7", 0, where="k/t"),),
    )


def test_records_of_two_topics_go_back_each_to_its_own():
    was = (
        LocatedRawRecord("ka", "1", 0, where="k/own"),
        LocatedRawRecord("ka", "old", 0, where="k/shared"),
    )
    frozen = FrozenOffsets((A,), "file", "sha", was)
    own = Write("k/own", (RawOffsetRecord("ka", None, 0),), (PartitionOffset("a", None),))
    shared = Write("k/shared", (RawOffsetRecord("ka", None, 0),), ())
    assert compute_expected_offsets(frozen, (own,)).raw == was[1:]
    assert compute_expected_offsets(frozen, (own, shared)).raw == ()
    assert back(own, shared, frozen=frozen)[:2] == (
        Write("k/own", (RawOffsetRecord("ka", "1", 0),), (A,)),
        Write("k/shared", (RawOffsetRecord("ka", "old", 0),), ()),
    )
