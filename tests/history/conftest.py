"""One Spark session and one broker for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lab.cluster.lone_broker import lone_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The pipeline's own session: what holds under its settings is what is to be tested."""
    from offsetwatch.history.spark.session import spark_session

    # In a session of minutes, what is compiled well pays.
    with spark_session(master="local[2]", heap="1g", short=False) as session:
        session.conf.set("spark.sql.shuffle.partitions", "1")
        # Compiling a plan for a dozen rows is a third of what a run costs here.
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of a real broker that creates no topic by itself."""
    with lone_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.address
