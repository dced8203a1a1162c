"""How many keys are kept, and how many bytes of them."""

from __future__ import annotations

from offsetwatch.state.key_budget import BYTES_MIN, KEY_BYTES, KeyBudget


def test_there_is_room_for_so_many_keys_and_for_so_many_bytes():
    budget = KeyBudget(2 * BYTES_MIN // KEY_BYTES)
    budget.add(2 * BYTES_MIN - 1)
    assert budget.admits(1)
    assert not budget.admits(2)
    budget.remove(2 * BYTES_MIN - 1)
    budget.add(0, keys=2 * BYTES_MIN // KEY_BYTES)
    assert not budget.admits(0)
    assert budget.admits_bytes(2 * BYTES_MIN)


def test_few_keys_may_be_longer_than_many_on_average():
    assert KeyBudget(1).admits(BYTES_MIN)
    assert not KeyBudget(1).admits(BYTES_MIN + 1)
