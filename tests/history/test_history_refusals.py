"""What a run refuses before it starts a JVM: what would break the promises of the tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exporter.errors import HistoryError
from exporter.history.tables import BRONZE_RECORDS
from exporter.model.topology import KafkaTopic, OffsetsTopic, Topology
from tests.history.delta import write

if TYPE_CHECKING:
    from exporter.history.jobs import PipelineSpec

pytestmark = pytest.mark.spark  # needs the extra; none of these starts Spark

OFFSETS = KafkaTopic("east/1", "connect-offsets")


def spec(base: Path, **changes: Any) -> PipelineSpec:
    from exporter.history.jobs import PipelineSpec

    made = PipelineSpec(
        base=base,
        topology=Topology((OffsetsTopic("payments", OFFSETS),), ()),
        kafka={"east/1": {"bootstrap.servers": "127.0.0.1:1"}},
        topic_ids={OFFSETS: "id"},
    )
    return replace(made, **changes)


def run(made: PipelineSpec) -> None:
    from exporter.history.jobs import run_available_now

    run_available_now(made)


def bronze_of(base: Path, **changes: object) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    row = {
        "kafka": OFFSETS.kafka,
        "kind": "connect_offsets",
        "topic": OFFSETS.topic,
        "topic_id": "id",
        "kts": now,
        "day": date(2026, 11, 21),
    }
    write(base, BRONZE_RECORDS, row | changes)


def checkpoint(base: Path) -> Path:
    return base / "_ckpt" / "east%2F1" / "g0"


def test_a_topology_without_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="names no topic"):
        run(spec(tmp_path, topology=Topology((), ())))


def test_a_kafka_cluster_without_properties_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="kafka east/1 is in the topology, but its properties"):
        run(spec(tmp_path, kafka={}))


def test_rows_whose_checkpoint_is_gone_are_not_stored_a_second_time(tmp_path: Path) -> None:
    bronze_of(tmp_path)
    with pytest.raises(HistoryError, match="would store every record twice"):
        run(spec(tmp_path))


def test_a_checkpoint_whose_rows_are_gone_is_not_continued(tmp_path: Path) -> None:
    checkpoint(tmp_path).mkdir(parents=True)
    with pytest.raises(HistoryError, match="would leave out all that was read before"):
        run(spec(tmp_path))


def test_a_topic_with_another_id_than_its_rows_is_refused(tmp_path: Path) -> None:
    bronze_of(tmp_path, topic_id="older")
    checkpoint(tmp_path).mkdir(parents=True)
    with pytest.raises(HistoryError, match=r"was created again \(id older, now id\)"):
        run(spec(tmp_path))


def test_a_topic_that_was_read_before_must_go_on_being_read(tmp_path: Path) -> None:
    bronze_of(tmp_path, topic="retired")
    checkpoint(tmp_path).mkdir(parents=True)
    with pytest.raises(HistoryError, match=r"east/1/retired .* no longer in the topology"):
        run(spec(tmp_path))
