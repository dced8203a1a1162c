from __future__ import annotations

from collections.abc import Iterator

import pytest

from .stage import Stage, serving


@pytest.fixture
def stage() -> Iterator[Stage]:
    with serving() as built:
        yield built
