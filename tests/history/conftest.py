"""One Spark session and one broker for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lab.cluster.lone_broker import lone_broker
from tests.history.small_session import small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of a real broker that creates no topic by itself."""
    with lone_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.address
