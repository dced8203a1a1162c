"""Images are built once for all tests, and so is the lab that they are run beside."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from tests.image import building
from tests.image.building import Builder, Image

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark, jars and a JRE make an image of 1.7 GB: minutes to build, and so for the proofs."""
    for item in items:
        if item.path.is_relative_to(HERE) and "pipeline" in _named(item):
            item.add_marker(pytest.mark.proof)


def _named(item: pytest.Item) -> set[object]:
    """Fixtures that it needs, and those that it takes by the names it is given."""
    assert isinstance(item, pytest.Function)
    inputs = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {*item.fixturenames, *(entry for entry in inputs if isinstance(entry, str))}


@pytest.fixture(scope="session")
def builder() -> Iterator[Builder]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount what an image is made of")
    missing = [name for name in building.NEEDED if shutil.which(name) is None]
    if missing:
        pytest.fail(f"no {', '.join(missing)} here: {building.HINT}")
    # Not one of pytest's own folders: of these it keeps some, and an image is half a gigabyte.
    with building.builder(Path(tempfile.mkdtemp(prefix="offsetwatch-images-"))) as built:
        yield built


@pytest.fixture(scope="session")
def daemon(builder: Builder) -> Image:
    return builder.build("daemon")


@pytest.fixture(scope="session")
def pipeline(builder: Builder) -> Image:
    return builder.build("pipeline")


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab(LabOptions()) as running:
        yield running
