"""An order of the real tests in which no lab outlives the last test that needs it.

An idle lab with its daemon takes as much of a small machine as a test does, and pytest ends what a
whole session shares when the session ends. Here tests that need the same come one after the other,
and what no later one needs ends at once. conftest.py hands pytest's hooks on.
"""

from __future__ import annotations

from typing import Final

import pytest

# What labs there are and who needs them, each before what it is built on. A test stands with the
# first that it needs; those that need none of them come before all others.
SHARED: Final = (
    *("product", "toolbox", "lab"),
    *("exact_product", "exact"),
    "stage",
    *("begun", "watched"),
    "older",
)


class Beds:
    """Which shared fixtures are there, and until which test."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[pytest.FixtureDef[object], pytest.FixtureRequest]] = {}
        self._last: dict[str, pytest.Item] = {}

    def collected(self, items: list[pytest.Item]) -> None:
        """These are run, in this order."""
        self._last = {name: item for item in items for name in needs(item)}

    def made(self, fixture: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
        """A fixture is set up; a module may have one of its own by the same name."""
        if fixture.scope == "session" and fixture.argname in SHARED:
            self._made[fixture.argname] = fixture, request

    def over(self, item: pytest.Item) -> None:
        """The test has ended, and with it all that was there for it alone."""
        for name in SHARED:
            if name in self._made and self._last.get(name) is item:
                fixture, request = self._made.pop(name)
                fixture.finish(request)  # type: ignore[arg-type]  # it is what was handed to us


def needs(item: pytest.Item) -> set[str]:
    """Those of SHARED that a test uses, or has named as a parameter; not what its module has by the
    same name.
    """
    assert isinstance(item, pytest.Function)
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (*item.fixturenames, *given)
    return {name for name in SHARED if name in names and not hasattr(item.module, name)}


def place(item: pytest.Item) -> int:
    """Where in the order."""
    found = needs(item)
    return next((number for number, name in enumerate(SHARED, 1) if name in found), 0)
