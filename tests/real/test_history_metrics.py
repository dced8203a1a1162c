"""What the pipeline says of itself reaches Prometheus, though it is another process."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.product.offsetwatch import Product
from offsetwatch.history.tables import pipeline_status, reader
from tests.real.daemon_series import becomes, eventually, samples, total

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]


def test_a_run_shows_in_the_daemons_metrics_and_its_absence_too(product: Product) -> None:
    product.run_pipeline()
    stored: Counter[str] = Counter()
    for topic in reader.summarize_bronze(product.history):
        stored[topic.at.kafka] += topic.rows - topic.undecodable
    status = pipeline_status.read_status(product.history)
    assert status is not None
    assert status.batch_at is not None
    failed = sum(count for _, count in status.errors)  # of runs that other tests let fail
    # Until then the daemon may show what an earlier run said.
    for layer in ("gold", "silver", "bronze"):
        becomes(product, status.batch_at, "history_table_timestamp_seconds", table=layer)
    becomes(product, status.batch_at, "history_last_batch_timestamp_seconds")
    assert stored["east"] > 0
    for feed in status.feeds:
        kafka = feed.kafka
        becomes(product, stored[kafka], "history_records_total", kafka=kafka, record="decoded")
        becomes(product, 0, "history_behind_records", kafka=kafka)
        becomes(product, feed.gaps, "history_gaps", kafka=kafka)
    assert sum(samples(product, "history_errors_total").values()) == failed

    pipeline_status.path_of(product.history).write_text("{")
    becomes(product, 1, "history_errors_total", reason="status_unreadable")
    becomes(product, None, "history_last_batch_timestamp_seconds")
    becomes(product, None, "history_records_total")
    product.run_pipeline()  # in which nothing fails for want of the old file
    eventually(
        product,
        "the counters where they were",
        lambda: (total(product, "history_records_total") or 0) >= stored.total(),
    )
    becomes(product, 1, "history_errors_total")
