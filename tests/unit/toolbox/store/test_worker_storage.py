"""Topics in memory and files, named by a worker's properties, read as a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.clients.kafka.whole_topic import OWN_RECORD_HEADER
from offsetwatch.config import Kafka
from offsetwatch.decode.offsets_file import write_offsets_file
from offsetwatch.errors import ConfigError, NotFound, RemoteRefusal
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.connector_facts import KafkaClusterPool
from offsetwatch.toolbox.store.worker_config import DistributedStorage, read_worker_config
from offsetwatch.toolbox.store.worker_storage import (
    WorkerOffsetStore,
    _DistributedWorkerStorage,
    open_worker_storage,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader

WORKER = """
bootstrap.servers=a:9092
group.id=connect
offset.storage.topic=offsets
config.storage.topic=configs
"""
FILE = '{"filename":"/x"}'
KEY = b'["c",{"filename":"/x"}]'
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.fixture
def kafka() -> FakeKafka:
    built = FakeKafka()
    built.create("offsets", 3)
    built.create("configs", 1)
    built.produce("offsets", KEY, b'{"position":1}', partition=2)
    return built


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "worker.properties"
    path.write_text(WORKER)
    return path


def open_worker_store(kafka: FakeKafka, properties: Path, **more) -> WorkerOffsetStore:
    worker = read_worker_config(properties, flow=None, translate=True)
    assert isinstance(worker, DistributedStorage)
    admin = FakeAdmin(kafka)
    cluster = _DistributedWorkerStorage(worker, "east", {}, admin, lambda: FakeReader(kafka))  # type: ignore[arg-type,return-value]
    return WorkerOffsetStore(cluster, KafkaClusterPool({}), VirtualClock(), **more)


def configured(kafka: FakeKafka, name: str, **settings: str) -> None:
    body = ",".join(f'"{key.replace("_", ".")}":"{value}"' for key, value in settings.items())
    kafka.produce("configs", f"connector-{name}".encode(), b'{"properties":{%s}}' % body.encode())


def test_connectors_are_those_with_offsets_and_those_that_are_configured(kafka, properties):
    configured(kafka, "new", connector_class=SOURCE)
    configured(kafka, "sink", connector_class=SINK)
    configured(kafka, "deleted", connector_class=SOURCE)
    kafka.produce("configs", b"connector-deleted", None)
    store = open_worker_store(kafka, properties)
    assert store.name == "east/offsets"
    assert store.connectors() == ("c", "new")
    assert store.pairs("c") == (PartitionOffset(FILE, '{"position":1}'),)
    assert store.pairs("new") == ()
    assert store.notes("c") == ()


def test_the_state_that_it_comes_back_in_is_known_from_the_config_topic(kafka, properties):
    configured(kafka, "c", connector_class=SOURCE)
    configured(kafka, "d", connector_class=SOURCE)
    kafka.produce("configs", b"target-state-d", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    store = open_worker_store(kafka, properties)
    assert [store.state(name) for name in ("c", "d", "unknown")] == ["started", "stopped", None]
    assert store.settings("c").class_name == SOURCE
    assert store.settings("unknown") is None


def test_a_topic_of_its_own_is_all_that_counts_for_a_connector(kafka, properties):
    kafka.create("own", 3)
    kafka.produce("own", b'["c",{"filename":"/y"}]', b'{"position":5}', partition=1)
    configured(kafka, "c", connector_class=SOURCE, offsets_storage_topic="own")
    kafka.produce("offsets", b'["c",{"filename":"/y"}]', b'{"position":4}', partition=1)
    store = open_worker_store(kafka, properties)
    assert store.pairs("c") == (PartitionOffset('{"filename":"/y"}', '{"position":5}'),)
    assert "not used: 1 offset under its name in east/offsets" in store.notes("c")[0]
    assert store.plan_reset("c").where == "east/own"
    assert store.subject("c").store == "id-of-east/own"


def test_a_topic_of_its_own_that_is_not_there_yet_has_nothing_and_takes_nothing(kafka, properties):
    configured(kafka, "c", connector_class=SOURCE, offsets_storage_topic="own")
    store = open_worker_store(kafka, properties)
    assert store.pairs("c") == ()
    assert "not there yet" in store.notes("c")[0]
    with pytest.raises(RemoteRefusal, match="no such topic"):
        store.plan_write("c", (PartitionOffset(FILE, '{"position":2}'),))


def test_offsets_on_another_cluster_are_refused(kafka, properties):
    configured(
        kafka,
        "c",
        connector_class=SOURCE,
        offsets_storage_topic="own",
        producer_override_bootstrap_servers="west-1:9092",
    )
    store = open_worker_store(kafka, properties)
    with pytest.raises(RemoteRefusal, match="another Kafka cluster"):
        store.pairs("c")


def test_the_workers_own_topic_has_to_be_there(kafka, properties):
    kafka.delete("offsets")
    with pytest.raises(NotFound):
        open_worker_store(kafka, properties).connectors()


def test_without_a_config_topic_nothing_is_written(kafka, properties):
    kafka.delete("configs")
    store = open_worker_store(kafka, properties)
    assert store.pairs("c") == (PartitionOffset(FILE, '{"position":1}'),)
    assert "may keep its offsets in another one" in store.notes("c")[0]
    for step in (
        store.plan_reset,
        lambda name: store.plan_write(name, (PartitionOffset(FILE, None),)),
    ):
        with pytest.raises(RemoteRefusal, match=r"config\.storage\.topic"):
            step("c")


def test_the_past_is_every_record_that_is_still_there(kafka, properties):
    kafka.create("own", 1)
    kafka.produce("own", b'["d",{"filename":"/y"}]', b'{"position":5}', at=30.0)
    configured(kafka, "d", connector_class=SOURCE, offsets_storage_topic="own")
    kafka.produce("offsets", b'["d",{"filename":"/y"}]', b'{"position":4}', at=20.0)
    kafka.produce("offsets", b'["c", {"filename":"/x"}]', b'{"position":7}')
    kafka.produce("offsets", KEY, None, partition=2, at=40.0, headers=((OWN_RECORD_HEADER, b"1"),))
    reports: list[int] = []
    store = open_worker_store(kafka, properties, progress=lambda done, _total: reports.append(done))
    offset = list(store.from_beginning(None))
    assert [
        (item.connector, item.pair.offset, item.kpartition, item.koffset) for item in offset
    ] == [
        ("c", '{"position":1}', 2, 0),
        ("c", None, 2, 1),
        ("d", '{"position":5}', 0, 0),
    ]
    assert offset[1].at == 40.0
    assert [item.connector for item in store.from_beginning(frozenset({"d"}))] == ["d"]
    assert reports


def test_a_plan_says_what_is_written_and_what_is_to_be_observed(kafka, properties):
    store = open_worker_store(kafka, properties)
    expected = (PartitionOffset(FILE, '{"position":2}'),)
    step = store.plan_write("c", expected)
    assert step.where == "east/offsets"
    assert step.pairs == expected
    assert [record.kpartition for record in step.records] == [2]
    assert store.plan_write("c", store.pairs("c")).records == ()
    subject = store.subject("c")
    assert (subject.driver, subject.kind, subject.identity) == ("storage", "source", "id-of-east")


def test_who_is_in_the_way_is_queried_of_the_group(kafka, properties):
    store = open_worker_store(kafka, properties)
    assert store.busy("c") == ()
    kafka.members["connect"] = ("connect-1 at /10.0.0.1",)
    assert "connect-1" in store.busy("c")[0]


def test_a_mirrors_place_names_its_flow(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
    )
    store = open_worker_storage(path, KafkaClusterPool({}))
    assert store.flow == ("A", "B")
    assert store.name == "b:1/mm2-offsets.A.internal"
    store.close()
    named = open_worker_storage(
        path, KafkaClusterPool({}), kafka=Kafka(bootstrap="c:1"), kafka_name="east", flow="B->A"
    )
    assert named.name == "east/mm2-offsets.B.internal"
    named.close()


@pytest.fixture
def standalone(tmp_path: Path) -> Path:
    file = tmp_path / "connect.offsets"
    file.write_bytes(write_offsets_file(((KEY, b'{"position":1}'), (b"gone", None))))
    path = tmp_path / "standalone.properties"
    path.write_text(f"bootstrap.servers=a:1\noffset.storage.file.filename={file}\n")
    return path


def test_a_standalone_workers_place_is_its_file(standalone):
    store = open_worker_storage(standalone, KafkaClusterPool({}))
    assert store.name == str(standalone.with_name("connect.offsets"))
    assert store.connectors() == ("c",)
    assert store.pairs("c") == (PartitionOffset(FILE, '{"position":1}'),)
    assert store.state("c") is None
    assert store.identity() is None
    assert store.subject("c").store == store.name
    assert store.subject("c").kind == ConnectorKind.SOURCE
    assert store.plan_write("c", (PartitionOffset(FILE, None),)).records[0].kpartition is None
    with pytest.raises(RemoteRefusal, match="no past"):
        list(store.from_beginning(None))


def test_a_worker_that_has_not_written_its_file_yet_has_no_offsets(standalone):
    standalone.with_name("connect.offsets").unlink()
    store = open_worker_storage(standalone, KafkaClusterPool({}))
    assert store.connectors() == ()
    assert len(store.plan_write("c", (PartitionOffset(FILE, '{"position":1}'),)).records) == 1


def test_a_file_in_a_folder_that_is_not_there_is_not_an_empty_one(standalone):
    standalone.write_text("offset.storage.file.filename=/no/such/folder/connect.offsets")
    with pytest.raises(NotFound):
        open_worker_storage(standalone, KafkaClusterPool({})).connectors()


def test_a_standalone_worker_has_no_flows(standalone):
    with pytest.raises(ConfigError):
        open_worker_storage(standalone, KafkaClusterPool({}), flow="A->B")


def test_offsets_in_a_topic_that_a_config_provider_knows_are_refused(kafka, properties):
    configured(kafka, "c", connector_class=SOURCE, offsets_storage_topic="${env:OFFSETS}")
    store = open_worker_store(kafka, properties)
    with pytest.raises(RemoteRefusal, match="only a config provider of its workers knows"):
        store.pairs("c")
    kafka.produce("offsets", b'["d",{"filename":"/z"}]', b'{"position":4}', partition=1)
    assert {record.connector for record in store.from_beginning(None)} == {"d"}
