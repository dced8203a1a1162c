"""An order of the real tests in which no lab outlives those that need it.

An idle lab with its daemon takes as much of a small machine as a test does, and pytest ends what a
whole session shares when the session ends. Here tests that need the same come one after the other,
and what the next one does not need ends at once. conftest.py hands pytest's hooks on, and marks
those on the lab that most share (`usual`), so that the others may go on beside them.
"""

from __future__ import annotations

from typing import Final

import pytest

# Each lab behind what is built on it. A test stands with the first that it needs. Those that need
# none come last: many and short, they fill up what is left to do.
LABS: Final = (
    ("product", "toolbox", "lab"),
    ("exact_product", "exact"),
    ("begun", "watched"),
    ("stage",),
    ("older",),
)
SHARED: Final = tuple(name for names in LABS for name in names)


class Beds:
    """Which shared fixtures there are."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[pytest.FixtureDef[object], pytest.FixtureRequest]] = {}

    def made(self, fixture: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
        """A fixture is set up; a module may have one of its own by the same name."""
        if fixture.scope == "session" and fixture.argname in SHARED:
            self._made[fixture.argname] = fixture, request

    def over(self, following: pytest.Item | None) -> None:
        """A test has ended, and with it all that was there for it alone."""
        kept = () if following is None else _from(place(following))
        for name in SHARED:
            if name in self._made and name not in kept:
                fixture, request = self._made.pop(name)
                fixture.finish(request)  # type: ignore[arg-type]  # it is what was handed to us


def place(item: pytest.Item) -> int:
    """Where in the order."""
    found = _needs(item)
    return next((number for number, name in enumerate(SHARED) if name in found), len(SHARED))


def usual(item: pytest.Item) -> bool:
    """Whether it is on the lab that most share."""
    return place(item) < len(LABS[0])


def _needs(item: pytest.Item) -> set[str]:
    """Those of SHARED that a test uses, or has named as a parameter; not what its module has by the
    same name.
    """
    assert isinstance(item, pytest.Function)
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (*item.fixturenames, *given)
    return {name for name in SHARED if name in names and not hasattr(item.module, name)}


def _from(number: int) -> tuple[str, ...]:
    """What may be needed there, and on the same lab behind that."""
    name = SHARED[number] if number < len(SHARED) else None
    return next((names[names.index(name) :] for names in LABS if name in names), ())
