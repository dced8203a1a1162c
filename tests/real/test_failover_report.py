"""What the report says of a past moment, checked by having moved a group at that moment.

The group is a real one: it consumes upstream, stops, and goes on at the target from where
MirrorMaker's own client library puts it. Records are known by their values.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer

from exporter.clients.kafka import KafkaAdmin
from exporter.history import flows, lake, moves_read
from exporter.history.moves import Moment, replayed
from exporter.history.records import Role, bronze_rows
from exporter.history.tables import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    CHECKPOINTS,
)
from exporter.model.topology import TopicPartition
from lab import Lab
from lab.clients import settings
from lab.connectors import UPSTREAM
from lab.product import Product
from lab.waiting import NotYet, until
from tests.history.rows import Raw, raw_batch
from tests.real.seen import WAIT_S_MAX
from tests.real.test_failover import log, moved, same_count, settled_landing, write

pytestmark = [pytest.mark.real, pytest.mark.spark]

TOPIC, GROUP = "orders-reported", "reports"
REMOTE = f"{UPSTREAM}.{TOPIC}"
CHECKPOINTS_TOPIC = f"{UPSTREAM}.checkpoints.internal"
RECORDS = 3000


def consume(lab: Lab, end: int) -> None:
    """As a group does: join, read up to this offset, commit, leave."""
    config = settings(
        lab.west,
        **{"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"},
    )
    with closing(Consumer(config)) as consumer:
        consumer.subscribe([TOPIC])
        read = -1
        while read < end - 1:
            message = consumer.poll(WAIT_S_MAX)
            assert message is not None
            assert message.error() is None, message.error()
            read = message.offset()
        consumer.commit(message=message, asynchronous=False)


def sample(lab: Lab, base: Path) -> float:
    """Where the group and both logs stand now, as the tables have it; the time of asking."""
    at = time.time()
    stamp = datetime.fromtimestamp(at, tz=UTC)
    stood: list[lake.Row] = []
    ends: list[lake.Row] = []
    for kafka, bootstrap, topic in (("west", lab.west, TOPIC), ("east", lab.east, REMOTE)):
        admin = KafkaAdmin(kafka, {"bootstrap.servers": bootstrap})
        where = {TopicPartition(topic, 0)}
        for offset in admin.group_offsets(GROUP, where).values():
            stood.append((stamp, kafka, GROUP, topic, 0, offset, stamp.date()))
        bounds = admin.bounds(where, stable=False)[TopicPartition(topic, 0)]
        ends.append((stamp, kafka, topic, 0, bounds.start, bounds.end, stamp.date()))
        admin.close()
    for table, rows in ((BRONZE_GROUP_OFFSETS, stood), (BRONZE_LOG_ENDS, ends)):
        lake.create(base, table)
        lake.append(lake.given([lake.batch(rows, table)], base, table), base, table)
    return at


def keep_checkpoints(lab: Lab, base: Path) -> None:
    """All of the topic into bronze, if the pipeline has not read it."""
    at = datetime.now(tz=UTC)
    raws = []
    config = settings(lab.east, **{"group.id": "reads-all", "enable.auto.commit": False})
    with closing(Consumer(config)) as consumer:
        from confluent_kafka import TopicPartition as At

        consumer.assign([At(CHECKPOINTS_TOPIC, 0, 0)])
        end = consumer.get_watermark_offsets(At(CHECKPOINTS_TOPIC, 0), timeout=10)[1]
        while consumer.position([At(CHECKPOINTS_TOPIC, 0)])[0].offset < end:
            for it in consumer.consume(1000, timeout=0.5):
                raws.append(
                    Raw(it.key(), it.value(), it.topic(), 0, it.offset(), it.timestamp()[1])
                )
    role = {CHECKPOINTS_TOPIC: Role(CHECKPOINTS, None, "the-only-one")}
    rows = bronze_rows([raw_batch(*raws)], role, "east", at)
    lake.append(lake.given(rows, base, BRONZE_RECORDS), base, BRONZE_RECORDS)


def reported(base: Path, since: float, until_at: float) -> dict[float, Moment]:
    flow = flows.named(base, "west->east", "lab")
    window = moves_read.Window(since, until_at, frozenset({GROUP}))
    moments, _ = replayed(moves_read.known(base, flow, window), since, until_at)
    series = moments[GROUP, TOPIC, 0]
    return dict(zip(series.times, series.values, strict=True))


def test_the_report_of_a_moment_is_what_a_group_met_that_was_moved_at_it(
    lab: Lab, product: Product, tmp_path: Path
) -> None:
    base = product.history
    lab.create_topic("west", TOPIC, 1)
    for first in range(0, RECORDS, 1000):
        write(lab, TOPIC, first, first + 1000)
        until("the copies", lambda: same_count(lab, TOPIC), timeout_s=WAIT_S_MAX)
    values = log(lab.west, TOPIC)
    met: dict[float, tuple[int, int, int]] = {}
    for end in (1540, 2700):
        consume(lab, end)
        view: dict[str, Any] = settled_landing(lab, product, GROUP, {TOPIC: end})[TOPIC]
        at = sample(lab, base)
        again, skipped = moved(lab, TOPIC, values, end, view["landing"])
        assert view["reread_records"] == again
        met[at] = (view["landing"], again, skipped)
    product.run_pipeline()
    keep_checkpoints(lab, base)
    first, last = min(met), max(met)

    found = reported(base, first, last)
    print({at - first: (found[at].position, *of) for at, of in met.items()})
    assert {at: (found[at].landing, found[at].met.reread, found[at].met.skip) for at in met} == met
    assert all(again > 0 for _, again, _ in met.values())

    shown = (last // 60 + 1) * 60

    def passed() -> None:
        if time.time() < shown:
            raise NotYet(f"{shown - time.time():.0f} s to the minute")

    until("a whole minute", passed, timeout_s=90.0)
    rows, page = tmp_path / "rows.parquet", tmp_path / "report.html"
    told = json.loads(
        product.cli(
            *("history", "report", "--flow", "west->east", "--group", GROUP),
            *("--from", str(shown - 600), "--to", str(shown), "--json"),
            *("--parquet", str(rows), "--html", str(page)),
        )
    )
    (group,) = told["groups"]
    assert group["figures"]["reread"]["known"] >= 1
    assert group["worst"]["reread"][0]["value"] >= met[last][1]
    (stored,) = (
        row
        for row in pq.read_table(rows).to_pylist()
        if row["group_id"] == GROUP and row["minute"].timestamp() == shown
    )
    assert stored["sampled_at"].timestamp() == pytest.approx(last, abs=1e-5)
    assert (stored["landing"], stored["reread"], stored["skip"]) == met[last]
    assert stored["missing"] == 0
    assert page.read_text().startswith("<!doctype html>")
