"""What the pipeline records beside offsets, from a real Connect cluster and MirrorMaker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import QueryBuilder

from lab import Lab
from lab.check.compare import log_ends
from lab.cluster.connector_configs import UPSTREAM, file_source
from lab.cluster.kafka_client import settings
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    Table,
)
from tests.real.daemon_series import WAIT_S_MAX
from tests.real.test_failover import same_count

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]

TOPIC, GROUP, CONNECTOR = "orders-sampled", "samples-group", "told-source"
SECRET = "hunter2-of-the-told-source"


def rows(product: Product, table: Table, query: str) -> list[dict[str, Any]]:
    there = reader.open_table(product.history, table)
    pylist: list[dict[str, Any]] = pa.table(
        QueryBuilder().register("records", there).execute(query)
    ).to_pylist()
    return pylist


def landed(product: Product) -> None:
    """The group has a checkpoint, and a commit of its own on the target or none."""
    flows = product.get("/api/v1/flows")["flows"]
    groups = [group for flow in flows for group in flow["groups"] if group["group"] == GROUP]
    if [group["start_offset"] is None for group in groups] != [False]:
        raise NotYet(str(groups))


def test_states_checkpoints_log_ends_and_groups_are_retained_and_secrets_are_not(
    lab: Lab, product: Product, tmp_path: Path
) -> None:
    lab.create_topic("west", TOPIC, 1)
    producer = Producer(settings(lab.west, acks="all"))
    for number in range(100):
        producer.produce(TOPIC, value=str(number), partition=0)
    assert producer.flush(30) == 0
    lab.commit("west", GROUP, TOPIC, {0: 40})
    lines = tmp_path / "told.in"
    lines.write_text("one\ntwo\n")
    lab.create(CONNECTOR, {**file_source(lines, topic="told-lines"), "told.password": SECRET})
    lab.wait_running(CONNECTOR)
    lab.stop_connector(CONNECTOR)
    lab.resume(CONNECTOR)
    lab.wait_running(CONNECTOR)
    until("a checkpoint", lambda: landed(product), timeout_s=WAIT_S_MAX, evidence=product.evidence)
    until("the copies", lambda: same_count(lab, TOPIC), timeout_s=WAIT_S_MAX)

    report = product.run_pipeline()

    beside = ("connect-configs", "connect-status", f"{UPSTREAM}.checkpoints.internal")
    for topic in beside:
        assert f"east/{topic}" in report["rows_read"]
        assert f"east/{topic}" not in report["cut"]
    kinds = rows(
        product,
        BRONZE_RECORDS,
        "SELECT kind, count(*) AS rows, count(error) AS errors, count(value) AS kept "
        "FROM records WHERE kind IN ('configs', 'status', 'checkpoints') GROUP BY kind",
    )
    results = {row["kind"]: row for row in kinds}
    assert set(results) == {"configs", "status", "checkpoints"}
    assert all(row["rows"] > 0 for row in kinds)
    assert {kind: row["kept"] for kind, row in results.items() if kind != "checkpoints"} == {
        "configs": 0,
        "status": 0,
    }
    stored = reader.open_table(product.history, BRONZE_RECORDS).to_pyarrow_table(
        columns=["key", "value", "observation", "source_offset", "error"]
    )
    assert not [row for row in stored.to_pylist() if SECRET in str(row)]

    document = json.loads(product.cli("history", "timeline", CONNECTOR, "--json"))
    messages = [(event["origin"], event["said"]) for event in document["events"]]
    assert ("config", "asked to be stopped") in messages
    assert ("config", "asked to be running") in messages
    assert any(origin == "status" and "task 0 running" in what for origin, what in messages), (
        messages
    )
    assert not any(SECRET in what for _, what in messages)

    of_group = rows(
        product,
        BRONZE_GROUP_OFFSETS,
        f"SELECT kafka, committed FROM records WHERE group_id = '{GROUP}' AND topic = '{TOPIC}'",
    )
    assert of_group == [{"kafka": "west", "committed": 40}]
    newest = rows(
        product,
        BRONZE_LOG_ENDS,
        "SELECT kafka, topic, log_end FROM records "
        f"WHERE topic IN ('{TOPIC}', '{UPSTREAM}.{TOPIC}') ORDER BY kafka",
    )
    remote = f"{UPSTREAM}.{TOPIC}"
    assert newest == [
        {
            "kafka": "east",
            "topic": remote,
            "log_end": log_ends(lab, "east", [(remote, 0)])[remote, 0],
        },
        {"kafka": "west", "topic": TOPIC, "log_end": 100},
    ]
