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


@pytest.fixture(scope="session")
def builder() -> Iterator[Builder]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount what an image is made of")
    missing = [name for name in building.NEEDED if shutil.which(name) is None]
    if missing:
        pytest.fail(f"no {', '.join(missing)} here: {building.HINT}")
    # Not one of pytest's own folders: of these it keeps some, and an image is half a gigabyte.
    with building.builder(Path(tempfile.mkdtemp(prefix="offsetwatch-images-"))) as made:
        yield made


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
