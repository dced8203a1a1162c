"""Offset translation against the class in Kafka's own jar."""

from __future__ import annotations

import pytest

from lab.check import offset_translation

pytestmark = pytest.mark.real


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_our_store_translates_as_kafkas_own_does(seed: int) -> None:
    assert offset_translation.difference(seed, 40_000) is None
