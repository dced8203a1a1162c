"""The pipeline under spark-submit on a real standalone cluster: the same tables as on one machine,
made by executors that have nothing of ours installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from lab import Lab, LabOptions
from lab.cluster.secured import USER
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from offsetwatch.cli import cli
from offsetwatch.history.tables.schemas import SILVER_COMMITS, TABLES, Table
from tests.history.rows import mirror_key, offset_key, sync_key, sync_value
from tests.real.spark_cluster import SparkCluster, bare_python

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.proof]

OFFSETS, SYNCS, PARTITIONS = "submit-offsets", "submit-syncs", 4
CONFIG = """\
kafka:
  east: {{bootstrap: "{bootstrap}", properties: {properties}}}
connect:
  - {{name: payments, kafka: east, offsets_topic: {offsets}}}
flows:
  - {{source: west, target: east, upstream: east, downstream: east, connect: payments,
     connector: mm2, offset_syncs: {{kafka: east, topic: {syncs}}}}}
history: {{max_offsets_per_trigger: 500, heap: 700m}}
"""
PROPERTIES = (
    "{{security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, sasl.username: {user}, "
    "sasl.password_file: {password}, ssl.ca.location: {ca}}}"
)


@pytest.fixture(scope="module")
def secured() -> Iterator[Lab]:
    with Lab(LabOptions(secured=True, connectors=False)) as running:
        yield running


@pytest.fixture
def product(secured: Lab, tmp_path: Path) -> Product:
    """Commits that are there to be read, and a configuration for whoever reads them."""
    commit(secured.east)
    security = secured.security
    config = CONFIG.format(
        bootstrap=secured.secured_properties("east")["bootstrap.servers"],
        properties=PROPERTIES.format(user=USER, password=security.password_file, ca=security.ca),
        offsets=OFFSETS,
        syncs=SYNCS,
    )
    return Product(secured, directory=tmp_path / "local", port=free_port(), config=config)


def commit(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {"cleanup.policy": "compact"}
    topics = [NewTopic(OFFSETS, PARTITIONS, 1, config=compacted), NewTopic(SYNCS, 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(400):
        offset = number % PARTITIONS
        key = mirror_key("mm2", "west", "orders", offset)
        producer.produce(OFFSETS, key=key, value=b'{"offset":%d}' % number, partition=offset)
        file = offset_key("file", {"filename": f"/in/{offset}"})
        producer.produce(OFFSETS, key=file, value=b'{"position":%d}' % number, partition=offset)
    producer.produce(OFFSETS, key=b"\xffjunk", value=b"{", partition=1)
    producer.produce(OFFSETS, key=offset_key("gone", {}), value=None, partition=2)
    producer.produce(SYNCS, key=sync_key("orders", 0), value=sync_value(500, 5000))
    assert producer.flush(30) == 0


def rows(base: Path, table: Table) -> list[dict[str, Any]]:
    """In an order of their own, without the columns that say when they were read."""
    pylist: list[dict[str, Any]] = DeltaTable(str(table.at(base))).to_pyarrow_table().to_pylist()
    read_at = {"ingest_ts", "first_read_at", "last_read_at"}
    retained = [{name: row[name] for name in row if name not in read_at} for row in pylist]
    return sorted(retained, key=repr)


def test_a_cluster_makes_the_tables_that_one_machine_makes(
    secured: Lab, product: Product, tmp_path: Path
) -> None:
    arguments = ["history", "package", "--json", "--output", str(tmp_path / "packed")]
    packed = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    local = product.run_pipeline()
    assert local["rows_read"] == {f"east/{OFFSETS}": 802, f"east/{SYNCS}": 1}

    config = tmp_path / "cluster.yaml"
    base = tmp_path / "shared" / "history"
    config.write_text(
        product.config.read_text().replace("history: {", f"history: {{path: {base}, ")
    )
    with SparkCluster(tmp_path / "spark", workers=2) as cluster:
        done = cluster.submit(
            *("--py-files", packed["archive"]),
            *("--jars", ",".join(packed["jars"])),
            packed["main"],
            *("history", "run", "--available-now", "--json", "--config", str(config)),
            python=bare_python(tmp_path / "bare", Path(packed["requirements"])),
            driver_python=sys.executable,
        )
        texts = cluster.texts()
    assert done.status == 0, done.stderr[-4000:]
    # spark-submit sends both of its application's outputs to one: the log comes first.
    assert json.loads("{\n" + done.stdout.rpartition("\n{\n")[2]) == local
    assert len(done.executors()) == 2
    for table in TABLES:
        assert rows(base, table) == rows(product.history, table)
    assert rows(base, SILVER_COMMITS)
    password = secured.security.password
    assert not any(password in text for text in (*texts, done.stdout, done.stderr))
