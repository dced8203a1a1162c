"""The stream while its Kafka cluster is away for longer than Spark's own patience."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from lab import Lab, LabOptions
from lab.waiting import NotYet, until
from offsetwatch.clock import SystemClock
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.schemas import TABLES
from tests.history.rows import feed_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetwatch.history.pipeline.stream import BronzeStream

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.slow, pytest.mark.full]

TOPIC = "offsets"
WAIT_S_MAX = 120.0


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(LabOptions(connectors=False)) as running:
        running.create_topic("east", TOPIC)
        yield running


def checked(stream: BronzeStream, what: str, logs: list[dict[str, object]], event: str) -> None:
    """Look after the stream, as a run does, until it says this."""

    def probe() -> None:
        stream.check()
        if event not in [entry["event"] for entry in logs]:
            raise NotYet(f"it said {logs}")

    until(what, probe, timeout_s=WAIT_S_MAX)


def test_it_is_begun_again_where_it_stopped_when_kafka_is_back(
    lab: Lab, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetwatch.history.pipeline.stream.PAUSE_S_MAX", 0.5)
    monkeypatch.setattr("offsetwatch.clients.kafka.clients.REQUEST_TIMEOUT_S", 2.0)
    from offsetwatch.clients.kafka.clients import KafkaAdmin
    from offsetwatch.history.pipeline import commits
    from offsetwatch.history.pipeline.stream import BronzeStream
    from offsetwatch.history.pipeline.stream_plan import plan_stream

    topic_id = KafkaAdmin("east", {"bootstrap.servers": lab.east}).topic_ids([TOPIC])[TOPIC]
    feed = feed_of(lab.east, TOPIC, topic_id)
    impatient = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1500"}
    feed = replace(feed, options={**feed.options, **impatient})
    for table in TABLES:
        commits.create(tmp_path, table)
    stream = BronzeStream(spark, tmp_path, feed, plan_stream(tmp_path, feed), SystemClock())
    lab.produce("east", TOPIC, 10)
    log = (TOPIC, topic_id, 0)

    def stored(count: int) -> None:
        def probe() -> None:
            stream.check()
            observed = reader.read_bronze_next_offsets(tmp_path, "east").get(log, 0)
            if observed < count:
                raise NotYet(f"{observed} records are stored")

        until(f"{count} records stored", probe, timeout_s=WAIT_S_MAX)

    with capture_logs() as logs:
        stream.start("500 milliseconds")
        try:
            stored(10)
            lab.kill("east")
            checked(stream, "the end of Spark's patience", logs, "history_stream_ended")
            checked(stream, "the wait for Kafka", logs, "history_stream_waits")
            lab.start_process("east")
            lab.produce("east", TOPIC, 10)
            stored(20)
        finally:
            stream.stop()
    assert logs[-1] == {
        "event": "history_stream_goes_on",
        "kafka": "east",
        "number": 0,
        "log_level": "warning",
    }
    assert stream.notices == []
    (topic,) = reader.summarize_bronze(tmp_path)
    assert topic.rows == 20
    assert stream.reached().ends
