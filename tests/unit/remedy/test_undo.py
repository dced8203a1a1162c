"""The way back."""

from __future__ import annotations

from exporter.remedy.plan import (
    Alter,
    Create,
    Delete,
    Frozen,
    Pair,
    Raw,
    Reset,
    State,
    ToState,
    Write,
)
from exporter.remedy.undo import expected, way_back
from tests.unit.remedy.plans import plan_of

A, B = Pair("a", "1"), Pair("b", "2")
FROZEN = Frozen((A, B), "file", "sha", (Raw("ka", "1", 0), Raw("kb", "2", 1)))
REST = Frozen((A, B), "file", "sha")


def back(*changes, frozen=REST, touched=None):
    plan = plan_of(*changes)
    at = range(len(plan.steps) - 1) if touched is None else touched
    return way_back(plan, frozen, frozenset(at))


def test_nothing_begun_has_no_way_back():
    assert back(Reset(), touched=()) == ()


def test_a_stop_goes_back_to_the_state_there_was():
    assert back(Reset(), touched=(0,)) == (ToState(State.RUNNING),)


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


def test_a_created_connector_is_deleted_after_its_remnants_are_back():
    steps = (Create("c"), Reset())
    assert back(*steps) == (Alter((A, B)), Delete("c"))


def test_what_offsets_are_after_some_steps():
    steps = (Reset(), Alter((Pair("c", "9"), Pair("a", None))))
    assert expected(FROZEN, steps).pairs == (Pair("c", "9"),)
    write = Write("k/t", (Raw("ka", "7", 0), Raw("kb", None, 1)), (Pair("a", "7"), Pair("b", None)))
    after = expected(FROZEN, (write,))
    assert (after.pairs, after.raw) == ((Pair("a", "7"),), (Raw("ka", "7", 0),))
