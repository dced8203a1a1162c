"""What the report says of past moments, checked by having moved a group at each of them.

The group is a real one: it consumes upstream, stops, and at the target reads on from where
MirrorMaker's own client library puts it. Records are known by their values. All that the report
goes by is what the pipeline recorded and sampled by itself.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer

from lab import Lab
from lab.cluster.kafka_client import settings
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from offsetwatch.history.failover_report import inputs
from offsetwatch.history.failover_report.replay import FailoverOutcome, replay_samples
from offsetwatch.history.tables import reader
from tests.real.daemon_series import WAIT_S_MAX
from tests.real.test_failover import await_translated, log, moved, same_count, write

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]

TOPIC, GROUP = "orders-reported", "reports"
RECORDS = 3000
ENDS = (1540, 2700)


def consume(lab: Lab, end: int) -> None:
    """As a group does: join, read up to this offset, commit, leave."""
    config = settings(
        lab.west,
        **{"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"},
    )
    with closing(Consumer(config)) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            message = consumer.poll(WAIT_S_MAX)
            assert message is not None
            assert message.error() is None, message.error()
            if message.offset() == end - 1:
                consumer.commit(message=message, asynchronous=False)
                return


def reported(base: Path, since: float, until_at: float) -> dict[float, FailoverOutcome]:
    flow = reader.find_flow(base, "west->east", "lab")
    window = inputs.ReportWindow(since, until_at, frozenset({GROUP}))
    moments, _ = replay_samples(inputs.load_inputs(base, flow, window), since, until_at)
    series = moments[GROUP, TOPIC, 0]
    return dict(zip(series.times, series.values, strict=True))


def test_the_report_of_a_moment_is_what_a_group_met_that_was_moved_at_it(
    lab: Lab, product: Product, tmp_path: Path
) -> None:
    lab.create_topic("west", TOPIC, 1)
    for first in range(0, RECORDS, 1000):
        write(lab, TOPIC, first, first + 1000)
        until("the copies", lambda: same_count(lab, TOPIC), timeout_s=WAIT_S_MAX)
    values = log(lab.west, TOPIC)
    costs: dict[tuple[float, float], tuple[int, int, int, int]] = {}
    for end in ENDS:
        consume(lab, end)
        view: dict[str, Any] = await_translated(lab, product, GROUP, {TOPIC: end})[TOPIC]
        since = time.time()
        product.run_pipeline()  # samples before and after
        again, skipped = moved(lab, TOPIC, values, end, view["start_offset"])
        costs[since, time.time()] = (end, view["start_offset"], again, skipped)
    # A report is of whole minutes, each with the last sample before its end: no other one before
    # this minute is over.
    begin, last = min(costs)[0], max(costs)[1]
    output = (last // 60 + 1) * 60

    def passed() -> None:
        if time.time() < output:
            raise NotYet(f"{output - time.time():.0f} s to the minute")

    until("a whole minute", passed, timeout_s=90.0)
    # What comes later proves that all that had come by the last sample was read.
    write(lab, TOPIC, RECORDS, RECORDS + 1000)
    until("more copies", lambda: same_count(lab, TOPIC), timeout_s=WAIT_S_MAX)
    product.run_pipeline()

    result = reported(product.history, begin, last)
    sampled = {
        moment: (outcome.position, outcome.start_offset, outcome.cost.reread, outcome.cost.skip)
        for moment, outcome in result.items()
    }
    for (since, till), expected in costs.items():
        of = [item for moment, item in sampled.items() if since <= moment <= till]
        sys.stdout.write(f"moved: {expected}; reported: {of}\n")
        assert set(of) == {expected}
    assert all(again > 0 for _, _, again, _ in costs.values())

    # As it is typed.
    rows, page = tmp_path / "rows.parquet", tmp_path / "report.html"
    requests = ("history", "report", "--flow", "west->east", "--group", GROUP)
    window = ("--from", str(output - 600), "--to", str(output))
    files = ("--parquet", str(rows), "--html", str(page))
    (group,) = json.loads(product.cli(*requests, *window, *files, "--json"))["groups"]
    assert group["figures"]["reread"]["known"] >= 1
    (stored,) = (
        row
        for row in pq.read_table(rows).to_pylist()
        if row["group_id"] == GROUP and row["minute"].timestamp() == output
    )
    reports = tuple(stored[name] for name in ("position", "start_offset", "reread", "skip"))
    assert reports == costs[max(costs)]
    assert (stored["log_end"], stored["replicated"], stored["missing"]) == (3000, 2999, 0)
    assert (stored["missing_age_s_min"], stored["missing_age_s_max"]) == (0.0, 0.0)
    assert page.read_text().startswith("<!doctype html>")
    sys.stdout.write(product.cli(*requests, *window))
