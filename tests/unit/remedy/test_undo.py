"""The way back."""

from __future__ import annotations

import pytest
from offsetwatch.remedy.engine.undo import changes, expected, harmless, irreversible, way_back
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Create,
    Delete,
    DeleteTopic,
    Expect,
    Freeze,
    Frozen,
    Pair,
    Prove,
    Raw,
    RawFound,
    Reset,
    Restart,
    Settle,
    State,
    ToState,
    Watch,
    Write,
)

from tests.unit.remedy.plans import POISON, plan_of

A, B = Pair("a", "1"), Pair("b", "2")
FROZEN = Frozen(
    (A, B),
    "file",
    "sha",
    (RawFound("ka", "1", 0, where="k/t"), RawFound("kb", "2", 1, where="k/t")),
)
REST = Frozen((A, B), "file", "sha")
EVERY_STEP = (
    ToState(State.STOPPED),
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
    ("asked", "kinds"),
    [
        (changes, {Alter, Reset, Write, Create, Delete, DeleteTopic}),
        (harmless, {Settle, Freeze, Copy, Expect, Prove, Watch}),
        (irreversible, {Delete, DeleteTopic}),
    ],
    ids=["changes", "harmless", "irreversible"],
)
def test_what_a_step_leaves_behind_is_known_of_each_kind(asked, kinds):
    assert {type(step) for step in EVERY_STEP} == set(AnyStep.__args__)
    assert {type(step) for step in EVERY_STEP if asked(step) is True} == kinds
    assert {type(step) for step in EVERY_STEP if asked(step) is False} | kinds == set(
        AnyStep.__args__
    )


def back(*changes, frozen=REST, touched=None, original=State.RUNNING):
    plan = plan_of(*changes, original=original)
    at = range(len(plan.steps) - 1) if touched is None else touched
    return way_back(plan, frozen, frozenset(at))


def test_nothing_begun_has_no_way_back():
    assert back(Reset(), touched=()) == ()


def test_a_stop_goes_back_to_the_state_there_was():
    assert back(Reset(), touched=(0,)) == (ToState(State.RUNNING),)


def test_what_was_in_no_state_goes_back_to_none():
    steps = (Reset(), ToState(State.STOPPED))
    assert back(*steps, touched=range(4), original=None) == (Alter((A, B)),)


def test_an_alter_gives_back_what_was_and_removes_what_was_not():
    change = Alter((Pair("a", "9"), Pair("c", "9")))
    assert back(change) == (Alter((A, Pair("c", None))), ToState(State.RUNNING))


def test_a_reset_gives_everything_back():
    assert back(Reset()) == (Alter((A, B)), ToState(State.RUNNING))


def test_a_reset_and_an_alter_are_put_back_by_one():
    change = (Reset(), Alter((Pair("c", "9"),)))
    assert back(*change)[0] == Alter((A, B, Pair("c", None)))


def test_a_write_gives_back_the_bytes_there_were_and_none_for_those_there_were_not():
    change = Write("k/t", (Raw("kb", None, 1), Raw("kc", "9", 2)), (Pair("b", None),))
    assert back(change, frozen=FROZEN)[0] == Write(
        "k/t", (Raw("kb", "2", 1), Raw("kc", None, 2)), (B,)
    )


def test_a_write_whose_bytes_of_before_nobody_saw_is_put_back_by_pairs():
    change = Write("k/t", (Raw("kb", None, 1),), (Pair("b", None),))
    assert back(change)[0] == Alter((B,))


def test_a_write_where_nothing_was_leaves_nothing():
    change = Write("k/t", (Raw("kc", "9", 2),), (Pair("c", "9"),))
    assert back(change, frozen=Frozen((), "file", "sha"))[0] == Write(
        "k/t", (Raw("kc", None, 2),), (Pair("c", None),)
    )


def test_writes_are_put_back_in_the_order_of_the_plan():
    writes = [Write(f"k/{name}", (Raw("kb", "9", 1),), ()) for name in "abcdef"]
    places = [step.where for step in back(*writes, frozen=FROZEN, touched=(3, 8))]
    assert places == ["k/a", "k/f"]


def test_a_created_connector_is_deleted_after_its_remnants_are_back():
    steps = (Create("c"), Reset())
    assert back(*steps) == (Alter((A, B)), Delete("c"))


def test_what_offsets_are_after_some_steps():
    steps = (Reset(), Alter((Pair("c", "9"), Pair("a", None))))
    assert expected(FROZEN, steps).pairs == (Pair("c", "9"),)
    assert expected(REST, (Alter((Pair("0", "9"),)),)).pairs == (Pair("0", "9"), A, B)
    write = Write("k/t", (Raw("ka", "7", 0), Raw("kb", None, 1)), (Pair("a", "7"), Pair("b", None)))
    after = expected(FROZEN, (write,))
    assert (after.pairs, after.raw) == ((Pair("a", "7"),), (RawFound("ka", "7", 0, where="k/t"),))


def test_records_of_two_topics_go_back_each_to_its_own():
    was = (RawFound("ka", "1", 0, where="k/own"), RawFound("ka", "old", 0, where="k/shared"))
    frozen = Frozen((A,), "file", "sha", was)
    own = Write("k/own", (Raw("ka", None, 0),), (Pair("a", None),))
    shared = Write("k/shared", (Raw("ka", None, 0),), ())
    assert expected(frozen, (own,)).raw == was[1:]
    assert expected(frozen, (own, shared)).raw == ()
    assert back(own, shared, frozen=frozen)[:2] == (
        Write("k/own", (Raw("ka", "1", 0),), (A,)),
        Write("k/shared", (Raw("ka", "old", 0),), ()),
    )
