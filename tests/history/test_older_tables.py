"""Spark goes on writing in the tables that an earlier version left, fed by a real broker.

What older tables say without Spark is tried in tests/upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.history.pipeline import maintenance
from offsetwatch.history.tables.reader import ConnectorClass, read_classes
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, TABLES
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic, Topology
from tests.history.delta import stored
from tests.history.rows import OFFSETS_TOPIC, SYNCS_TOPIC, offset_key
from tests.upgrade import lakes, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetwatch.history.pipeline.run import PipelineSpec

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]

KEY = offset_key("file", {"filename": "/in"})
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@dataclass(frozen=True)
class Broker:
    """It has the topics that the old tables are of, made anew since: under other ids."""

    bootstrap: str
    offsets: KafkaTopic
    syncs: KafkaTopic

    def spec(self, base: Path) -> PipelineSpec:
        from offsetwatch.history.pipeline.run import PipelineSpec

        properties = {"bootstrap.servers": self.bootstrap, "client.id": "test"}
        names = (self.offsets.topic, self.syncs.topic)
        ids = KafkaAdmin("east", properties).topic_ids(names)
        flow = MirrorFlow("payments", "mm2", "west", "east", None, self.syncs)
        return PipelineSpec(
            base=base,
            topology=Topology((OffsetsTopic("payments", self.offsets),), (flow,)),
            kafka={"east": properties},
            topic_ids={KafkaTopic("east", name): topic_id for name, topic_id in ids.items()},
            classes={("payments", "file"): FILE_SOURCE},
        )

    def commit(self, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(self.offsets.topic, key=KEY, value=value, partition=0)
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def broker(kafka: str) -> Broker:
    admin = AdminClient({"bootstrap.servers": kafka})
    missing = {OFFSETS_TOPIC, SYNCS_TOPIC} - set(admin.list_topics().topics)
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in missing]).values():
        future.result()
    built = Broker(kafka, KafkaTopic("east", OFFSETS_TOPIC), KafkaTopic("east", SYNCS_TOPIC))
    built.commit(b'{"position":80}', b'{"position":81}')
    return built


@pytest.mark.parametrize("milestone", opened.milestones("tables"))
def test_a_run_goes_on_in_older_tables_and_leaves_their_rows_as_they_are(
    milestone: str, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    from offsetwatch.history.pipeline import run

    base = opened.tables(milestone, tmp_path / "tables")
    # With the columns of then.
    there = DeltaTable(str(BRONZE_RECORDS.at(base))).to_pyarrow_table()
    old = sorted(there.to_pylist(), key=_read_location)

    report = run.run_available_now(broker.spec(base))

    fresh = report.rows_read[broker.offsets]
    assert fresh >= 2
    ids = {row["topic_id"] for row in old}
    rows = sorted(stored(base, BRONZE_RECORDS), key=_read_location)
    retained = [row for row in rows if row["topic_id"] in ids]
    names = old[0].keys()
    assert [{name: row[name] for name in names} for row in retained] == old
    assert len(rows) == len(old) + fresh
    assert read_classes(base) == (ConnectorClass("payments", "file", FILE_SOURCE, None),)
    # On the second day the old topic was not read to its end before the new one took its place.
    then = opened.expected(milestone, "tables")["as of"]["first day"]
    assert lakes.answers(base)["first day"] == then

    again = run.run_available_now(broker.spec(base))
    assert set(again.rows_read.values()) == {0}
    assert sorted(stored(base, BRONZE_RECORDS), key=_read_location) == rows
    done = maintenance.maintain(base, master="local[2]", heap="1g")
    assert (done.rows, done.doubled) == (len(rows), 0)
    for table in TABLES:
        there = DeltaTable(str(table.at(base)))
        assert {field.name for field in there.schema().fields} >= set(table.names), table.path


def _read_location(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["topic"], row["topic_id"], row["kpartition"], row["koffset"])
