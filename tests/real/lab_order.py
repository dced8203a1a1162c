"""An order of the real tests in which no lab outlives those that need it.

An idle lab with its daemon takes as much of a small machine as a test does, and pytest ends what a
whole session shares when the session ends. Here tests that need the same come one after the other,
and what the next one does not need ends at once. conftest.py registers this as a plugin: of what
a session shares a conftest.py in a folder hears nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent

# Each lab behind what is built on it. A test stands with the first that it needs; those that need
# none come last.
LABS: Final = (
    ("stage", "product", "toolbox", "lab"),
    ("exact_product", "exact"),
    ("begun", "watched"),
    ("older",),
)
SHARED: Final = tuple(name for names in LABS for name in names)


class LabOrder:
    """Which shared fixtures there are."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[pytest.FixtureDef[object], pytest.FixtureRequest]] = {}

    # Before pytest chooses by marks, and puts those of one parameter together.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put ours in order, where they are."""
        own = {item for item in items if item.path.is_relative_to(HERE)}
        ordered = iter(sorted((item for item in items if item in own), key=_compute_rank))
        items[:] = [next(ordered) if item in own else item for item in items]

    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> None:
        """Take down what is there; a module may have one of its own by the same name."""
        own = request.config.rootpath / fixturedef.baseid == HERE
        if own and fixturedef.scope == "session" and fixturedef.argname in SHARED:
            self._made[fixturedef.argname] = fixturedef, request

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Iterator[None]:
        """A test has ended, and with it all that was there for it alone; now what is shared."""
        try:
            yield
        finally:
            retained = _list_fixtures(nextitem)
            for name in [name for name in SHARED if name in self._made and name not in retained]:
                fixture, request = self._made.pop(name)
                fixture.finish(request)  # type: ignore[arg-type]  # it is what was handed to us


def _compute_rank(item: pytest.Item) -> int:
    """Where in the order."""
    result = _needs(item)
    return next((number for number, name in enumerate(SHARED) if name in result), len(SHARED))


def _needs(item: pytest.Item) -> set[str]:
    """Those of SHARED that a test uses, or has named as a parameter; not what its module has by the
    same name.
    """
    assert isinstance(item, pytest.Function)
    inputs = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = (*item.fixturenames, *inputs)
    return {name for name in SHARED if name in names and not hasattr(item.module, name)}


def _list_fixtures(item: pytest.Item | None) -> tuple[str, ...]:
    """What this one needs, and what that may be built on."""
    number = (
        len(SHARED) if item is None or not item.path.is_relative_to(HERE) else _compute_rank(item)
    )
    first = SHARED[number] if number < len(SHARED) else None
    return next((names[names.index(first) :] for names in LABS if first in names), ())
