"""Plans: immutable, known by their hash, and the same after they were written and read."""

from __future__ import annotations

import msgspec

from offsetwatch.remedy.model import plan
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, Restart, decode_plan, encode_plan
from tests.unit.remedy.plans import plan_of, skip_of

NOUNS = [
    noun
    for noun in vars(plan).values()
    if isinstance(noun, type) and issubclass(noun, msgspec.Struct)
]


def test_nothing_of_a_plan_is_changed_after_it_was_approved_by_its_hash() -> None:
    assert len(plan_of().sha256) == 64
    assert [noun.__name__ for noun in NOUNS if not noun.__struct_config__.frozen] == []


def test_a_plan_is_known_by_the_bytes_that_it_is_written_in() -> None:
    assert decode_plan(encode_plan(plan_of())) == plan_of()
    assert decode_plan(encode_plan(skip_of())) == skip_of()
    assert plan_of().sha256 == plan_of().sha256
    assert len({plan_of().sha256, plan_of(plan_id="p2").sha256, skip_of().sha256}) == 3


def test_the_form_of_a_plan_has_a_number() -> None:
    assert msgspec.json.decode(encode_plan(plan_of()))["v"] == 1


def test_pairs_are_in_the_order_of_their_partitions() -> None:
    a, b = PartitionOffset("a", "2"), PartitionOffset("b", "1")
    plan = decode_plan(encode_plan(plan_of(Alter((b, a)))))
    assert [sorted(step.pairs) for step in plan.steps if isinstance(step, Alter)] == [[a, b]]


def test_a_restart_of_which_nothing_else_is_said_is_of_all_tasks() -> None:
    step = decode_plan(encode_plan(plan_of(Restart()))).steps[3]
    assert step == Restart() == Restart(include_tasks=True, only_failed=False)
