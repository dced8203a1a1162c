from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite(f"{__package__}.bad", f"{__package__}.stage")

from .stage import Stage, serving  # noqa: E402


@pytest.fixture
def stage() -> Iterator[Stage]:
    with serving() as made:
        yield made
