"""Our own decode against the converters in Connect's own jars."""

from __future__ import annotations

import pytest

from lab.check import converters

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("version", "seed"),
    [
        ("4.3.1", 1),
        pytest.param("4.3.1", 2, marks=pytest.mark.proof),
        pytest.param("3.9.2", 3, marks=pytest.mark.proof),
    ],
)
def test_what_we_say_for_certain_is_what_the_converters_do(version: str, seed: int) -> None:
    differences = converters.differences(seed, 40_000, version)
    assert not differences.wrong
    certain = sum(
        count for answer, count in differences.known.items() if not answer.startswith("unknown")
    )
    assert certain > 30_000  # or it says nothing
