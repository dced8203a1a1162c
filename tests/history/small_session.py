"""The pipeline's own Spark session, set up for tables of a few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def small_session() -> Iterator[SparkSession]:
    """Yield a session in which what holds under the pipeline's settings can be tested."""
    from offsetwatch.history.spark.session import spark_session

    # The first compiler tier alone: what the second adds took a third of the JVM's processor time.
    with spark_session(master="local[2]", heap="1g", short=True) as session:
        session.conf.set("spark.sql.shuffle.partitions", "1")
        # Compiling a plan for a dozen rows is a third of what a run costs here.
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session
