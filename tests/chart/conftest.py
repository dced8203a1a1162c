"""The chart's own variants, each rendered once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json

VARIANTS = tuple(sorted((chart.CHART / "ci").glob("*-values.yaml")))


@pytest.fixture(
    scope="session", params=VARIANTS, ids=lambda item: item.name.removesuffix("-values.yaml")
)
def variant(request: pytest.FixtureRequest) -> Path:
    path = request.param
    assert isinstance(path, Path)
    return path


@pytest.fixture(scope="session")
def rendered(variant: Path) -> list[Json]:
    return chart.documents(chart.render(variant, namespace="monitoring"))
